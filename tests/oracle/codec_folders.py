#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the codecs of decoders' Hugging Face folders with Hugging Face tokenizers, id for id.

    tests/oracle/codec_folders.py DRIVER WISP [vocab]

DRIVER is tests/oracle/codec_driver.c built against the core, and WISP the program. A tokenizer.json is written by
`tokenizers`: byte-level BPE, SentencePiece's BPE and Unigram with every way to spell spaces, with added tokens of all
flags. A tokenizer.model, or vocab.json and merges.txt, is written here. Each stands beside a tiny decoder; the folder, and the GGUF that `wisp convert`
makes of it, must give the ids of `tokenizers`, which is told not to find special tokens in a text. Texts are those of
codecs.py. Exits with 1 on any mismatch. With `vocab` only folders of vocab.json and merges.txt are compared.
"""

import collections
import importlib.util
import json
import random
import struct
import string
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The Python that has transformers need not have gguf; the one of tools/setup.py has it.
sys.path += map(str, Path(__file__).resolve().parents[2].glob(".tools/python/lib/python3*/site-packages"))

import tokenizer as texts_of  # tests/oracle/tokenizer.py: texts, samples and the comparison of ids

# tests/oracle/codecs.py, which has the name of a module of Python's own. It skips if packages are missing.
SPEC = importlib.util.spec_from_file_location("codec_texts", Path(__file__).with_name("codecs.py"))
codecs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(codecs)

import numpy  # noqa: E402  (the packages are there)
from safetensors.numpy import save_file  # noqa: E402
from tokenizers import (AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors,  # noqa: E402
                        trainers)

SPACE = "\u2581"
BYTES = [f"<0x{b:02X}>" for b in range(256)]
FLAGS = [dict(single_word=bool(i & 1), lstrip=bool(i & 2), rstrip=bool(i & 4), normalized=bool(i & 8)) for i in range(16)]
ADDED = [f"<f{i}>" for i in range(16)]


def write_decoder(folder, words, **settings):
    """A decoder of one tiny layer with random weights."""
    size, inner = 4, 6
    config = dict(model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=size, intermediate_size=inner,
                  num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=64, vocab_size=words,
                  rms_norm_eps=1e-6, tie_word_embeddings=True, hidden_act="silu", rope_theta=10000.0)
    shapes = {"embed_tokens": (words, size), "norm": (size,), "layers.0.input_layernorm": (size,),
              "layers.0.self_attn.q_proj": (size, size), "layers.0.self_attn.k_proj": (size, size),
              "layers.0.self_attn.v_proj": (size, size), "layers.0.self_attn.o_proj": (size, size),
              "layers.0.post_attention_layernorm": (size,), "layers.0.mlp.gate_proj": (inner, size),
              "layers.0.mlp.up_proj": (inner, size), "layers.0.mlp.down_proj": (size, inner)}
    draw = numpy.random.default_rng(1)
    save_file({f"model.{name}.weight": draw.standard_normal(shape).astype("<f4") for name, shape in shapes.items()},
              folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config | settings))


class FolderCodec:
    """A codec on both sides. `round_trip`: ids decode to the text."""

    peer_decodes = False  # most peers have no decoder, which ids do not depend on

    def __init__(self, root, name, peer, *, files=None, round_trip=True, words=None):
        self.name, self.peer = name, peer
        self.path = Path(root, "".join(c if c.isalnum() else "-" for c in name))
        self.path.mkdir()
        peer.encode_special_tokens = True
        for file, contents in (files or {"tokenizer.json": peer.to_str()}).items():
            (self.path / file).write_bytes(contents if isinstance(contents, bytes) else contents.encode("utf-8"))
        write_decoder(self.path, words or peer.get_vocab_size() + 3)  # more rows than tokens, as Qwen's models have
        self.round_trip = round_trip

    def decodes_to(self, text, decoded):
        normalise = self.peer.normalizer.normalize_str if self.peer.normalizer else str
        return not self.round_trip or decoded == text or normalise(decoded) == normalise(text)


class Converted(FolderCodec):
    """The GGUF that wisp makes of a folder."""

    def __init__(self, codec, wisp):
        self.name, self.peer, self.round_trip = codec.name + ", as GGUF", codec.peer, codec.round_trip
        self.path = codec.path.with_suffix(".gguf")
        if isinstance(codec, EncoderFolder):
            self.options = codec.options
        subprocess.run([wisp, "convert", codec.path, self.path], check=True)


def write_encoder(folder, words):
    """A BERT of one tiny layer with random weights."""
    size, inner = 4, 6
    config = dict(model_type="bert", architectures=["BertModel"], hidden_size=size, intermediate_size=inner, num_hidden_layers=1,
                  num_attention_heads=1, max_position_embeddings=64, vocab_size=words, type_vocab_size=2, layer_norm_eps=1e-12,
                  hidden_act="gelu")
    layer = "encoder.layer.0."
    shapes = {"embeddings.word_embeddings": (words, size), "embeddings.position_embeddings": (64, size),
              "embeddings.token_type_embeddings": (2, size)}
    dense = {f"{layer}attention.self.{part}": (size, size) for part in ("query", "key", "value")}
    dense |= {f"{layer}attention.output.dense": (size, size), f"{layer}intermediate.dense": (inner, size),
              f"{layer}output.dense": (size, inner)}
    norms = ["embeddings.LayerNorm", f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
    shapes |= dense | {norm: (size,) for norm in norms}
    draw = numpy.random.default_rng(1)
    tensors = {f"{name}.weight": draw.standard_normal(shape).astype("<f4") for name, shape in shapes.items()}
    tensors |= {f"{name}.bias": draw.standard_normal(shape[0]).astype("<f4")
                for name, shape in [*dense.items(), *((norm, (size,)) for norm in norms)]}
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": size,
                                                                  "pooling_mode_mean_tokens": True}))
    (folder / "modules.json").write_text(json.dumps([
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling")))]))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 60, "do_lower_case": False}))


class EncoderFolder(FolderCodec):
    """A codec of a model that embeds, with special tokens around each text."""

    options = ("whole",)

    def __init__(self, root, name, peer, files=None):
        self.name, self.peer, self.round_trip = name, peer, False
        self.path = Path(root, "".join(c if c.isalnum() else "-" for c in name))
        self.path.mkdir()
        peer.encode_special_tokens = True
        for file, contents in (files or {"tokenizer.json": peer.to_str().encode("utf-8")}).items():
            (self.path / file).write_bytes(contents)
        (self.path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
        write_encoder(self.path, peer.get_vocab_size())


# ---- byte-level BPE -------------------------------------------------------------------------------------------------


def byte_level(root, training):
    for pre in codecs.PATTERNS:
        merges = codecs.train_merges(pre, training, 2000)
        peer = codecs.byte_level(root, pre, "unused", merges).peer
        peer.add_special_tokens([AddedToken("<|begin|>", normalized=False), AddedToken("<|endoftext|>", normalized=False)])
        if pre == "llama-bpe":
            peer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(
                single="<|begin|> $A", special_tokens=[("<|begin|>", peer.token_to_id("<|begin|>"))])])
        yield FolderCodec(root, pre, peer)
        other = json.loads(peer.to_str())
        other["model"]["ignore_merges"] = not other["model"].get("ignore_merges")
        yield FolderCodec(root, f"{pre}, merges that count where they usually do not, or the reverse",
                          Tokenizer.from_str(json.dumps(other)))
        flagged = Tokenizer.from_str(peer.to_str())
        flagged.add_tokens([AddedToken(text, **flags) for text, flags in zip(ADDED, FLAGS)])
        flagged.add_tokens([AddedToken("e\u0301x", normalized=True), AddedToken("\u00e9y", normalized=True)])
        yield FolderCodec(root, f"{pre}, added tokens of all flags", flagged, round_trip=False)


def from_files(files, kind):
    """Returns what transformers makes of vocab.json and merges.txt, by its own class if it is installed."""
    with tempfile.TemporaryDirectory() as folder:
        for name, contents in files.items():
            Path(folder, name).write_text(contents, encoding="utf-8", newline="\n")
        if importlib.util.find_spec("transformers"):
            import transformers

            return getattr(transformers, kind).from_pretrained(folder)._tokenizer
        peer = Tokenizer(models.BPE.from_file(f"{folder}/vocab.json", f"{folder}/merges.txt"))
        peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if kind == "Qwen2Tokenizer":
            peer.normalizer = normalizers.NFC()
            peer.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Split(Regex(codecs.PATTERNS["qwen2"]), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        peer.add_special_tokens(["<|endoftext|>"])
        peer.add_tokens([AddedToken(text, normalized=True) for text in ADDED])
        return peer


def vocabulary_files(root, training):
    for pre, kind in (("gpt-2", "GPT2Tokenizer"), ("qwen2", "Qwen2Tokenizer")):
        merges = codecs.train_merges(pre, training, 1500)
        model = json.loads(codecs.byte_level(root, pre, "unused", merges).peer.to_str())["model"]
        words = len(model["vocab"])
        pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
        added = ["<|endoftext|>", *ADDED]
        files = {"vocab.json": json.dumps(model["vocab"], ensure_ascii=False), "merges.txt": "\n".join(["#version: 0.2", *pairs, ""]),
                 "added_tokens.json": json.dumps({text: words + i for i, text in enumerate(added)}),
                 "tokenizer_config.json": json.dumps({"tokenizer_class": kind, "eos_token": "<|endoftext|>"}),
                 "special_tokens_map.json": json.dumps({"eos_token": "<|endoftext|>"})}
        yield FolderCodec(root, f"vocab.json, {kind}", from_files(files, kind), files=files, round_trip=False,
                          words=words + len(added) + 3)
        listed = {str(words + i): dict(content=text, special=False, **FLAGS[i - 1]) if i else dict(content=text, special=True)
                  for i, text in enumerate(added)}
        if importlib.util.find_spec("transformers"):
            del files["added_tokens.json"]
            files["tokenizer_config.json"] = json.dumps({"tokenizer_class": kind, "eos_token": "<|endoftext|>",
                                                         "added_tokens_decoder": listed})
            yield FolderCodec(root, f"vocab.json, {kind}, listed tokens", from_files(files, kind), files=files,
                              round_trip=False, words=words + len(added) + 3)


# ---- SentencePiece --------------------------------------------------------------------------------------------------


def scheme_of(scheme):
    """The normalizer and the pre-tokenizer that spell spaces."""
    if scheme == "normalizer":
        return normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]), None
    if scheme == "replaced":
        return normalizers.Replace(" ", SPACE), pre_tokenizers.Split(" ", "merged_with_previous")
    prepend, split = scheme
    return None, pre_tokenizers.Metaspace(SPACE, prepend_scheme=prepend, split=split)


SCHEMES = ["normalizer", "replaced", *((prepend, split) for prepend in ("first", "always", "never") for split in (False, True))]


def with_added(peer, scheme, added):
    """A copy of a tokenizer that spells spaces by a scheme."""
    peer = Tokenizer.from_str(peer.to_str())
    normalizer, pre_tokenizer = scheme_of(scheme)
    if normalizer:
        peer.normalizer = normalizer
    if pre_tokenizer:
        peer.pre_tokenizer = pre_tokenizer
    peer.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False)])
    if added:
        peer.add_tokens([AddedToken(text, **flags) for text, flags in zip(ADDED, FLAGS)])
        peer.add_tokens([AddedToken("日本", normalized=False), AddedToken("word", normalized=True)])
    return peer


def sentencepiece(root, training):
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", SPACE)
    trained.pre_tokenizer = pre_tokenizers.Split(SPACE, "merged_with_next")
    trained.train_from_iterator(training, trainers.BpeTrainer(vocab_size=3000, show_progress=False, limit_alphabet=500))
    found = json.loads(trained.to_str())["model"]
    for fallback in (True, False):
        tokens = ["<unk>", "<s>", "</s>", *(BYTES if fallback else []), *found["vocab"]]
        model = models.BPE({token: i for i, token in enumerate(tokens)}, [tuple(pair) for pair in found["merges"]],
                           unk_token="<unk>", fuse_unk=True, byte_fallback=fallback)
        for scheme in SCHEMES:
            peer = with_added(Tokenizer(model), scheme, added=fallback)
            yield FolderCodec(root, f"SentencePiece BPE, {'bytes' if fallback else 'unknown'}, {scheme}", peer, round_trip=False)


def train_unigram(training):
    """Pieces and scores, which are floats as SentencePiece has them."""
    common = {c for c, _ in collections.Counter("".join(training)).most_common(400)} | {" "}
    texts = ["".join(c for c in text[:300] if c in common) for text in training[::3]]
    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(SPACE)
    trained.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=2000, show_progress=False, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"]))
    pieces = json.loads(trained.to_str())["model"]["vocab"]
    return [(piece, float(numpy.float32(score))) for piece, score in pieces]


def unigram(root, pieces):
    for fallback in (True, False):
        vocabulary = pieces[:3] + [(byte, 0.0) for byte in (BYTES if fallback else [])] + pieces[3:]
        for scheme in SCHEMES:
            peer = with_added(Tokenizer(models.Unigram(vocabulary, 0, fallback)), scheme, added=fallback)
            yield FolderCodec(root, f"Unigram, {'bytes' if fallback else 'unknown'}, {scheme}", peer, round_trip=False)


# ---- tokenizer.model ------------------------------------------------------------------------------------------------


def varint(value):
    encoded = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def message(*fields):
    """Fields of Protocol Buffers: pairs of a number and an int, a float, bytes or a text."""
    encoded = b""
    for number, value in fields:
        if isinstance(value, float):
            encoded += varint(number << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, int):
            encoded += varint(number << 3) + varint(value)
        else:
            value = value.encode("utf-8") if isinstance(value, str) else value
            encoded += varint(number << 3 | 2) + varint(len(value)) + value
    return encoded


def model_file(pieces, kind, charsmap=b"", prefix=True, squeeze=False):
    """tokenizer.model of pieces with their scores; kind 1 is Unigram and 2 BPE."""
    types = {"<unk>": 2, "<s>": 3, "</s>": 3, "[CLS]": 3, "[SEP]": 3} | {byte: 6 for byte in BYTES}
    encoded = [(1, message((1, piece), (2, score), *(((3, types[piece]),) if piece in types else ())))
               for piece, score in pieces]
    trainer = message((3, kind), (40, 0), (41, 1), (42, 2), (43, -1))
    normalizer = message((1, "identity"), (2, charsmap), (3, int(prefix)), (4, int(squeeze)), (5, 1))
    return message(*encoded, (2, trainer), (3, normalizer))


def double_array(replacements):
    """A character map in SentencePiece's serialised form: a double-array trie whose values are places of texts."""
    texts, places = b"", {}
    for source, target in replacements.items():
        places[source.encode("utf-8")] = len(texts)
        texts += target.encode("utf-8") + b"\0"
    units, used, bases = {0: 0}, {0}, set()

    def insert(unit, prefix):
        below = {key[len(prefix)]: None for key in places if key.startswith(prefix) and len(key) > len(prefix)}
        labels = [*([0] if prefix in places else []), *sorted(below)]
        # The offset is relative to the place of the unit by exclusive or, and has 21 bits.
        # No two nodes may have their children about one place: a label there says nothing of the parent.
        offset = next(o for o in range(1, 1 << 20) if unit ^ o not in bases and
                      all((unit ^ o ^ label) not in used for label in labels))
        used.update(unit ^ offset ^ label for label in labels)
        bases.add(unit ^ offset)
        units[unit] |= offset << 10 | (1 << 8 if prefix in places else 0)
        for label in labels:
            child = unit ^ offset ^ label
            units[child] = 1 << 31 | places[prefix] if label == 0 else label
        for label in below:
            insert(unit ^ offset ^ label, prefix + bytes([label]))

    insert(0, b"")
    # Hugging Face's reader looks up to 255 units past any offset without a check.
    blob = b"".join(struct.pack("<I", units.get(i, 0)) for i in range((max(units) | 255) + 257))
    return struct.pack("<I", len(blob)) + blob + texts


