#!/usr/bin/env python3
"""Writes tests/data/models/siglip*: tiny random SigLIPs as transformers saves them, with its embeddings of texts and images.

Needs torch, transformers, Pillow and sentencepiece (pip install --target .tools/pillow pillow sentencepiece protobuf); the
result is committed, so tests need none of them.

`siglip` has spiece.model, pictures that patches do not fill, and towers of different sizes; `siglip2` has a tokenizer like
Gemma's, which puts texts in lower case as Siglip2Tokenizer does, pictures resized by the bilinear filter, and f16;
`siglip-text` is a text tower with the tokenizer.json that transformers.js makes of spiece.model.
"""

import io
import json
import shutil
import string
import sys

from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / ".tools" / "pillow"))

import numpy as np
import sentencepiece
import tokenizers
import torch
from PIL import Image
from tokenizers import Regex, Tokenizer
from transformers import PreTrainedTokenizerFast, SiglipConfig, SiglipModel, SiglipTextConfig, SiglipTextModel
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.siglip.tokenization_siglip import SiglipTokenizer

from make_clip import MORE, pictures, spread
from make_models import OUT, TEXTS

FOLDED = [
    " leading space", "trailing space \t", "  both   ends  ", "\"quoted\" and (bracketed), e.g. it's 50%!", "!!! ...", ",", "\u2581",
    "\u2581a\u2581 cat", "a_b-c/d\\e", "line\nbreak\r\nand\ttab\u000b\u000c\u001cnext", "wide\u3000space\u00a0here",
    "\u201ccurly\u201d \u2014 dashes\u2026", "\uff21\uff22\uff23 fullwidth", "\u200bzero\u200bwidth", "\"  a photo of a cat", "? a",
    "dog 日本 cat 日本日本", "(日本)", "the cat " * 40, "To", "an", "é ", "1Σ ΑΣ5 Σ.",
]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPACE = "\u2581"


# Without a word that can be cut in many ways of the same score, of which SentencePiece, in floats, takes another.
WORDS = TEXTS + MORE[:-1] + FOLDED


def training():
    return [text.lower() for text in WORDS if text.strip()] * 3


