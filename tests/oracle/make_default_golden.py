#!/usr/bin/env python3
"""Writes tests/data/golden-default.jsonl and golden-default.f32: the default model's answers, computed with PyTorch.

The weights are those of models/wisp-default.gguf, dequantised by the gguf package and run by transformers' BertModel in
f32, one text at a time. The token ids come from Hugging Face tokenizers with the vocabulary and the settings that the
GGUF's metadata holds. Each line of the .jsonl file is {"text": ..., "ids": [...]}; the .f32 file has one embedding of
384 little-endian floats for each line, in the same order.

Run after models/wisp-default.gguf has changed: .tools/bin/python-torch tests/oracle/make_default_golden.py
"""

import json

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel

from read_gguf import REPO, read_model

MODEL = REPO / "models" / "wisp-default.gguf"
OUT = REPO / "tests" / "data" / "golden-default"

TEXTS = [
    # Short and ordinary.
    "", " ", "a", "7", ".", "word", "A man is playing a guitar.", "A man plays the guitar.", "Stocks fell on Monday.",
    "How do plants eat?", "The quick brown fox jumps over the lazy dog",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
    # Case, accents, other alphabets.
    "ALL CAPITALS AND MiXeD CaSe", "Café crème, naïve façade, señor Ångström", "Cafe\u0301 cre\u0300me in separate marks",
    "Größe, Straße und Fuß", "Ελληνικά: Οδυσσέας", "Привет, как дела?", "İstanbul'da ışık", "العربية لغة جميلة",
    "שלום עולם", "हिन्दी में एक वाक्य", "ภาษาไทย", "日本語のテキストです。", "中文句子,没有空格", "한국어 문장입니다",
    # Emoji, symbols, control characters, spaces.
    "😀 😃 😄", "family: 👩‍👩‍👧‍👦, flag: 🏳️‍🌈, hand: 👋🏽", "€ 100 ± 5 % ≠ £ 80 – “quoted” … ½",
    "tabs\tand\nnew lines\r\nand\u00a0hard\u3000spaces", "control \x01\x02 characters \x7f\x1b[31m, \u200b zero width, \ufeff",
    "a NUL\x00inside", "special pieces: [CLS] [SEP] [MASK] [UNK] ##ing",
    # Text that is not prose.
    "https://example.org/path?query=1&other=two#part", "for (int i = 0; i < n; i++) { sum += x[i]; }",
    "3.14159 1,000,000 1e-9 0xDEADBEEF 2026-11-22", "Donaudampfschifffahrtsgesellschaftskapitän " * 2, "x" * 101,
    # Long: about 100 tokens, and more than the model's 256.
    "It was a bright cold day in spring, and the clocks were striking one after the other. " * 5,
    "Rivers carry stones down to the sea, where waves grind them to sand; wind carries some of it back. " * 14,
]


def make_tokenizer(metadata):
    """GGUF writes "▁word" for what begins a word and "ing" for "##ing"; control tokens stand as they are."""
    control = 3
    vocabulary = {}
    for token, kind in zip(metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]):
        if kind != control:
            token = token[1:] if token.startswith("▁") else "##" + token
        vocabulary[token] = len(vocabulary)
    names = {value: key for key, value in vocabulary.items()}
    special = {key: names[metadata[f"tokenizer.ggml.{key}_token_id"]] for key in ("unknown", "cls", "seperator")}
    own = {key: metadata[f"wisp.tokenizer.{key}"] for key in (
        "clean_text", "handle_chinese_chars", "strip_accents", "lowercase", "max_input_chars_per_word", "added_tokens")}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=special["unknown"],
                                           max_input_chars_per_word=own["max_input_chars_per_word"]))
    tokenizer.normalizer = normalizers.BertNormalizer(
        **{key: own[key] for key in ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")})
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens([names[token] for token in own["added_tokens"]])
    ends = [vocabulary[special["cls"]]], [vocabulary[special["seperator"]]]
    limit = metadata["wisp.max_seq_length"] - 2

    def encode(text):
        return ends[0] + tokenizer.encode(text, add_special_tokens=False).ids[:limit] + ends[1]
    return encode


def make_bert(metadata, tensors):
    config = BertConfig(
        vocab_size=len(metadata["tokenizer.ggml.tokens"]), hidden_size=metadata["bert.embedding_length"],
        num_hidden_layers=metadata["bert.block_count"], num_attention_heads=metadata["bert.attention.head_count"],
        intermediate_size=metadata["bert.feed_forward_length"], hidden_act=metadata["wisp.hidden_act"],
        max_position_embeddings=metadata["bert.context_length"],
        type_vocab_size=metadata["tokenizer.ggml.token_type_count"],
        layer_norm_eps=metadata["bert.attention.layer_norm_epsilon"])
    model = BertModel(config, add_pooling_layer=False).eval()
    names = {"token_embd": "embeddings.word_embeddings", "position_embd": "embeddings.position_embeddings",
             "token_types": "embeddings.token_type_embeddings", "token_embd_norm": "embeddings.LayerNorm"}
    parts = {"attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
             "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm",
             "ffn_up": "intermediate.dense", "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm"}
    for i in range(config.num_hidden_layers):
        names |= {f"blk.{i}.{ours}": f"encoder.layer.{i}.{theirs}" for ours, theirs in parts.items()}
    weights = {}
    for name, tensor in tensors.items():
        owner, kind = name.rsplit(".", 1)
        weights[f"{names[owner]}.{kind}"] = tensor
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and set(missing) <= {"embeddings.position_ids"}, (missing, unexpected)
    return model


def main():
    assert sys.byteorder == "little"
    metadata, tensors = read_model(MODEL)
    assert metadata["bert.pooling_type"] == 1 and metadata["wisp.normalize"], "only mean pooling, normalised, is done"
    encode, bert = make_tokenizer(metadata), make_bert(metadata, tensors)
    lines, rows = [], []
    for text in TEXTS:
        ids = encode(text)
        with torch.no_grad():
            states = bert(torch.tensor([ids])).last_hidden_state[0]
        rows.append(torch.nn.functional.normalize(states.mean(0), dim=0))
        lines.append(json.dumps({"text": text, "ids": ids}, ensure_ascii=False))
    OUT.with_suffix(".jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    OUT.with_suffix(".f32").write_bytes(torch.stack(rows).numpy().astype("<f4").tobytes())
    print(f"{OUT}: {len(TEXTS)} texts, {sum(len(json.loads(line)['ids']) for line in lines)} tokens")


if __name__ == "__main__":
    main()