def sentencepiece_models(root, pieces):
    """Unigram files, with a tokenizer that does what transformers makes of them."""
    vocabulary = pieces[:3] + [(byte, 0.0) for byte in BYTES] + pieces[3:]
    plain = Tokenizer(models.Unigram(vocabulary, 0, True))
    plain.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    yield FolderCodec(root, "tokenizer.model, Unigram", plain, files={"tokenizer.model": model_file(vocabulary, 1)},
                      round_trip=False)
    replacements = {"\u00e9": "e", "\ufb01": "fi", "e\u0301": "\u00e9", "\u3000": " ", "\x1c": "", "\u1100\u1161": "\uac00",
                    "\u1100\u1161\u11a8": "\uac01", "A": "aa", "\U0001f44d": "+1"}
    mapped = Tokenizer(models.Unigram(vocabulary, 0, True))
    # The longest replacement first: one expression cannot be found twice, and no result is replaced again.
    steps, marks = [], {}
    for i, (source, target) in enumerate(sorted(replacements.items(), key=lambda item: -len(item[0]))):
        mark = "".join(chr(plane + i) for plane in (0xF0000, 0xF2000, 0xF1000))  # which stands in no text
        steps.append(normalizers.Replace(source, mark))
        marks[mark] = target
    steps += [normalizers.Replace(mark, target) for mark, target in marks.items()]
    squeeze = [normalizers.Replace(Regex(" +"), " "), normalizers.Replace(Regex(r"\A +| +\z"), "")]
    mapped.normalizer = normalizers.Sequence([*steps, *squeeze, normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    yield FolderCodec(root, "tokenizer.model, Unigram, character map", mapped, round_trip=False, files={
        "tokenizer.model": model_file(vocabulary, 1, double_array(replacements), squeeze=True)})


def bpe_models(root, training):
    """A BPE file: pieces merge by their scores, those of the codec of codecs.py."""
    codec = codecs.sentencepiece(root, training)
    order = sorted(codec.peer.get_vocab().items(), key=lambda item: item[1])
    pieces = [(piece, -float(i)) for piece, i in order]
    yield FolderCodec(root, "tokenizer.model, BPE", codec.peer, round_trip=False, files={
        "tokenizer.model": model_file(pieces, 2), "tokenizer_config.json": json.dumps({"add_bos_token": False})})


def deberta(root, pieces, replacements):
    """DeBERTa's tokenizer.json, and what transformers makes of its spm.model."""
    # Scores by which the model itself takes no text for a special token.
    pieces = [pieces[0], ("[CLS]", -1000.0), ("[SEP]", -1000.0), *pieces[3:]]
    charsmap = double_array(replacements)
    peer = Tokenizer(models.Unigram(pieces, 0, False))
    peer.normalizer = normalizers.Sequence(
        [normalizers.Strip(), normalizers.Precompiled(charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    peer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(SPACE)])
    peer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    peer.add_special_tokens([AddedToken(name, normalized=False) for name in ("[CLS]", "[SEP]", "[MASK]")])
    yield EncoderFolder(root, "encoder, DeBERTa", peer)
    yield EncoderFolder(root, "encoder, DeBERTa, spm.model", peer, files={
        "spm.model": model_file(pieces, 1, charsmap, squeeze=True),
        "added_tokens.json": json.dumps({"[MASK]": len(pieces)}).encode("utf-8")})


def encoders(root, training, pieces):
    """Tokenizers of encoders that are no WordPiece, as XLM-R, RoBERTa and ModernBERT have them."""
    between = [("<s>", 1), ("</s>", 2)]
    # No character here has combining ones after it: Precompiled would replace both by the character's replacement.
    replacements = {"\t": " ", "\n": " ", "\r": " ", "\x01": "+1"}
    xlmr = Tokenizer(models.Unigram(pieces, 0, False))
    xlmr.normalizer = normalizers.Precompiled(double_array(replacements))
    xlmr.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(SPACE)])
    xlmr.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=between)
    xlmr.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False)])
    yield EncoderFolder(root, "encoder, Unigram", xlmr)
    yield from deberta(root, pieces, replacements)
    merges = codecs.train_merges("gpt-2", training, 2000)
    for name, normalizer in (("RoBERTa", None), ("ModernBERT", normalizers.NFC())):
        tokens = ["[UNK]", "<s>", "</s>", *codecs.ALPHABET, *dict.fromkeys("".join(pair) for pair in merges)]
        peer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
        peer.pre_tokenizer = codecs.split_of("gpt-2")
        if normalizer:
            peer.normalizer = normalizer
            peer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=between)
        else:
            peer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
        peer.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False)])
        yield EncoderFolder(root, f"encoder, {name}", peer)


