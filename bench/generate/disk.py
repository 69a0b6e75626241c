#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates text with less memory than a model without experts takes, beside llama.cpp with mmap in the same limit.

    .tools/bin/python bench/generate/disk.py ROWS.gguf [--shares 0.5,0.25] [--tokens 24] [--left-out 0.5,0.7] [--plain FILE --llama PROGRAM]

ROWS.gguf has neurons as rows of Q4_0 or Q8_0 (wisp convert --neurons). `wisp generate` runs with the predictors dense and
topk, unlimited and with shares of the file's bytes as --memory, in a control group (version 1, as root) with that limit and
64 MB as the limit of all memory, the page cache included. Prints whether the text is that of unlimited memory with the same
predictor, tokens a second, the bytes of the file that a token read, by wisp's count and from the disk (/proc/PID/io, without
those before the text), the neurons that were in memory, and the largest resident size. PROGRAM is llama_speed.c compiled
for llama.cpp or ik_llama.cpp, which reads FILE, the same model with matrices, by mmap in the same group."""

import argparse
import re
import sys
from pathlib import Path

from experts import PROMPT, REPO, ROOM, forget, llama_command, llama_line, run


def found(pattern, output, otherwise="-"):
    match = re.search(pattern, output)
    return match[1] if match else otherwise


def text_of(output):
    return output.split("prompt: ")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--shares", default="0.5,0.25")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--left-out", default="0.5,0.7")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--program", type=Path, default=REPO / "build" / "wisp")
    parser.add_argument("--plain", type=Path)
    parser.add_argument("--llama", type=Path)
    options = parser.parse_args()
    size = options.rows.stat().st_size
    print(f"{options.rows.name}: {size / 1e6:.0f} MB, {options.tokens} tokens, {options.threads} threads", flush=True)
    predictors = [["--predictor", "dense"]] + [["--predictor", "topk", "--sparsity", s] for s in options.left_out.split(",")]
    texts = {}
    for share in [1.0, *map(float, options.shares.split(","))]:
        memory, limit = int(size * share), int(size * share) + ROOM if share < 1 else None
        limited = [] if share >= 1 else ["--memory", memory]
        for predictor in predictors:
            def generate(tokens, predictor=predictor, limited=limited, limit=limit):
                forget(options.rows)
                return run([options.program, "generate", "-m", options.rows, "-t", options.threads, "--text", options.prompt,
                            "-n", tokens, "--temperature", 0, "--stats", *predictor, *limited], limit)
            name = f"{share:.0%} {' '.join(predictor[1::2])}"
            try:
                before = generate(1)[1]
                output, read, _ = generate(options.tokens)
            except SystemExit as refused:
                print(f"{name}: {found(r'(memory: .*)', str(refused), str(refused))}", flush=True)
                continue
            text = text_of(output)
            same = texts.setdefault(predictor[-1], text) == text
            print(f"{name}: {'the text of unlimited' if same else 'ANOTHER TEXT'}, {found(r'text: .*, ([0-9.]+) tokens/s', output)} tokens/s, "
                  f"{found(r'for the text: .* MB, ([0-9.]+) MB a token', output)} MB a token, "
                  f"{max(read - before, 0) / 1e6 / (options.tokens - 1):.1f} from the disk, neurons in memory {found(r'needed, ([0-9.]+ %)', output)}",
                  flush=True)
        if options.llama and share < 1:
            forget(options.plain)
            command = llama_command(options.llama, options.plain, options.threads, options.tokens)
            print(f"{share:.0%} llama.cpp: {llama_line(*run(command, limit))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
