#!/usr/bin/env python3
"""Quantises FOLDER/onnx/model.onnx for wisp's peers: quantise.py TEXTS FOLDER..., run in .tools/bench-here.
onnx/model_quantized.onnx is onnxruntime's dynamic int8; openvino/int8.xml is NNCF's int8 (transformers, MIXED preset,
SmoothQuant), calibrated with lines of TEXTS."""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer

SAMPLES = 100


def quantise_for_openvino(plain, tokenizer, texts, path):
    import nncf
    import openvino

    model = openvino.Core().read_model(plain)
    names = [entry.any_name for entry in model.inputs]

    def inputs_of(text):
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        return {name: inputs[name] for name in names}

    quantised = nncf.quantize(model, nncf.Dataset([inputs_of(text) for text in texts]),
                              model_type=nncf.ModelType.TRANSFORMER, subset_size=len(texts),
                              preset=nncf.QuantizationPreset.MIXED)
    openvino.save_model(quantised, path, compress_to_fp16=False)


def quantise(folder, lines, samples=SAMPLES):
    plain = folder / "onnx/model.onnx"
    (folder / "openvino").mkdir(exist_ok=True)
    onnxruntime.set_default_logger_severity(3)
    quantize_dynamic(plain, folder / "onnx/model_quantized.onnx", weight_type=QuantType.QInt8, per_channel=True,
                     reduce_range=True)
    quantise_for_openvino(plain, Tokenizer.from_file(str(folder / "tokenizer.json")), lines[:samples],
                          folder / "openvino/int8.xml")


def main():
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    for folder in sys.argv[2:]:
        quantise(Path(folder), lines, samples=10)  # of random weights, whose quality nobody asks for
    return 0


if __name__ == "__main__":
    sys.exit(main())
