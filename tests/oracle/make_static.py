#!/usr/bin/env python3
"""Writes tests/data/models/static*: tiny random static embeddings, with model2vec's embeddings of texts.

Needs model2vec; the result is committed, so tests do not. The tokenizer is that of potion-base-8M in small: BERT's WordPiece,
whose special tokens no text gets.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

OUT = Path(__file__).resolve().parents[1] / "data" / "models"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["[PAD]", "[UNK]", "the", "cat", "sat", "on", "mat", "water", "find", ":", "!", ",", *LETTERS,
         *("##" + letter for letter in LETTERS), "##er", "1", "9", "##9"]
TEXTS = ["the cat sat on the mat", "The Cat SAT on the Mat!", "", "ΑΣ ΟΔΟΣ", "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 4,
         "naïve café 日本 1999", "[UNK] [PAD] x", "water", "ΑΣ the ΟΔΟΣ cat 日"]
# Type of the vectors, whether tokens have weights, further settings of config.json.
VARIANTS = {"static": (np.float32, False, {"normalize": True}),
            "static-weights": (np.float16, True, {"normalize": False, "max_length": 20})}


def build(name):
    kind, weighted, settings = VARIANTS[name]
    random = np.random.default_rng(sum(name.encode()))
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]"])
    vectors = random.standard_normal((len(WORDS), 24)).astype(kind)
    weights = random.uniform(0.1, 2, len(WORDS)).astype(np.float32) if weighted else None
    model = StaticModel(vectors, tokenizer, weights=weights, normalize=settings["normalize"],
                        max_length=settings.get("max_length", 512),
                        config={"model_type": "model2vec", "architectures": ["StaticModel"], "hidden_dim": 24})
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    for file in folder.glob("README.md"):
        file.unlink()
    model = StaticModel.from_pretrained(folder)
    model.embedding = model.embedding.astype(np.float32)  # else the result is rounded to the type of the vectors
    rows = model.encode(TEXTS)
    cases = [{"prompt": "", "texts": TEXTS, "rows": np.asarray(rows, np.float64).round(8).tolist()}]
    (folder / "golden.json").write_text(json.dumps(cases, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for each in sys.argv[1:] or VARIANTS:
        build(each)
