#!/usr/bin/env python3
"""Writes tests/data/models/clip*: tiny random CLIPs as transformers saves them, with its embeddings of texts.

Needs torch, transformers; the result is committed, so tests need none of them.
"""

import json
import shutil
import sys

import tokenizers
import torch
from tokenizers import Regex, Tokenizer
from transformers import (CLIPConfig, CLIPModel, CLIPTextConfig, CLIPTextModelWithProjection, CLIPVisionConfig,
                          PreTrainedTokenizerFast)

from make_models import OUT, TEXTS

FIRST, LAST = "<|startoftext|>", "<|endoftext|>"
MORE = ["  it's   3 o'clock,\n\twe'll see... ", "é É e\u0301 İ Ǆ", "don't!!! \u00a0wait", "x" * 200]


# How CLIP cuts texts, as its tokenizer.json says it and as transformers 5 does.
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
MARKS = r"<\|startoftext\|>|<\|endoftext\|>|"


def tokenizer(regex):
    """CLIP's tokenizer, trained on the texts: a token for each byte within a word and one for each that ends it."""
    normalizers, cuts = tokenizers.normalizers, tokenizers.pre_tokenizers
    trained = Tokenizer(tokenizers.models.BPE(end_of_word_suffix="</w>"))
    trained.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    trained.pre_tokenizer = cuts.Sequence(
        [cuts.Split(Regex(regex), behavior="removed", invert=True), cuts.ByteLevel(add_prefix_space=False)])
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=150, initial_alphabet=[], end_of_word_suffix="</w>")
    trained.train_from_iterator((TEXTS + MORE) * 2, trainer)
    merges = [pair if isinstance(pair, list) else pair.split(" ") for pair in json.loads(trained.to_str())["model"]["merges"]]
    alphabet = sorted(cuts.ByteLevel.alphabet())
    words = [*alphabet, *(byte + "</w>" for byte in alphabet), *("".join(pair) for pair in merges), FIRST, LAST]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(words))}
    trained.model = tokenizers.models.BPE(vocabulary, [tuple(pair) for pair in merges], end_of_word_suffix="</w>",
                                          unk_token=LAST)
    trained.post_processor = tokenizers.processors.RobertaProcessing(
        (LAST, vocabulary[LAST]), (FIRST, vocabulary[FIRST]), add_prefix_space=False, trim_offsets=False)
    return PreTrainedTokenizerFast(tokenizer_object=trained, bos_token=FIRST, eos_token=LAST, pad_token=LAST,
                                   unk_token=LAST, model_max_length=24)


def text_config(words, **settings):
    return dict(vocab_size=words, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
                max_position_embeddings=24, projection_dim=20, **settings)


def spread(model):
    """Spreads weights as wide as make_models does, so that errors show."""
    for parameter in model.parameters():
        parameter.data = 0.1 * torch.randn_like(parameter) + 1 if parameter.dim() == 1 else 0.2 * torch.randn_like(parameter)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data -= 1
    return model.eval()


def clip(words):
    vision = CLIPVisionConfig(hidden_size=20, intermediate_size=36, num_hidden_layers=2, num_attention_heads=2,
                              image_size=16, patch_size=8, projection_dim=20)
    settings = text_config(words, eos_token_id=words - 1, bos_token_id=words - 2, hidden_act="quick_gelu")
    return CLIPModel(CLIPConfig(text_config=settings, vision_config=vision.to_dict(), projection_dim=20))


def clip_text(words):
    """As older checkpoints: the rule for eos_token_id 2, GELU, in f16."""
    return CLIPTextModelWithProjection(CLIPTextConfig(**text_config(words, eos_token_id=2, hidden_act="gelu"))).half()


def embed_text(model, tokens, text):
    """Embeds a text alone, normalised as CLIPModel does it."""
    given = tokens(text, return_tensors="pt", truncation=True)
    with torch.no_grad():
        row = model.get_text_features(**given).pooler_output if isinstance(model, CLIPModel) else model(**given).text_embeds
    return (row / row.norm(dim=-1, keepdim=True))[0].double()


def build(name, make):
    torch.manual_seed(sum(name.encode()))
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    tokens = tokenizer(MARKS + WORDS if name == "clip" else WORDS)
    model = spread(make(len(tokens)))
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    if name == "clip-text":
        (folder / "tokenizer.json").rename(folder / "tokenizer.whole")
        parts = json.loads((folder / "tokenizer.whole").read_text())["model"]
        (folder / "tokenizer.whole").unlink()
        (folder / "vocab.json").write_text(json.dumps(parts["vocab"], ensure_ascii=False) + "\n")
        (folder / "tokenizer_config.json").write_text(json.dumps({
            "bos_token": FIRST, "eos_token": LAST, "model_max_length": 24, "pad_token": LAST,
            "tokenizer_class": "CLIPTokenizer", "unk_token": LAST}, indent=2) + "\n")
        merges = "\n".join(pair if isinstance(pair, str) else " ".join(pair) for pair in parts["merges"])
        (folder / "merges.txt").write_text("#version: 0.2\n" + merges + "\n")
    texts = TEXTS + MORE
    rows = [embed_text(model.float(), tokens, text).numpy().round(8).tolist() for text in texts]
    golden = [{"prompt": "", "texts": texts, "rows": rows}]
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")


MODELS = {"clip": clip, "clip-text": clip_text}

if __name__ == "__main__":
    for each in sys.argv[1:] or MODELS:
        build(each, MODELS[each])
