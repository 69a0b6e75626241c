#!/usr/bin/env python3
"""Writes tests/data/models/rank-*: tiny random cross-encoders, with sentence-transformers' scores of pairs of texts.

Needs torch, transformers, sentence-transformers; the result is committed, so tests need none of them.
"""

import json
import shutil
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / ".tools" / "sentence")]

import numpy as np
import torch
from sentence_transformers import CrossEncoder
from transformers import (BertConfig, BertForSequenceClassification, DistilBertConfig,
                          DistilBertForSequenceClassification, ElectraConfig, ElectraForSequenceClassification,
                          RobertaConfig, RobertaForSequenceClassification)

from authors_models import JinaV2Config, JinaV2Ranker, JinaV3Config, JinaV3Ranker
from make_models import OUT, SETTINGS, TEXTS, edit, trained_tokenizer, words_tokenizer

SIZES = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40, "num_hidden_layers": 2,
         "max_position_embeddings": 50, "layer_norm_eps": 1e-12}
VARIANTS = {
    "rank-bert": (BertConfig, BertForSequenceClassification, SIZES, None),
    "rank-roberta": (RobertaConfig, RobertaForSequenceClassification,
                     {**SIZES, "type_vocab_size": 1, "pad_token_id": 1}, "bytes"),
    "rank-electra": (ElectraConfig, ElectraForSequenceClassification, {**SIZES, "embedding_size": 16}, None),
    "rank-distilbert": (DistilBertConfig, DistilBertForSequenceClassification,
                        {"dim": 24, "n_heads": 2, "hidden_dim": 36, "n_layers": 2, "max_position_embeddings": 48}, None),
    # two types of tokens, of which RoBERTa's tokenizer gives one; a bias by distance
    "rank-jina-v2": (JinaV2Config, JinaV2Ranker, {**SIZES, "max_position_embeddings": 256}, "bytes"),
    # rotary positions
    "rank-jina-v3": (JinaV3Config, JinaV3Ranker,
                     {**SIZES, "num_attention_heads": 2, "type_vocab_size": 1, "pad_token_id": 1,
                      "rotary_emb_base": 20000.0}, "unigram"),
}
# config.json as the authors' classes write it.
AUTHORS = {"rank-jina-v2": {**SETTINGS["jina-v2"], "architectures": ["JinaBertForSequenceClassification"]},
           "rank-jina-v3": {**SETTINGS["jina-v3"], "architectures": ["XLMRobertaForSequenceClassification"]}}
QUERIES = ["the cat sat", "", "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 2]


def build(name):
    config_type, model_type, sizes, tokens = VARIANTS[name]
    torch.manual_seed(sum(name.encode()))
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer = trained_tokenizer(tokens) if tokens else words_tokenizer(folder, {"lowercase": True})
    tokenizer.model_max_length = 48
    tokenizer.save_pretrained(folder)
    (folder / "vocab.txt").unlink(missing_ok=True)
    model = model_type(config_type(vocab_size=len(tokenizer), initializer_range=0.2, num_labels=1, **sizes))
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    activation = torch.nn.Identity() if name == "rank-roberta" else None
    ranker = CrossEncoder(str(folder), device="cpu", activation_fn=activation)
    cases = [{"query": query, "texts": TEXTS, "scores": np.asarray(
        ranker.predict([(query, text) for text in TEXTS], batch_size=1), np.float64).round(8).tolist()} for query in QUERIES]
    (folder / "golden.json").write_text(json.dumps(cases, ensure_ascii=False) + "\n")
    if name in AUTHORS:
        edit(folder / "config.json", AUTHORS[name])
    if name == "rank-roberta":  # as version 6 stores the activation; the others have what older versions stored
        ranker.save_pretrained(folder)


if __name__ == "__main__":
    for each in sys.argv[1:] or VARIANTS:
        build(each)
