#!/usr/bin/env python3
"""Compares static embeddings in wisp and model2vec: texts per second on a model of potion-base-8M's shape.

usage: compare.py VOCAB LINES: VOCAB is a vocab.txt of BERT, LINES a file of texts. Needs model2vec and wisp_engine
(PYTHONPATH=python, WISP_LIBRARY=build/libwisp.so). Vectors are random: speed does not depend on them. Both take the texts in
turns, and each figure is the best of its runs. model2vec uses the threads that its tokenizer takes (RAYON_NUM_THREADS).
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import wisp_engine
from model2vec import StaticModel
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

DIMENSIONS, RUNS = 256, 5


def make(vocabulary, folder):
    words = vocabulary.read_text(encoding="utf-8").split("\n")[:-1]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    vectors = np.random.default_rng(1).standard_normal((len(words), DIMENSIONS)).astype(np.float32)
    StaticModel(vectors, tokenizer, normalize=True, config={"model_type": "model2vec"}).save_pretrained(folder)


def best(times):
    return min(times)


def main(vocabulary, lines):
    texts = Path(lines).read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(vocabulary), folder)
        theirs = StaticModel.from_pretrained(folder)
        ours = {threads: wisp_engine.Embedder(folder, threads=threads) for threads in (1, 2)}
        times = {name: [] for name in ("model2vec", *ours)}
        rows = {}
        for _ in range(RUNS):
            for name in times:
                start = time.perf_counter()
                rows[name] = (theirs.encode(texts, use_multiprocessing=False) if name == "model2vec"
                              else ours[name].encode(texts))
                times[name].append(time.perf_counter() - start)
        difference = max(float(np.abs(rows["model2vec"] - rows[name]).max()) for name in ours)
    print(f"{len(texts)} texts, {sum(map(len, texts)) / len(texts):.0f} characters each; largest difference {difference:.1e}")
    for name, taken in times.items():
        label = name if name == "model2vec" else f"wisp, {name} thread{'s' if name > 1 else ''}"
        print(f"{label:16} {len(texts) / best(taken):10.0f} texts/s, {best(times['model2vec']) / best(taken):5.1f}x")


if __name__ == "__main__":
    main(*sys.argv[1:])
