#!/usr/bin/env python3
"""Writes encoders of the shapes that people use, with random weights: make_models.py TOKENIZER FOLDER, run with
.tools/bin/python-torch. FOLDER/NAME is a Hugging Face folder, which wisp reads, and FOLDER/NAME/onnx/model.onnx the graph for
its peers. All have the vocabulary of TOKENIZER, a tokenizer.json of BERT's kind: its size changes no time but that of opening."""

import json
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / ".tools/sentence"), str(REPO / "bench")]

import export_onnx  # noqa: E402  (the path must be set first)
import torch  # noqa: E402
import transformers  # noqa: E402

LENGTH = 512
BASE = {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "intermediate_size": 3072}
SHAPES = {
    "mpnet-base": ("MPNet", {**BASE, "max_position_embeddings": LENGTH + 2, "pad_token_id": 1}),
    "xlm-r-base": ("XLMRoberta", {**BASE, "max_position_embeddings": LENGTH + 2, "pad_token_id": 1, "type_vocab_size": 1}),
    "modernbert-base": ("ModernBert", {**BASE, "num_hidden_layers": 22, "intermediate_size": 1152,
                                       "max_position_embeddings": LENGTH, "pad_token_id": 0, "bos_token_id": 101,
                                       "eos_token_id": 102, "cls_token_id": 101, "sep_token_id": 102}),
}


def make(name, tokenizer, folder):
    kind, sizes = SHAPES[name]
    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(tokenizer["model"]["vocab"]), **sizes)
    model = getattr(transformers, f"{kind}Model")(config).eval()
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": LENGTH, "pad_token": "[PAD]", "unk_token": "[UNK]",
         "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}), encoding="utf-8")
    (folder / "onnx").mkdir(exist_ok=True)
    export_onnx.export(folder, folder / "onnx/model.onnx")


def main():
    tokenizer, folder = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    tokenizer["truncation"]["max_length"] = LENGTH
    for name in SHAPES:
        make(name, tokenizer, folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
