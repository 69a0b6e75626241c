#!/usr/bin/env python3
"""Writes tests/data/models/rank-*: tiny random cross-encoders, with sentence-transformers' scores of pairs of texts, and
rank-qwen3, which is asked as Qwen3-Reranker is, with transformers' scores; and labels-*: classifiers, with the scores of
transformers' text-classification pipeline.

Needs torch, transformers, sentence-transformers; the result is committed, so tests need none of them.
"""

import json
import shutil
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / ".tools" / "sentence")]

import numpy as np
import torch
from judge import AFTER, BEFORE, TEXT
from sentence_transformers import CrossEncoder
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (BertConfig, BertForSequenceClassification, DebertaV2Config, DebertaV2ForSequenceClassification,
                          DistilBertConfig, DistilBertForSequenceClassification, ElectraConfig, ElectraForSequenceClassification,
                          ModernBertConfig, ModernBertForSequenceClassification, MPNetConfig, MPNetForSequenceClassification,
                          PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, RobertaConfig, RobertaForSequenceClassification, TextClassificationPipeline,
                          XLMRobertaConfig, XLMRobertaForSequenceClassification)

from authors_models import JinaV2Config, JinaV2Ranker, JinaV3Config, JinaV3Ranker
from make_models import DROP, OUT, SETTINGS, TEXTS, edit, trained_tokenizer, words_tokenizer
from new_model import NewConfig, NewForSequenceClassification

SIZES = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40, "num_hidden_layers": 2,
         "max_position_embeddings": 50, "layer_norm_eps": 1e-12}
MODERN = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48, "num_hidden_layers": 3,
          "max_position_embeddings": 64, "local_attention": 8, "pad_token_id": 1, "bos_token_id": 0, "cls_token_id": 0,
          "eos_token_id": 2, "sep_token_id": 2, "initializer_range": 0.2}
VARIANTS = {
    "rank-bert": (BertConfig, BertForSequenceClassification, SIZES, None),
    "rank-roberta": (RobertaConfig, RobertaForSequenceClassification,
                     {**SIZES, "type_vocab_size": 1, "pad_token_id": 1}, "bytes"),
    "rank-electra": (ElectraConfig, ElectraForSequenceClassification, {**SIZES, "embedding_size": 16}, None),
    "rank-distilbert": (DistilBertConfig, DistilBertForSequenceClassification,
                        {"dim": 24, "n_heads": 2, "hidden_dim": 36, "n_layers": 2, "max_position_embeddings": 48}, None),
    # a pooler with an activation that config.json names, no types of tokens
    "rank-deberta": (DebertaV2Config, DebertaV2ForSequenceClassification,
                     {**SIZES, "type_vocab_size": 0, "position_biased_input": False, "relative_attention": True,
                      "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True,
                      "pos_att_type": ["p2c", "c2p"], "pooler_hidden_act": "tanh", "pad_token_id": 1}, "deberta"),
    # the mean of tokens, with a norm behind the first layer
    "rank-modernbert": (ModernBertConfig, ModernBertForSequenceClassification,
                        {**MODERN, "classifier_pooling": "mean", "classifier_activation": "relu"}, "bytes"),
    # two types of tokens, of which RoBERTa's tokenizer gives one; a bias by distance
    "rank-jina-v2": (JinaV2Config, JinaV2Ranker, {**SIZES, "max_position_embeddings": 256}, "bytes"),
    # RoBERTa's pairs in BERT's vocabulary, a bias by distance
    "rank-mpnet": (MPNetConfig, MPNetForSequenceClassification, {**SIZES, "max_position_embeddings": 52, "pad_token_id": 1}, "mpnet"),
    # rotary positions that NTK scales, a pooler: as gte-multilingual-reranker-base
    "rank-gte": (NewConfig, NewForSequenceClassification,
                 {**SIZES, "max_position_embeddings": 64, "type_vocab_size": 1, "pad_token_id": 1, "rope_theta": 20000.0,
                  "rope_scaling": {"factor": 8.0, "type": "ntk"}}, "unigram"),
    # rotary positions
    "rank-jina-v3": (JinaV3Config, JinaV3Ranker,
                     {**SIZES, "num_attention_heads": 2, "type_vocab_size": 1, "pad_token_id": 1,
                      "rotary_emb_base": 20000.0}, "unigram"),
}
# config.json as the authors' classes write it.
AUTHORS = {"rank-jina-v2": {**SETTINGS["jina-v2"], "architectures": ["JinaBertForSequenceClassification"]},
           "rank-jina-v3": {**SETTINGS["jina-v3"], "architectures": ["XLMRobertaForSequenceClassification"]},
           "rank-gte": {"rope_parameters": DROP, "rope_scaling": {"factor": 8.0, "type": "ntk"}}}