def clip(root, training):
    """CLIP's byte-level BPE of lower case, whose words end with "</w>", as versions 4 and 5 of transformers write it."""
    words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    marks = r"<\|startoftext\|>|<\|endoftext\|>|"
    first, last = "<|startoftext|>", "<|endoftext|>"
    peer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    peer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    peer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(words), "removed", invert=True),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False)])
    peer.train_from_iterator(training, trainers.BpeTrainer(vocab_size=2500, show_progress=False, end_of_word_suffix="</w>"))
    merges = [tuple(pair) if isinstance(pair, list) else tuple(pair.split(" "))
              for pair in json.loads(peer.to_str())["model"]["merges"]]
    alphabet = [*codecs.ALPHABET, *(byte + "</w>" for byte in codecs.ALPHABET)]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*alphabet, *map("".join, merges), first, last]))}
    peer.model = models.BPE(vocabulary, merges, end_of_word_suffix="</w>", unk_token=last)
    peer.post_processor = processors.RobertaProcessing((last, vocabulary[last]), (first, vocabulary[first]))
    peer.add_special_tokens([AddedToken(name, normalized=False) for name in (first, last)])
    yield EncoderFolder(root, "encoder, CLIP", peer)
    marked = Tokenizer.from_str(peer.to_str())
    marked.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(marks + words), "removed", invert=True),
                                                    pre_tokenizers.ByteLevel(add_prefix_space=False)])
    yield EncoderFolder(root, "encoder, CLIP with marks", marked)


