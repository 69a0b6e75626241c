#!/usr/bin/env python3
"""Cuts texts of exact numbers of tokens: texts.py LINES TOKENIZER FOLDER WORKLOAD..., run in .tools/bench-here. A workload is
called W3-NxT: N texts of T tokens. W2, which is tokenised alone, has all of them."""

import itertools
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer


def texts_of(words, tokenizer, size):
    """Yields texts of the next words, of which those that do not fit are left out."""
    while True:
        chosen, count = [], 2  # the first and the last token are special
        for word in words:
            more = len(tokenizer.encode(word, add_special_tokens=False).ids)
            if count + more <= size:
                chosen.append(word)
                count += more
            if count == size:
                break
        text = " ".join(chosen)
        assert len(tokenizer.encode(text).ids) == size
        yield text


def main():
    lines, tokenizer, folder = Path(sys.argv[1]), Tokenizer.from_file(sys.argv[2]), Path(sys.argv[3])
    tokenizer.no_truncation()
    folder.mkdir(parents=True, exist_ok=True)
    words = itertools.cycle(lines.read_text(encoding="utf-8").split())
    table, whole = {}, []
    for name in sys.argv[4:]:
        count, size = map(int, name.removeprefix("W3-").split("x"))
        texts = list(itertools.islice(texts_of(words, tokenizer, size), count))
        table[name] = {"texts": count, "tokens": [size] * count}
        whole += zip(texts, table[name]["tokens"])
        (folder / f"{name}.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8", newline="\n")
    table["W2"] = {"texts": len(whole), "tokens": [size for _, size in whole]}
    (folder / "W2.txt").write_text("".join(text + "\n" for text, _ in whole), encoding="utf-8", newline="\n")
    (folder / "workloads.json").write_text(json.dumps(table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
