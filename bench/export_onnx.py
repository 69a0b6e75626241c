#!/usr/bin/env python3
"""Exports the model for onnxruntime and transformers.js into the folder given: onnx/model.onnx (fp32, opset 14, traced
by PyTorch, no further optimisation) and onnx/model_quantized.onnx (quantize_dynamic: QInt8, per channel, reduced range,
as the models on the hubs are made), with the tokenizer's files. Run by set_up.py in .tools/bench-python.
"""

import inspect
import json
import shutil
import sys
import warnings
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from transformers import AutoModel

OPSET = 14
AXES = {0: "batch", 1: "tokens"}
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class States(torch.nn.Module):
    """Makes the encoder a function of its tensors: not all have types of tokens."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.names = [name for name in INPUTS if name in inspect.signature(model.forward).parameters]

    def forward(self, *tensors):
        return self.model(**dict(zip(self.names, tensors))).last_hidden_state


def export(model_folder, path):
    # Tracing needs plain attention, because the fused one chooses its code by the shapes of the example.
    model = States(AutoModel.from_pretrained(model_folder, attn_implementation="eager").eval())
    example = torch.ones((2, 8), dtype=torch.int64)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (example, example, torch.zeros_like(example))[:len(model.names)], str(path), dynamo=False,
                          opset_version=OPSET, input_names=model.names, output_names=["last_hidden_state"],
                          dynamic_axes={name: AXES for name in (*model.names, "last_hidden_state")})


def copy_tokenizer(model_folder, folder):
    """Copies the tokenizer, but truncates to 256 and does not pad, as sentence-transformers does."""
    tokenizer = json.loads((model_folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["padding"] = None
    tokenizer["truncation"]["max_length"] = 256
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    settings = json.loads((model_folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["model_max_length"] = 256
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    shutil.copyfile(model_folder / "config.json", folder / "config.json")


def main():
    model_folder, folder = Path(sys.argv[1]), Path(sys.argv[2])
    (folder / "onnx").mkdir(parents=True, exist_ok=True)
    plain = folder / "onnx/model.onnx"
    export(model_folder, plain)
    quantize_dynamic(plain, folder / "onnx/model_quantized.onnx", weight_type=QuantType.QInt8, per_channel=True,
                     reduce_range=True)
    copy_tokenizer(model_folder, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
