#!/usr/bin/env python3
"""Cuts the texts that are timed: build/bench/texts/NAME.txt, one text a line, and workloads.json with their tokens.

W1: every sentence of the STS-B test set, both of each pair, in file order.
W2: 256 passages of 100 to 128 tokens of WikiText-2 test.
W3-NxT: N texts of exactly T tokens of WikiText-2 test, for one call.

Tokens are real ones, [CLS] and [SEP] included, by Hugging Face's tokenizer of the model. How a passage is cut: a
paragraph is a line of the file that is no heading (" = ... ="); its words are what spaces separate; words are taken
from its beginning as long as the text has at most the wanted number of tokens. Paragraphs are used in file order, once.
For W2 the wanted number is 100 + (11 i mod 29) for passage i, and a paragraph that does not reach 100 is skipped; for
W3 a paragraph that does not give exactly the number is skipped.
"""

import csv
import json
import os
import sys
from pathlib import Path

from tokenizers import Tokenizer

REPO = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("WISP_SHARED", REPO.parent / "shared"))
TEXTS = REPO / "build/bench/texts"

W2_PASSAGES, W2_LEAST, W2_MOST = 256, 100, 128
W3_COUNTS, W3_TOKENS = (1, 8, 32), (16, 64, 256)


def open_tokenizer():
    """Returns the model's tokenizer, without its padding and truncation to 128, as sentence-transformers uses it."""
    tokenizer = Tokenizer.from_file(str(SHARED / "models/all-MiniLM-L6-v2/tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def read_sts():
    with open(SHARED / "data/stsb/sts-test.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    sentences = [sentence.strip() for row in rows for sentence in row[5:7]]
    return sentences, [float(row[4]) for row in rows]


def read_paragraphs():
    lines = (SHARED / "data/wikitext-2/test.txt").read_text(encoding="utf-8").split("\n")
    return [line.strip() for line in lines if line.strip() and not line.startswith(" =")]


def cut(tokenizer, paragraph, most):
    """Returns the longest beginning of whole words that has at most `most` tokens, and its number of tokens."""
    words = paragraph.split(" ")
    low, high = 0, min(len(words), most)
    while low < high:
        middle = (low + high + 1) // 2
        if len(tokenizer.encode(" ".join(words[:middle])).ids) <= most:
            low = middle
        else:
            high = middle - 1
    text = " ".join(words[:low])
    return text, len(tokenizer.encode(text).ids)


def cut_passages(tokenizer, paragraphs):
    """Takes the passages of W2 from the iterator `paragraphs`."""
    passages = []
    while len(passages) < W2_PASSAGES:
        most = W2_LEAST + 11 * len(passages) % (W2_MOST - W2_LEAST + 1)
        text, tokens = cut(tokenizer, next(paragraphs), most)
        if tokens >= W2_LEAST:
            passages.append(text)
    return passages


def cut_exactly(tokenizer, paragraphs, tokens):
    texts = []
    while len(texts) < max(W3_COUNTS):
        text, found = cut(tokenizer, next(paragraphs), tokens)
        if found == tokens:
            texts.append(text)
    return texts


def write(name, tokenizer, texts, **more):
    (TEXTS / f"{name}.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8", newline="\n")
    return {"texts": len(texts), "tokens": [len(tokenizer.encode(text).ids) for text in texts], **more}


def main():
    tokenizer = open_tokenizer()
    TEXTS.mkdir(parents=True, exist_ok=True)
    sentences, scores = read_sts()
    paragraphs = iter(read_paragraphs())
    workloads = {"W1": write("W1", tokenizer, sentences, scores=scores),
                 "W2": write("W2", tokenizer, cut_passages(tokenizer, paragraphs))}
    for tokens in W3_TOKENS:
        texts = cut_exactly(tokenizer, paragraphs, tokens)
        for count in W3_COUNTS:
            name = f"W3-{count}x{tokens}"
            workloads[name] = write(name, tokenizer, texts[:count])
    (TEXTS / "workloads.json").write_text(json.dumps(workloads), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
