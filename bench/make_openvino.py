#!/usr/bin/env python3
"""Quantises the ONNX model for OpenVINO by NNCF (transformers, MIXED preset, SmoothQuant), with sentences of STS-B dev
and lines of WikiText-2 valid: build/bench/onnx/openvino/int8.xml. Needs openvino and nncf in .tools/bench-python.
"""

import os
from pathlib import Path

import nncf
import numpy as np
import openvino
from tokenizers import Tokenizer

REPO = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("WISP_SHARED", REPO.parent / "shared"))
ONNX = REPO / "build/bench/onnx"
SENTENCES, LINES, LEAST_CHARACTERS, MOST_TOKENS = 300, 60, 400, 128


def read_texts():
    rows = (SHARED / "data/stsb/sts-dev.csv").read_text(encoding="utf-8").splitlines()
    lines = (SHARED / "data/wikitext-2/valid.txt").read_text(encoding="utf-8").splitlines()
    sentences = [sentence for row in rows for sentence in row.split("\t")[5:7]]
    return sentences[:SENTENCES] + [line.strip() for line in lines if len(line) > LEAST_CHARACTERS][:LINES]


def inputs_of(tokenizer, text):
    ids = np.array([tokenizer.encode(text).ids], np.int64)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def main():
    tokenizer = Tokenizer.from_file(str(ONNX / "tokenizer.json"))
    tokenizer.enable_truncation(MOST_TOKENS)
    data = [inputs_of(tokenizer, text) for text in read_texts()]
    model = openvino.Core().read_model(ONNX / "onnx/model.onnx")
    quantised = nncf.quantize(model, nncf.Dataset(data), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(data),
                              preset=nncf.QuantizationPreset.MIXED)
    openvino.save_model(quantised, ONNX / "openvino/int8.xml", compress_to_fp16=False)


if __name__ == "__main__":
    main()