# The classes of a model and its sizes, its tokenizer, and its labels.
CLASSIFIERS = {
    "labels-bert": (*VARIANTS["rank-bert"], {"id2label": {0: "contradiction", 1: "entailment", 2: "neutral"}}),
    "labels-roberta": (*VARIANTS["rank-roberta"], {"num_labels": 2}),
    "labels-distilbert": (*VARIANTS["rank-distilbert"],
                          {"id2label": {0: "NEGATIVE", 1: "POSITIVE"}, "problem_type": "single_label_classification"}),
    "labels-deberta": (*VARIANTS["rank-deberta"], {"num_labels": 3}),
    "labels-xlm-roberta": (XLMRobertaConfig, XLMRobertaForSequenceClassification,
                           {**SIZES, "type_vocab_size": 1, "pad_token_id": 1}, "unigram",
                           {"num_labels": 11, "problem_type": "multi_label_classification"}),
    "labels-mpnet": (*VARIANTS["rank-mpnet"], {"num_labels": 5}),
    "labels-gte": (*VARIANTS["rank-gte"], {"num_labels": 2}),
    "labels-regression": (*VARIANTS["rank-electra"], {"num_labels": 1, "problem_type": "regression"}),
    "labels-modernbert": (ModernBertConfig, ModernBertForSequenceClassification,
                          {**MODERN, "classifier_pooling": "cls", "classifier_bias": True}, "bytes", {"num_labels": 4}),
}
QUERIES = ["the cat sat", "", "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 2]


def save_random(name, config_type, model_type, sizes, tokens):
    """Saves a model of random weights and its tokenizer. Returns folder, model and tokenizer."""
    torch.manual_seed(sum(name.encode()))
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer = trained_tokenizer(tokens) if tokens else words_tokenizer(folder, {"lowercase": True})
    tokenizer.model_max_length = 48
    tokenizer.save_pretrained(folder)
    (folder / "vocab.txt").unlink(missing_ok=True)
    model = model_type(config_type(**{"vocab_size": len(tokenizer), "initializer_range": 0.2, **sizes}))
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return folder, model, tokenizer


def build(name):
    config_type, model_type, sizes, tokens = VARIANTS[name]
    folder, _, _ = save_random(name, config_type, model_type, {"num_labels": 1, **sizes}, tokens)
    activation = torch.nn.Identity() if name == "rank-roberta" else None
    ranker = CrossEncoder(str(folder), device="cpu", activation_fn=activation)
    cases = [{"query": query, "texts": TEXTS, "scores": np.asarray(
        ranker.predict([(query, text) for text in TEXTS], batch_size=1), np.float64).round(8).tolist()} for query in QUERIES]
    (folder / "golden.json").write_text(json.dumps(cases, ensure_ascii=False) + "\n")
    if name in AUTHORS:
        edit(folder / "config.json", AUTHORS[name])
    if name == "rank-roberta":  # as version 6 stores the activation; the others have what older versions stored
        ranker.save_pretrained(folder)


@torch.inference_mode()
def build_classifier(name):
    config_type, model_type, sizes, tokens, labels = CLASSIFIERS[name]
    folder, model, tokenizer = save_random(name, config_type, model_type, {**sizes, **labels}, tokens)
    model.eval()
    pipeline = TextClassificationPipeline(model=model, tokenizer=tokenizer, framework="pt", device="cpu")
    names = [model.config.id2label[i] for i in range(model.config.num_labels)]

    def scores(first, second):
        given = pipeline({"text": first, "text_pair": second} if second is not None else first, top_k=None, truncation=True)
        found = {entry["label"]: entry["score"] for entry in given}
        return [round(found[label], 8) for label in names]

    cases = [{"labels": names, "texts": TEXTS, "seconds": seconds,
              "scores": [scores(text, seconds and seconds[i]) for i, text in enumerate(TEXTS)]}
             for seconds in (None, [text or "rain" for text in TEXTS[::-1]])]  # the pipeline takes "" for none
    (folder / "golden.json").write_text(json.dumps(cases, ensure_ascii=False) + "\n")


# The pieces that Qwen's tokenizer divides texts into.
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def asked_tokenizer():
    """A byte-level vocabulary as Qwen's, of the prompt's words, with yes and no."""
    trained = Tokenizer(models.BPE())
    trained.normalizer, trained.decoder = normalizers.NFC(), decoders.ByteLevel()
    trained.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(WORDS), "isolated"),
                                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    trained.train_from_iterator(["yes"] * 50 + ["no"] * 50 + [BEFORE, TEXT] * 5, trainer)
    trained.add_special_tokens([AddedToken(mark, special=True) for mark in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    trained.add_tokens([AddedToken(mark, special=False) for mark in ("<think>", "</think>")])
    return trained


@torch.inference_mode()
def build_asked(name):
    torch.manual_seed(7)
    folder, tokenizer = OUT / name, asked_tokenizer()
    shutil.rmtree(folder, ignore_errors=True)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>").save_pretrained(folder)
    model = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, tie_word_embeddings=True, max_position_embeddings=1024, initializer_range=0.3)).eval()
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink()

    def score(query, text):
        ids = [i for part in (BEFORE, TEXT.format(query=query, text=text), AFTER)
               for i in tokenizer.encode(part, add_special_tokens=False).ids]
        answers = model(torch.tensor([ids])).logits[0, -1, [tokenizer.token_to_id(word) for word in ("no", "yes")]]
        return torch.softmax(answers.double(), 0)[1].item()

    cases = [{"query": query, "texts": TEXTS, "scores": [round(score(query, text), 8) for text in TEXTS]} for query in QUERIES]
    (folder / "golden.json").write_text(json.dumps(cases, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for each in sys.argv[1:] or [*VARIANTS, "rank-qwen3", *CLASSIFIERS]:
        (build_asked if each == "rank-qwen3" else build_classifier if each in CLASSIFIERS else build)(each)
