#!/usr/bin/env python3
"""Writes tests/data/models/splade-*: tiny random SPLADEs, with sentence-transformers' values of words of texts.

Needs torch, transformers, sentence-transformers; the result is committed, so tests need none of them.
"""

import json
import shutil
import sys

import torch
from sentence_transformers import SparseEncoder
from sentence_transformers.sparse_encoder.modules import SpladePooling
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import (BertConfig, BertForMaskedLM, DistilBertConfig, DistilBertForMaskedLM, ModernBertConfig,
                          ModernBertForMaskedLM, RobertaConfig, RobertaForMaskedLM)

from make_models import OUT, TEXTS, goldens, trained_tokenizer, words_tokenizer

SIZES = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40, "num_hidden_layers": 2,
         "max_position_embeddings": 50}
# Classes, sizes, the tokenizer, and what the head's values become.
VARIANTS = {
    "splade-bert": (BertConfig, BertForMaskedLM, SIZES, None, {}),
    "splade-roberta": (RobertaConfig, RobertaForMaskedLM, {**SIZES, "type_vocab_size": 1, "pad_token_id": 1}, "bytes",
                       {"pooling_strategy": "sum"}),
    "splade-distilbert": (DistilBertConfig, DistilBertForMaskedLM,
                          {"dim": 24, "n_heads": 2, "hidden_dim": 36, "n_layers": 2, "max_position_embeddings": 48}, None,
                          {"activation_function": "log1p_relu"}),
    "splade-modernbert": (ModernBertConfig, ModernBertForMaskedLM,
                          {**SIZES, "hidden_size": 32, "num_attention_heads": 4, "pad_token_id": 1, "bos_token_id": 0,
                           "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2, "local_attention": 8}, "bytes",
                          {"pooling_strategy": "sum", "activation_function": "log1p_relu"}),
}


def build(name):
    config_type, model_type, sizes, tokens, pooling = VARIANTS[name]
    torch.manual_seed(sum(name.encode()))
    folder, source = OUT / name, OUT / f"{name}.tmp"
    for each in (folder, source):
        shutil.rmtree(each, ignore_errors=True)
    source.mkdir(parents=True)
    tokenizer = trained_tokenizer(tokens) if tokens else words_tokenizer(source, {"lowercase": True})
    tokenizer.model_max_length = 48
    tokenizer.save_pretrained(source)
    model = model_type(config_type(vocab_size=len(tokenizer), initializer_range=0.2, **sizes))
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.3 * torch.randn_like(parameter)
    model.save_pretrained(source)
    encoder = SparseEncoder(modules=[Transformer(str(source), transformer_task="fill-mask"), SpladePooling(**pooling)],
                            prompts={"query": "find the water: "}, device="cpu")
    encoder.save_pretrained(str(folder), create_model_card=False)
    for file in [*folder.glob("README.md"), *folder.glob("vocab.txt")]:
        file.unlink()
    shutil.rmtree(source)
    dense = encoder.encode
    encoder.encode = lambda *given, **named: dense(*given, convert_to_sparse_tensor=False, **named).numpy()
    goldens(folder, encoder, {"prompts": ["query"], "texts": TEXTS})


if __name__ == "__main__":
    for each in sys.argv[1:] or VARIANTS:
        build(each)
