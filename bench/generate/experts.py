#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates text with experts in less memory than they take, beside llama.cpp with mmap in the same limit.

    .tools/bin/python bench/generate/experts.py FILE.gguf [--layers 12] [--shares 1,0.5,0.25] [--tokens 48] [--llama PROGRAM]

Writes FILE, unless it exists: layers of Qwen3-30B-A3B's shape (128 experts of 768 neurons, of which a token uses 8;
hidden size 2,048, 32 heads of 128, 4 of keys) with random weights of Q4_0, 342 MB each. Then `wisp generate --memory` runs with shares of the file's bytes, in a
control group (version 1, as root) with that share and 64 MB as the limit of all memory, the page cache included. PROGRAM is
llama_speed.c compiled for llama.cpp or ik_llama.cpp, which reads the same file by mmap in the same group. Prints tokens a
second, experts that were read, and bytes that the processes read from the disk, from /proc/PID/io."""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np

REPO = Path(__file__).resolve().parents[2]
GROUP = Path("/sys/fs/cgroup/memory/wisp-experts")
ROOM = 64 << 20
HIDDEN, HEADS, KEY_HEADS, HEAD, EXPERTS, USED, NEURONS, VOCABULARY = 2048, 32, 4, 128, 128, 8, 768, 32000
ROW = 18  # bytes of a block of 32 weights
PROMPT = "the cat and the dog and the bird saw the house on the hill"


def random_blocks(rng, rows, columns, deviation):
    """Blocks of Q4_0 whose weights have this standard deviation."""
    blocks = rng.integers(0, 256, (rows * columns // 32, ROW), dtype=np.uint8)
    for half, zero in ((0x0F, 0x08), (0xF0, 0x80)):  # of 16 codes the least would make the mean negative
        blocks |= np.where(blocks & half == 0, zero, 0).astype(np.uint8)
    blocks[:, :2] = np.frombuffer(np.float16(deviation / 4.6).tobytes(), dtype=np.uint8)
    return blocks.reshape(rows, columns // 32 * ROW)


def write_model(path, layers):
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "qwen3moe", use_temp_file=True)
    writer.add_context_length(4096)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(6144)  # of layers without experts, of which there are none
    writer.add_expert_feed_forward_length(NEURONS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_tokenizer_model("llama")
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % i for i in range(256)]
    types = [2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - len(tokens))
    tokens += [b"t%d" % i for i in range(VOCABULARY - len(tokens))]
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(VOCABULARY)])
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    def add(name, *shape, deviation=0.02):
        blocks = random_blocks(rng, int(np.prod(shape[:-1])), shape[-1], deviation)
        writer.add_tensor(name, blocks.reshape(*shape[:-1], -1), raw_dtype=gguf.GGMLQuantizationType.Q4_0)

    def add_floats(name, *shape):
        values = np.ones(shape) if len(shape) == 1 else rng.standard_normal(shape) * 0.05
        writer.add_tensor(name, values.astype(np.float32))

    add("token_embd.weight", VOCABULARY, HIDDEN, deviation=1.0)  # so that tokens choose different experts
    add("output.weight", VOCABULARY, HIDDEN)
    add_floats("output_norm.weight", HIDDEN)
    for layer in range(layers):
        at = f"blk.{layer}"
        for name, width in (("attn_norm", HIDDEN), ("ffn_norm", HIDDEN), ("attn_q_norm", HEAD), ("attn_k_norm", HEAD)):
            add_floats(f"{at}.{name}.weight", width)
        for name, rows, columns in (("attn_q", HEADS * HEAD, HIDDEN), ("attn_k", KEY_HEADS * HEAD, HIDDEN),
                                    ("attn_v", KEY_HEADS * HEAD, HIDDEN), ("attn_output", HIDDEN, HEADS * HEAD)):
            add(f"{at}.{name}.weight", rows, columns)
        add_floats(f"{at}.ffn_gate_inp.weight", EXPERTS, HIDDEN)
        add(f"{at}.ffn_gate_exps.weight", EXPERTS, NEURONS, HIDDEN)
        add(f"{at}.ffn_up_exps.weight", EXPERTS, NEURONS, HIDDEN)
        add(f"{at}.ffn_down_exps.weight", EXPERTS, HIDDEN, NEURONS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file(progress=True)
    writer.close()


def llama_command(program, model, threads, tokens):
    """llama_speed (llama_speed.c says how it is compiled) with a short prompt and a text of random tokens, in one round."""
    return [program, program.parent, model, threads, 16, tokens, 1, "random"]


def llama_line(output, read, seconds):
    prompt, text = output.split()[-2:]
    return f"text {text} tokens/s, prompt {prompt}, {read / 1e6:.0f} MB from disk in {seconds:.1f} s"


def forget(path):
    """Drops a file from the page cache, where pages would count as another group's."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(command, limit):
    """Runs a command in the group; returns its output and the bytes that it read from the disk."""
    if limit:
        GROUP.mkdir(exist_ok=True)
        (GROUP / "memory.limit_in_bytes").write_text(str(limit), encoding="ascii")

    def join():
        if limit:
            (GROUP / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    begin = time.monotonic()
    child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors="replace", preexec_fn=join)
    read = 0
    while child.poll() is None:
        try:
            found = re.search(r"read_bytes: (\d+)", Path(f"/proc/{child.pid}/io").read_text(encoding="ascii"))
            read = max(read, int(found[1]) if found else 0)
        except OSError:
            pass
        time.sleep(0.05)
    output = child.stdout.read()
    if child.returncode != 0:
        raise SystemExit(f"{command[0]}: {output[-500:]}")
    return output, read, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--shares", default="1,0.5,0.25")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--llama", type=Path)
    options = parser.parse_args()
    if not options.file.exists():
        write_model(options.file, options.layers)
    size = options.file.stat().st_size
    print(f"{options.file.name}: {size / 1e6:.0f} MB")
    for share in map(float, options.shares.split(",")):
        memory, limit = int(size * share), int(size * share) + ROOM
        limited = [] if share >= 1 else ["--memory", memory]
        forget(options.file)
        output, read, seconds = run(
            [REPO / "build/wisp", "generate", "-m", options.file, "-t", options.threads, "--text", PROMPT,
             "-n", options.tokens, "--temperature", 1, "--seed", 1, "--stats", *limited], limit if share < 1 else None)
        speed = re.search(r"text: .*, ([\d.]+) tokens/s", output)[1]
        experts = re.search(r"experts: .*", output)[0]
        print(f"{share:.0%}: wisp {speed} tokens/s, {read / 1e6:.0f} MB from disk in {seconds:.1f} s; {experts}", flush=True)
        if options.llama:
            forget(options.file)
            command = llama_command(options.llama, options.file, options.threads, options.tokens)
            print(f"{share:.0%}: llama.cpp {llama_line(*run(command, limit if share < 1 else None))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
