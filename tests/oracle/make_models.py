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

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / ".tools" / "sentence")]

import numpy as np
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer, models
from tokenizers import Tokenizer
from transformers import (DebertaV2Config, DebertaV2Model, EuroBertConfig, EuroBertModel, Gemma3TextConfig, Gemma3TextModel, Lfm2Config, ModernBertConfig, ModernBertModel, Qwen3Config, Qwen3Model, BertConfig, BertModel, BertTokenizerFast, DistilBertConfig, DistilBertModel, ElectraConfig, ElectraModel, MPNetConfig,
                          MPNetModel, MPNetTokenizer, NomicBertConfig, NomicBertModel, PreTrainedTokenizerFast, RobertaConfig, RobertaModel, XLMRobertaConfig,
                          XLMRobertaModel)

from authors_models import JinaV2Config, JinaV2Model, JinaV3Config, JinaV3Model, NomicMoeConfig, NomicMoeModel
from lfm2_bidirectional import Lfm2BidirectionalModel
from model_weights import STORES
from new_model import NewConfig, NewModel

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
    # byte-level BPE, positions that begin after the padding token's, one type of tokens: as all-distilroberta
    "roberta": dict(
        architecture=(RobertaConfig, RobertaModel), tokenizer="bytes",
        config=dict(hidden_size=24, num_attention_heads=3, intermediate_size=40, num_hidden_layers=2,
                    max_position_embeddings=50, layer_norm_eps=1e-5, type_vocab_size=1, pad_token_id=1),
        pooling="mean", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=48, dtype=torch.float32,
        prompts={}, shard=None),
    # a unigram vocabulary, two types of tokens, CLS pooling: as bge-m3
    "xlm-roberta": dict(
        architecture=(XLMRobertaConfig, XLMRobertaModel), tokenizer="unigram",
        config=dict(hidden_size=32, num_attention_heads=4, intermediate_size=48, num_hidden_layers=2,
                    max_position_embeddings=66, layer_norm_eps=1e-5, type_vocab_size=2, pad_token_id=1),
        pooling="cls", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=64, dtype=torch.float16,
        prompts={"query": "query: "}, shard=None),
    # a dense layer after pooling, which makes embeddings longer: as mdbr-leaf
    "dense": dict(
        config=dict(hidden_size=24, num_attention_heads=3, intermediate_size=40, num_hidden_layers=2,
                    max_position_embeddings=48, layer_norm_eps=1e-12),
        pooling="mean", normalize=True, lowercase=True, text_lowercase=False, max_seq_length=48, dtype=torch.float32,
        prompts={}, shard=None, dense=[(24, 40, True, torch.nn.Identity())]),
    # two, one of them with tanh, and no Normalize: as LaBSE and EmbeddingGemma
    "dense-twice": dict(
        config=dict(hidden_size=24, num_attention_heads=3, intermediate_size=40, num_hidden_layers=1,
                    max_position_embeddings=48, layer_norm_eps=1e-12),
        pooling="cls", normalize=False, lowercase=True, text_lowercase=False, max_seq_length=48, dtype=torch.float32,
        prompts={}, shard=None, dense=[(24, 36, False, torch.nn.ReLU()), (36, 16, True, torch.nn.Tanh())]),
    # norms first, layers whose tokens see only near ones, two bases of rotary positions: as gte-modernbert-base
    "modernbert": dict(
        architecture=(ModernBertConfig, ModernBertModel), tokenizer="bytes",
        config=dict(hidden_size=24, num_attention_heads=3, intermediate_size=36, num_hidden_layers=5,
                    max_position_embeddings=120, local_attention=6, global_attn_every_n_layers=2, pad_token_id=1,
                    bos_token_id=0, eos_token_id=2, cls_token_id=0, sep_token_id=2, initializer_cutoff_factor=4.0),
        pooling="cls", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=120, dtype=torch.float32,
        prompts={}, shard=None),
    # embeddings smaller than hidden states, and as large: as electra-small and electra-base
    **{name: dict(
        architecture=(ElectraConfig, ElectraModel),
        config=dict(hidden_size=24, embedding_size=size, num_attention_heads=3, intermediate_size=40,
                    num_hidden_layers=2, max_position_embeddings=48, layer_norm_eps=1e-12),
        pooling="mean", normalize=True, lowercase=True, text_lowercase=False, max_seq_length=48, dtype=torch.float32,
        prompts={}, shard=None) for name, size in [("electra-small", 16), ("electra-base", 24)]},
    # one matrix of queries, keys and values with biases, GeGLU, no types, positions scaled by NTK: as gte-base-en-v1.5
    "gte-en": dict(
        architecture=(NewConfig, NewModel),
        config=dict(hidden_size=24, num_attention_heads=3, intermediate_size=36, num_hidden_layers=3,
                    max_position_embeddings=128, layer_norm_eps=1e-12, type_vocab_size=0, rope_theta=500000,
                    rope_scaling={"factor": 2.0, "type": "ntk"}),
        pooling="cls", normalize=False, lowercase=True, text_lowercase=False, max_seq_length=128, dtype=torch.float16,
        prompts={}, shard=None,
        edits={"config.json": {"rope_parameters": DROP, "rope_scaling": {"factor": 2.0, "type": "ntk"}}}),
    # the same with a unigram vocabulary, a type of tokens and no scaling: as gte-multilingual-base and its like
    "gte-multilingual": dict(
        architecture=(NewConfig, NewModel), tokenizer="unigram",
        config=dict(hidden_size=32, num_attention_heads=4, intermediate_size=40, num_hidden_layers=2,
                    max_position_embeddings=64, layer_norm_eps=1e-12, type_vocab_size=1, rope_theta=20000,
                    pad_token_id=1),
        pooling="cls", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=64, dtype=torch.float32,
        prompts={}, shard=None),
    # scores that fall with the distance, gates of GELU, heads that are no power of two: as jina-embeddings-v2-base-en
    "jina-v2": dict(
        architecture=(JinaV2Config, JinaV2Model), spelling="jina-v2",
        config=dict(hidden_size=30, num_attention_heads=5, intermediate_size=44, num_hidden_layers=3,
                    max_position_embeddings=256, layer_norm_eps=1e-12),
        pooling="mean", normalize=False, lowercase=True, text_lowercase=False, max_seq_length=256, dtype=torch.float16,
        prompts={}, shard=None, texts=[*TEXTS, "the cat sat on a mat x " * 40]),
    # rotary positions, one type of tokens, adapters of tasks that have prompts: as jina-embeddings-v3
    "jina-v3": dict(
        architecture=(JinaV3Config, JinaV3Model), tokenizer="unigram", spelling="jina-v3", adapters=True,
        config=dict(hidden_size=32, num_attention_heads=4, intermediate_size=40, num_hidden_layers=2,
                    max_position_embeddings=130, layer_norm_eps=1e-5, type_vocab_size=1, pad_token_id=1,
                    rotary_emb_base=20000.0),
        pooling="mean", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=130, dtype=torch.bfloat16,
        prompts={"retrieval.query": "Represent the query for retrieving evidence documents: ",
                 "retrieval.passage": "Represent the document for retrieval: ", "separation": "", "classification": "",
                 "text-matching": ""}, shard=None),
    # experts in every other layer, two of them for a token, biases: as nomic-embed-text-v2-moe
    "nomic-moe": dict(
        architecture=(NomicMoeConfig, NomicMoeModel), tokenizer="unigram", spelling="nomic-moe",
        config=dict(hidden_size=32, num_attention_heads=4, intermediate_size=36, num_hidden_layers=5,
                    max_position_embeddings=128, layer_norm_eps=1e-5, type_vocab_size=1, pad_token_id=1,
                    rotary_emb_base=10000.0, num_experts=5, moe_top_k=2, moe_every_n_layers=2),
        pooling="mean", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=96, dtype=torch.float32,
        prompts={"query": "search_query: ", "passage": "search_document: "}, shard=None),
    # no types of tokens: as distilbert-base
    "distilbert": dict(
        architecture=(DistilBertConfig, DistilBertModel),
        config=dict(dim=24, n_heads=2, hidden_dim=36, n_layers=3, max_position_embeddings=40),
        pooling="mean", normalize=True, lowercase=True, text_lowercase=False, max_seq_length=40, dtype=torch.float32,
        prompts={}, shard=None),
    # decoders that embed: the last token, which a template adds, and prompts: as Qwen3-Embedding
    "qwen3-embedding": dict(
        architecture=(Qwen3Config, Qwen3Model), tokenizer="ended bytes",
        config=dict(hidden_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=10, intermediate_size=36,
                    num_hidden_layers=3, max_position_embeddings=256, rms_norm_eps=1e-6,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
        pooling="lasttoken", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=100,
        dtype=torch.bfloat16, prompts={"query": "Instruct: find the water\nQuery:", "document": ""}, shard=None),
    # Llama's layers, whose tokens see all others
    "eurobert": dict(
        architecture=(EuroBertConfig, EuroBertModel), tokenizer="bos and eos",
        config=dict(hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=36,
                    num_hidden_layers=3, max_position_embeddings=160, pad_token_id=1, bos_token_id=0, eos_token_id=2,
                    rope_parameters={"rope_type": "default", "rope_theta": 250000.0}),
        pooling="mean", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=128, dtype=torch.float32,
        prompts={"query": "query: ", "document": "document: "}, shard=None),
    # tokens that see all others, or in local layers those of a window on both sides; two dense layers: as EmbeddingGemma
    "embeddinggemma": dict(
        architecture=(Gemma3TextConfig, Gemma3TextModel), tokenizer="bos and eos",
        config=dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=12, intermediate_size=36,
                    num_hidden_layers=5, max_position_embeddings=200, query_pre_attn_scalar=12, sliding_window=9,
                    use_bidirectional_attention=True, pad_token_id=1, bos_token_id=0, eos_token_id=2,
                    layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
                                 "full_attention"],
                    rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                     "full_attention": {"rope_type": "default", "rope_theta": 1000000.0}}),
        pooling="mean", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=180, dtype=torch.float32,
        prompts={"query": "task: search result | query: ", "document": "title: none | text: "}, shard=None,
        dense=[(24, 40, False, torch.nn.Identity()), (40, 24, False, torch.nn.Identity())],
        edits={"config.json": {"sliding_window": 9}}),  # which the class has halved
    # the same decoder, whose tokens see those before them: as harrier-270m
    "gemma3-last": dict(
        architecture=(Gemma3TextConfig, Gemma3TextModel), tokenizer="bos and eos",
        config=dict(hidden_size=20, num_attention_heads=2, num_key_value_heads=1, head_dim=12, intermediate_size=28,
                    num_hidden_layers=4, max_position_embeddings=200, query_pre_attn_scalar=12, sliding_window=7,
                    pad_token_id=1, bos_token_id=0, eos_token_id=2,
                    layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
                    rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                     "full_attention": {"rope_type": "default", "rope_theta": 1000000.0}}),
        pooling="lasttoken", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=180,
        dtype=torch.float32, prompts={"query": "Instruct: find\nQuery: "}, shard=None),
    # short convolutions around each token, the first token: as LFM2.5-Embedding
    "lfm2-embedding": dict(
        architecture=(Lfm2Config, Lfm2BidirectionalModel), tokenizer="bos and eos",
        config=dict(hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=40,
                    num_hidden_layers=5, max_position_embeddings=160, full_attn_idxs=[1, 4], conv_L_cache=3,
                    block_auto_adjust_ff_dim=False, pad_token_id=1, bos_token_id=0, eos_token_id=2,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
        pooling="cls", normalize=False, lowercase=False, text_lowercase=False, max_seq_length=128, dtype=torch.float32,
        prompts={"query": "query: ", "document": "document: "}, shard=None, spread=0.1,
        edits={"config.json": {"architectures": ["Lfm2BidirectionalModel"]}}),
    # a bias of scores by distance, in texts longer than the longest distance that has a bucket: as all-mpnet-base-v2
    "mpnet": dict(
        architecture=(MPNetConfig, MPNetModel), tokenizer="mpnet",
        config=dict(hidden_size=24, num_attention_heads=3, intermediate_size=40, num_hidden_layers=2,
                    max_position_embeddings=202, layer_norm_eps=1e-5),
        pooling="mean", normalize=True, lowercase=True, text_lowercase=False, max_seq_length=190, dtype=torch.float32,
        prompts={}, shard=None, texts=[*TEXTS, "the cat sat on a mat <mask> x " * 25]),
    # disentangled attention with buckets by logarithm, that of keys and queries, in texts longer than the longest
    # distance; a unigram vocabulary as DeBERTa's: as deberta-v3-base
    "deberta-v3": dict(
        architecture=(DebertaV2Config, DebertaV2Model), tokenizer="deberta",
        config=dict(hidden_size=24, num_attention_heads=3, intermediate_size=40, num_hidden_layers=3,
                    max_position_embeddings=200, layer_norm_eps=1e-7, type_vocab_size=0, position_biased_input=False,
                    relative_attention=True, position_buckets=16, max_relative_positions=-1, norm_rel_ebd="layer_norm",
                    share_att_key=True, pos_att_type="p2c|c2p", pad_token_id=1),
        pooling="mean", normalize=True, lowercase=False, text_lowercase=False, max_seq_length=180, dtype=torch.float16,
        prompts={}, shard=None, texts=[*TEXTS, "  the cat sat   on a mat x " * 40]),
    # what it can have besides: matrices of its own, an embedding for each distance, positions, types of tokens
    "deberta-v2": dict(
        architecture=(DebertaV2Config, DebertaV2Model),
        config=dict(hidden_size=30, num_attention_heads=2, intermediate_size=44, num_hidden_layers=2,
                    max_position_embeddings=120, layer_norm_eps=1e-7, type_vocab_size=2, position_biased_input=True,
                    relative_attention=True, max_relative_positions=50, share_att_key=False, pos_att_type=["p2c", "c2p"],
                    hidden_act="relu"),
        pooling="cls", normalize=False, lowercase=True, text_lowercase=False, max_seq_length=120, dtype=torch.float32,
        prompts={}, shard=None),
    # weights as older models and transformers.js have them; the last two are quantised, with scales for each output or block
    **{name: dict(
        config=dict(hidden_size=24, num_attention_heads=3, intermediate_size=40, num_hidden_layers=2,
                    max_position_embeddings=48, layer_norm_eps=1e-12),
        pooling="mean", normalize=True, lowercase=True, text_lowercase=False, max_seq_length=48, dtype=torch.float32,
        prompts={}, shard=None, store=store, dense=dense)
       for name, store, dense in [("checkpoint", "checkpoint", [(24, 40, True, torch.nn.Tanh())]),
                                  ("checkpoint-old", "old checkpoint", []), ("onnx", "onnx", []),
                                  ("onnx-new", "new onnx", []), ("onnx-int8", "int8 onnx", []),
                                  ("onnx-q4", "q4 onnx", [])]},
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


def words_tokenizer(source, spec):
    words = list(dict.fromkeys(vocabulary()))
    (source / "vocab.txt").write_text("\n".join(words) + "\n")
    return BertTokenizerFast(vocab=str(source / "vocab.txt"), do_lower_case=spec["lowercase"]) \
        if "vocab" in BertTokenizerFast.__init__.__code__.co_varnames \
        else BertTokenizerFast(vocab_file=str(source / "vocab.txt"), do_lower_case=spec["lowercase"])


def trained_tokenizer(kind):
    """A tokenizer like RoBERTa's or XLM-R's, trained on the texts, or MPNet's, which is BERT's with other tokens."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    if kind == "mpnet":
        words = list(dict.fromkeys(special[:4] + vocabulary()[1:2] + vocabulary()[5:] + special[4:]))
        return MPNetTokenizer(vocab={word: i for i, word in enumerate(words)})
    if kind in ("bytes", "ended bytes", "bos and eos"):
        trained = Tokenizer(tokenizers.models.BPE())
        trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trained.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=320, special_tokens=special,
                                                 initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
        trained.train_from_iterator(TEXTS * 2, trainer)
        trained.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
        if kind == "ended bytes":
            trained.post_processor = tokenizers.processors.TemplateProcessing(
                single="$A <pad>", pair="$A <pad> $B <pad>", special_tokens=[("<pad>", 1)])
        if kind == "bos and eos":
            return PreTrainedTokenizerFast(tokenizer_object=trained, bos_token="<s>", eos_token="</s>",
                                           pad_token="<pad>", unk_token="<unk>", add_bos_token=True, add_eos_token=True)
    else:
        spaces, is_deberta = tokenizers.pre_tokenizers.Metaspace(), kind == "deberta"
        trained = Tokenizer(tokenizers.models.Unigram())
        if is_deberta:
            trained.normalizer = tokenizers.normalizers.Sequence(
                [tokenizers.normalizers.Strip(), tokenizers.normalizers.Replace(tokenizers.Regex(" {2,}"), " ")])
        trained.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
            [spaces] if is_deberta else [tokenizers.pre_tokenizers.WhitespaceSplit(), spaces])
        trained.decoder = tokenizers.decoders.Metaspace()
        trainer = tokenizers.trainers.UnigramTrainer(vocab_size=120, special_tokens=special, unk_token="<unk>")
        trained.train_from_iterator(TEXTS * 2, trainer)
        trained.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1" if is_deberta else "<s> $A </s> </s> $B </s>",
            special_tokens=[("<s>", 0), ("</s>", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=trained, bos_token="<s>", eos_token="</s>", cls_token="<s>",
                                   sep_token="</s>", pad_token="<pad>", unk_token="<unk>", mask_token="<mask>")


def build(name, spec):
    torch.manual_seed(sum(name.encode()))
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    source = folder.with_name(name + ".tmp")
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    tokenizer = trained_tokenizer(spec["tokenizer"]) if "tokenizer" in spec else words_tokenizer(source, spec)
    tokenizer.save_pretrained(source)
    # Ten times BERT's initial spread, so that attention is not uniform and errors would show.
    config_type, model_type = spec.get("architecture", (BertConfig, BertModel))
    model = model_type(config_type(vocab_size=len(tokenizer), initializer_range=spec.get("spread", 0.2), **spec["config"]))
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    model.to(spec["dtype"]).save_pretrained(source, **({"max_shard_size": spec["shard"]} if spec["shard"] else {}))
    folder.mkdir()
    if "store" in spec:
        STORES[spec["store"]](model, folder)
        model.save_pretrained(source)  # with the weights that were stored
    transformer = models.Transformer(str(source), max_seq_length=spec["max_seq_length"],
                                     do_lower_case=spec["text_lowercase"], model_args={"torch_dtype": torch.float32})
    transformer.auto_model.float()
    pooling = models.Pooling(model.config.hidden_size, pooling_mode=spec["pooling"],
                             include_prompt=spec.get("include_prompt", True))
    dense = [models.Dense(*sizes, bias=bias, activation_function=function)
             for *sizes, bias, function in spec.get("dense", [])]
    modules = [transformer, pooling, *dense] + ([models.Normalize()] if spec["normalize"] else [])
    whole = SentenceTransformer(modules=modules, prompts=spec["prompts"],
                                default_prompt_name=spec.get("default"), device="cpu")
    goldens(folder, whole, spec)
    whole.save(str(folder), create_model_card=False)
    # sentence-transformers stores the weights as they now are, in floats; the originals are what tests should read.
    for weights in list(folder.glob("*.safetensors")) + list(folder.glob("*.index.json")):
        weights.unlink()
    for weights in list(source.glob("*.safetensors")) + list(source.glob("*.index.json")):
        if "store" not in spec:
            shutil.copy(weights, folder)
    if spec.get("store") == "checkpoint":
        for weights in folder.glob("*_Dense/model.safetensors"):
            torch.save(load_file(weights), weights.with_name("pytorch_model.bin"))
            weights.unlink()
    if "spelling" in spec:
        respell(folder, spec["spelling"])
    if spec.get("adapters"):
        add_adapters(folder, whole, spec)
    if "edits" in spec:
        for file, edits in spec["edits"].items():
            edit(folder / file, edits)
        goldens(folder, SentenceTransformer(str(folder), device="cpu"), spec)
    shutil.rmtree(source)


def edit(path, edits):
    values = {**json.loads(path.read_text()), **edits}
    kept = {key: value for key, value in values.items() if value is not DROP}
    path.write_text(json.dumps(kept, ensure_ascii=False, indent=2) + "\n")


# What config.json says that the oracle's classes know no other of.
SETTINGS = {
    "jina-v2": {"architectures": ["JinaBertForMaskedLM"], "model_type": "bert", "position_embedding_type": "alibi",
                "feed_forward_type": "geglu", "hidden_act": "gelu", "emb_pooler": "mean", "pad_token_id": 0},
    "jina-v3": {"architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "position_embedding_type": "rotary",
                "hidden_act": "gelu", "use_flash_attn": True, "emb_pooler": None, "load_trained_adapters": True},
    "nomic-moe": {**NOMIC_SETTINGS, "architectures": ["NomicBertModel"], "activation_function": "gelu", "ffn_div": 1,
                  "mlp_fc1_bias": True, "mlp_fc2_bias": True, "qkv_proj_bias": True, "num_shared_experts": 0,
                  "moe_normalize_expert_weights": False, "expert_choice_router": False, "add_pooling_layer": False},
}


def respell(folder, spelling):
    """Writes config.json as the model's author does."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    if spelling == "nomic":
        renamed = {new: config[old] for old, new in NOMIC_NAMES.items()}
        base = {"rotary_emb_base": int(config["rope_parameters"]["rope_theta"])}
        config = {**NOMIC_SETTINGS, **renamed, **base}
    elif spelling == "nomic-moe":
        config = {NOMIC_NAMES.get(name, name): value for name, value in config.items()}
    path.write_text(json.dumps({**config, **SETTINGS.get(spelling, {})}, indent=2, sort_keys=True) + "\n")
    if spelling == "jina-v3":
        modules = json.loads((folder / "modules.json").read_text())
        modules[0]["type"] = "custom_st.Transformer"
        (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n")


def add_adapters(folder, whole, spec):
    """Stores the weights with adapters of each prompt's task, as parametrizations of all matrices, and the goldens of
    the model with the first two of them merged."""
    rank, alpha, tasks = 4, 1, list(spec["prompts"])
    stored = load_file(folder / "model.safetensors")
    model, kept, changes = whole[0].auto_model, {}, {}
    for name, tensor in stored.items():
        owner = model.get_submodule(name.rpartition(".")[0])
        if not name.endswith(".weight") or isinstance(owner, torch.nn.LayerNorm):
            kept["roberta." + name] = tensor
            continue
        stem = "roberta." + name.removesuffix("weight") + "parametrizations.weight."
        rows, columns = tensor.shape
        is_embedding = isinstance(owner, torch.nn.Embedding)
        a = 0.5 * torch.randn(len(tasks), *((rows, rank) if is_embedding else (rank, columns)))
        b = 0.5 * torch.randn(len(tasks), *((rank, columns) if is_embedding else (rows, rank)))
        kept |= {stem + "original": tensor, stem + "0.lora_A": a.to(tensor.dtype), stem + "0.lora_B": b.to(tensor.dtype)}
        a, b = (kept[stem + "0.lora_" + letter].float() for letter in "AB")
        changes[name] = (a @ b if is_embedding else b @ a) * alpha / rank
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    edit(folder / "config.json", {"lora_adaptations": tasks, "lora_rank": rank, "lora_alpha": alpha, "lora_dropout_p": 0.0})
    for task in tasks[:2]:
        merged = {name: tensor.float() for name, tensor in stored.items()}
        for name, change in changes.items():
            merged[name] = merged[name] + change[tasks.index(task)]
        model.load_state_dict(merged)
        goldens(folder, whole, spec, f"golden-{task}.json")


def goldens(folder, whole, spec, file="golden.json"):
    """One case for each prompt, and one for none, whatever the default."""
    cases = []
    for prompt in [None, *spec["prompts"]]:
        texts = spec.get("texts", TEXTS)
        given = {"prompt_name": prompt} if prompt else {"prompt": ""}
        rows = whole.encode(texts, batch_size=1, **given)  # with padding, short convolutions would read it
        cases.append({"prompt": prompt or "", "texts": texts, "rows": np.asarray(rows, np.float64).round(8).tolist()})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(json.dumps(cases, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or VARIANTS:
        build(name, VARIANTS[name])