def siglip(root, training, pieces):
    """A unigram model behind the steps of SigLIP's tokenizer, and SigLIP 2's BPE of lower case."""
    escaped = "".join("\\" + c for c in string.punctuation)
    steps = {"one Replace": [normalizers.Replace(Regex(f"[{escaped}]"), "")],
             "a Replace for each": [normalizers.Replace(c, "") for c in string.punctuation]}
    after = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    for name, dropped in steps.items():
        peer = Tokenizer(models.Unigram(pieces, 0, False))
        peer.normalizer = normalizers.Sequence(
            [normalizers.Lowercase(), *dropped, normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()])
        peer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always")
        peer.post_processor = after
        peer.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False)])
        yield EncoderFolder(root, f"encoder, SigLIP, {name}", peer)
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", SPACE)])
    trained.pre_tokenizer = pre_tokenizers.Split(SPACE, "merged_with_next")
    trained.train_from_iterator(training, trainers.BpeTrainer(vocab_size=2000, show_progress=False, limit_alphabet=400))
    found = json.loads(trained.to_str())["model"]
    tokens = ["<unk>", "<s>", "</s>", *BYTES, *found["vocab"]]
    peer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, [tuple(pair) for pair in found["merges"]],
                                unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    peer.normalizer, peer.post_processor = trained.normalizer, after
    peer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    peer.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False)])
    yield EncoderFolder(root, "encoder, SigLIP 2", peer)


