#!/usr/bin/env python3
"""Writes tests/data/models/clip*: tiny random CLIPs as transformers saves them, with its embeddings of texts and images.

Needs torch, transformers and Pillow (pip install --target .tools/pillow pillow); the result is committed, so tests need
none of them.
"""

import json
import shutil
import sys

from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / ".tools" / "pillow"))

import numpy as np
import tokenizers
import torch
from PIL import Image
from tokenizers import Regex, Tokenizer
from transformers import (CLIPConfig, CLIPModel, CLIPTextConfig, CLIPTextModelWithProjection, CLIPVisionConfig,
                          PreTrainedTokenizerFast)

from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

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
                              image_size=32, patch_size=8, projection_dim=20)
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


def pictures():
    """Images of many sizes: gradients with sharp edges and noise, of the sides that are shrunk, enlarged or kept."""
    draw = np.random.default_rng(5)
    for width, height in ((32, 32), (32, 45), (61, 32), (70, 41), (33, 97), (20, 31), (5, 9), (1, 1), (150, 40), (64, 64)):
        y, x = np.mgrid[:height, :width]
        waves = [127 + 120 * np.sin(x / (3 + c) + c) * np.cos(y / (2 + c)) for c in range(3)]
        pixels = np.stack(waves, -1) + draw.normal(0, 12, (height, width, 3))
        pixels[(x + 2 * y) % 17 < 3] = draw.integers(0, 256, 3)
        yield np.clip(pixels, 0, 255).astype(np.uint8)


def image_goldens(folder, model):
    """The images' bytes with the square that the processor cuts of each, in bytes, and its embedding."""
    side = model.config.vision_config.image_size
    processor = CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size={"height": side, "width": side},
                                      image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.25])
    processor.save_pretrained(folder)
    squares = CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size={"height": side, "width": side},
                                    do_rescale=False, do_normalize=False)
    cases = []
    for pixels in pictures():
        given = processor(Image.fromarray(pixels), return_tensors="pt")
        square = squares(Image.fromarray(pixels), return_tensors="np")["pixel_values"][0]
        with torch.no_grad():
            row = model.get_image_features(**given).pooler_output[0]
        cases.append({"width": pixels.shape[1], "height": pixels.shape[0], "pixels": pixels.tobytes().hex(),
                      "square": square.transpose(1, 2, 0).astype(np.uint8).tobytes().hex(),
                      "row": (row / row.norm()).double().numpy().round(8).tolist()})
    (folder / "golden-images.json").write_text(json.dumps(cases) + "\n")


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
    if isinstance(model, CLIPModel):
        image_goldens(folder, model)


MODELS = {"clip": clip, "clip-text": clip_text}

if __name__ == "__main__":
    for each in sys.argv[1:] or MODELS:
        build(each, MODELS[each])