def train_sentencepiece(path):
    """A unigram model with SentencePiece's own character map, and the ids of special tokens that SigLIP's has."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(training()), model_writer=model, vocab_size=110, model_type="unigram", pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, character_coverage=0.98, hard_vocab_limit=False, minloglevel=2, num_threads=1)
    path.write_bytes(model.getvalue())


def slow_tokenizer(folder):
    train_sentencepiece(folder / "spiece.model")
    return SiglipTokenizer(str(folder / "spiece.model"), model_max_length=24, model_input_names=["input_ids"])


def gemma_tokenizer(folder):
    """Merges characters and has tokens for bytes; made as transformers' converter makes SigLIP 2's, but in lower case."""
    del folder
    trained = Tokenizer(tokenizers.models.BPE())
    trained.normalizer = tokenizers.normalizers.Replace(" ", SPACE)
    trained.pre_tokenizer = tokenizers.pre_tokenizers.Split(SPACE, "merged_with_next")
    trained.train_from_iterator(training(), tokenizers.trainers.BpeTrainer(vocab_size=150, show_progress=False))
    found = json.loads(trained.to_str())["model"]
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    words = {word: i for i, word in enumerate([*special, *BYTES, *found["vocab"]])}
    merges = [tuple(pair) for pair in found["merges"]]
    made = Tokenizer(tokenizers.models.BPE(words, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Lowercase(), tokenizers.normalizers.Replace(" ", SPACE)])
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split(" ", "merged_with_previous")
    made.post_processor = tokenizers.processors.TemplateProcessing(single="$A <eos>", pair="$A <eos> $B <eos>",
                                                                   special_tokens=[("<eos>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>",
                                   unk_token="<unk>", add_bos_token=False, add_eos_token=True, padding_side="right",
                                   model_max_length=16, model_input_names=["input_ids"])


def fast_tokenizer(folder):
    """The unigram model as tokenizer.json."""
    train_sentencepiece(folder / "spiece.model")
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    (folder / "spiece.model").unlink()
    pieces = [(model.id_to_piece(i), model.get_score(i)) for i in range(model.get_piece_size())]
    made = Tokenizer(tokenizers.models.Unigram(pieces, 2, False))
    step = tokenizers.normalizers
    punctuation = "".join("\\" + c for c in string.punctuation)
    made.normalizer = step.Sequence([step.Lowercase(), step.Replace(Regex(f"[{punctuation}]"), ""),
                                     step.Replace(Regex(r"\s+"), " "), step.Strip()])
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(SPACE, prepend_scheme="always")
    made.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                                   special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="</s>", eos_token="</s>", unk_token="<unk>",
                                   padding_side="right", model_max_length=24, model_input_names=["input_ids"])


def text_config(words, **settings):
    return dict(vocab_size=words, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
                max_position_embeddings=24, **settings)


def siglip(words):
    """As siglip-so400m-patch14-384, whose patches leave pixels over; texts are projected to the size of images."""
    vision = dict(hidden_size=20, intermediate_size=36, num_hidden_layers=2, num_attention_heads=2, image_size=30, patch_size=7)
    return SiglipModel(SiglipConfig(text_config=text_config(words, projection_size=20), vision_config=vision))


def siglip2(words):
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4)
    texts = dict(vocab_size=words, max_position_embeddings=16, **sizes)
    return SiglipModel(SiglipConfig(text_config=texts, vision_config=dict(image_size=32, patch_size=8, **sizes))).half()


def siglip_text(words):
    return SiglipTextModel(SiglipTextConfig(**text_config(words, hidden_act="gelu", layer_norm_eps=1e-5)))


def spread_head(model):
    """The probe's rows are as wide as hidden states, and the sums of attention as sharp as others."""
    spread(model)
    head = model.vision_model.head
    head.probe.data = torch.randn_like(head.probe)
    head.attention.in_proj_weight.data *= 3


def embed_text(model, tokens, text):
    """Embeds a text, filled up to all positions, normalised as SiglipModel does it."""
    given = tokens(text, return_tensors="pt", padding="max_length", truncation=True)
    assert list(given) == ["input_ids"]
    with torch.no_grad():
        row = (model.get_text_features if isinstance(model, SiglipModel) else model)(**given).pooler_output[0]
    return (row / row.norm()).double().numpy().round(8).tolist()


def image_goldens(folder, model, resample):
    """The images' bytes with the square that the processor makes of each, in bytes, and its embedding."""
    side = model.config.vision_config.image_size
    size = {"height": side, "width": side}
    processor = SiglipImageProcessorPil(size=size, resample=resample)
    processor.save_pretrained(folder)
    squares = SiglipImageProcessorPil(size=size, resample=resample, do_rescale=False, do_normalize=False)
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


# With a seed each: few random models of this width are as steady in int8 as real ones.
MODELS = {"siglip": (siglip, slow_tokenizer, 3, 643), "siglip2": (siglip2, gemma_tokenizer, 2, 692),
          "siglip-text": (siglip_text, fast_tokenizer, None, 1142)}


def build(name, make, make_tokenizer, resample, seed):
    torch.manual_seed(seed)
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    tokens = make_tokenizer(folder)
    model = make(len(tokens))
    (spread_head if resample else spread)(model)
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    model = model.float()
    if name == "siglip2":  # as the published folders have it
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        settings |= {"tokenizer_class": "GemmaTokenizer", "add_bos_token": False, "add_eos_token": True, "do_lower_case": True}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    rows = [embed_text(model, tokens, text) for text in WORDS]
    (folder / "golden.json").write_text(json.dumps([{"prompt": "", "texts": WORDS, "rows": rows}], ensure_ascii=False) + "\n")
    if resample:
        image_goldens(folder, model, resample)


if __name__ == "__main__":
    for each in sys.argv[1:] or MODELS:
        build(each, *MODELS[each])
