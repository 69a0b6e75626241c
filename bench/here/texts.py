#!/usr/bin/env python3
"""Cuts the workloads from the prose of this repository: texts.py LINES TOKENIZER FOLDER, run in .tools/bench-here. LINES
is what tools/demo_texts.mjs prints. W1 has sentences, W2 passages of neighbouring sentences, W3-1x16 one text; the other
lines go to calibration.txt."""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

SENTENCES, PASSAGES = 1000, 128
LEAST, MOST = 100, 128  # tokens of a passage


def write(folder, name, texts, tokens):
    (folder / f"{name}.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8", newline="\n")
    return {"texts": len(texts), "tokens": tokens}


def passages_of(lines, count):
    """Joins neighbouring lines, while they fit."""
    found, begun = [], ""
    for line in lines:
        joined = f"{begun} {line}".strip()
        if count(joined) <= MOST:
            begun = joined
            continue
        if count(begun) >= LEAST:
            found.append(begun)
        begun = line
    return found


def main():
    lines, tokenizer, folder = Path(sys.argv[1]), Tokenizer.from_file(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)

    def count(text):
        return len(tokenizer.encode(text).ids)

    texts = lines.read_text(encoding="utf-8").splitlines()
    short = [text for text in texts if 8 <= count(text) <= 40]
    timed, rest = short[1::2][:SENTENCES], short[::2]
    passages = passages_of(texts, count)[:PASSAGES]
    single = next(text for text in rest if count(text) == 16)
    (folder / "calibration.txt").write_text("".join(text + "\n" for text in rest), encoding="utf-8", newline="\n")
    table = {name: write(folder, name, some, [count(text) for text in some])
             for name, some in (("W1", timed), ("W2", passages), ("W3-1x16", [single]))}
    table["W1"]["scores"] = []
    (folder / "workloads.json").write_text(json.dumps(table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
