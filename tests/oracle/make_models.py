#!/usr/bin/env python3
"""Writes tests/data/models/: tiny random BERT models as sentence-transformers saves them, with its embeddings of texts.

Each differs from all-MiniLM-L6-v2 in the ways that bge-small, gte-tiny, e5-small and nomic-embed do, and in sizes that
fit no vector. Needs torch, transformers, sentence-transformers; the result is committed, so tests need none of them.
"""

import json
import shutil
import string
import sys
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer, models
from transformers import BertConfig, BertModel, BertTokenizerFast, NomicBertConfig, NomicBertModel

OUT = Path(__file__).resolve().parents[1] / "data" / "models"

TEXTS = [
    "the cat sat on the mat",
    "The Cat SAT on the Mat!",
    "",
    "ΑΣ ΟΔΟΣ straße İstanbul",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 4,
    "naïve café 日本 1999",
    "[CLS] [MASK] x",
    "water",
]

DROP = object()  # as the value of an edit: the key is removed

VARIANTS = {
    # CLS pooling, twelve layers, text lower-cased first, a prompt by name: as bge-small-en
    "cls12": dict(
        config=dict(hidden_size=24, num_attention_heads=3, intermediate_size=52, num_hidden_layers=12,
                    max_position_embeddings=64, layer_norm_eps=1e-12),
        pooling="cls", normalize=True, lowercase=True, text_lowercase=True, max_seq_length=64, dtype=torch.float16,
        prompts={"query": "find the water: "}, shard=None),
    # mean pooling without Normalize, in shards: as gte-tiny
    "mean-shards": dict(
        config=dict(hidden_size=36, num_attention_heads=4, intermediate_size=70, num_hidden_layers=3,
                    max_position_embeddings=48, layer_norm_eps=1e-5),
        pooling="mean", normalize=False, lowercase=True, text_lowercase=False, max_seq_length=40, dtype=torch.float32,
        prompts={}, shard="30KB"),
    # cased, a default prompt that pooling leaves out, bfloat16, ReLU: as e5-small, and odd
    "prompted": dict(
        config=dict(hidden_size=32, num_attention_heads=2, intermediate_size=64, num_hidden_layers=2,
                    max_position_embeddings=32, layer_norm_eps=1e-12, hidden_act="relu"),
        pooling="mean", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=32,
        dtype=torch.bfloat16, prompts={"query": "query: ", "passage": "passage: "}, default="query",
        include_prompt=False, shard=None),
    # rotary positions and gated layers, config.json as Nomic spells it: as nomic-embed-text-v1.5
    "nomic": dict(
        architecture=(NomicBertConfig, NomicBertModel), spelling="nomic",
        config=dict(hidden_size=40, num_attention_heads=4, intermediate_size=52, num_hidden_layers=4,
                    max_position_embeddings=128, layer_norm_eps=1e-12),
        pooling="mean", normalize=True, lowercase=True, text_lowercase=False, max_seq_length=128, dtype=torch.float16,
        prompts={"query": "query: "}, shard=None),
    # the same as transformers spells it, with other settings
    "nomic-respelt": dict(
        architecture=(NomicBertConfig, NomicBertModel),
        config=dict(hidden_size=24, num_attention_heads=2, intermediate_size=64, num_hidden_layers=2,
                    max_position_embeddings=48, layer_norm_eps=1e-5,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        pooling="cls", normalize=False, lowercase=False, text_lowercase=False, max_seq_length=48, dtype=torch.float32,
        prompts={}, shard=None),
    # files that disagree, as edits by hand leave them: the tokenizer's settings, a special token and the limit in
    # tokenizer_config.json only; CLS pooling that leaves the prompt out; embeddings cut to 8 values; a null prompt
    "overridden": dict(
        config=dict(hidden_size=16, num_attention_heads=2, intermediate_size=24, num_hidden_layers=1,
                    max_position_embeddings=40, layer_norm_eps=1e-12),
        pooling="cls", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=40, dtype=torch.float32,
        prompts={"query": "find the water: ", "passage": ""}, include_prompt=False, shard=None,
        texts=[*TEXTS, "waters The Water water", "日本 CAFÉ caf\u0001e"],
        edits={
            "tokenizer.json": {"normalizer": {"type": "BertNormalizer", "clean_text": True, "lowercase": True,
                                              "handle_chinese_chars": False, "strip_accents": True}},
            "tokenizer_config.json": {"tokenize_chinese_chars": DROP, "strip_accents": DROP, "tokenizer_class": DROP,
                                      "model_max_length": DROP, "max_len": 24,
                                      "additional_special_tokens": ["water"]},
            "config.json": {"type_vocab_size": DROP},
            "config_sentence_transformers.json": {"truncate_dim": 8,
                                                  "prompts": {"query": "find the water: ", "passage": None}},
        }),
}

# As nomic-ai/nomic-embed-text-v1.5 names settings, and what it says of those that transformers knows no other of.
NOMIC_NAMES = {"hidden_size": "n_embd", "num_attention_heads": "n_head", "intermediate_size": "n_inner",
               "num_hidden_layers": "n_layer", "max_position_embeddings": "n_positions",
               "layer_norm_eps": "layer_norm_epsilon", "type_vocab_size": "type_vocab_size", "vocab_size": "vocab_size"}
NOMIC_SETTINGS = {"model_type": "nomic_bert", "activation_function": "swiglu", "causal": False, "mlp_fc1_bias": False,
                  "mlp_fc2_bias": False, "parallel_block": False, "prenorm": False, "qkv_proj_bias": False,
                  "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
                  "rotary_scaling_factor": None, "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True,
                  "use_rms_norm": False}


def vocabulary():
    words = ["the", "cat", "sat", "on", "mat", "water", "query", "passage", "find", "caf", "na", "stra", "ist"]
    letters = list(string.ascii_lowercase) + list("ασοδς")
    marks = list("!:.,?[]0123456789日ß")
    return (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words + letters + marks
            + ["##" + piece for piece in letters + list("é0123456789ßσς") + ["ve", "anbul", "e", "i̇"] if piece != "e"]
            + ["##e", "A", "B", "T", "##A", "##T", "The", "Cat"])


def build(name, spec):
    torch.manual_seed(sum(name.encode()))
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    source = folder.with_name(name + ".tmp")
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    words = list(dict.fromkeys(vocabulary()))
    (source / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = BertTokenizerFast(vocab=str(source / "vocab.txt"), do_lower_case=spec["lowercase"]) \
        if "vocab" in BertTokenizerFast.__init__.__code__.co_varnames \
        else BertTokenizerFast(vocab_file=str(source / "vocab.txt"), do_lower_case=spec["lowercase"])
    tokenizer.save_pretrained(source)
    # Ten times BERT's initial spread, so that attention is not uniform and errors would show.
    config_type, model_type = spec.get("architecture", (BertConfig, BertModel))
    model = model_type(config_type(vocab_size=len(words), initializer_range=0.2, **spec["config"]))
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    model.to(spec["dtype"]).save_pretrained(source, **({"max_shard_size": spec["shard"]} if spec["shard"] else {}))
    transformer = models.Transformer(str(source), max_seq_length=spec["max_seq_length"],
                                     do_lower_case=spec["text_lowercase"], model_args={"torch_dtype": torch.float32})
    transformer.auto_model.float()
    pooling = models.Pooling(spec["config"]["hidden_size"], pooling_mode=spec["pooling"],
                             include_prompt=spec.get("include_prompt", True))
    modules = [transformer, pooling] + ([models.Normalize()] if spec["normalize"] else [])
    whole = SentenceTransformer(modules=modules, prompts=spec["prompts"],
                                default_prompt_name=spec.get("default"), device="cpu")
    goldens(folder, whole, spec)
    whole.save(str(folder), create_model_card=False)
    # sentence-transformers stores the weights as they now are, in floats; the originals are what tests should read.
    for weights in list(folder.glob("*.safetensors")) + list(folder.glob("*.index.json")):
        weights.unlink()
    for weights in list(source.glob("*.safetensors")) + list(source.glob("*.index.json")):
        shutil.copy(weights, folder)
    if spec.get("spelling") == "nomic":
        respell(folder / "config.json")
    if "edits" in spec:
        for file, edits in spec["edits"].items():
            edit(folder / file, edits)
        goldens(folder, SentenceTransformer(str(folder), device="cpu"), spec)
    shutil.rmtree(source)


def edit(path, edits):
    values = {**json.loads(path.read_text()), **edits}
    kept = {key: value for key, value in values.items() if value is not DROP}
    path.write_text(json.dumps(kept, ensure_ascii=False, indent=2) + "\n")


def respell(path):
    config = json.loads(path.read_text())
    renamed = {new: config[old] for old, new in NOMIC_NAMES.items()}
    base = {"rotary_emb_base": int(config["rope_parameters"]["rope_theta"])}
    path.write_text(json.dumps({**NOMIC_SETTINGS, **renamed, **base}, indent=2, sort_keys=True) + "\n")


def goldens(folder, whole, spec):
    """One case for each prompt, and one for none, whatever the default."""
    cases = []
    for prompt in [None, *spec["prompts"]]:
        texts = spec.get("texts", TEXTS)
        rows = whole.encode(texts, prompt_name=prompt) if prompt else whole.encode(texts, prompt="")
        cases.append({"prompt": prompt or "", "texts": texts, "rows": np.asarray(rows, np.float64).round(8).tolist()})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "golden.json").write_text(json.dumps(cases, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or VARIANTS:
        build(name, VARIANTS[name])