def all_codecs(root, only_vocab):
    training = codecs.training_texts()
    if only_vocab:
        yield from vocabulary_files(root, training)
        return
    pieces = train_unigram(training)
    yield from encoders(root, training, pieces)
    yield from clip(root, training)
    yield from siglip(root, training, pieces)
    yield from byte_level(root, training)
    yield from vocabulary_files(root, training)
    yield from sentencepiece(root, training)
    yield from unigram(root, pieces)
    yield from sentencepiece_models(root, pieces)
    yield from bpe_models(root, training)


def spelled(count):
    """Texts with much white space and with added tokens."""
    chosen = random.Random(texts_of.SEED)
    pieces = [" ", "  ", "\n", "\t", SPACE, "word", "a", "hello world", "日本", "e\u0301x", "\u00e9y", "_", ".", "\u00a0", "\u3000", *ADDED]
    return ["".join(chosen.choices(pieces, k=chosen.randint(1, 12))).encode("utf-8") for _ in range(count)]


def main():
    driver, wisp = sys.argv[1], sys.argv[2]
    start = time.monotonic()
    report = texts_of.Report()
    several = codecs.every_code_point()[:: 16 if texts_of.EVERYTHING else 1600]  # codecs.py has them all
    groups = {"every code point": several, "generated": codecs.generated(texts_of.extent(2000)),
              "white space": spelled(texts_of.extent(2000))}
    with tempfile.TemporaryDirectory() as root:
        for i, codec in enumerate(all_codecs(root, sys.argv[3:] == ["vocab"])):
            for name, texts in groups.items():
                codecs.check(driver, report, codec, name, texts)
            if i % (1 if texts_of.EVERYTHING else 5) == 0:
                codecs.check(driver, report, Converted(codec, wisp), "white space", groups["white space"])
    print(f"{report.texts} texts, {report.mismatches} mismatches, {time.monotonic() - start:.0f} s")
    return 1 if report.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
