#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares wisp's codecs with Hugging Face tokenizers, id for id, and what the ids decode to with the texts.

    tests/oracle/codecs.py DRIVER [--speed]

DRIVER is tests/oracle/codec_driver.c built against the core. Byte-level BPE vocabularies (GPT-2, Llama 3, Qwen2) and a
SentencePiece-like one are trained here on generated texts, and written as GGUF by the gguf package. Texts hold every
code point alone and beside letters, digits, spaces and quotes, random strings, and those of $WISP_SHARED (../shared by
default) if it is there. With WISP_TEST_ALL in the environment, as `make test-all` sets it, all texts are compared,
else a sample of them. --speed measures both sides on WikiText instead. Exits with 1 on any mismatch.
"""

import os
import random
import re
import subprocess
import sys
import tempfile
import time
import unicodedata
from pathlib import Path

from byte_level import ALPHABET
import tokenizer as texts_of  # tests/oracle/tokenizer.py: texts, samples and the comparison of ids

try:
    import gguf
    import numpy
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(1 if os.environ.get("CI") else 0)

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
MODERN = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = {"gpt-2": None, "llama-bpe": MODERN % "{1,3}", "qwen2": MODERN % ""}

PIECES = ["'s", "'S", "'\u017f", "'t", "'RE", "'re", "'vE", "'m", "'ll", "'LL", "'l", "'d", "'", "''", "\u2019s", "'\u017f\u017f",
          "\n", "\r\n", "\r", "\n\n", " \n", " ", "  ", "   ", "\t", "\v", "\f", "\x85", "\u3000", "\u2003", "\u200b",
          "1", "12", "123", "1234", "1234567", "\u0663", "\u2167", "\u00bd", "\U0001d7d8", "a", "B", "word", " word", "Words", "é",
          "e\u0301", "\u0301", "日", "日本語", "\u1100\u1161\u11a8", "각", "\u212b", "ﬁ", "\u0f73", "👍🏽", "👩\u200d👩", ".", ",", "...", "!?", "-", "_", "=", "\x00",
          "\x1c", "\ufffd", "\U00020000", "\U000323b0", "\U0010ffff", "ǅ", "ʰ", "ª", "ꟲ", "\u19da"]
ADDED = ["<tool>", "<tool>x", "<|user|>", "  ", "\n\n\n", "日本", "é", "e\u0301", "a'", "'s", "12", "word", "\ufffd!", "x" * 200]


def cutting_merges():
    """Merges of bytes on both sides of every place where a pre-tokenizer may cut, so that the ids show each cut."""
    ascii_bytes = [ord(c) for c in "aAsl1 '.\n\r\t\x0b"]
    leads, trails = range(0xC2, 0xF5), range(0x80, 0xC0)
    pairs = [(a, b) for a in ascii_bytes for b in [*ascii_bytes, *leads]]
    pairs += [(a, b) for a in trails for b in [*ascii_bytes, *leads]]
    return [(ALPHABET[a], ALPHABET[b]) for a, b in pairs]


def training_texts():
    generator = texts_of.Generator(texts_of.SEED)
    texts = [generator.mixed() for _ in range(3000)]
    chosen = random.Random(texts_of.SEED)
    letters = "etaoinshrdlu"
    words = ["".join(chosen.choices(letters, k=chosen.randint(1, 9))) for _ in range(400)]
    texts += ["".join(chosen.choices([*words, *words, *PIECES, " ", " "], k=30)) for _ in range(3000)]
    return texts + [" ".join(chosen.choices(words, k=20)) for _ in range(3000)]


def split_of(pre):
    if PATTERNS[pre] is None:
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERNS[pre]), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train_merges(pre, texts, size):
    """The merges that training finds, in their order."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = split_of(pre)
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=ALPHABET, show_progress=False)
    trained.train_from_iterator(texts, trainer)
    with tempfile.TemporaryDirectory() as folder:
        trained.model.save(folder)
        lines = Path(folder, "merges.txt").read_text(encoding="utf-8").split("\n")
    return [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]


class Codec:
    """One codec on both sides: a Hugging Face tokenizer, and a GGUF file of the same contents."""

    def __init__(self, folder, name, peer, tokens, types, write):
        self.name = name
        self.peer = peer
        self.path = Path(folder, re.sub(r"\W+", "-", name) + ".gguf")
        writer = gguf.GGUFWriter(self.path, "llama")
        writer.add_token_list(tokens)
        writer.add_token_types(types)
        write(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    @property
    def peer_decodes(self):
        """Whether Hugging Face decodes ids to the same text. It takes the characters of user-defined tokens for bytes
        if they can spell some."""
        return "user-defined" not in self.name

    def decodes_to(self, text, decoded):
        """Whether `decoded` is right for the ids of a text. User-defined tokens are not normalised."""
        normalise = self.peer.normalizer.normalize_str if self.peer.normalizer else str
        return decoded == text or normalise(decoded) == normalise(text)


def byte_level(folder, pre, name, merges, unmerged=(), added=(), control=(), more=lambda writer, tokens: None):
    """A byte-level codec. `unmerged` are tokens that no merge leads to, `added` user-defined and `control` control tokens.
    `more` adds metadata."""
    tokens = [*ALPHABET, *dict.fromkeys("".join(pair) for pair in merges)]
    tokens += [token for token in unmerged if token not in set(tokens)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    peer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=pre == "llama-bpe"))
    peer.pre_tokenizer = split_of(pre)
    peer.decoder = decoders.ByteLevel()
    if pre == "qwen2":
        peer.normalizer = normalizers.NFC()
    types = [NORMAL] * len(tokens)
    known = set(tokens)
    for token in added:
        if token not in known:  # else Hugging Face would give the token that is there
            peer.add_tokens([AddedToken(token, normalized=False)])
            tokens.append(token)
            types.append(USER_DEFINED)
    for token in control:
        peer.add_special_tokens([AddedToken(token, normalized=False)])
        tokens.append(token)
        types.append(CONTROL)
    assert peer.get_vocab_size() == len(tokens)

    def write(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_merges([" ".join(pair) for pair in merges])
        more(writer, tokens)

    return Codec(folder, f"{pre}, {name}", peer, [token.encode("utf-8") for token in tokens], types, write)


def sentencepiece(folder, texts, name="SentencePiece BPE", control=(), bos="<s>", more=lambda writer, tokens: None):
    """SentencePiece's BPE with byte tokens: the merges of two pieces come in the order of the result's score. `control` are
    further control tokens, and `more` adds metadata."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "\u2581")
    trained.pre_tokenizer = pre_tokenizers.Split(Regex("\u2581[^\u2581]*|[^\u2581]+"), "isolated")
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=4000, show_progress=False, limit_alphabet=600))
    found = sorted(trained.get_vocab().items(), key=lambda item: item[1])
    pieces = ["\u2581", *(piece for piece, _ in found if piece != "\u2581" and "\x00" not in piece)]
    # Runs of one character could be cut in several ways that only differ in the order of equal scores.
    pieces = [piece for piece in pieces if len(piece) < 3 or len(set(piece)) > 1]
    special = ["<unk>", "<s>", "</s>", *control, *(f"<0x{b:02X}>" for b in range(256))]
    tokens = special + pieces
    vocabulary = {token: i for i, token in enumerate(tokens)}
    merges = []
    for piece in pieces:
        for cut in range(1, len(piece)):
            if piece[:cut] in vocabulary and piece[cut:] in vocabulary:
                merges.append((piece[:cut], piece[cut:]))
    peer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    peer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    peer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])

    def write(writer):
        writer.add_tokenizer_model("llama")
        writer.add_token_scores([-float(i) for i in range(len(tokens))])
        writer.add_bos_token_id(tokens.index(bos))
        writer.add_add_bos_token(False)
        more(writer, tokens)

    codec = Codec(folder, name, peer, [token.encode("utf-8") for token in tokens],
                  [UNKNOWN, CONTROL, CONTROL] + [CONTROL] * len(control) + [BYTE] * 256 + [NORMAL] * len(pieces), write)
    codec.decodes_to = lambda text, decoded: decoded == (" " + text if text else text).replace("\u2581", " ")
    return codec


def run(driver, path, texts, *options):
    """Returns all ids, their number for each text, and what they decode to."""
    sent = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    done = subprocess.run([driver, path, *options], input=sent, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{path}: {done.stderr.decode()}")
    ids, counts, decoded, at = [], [], [], 0
    for _ in texts:
        count = int.from_bytes(done.stdout[at:at + 4], "little")
        ids.append(numpy.frombuffer(done.stdout, dtype="<u4", count=count, offset=at + 4))
        at += 4 + 4 * count
        length = int.from_bytes(done.stdout[at:at + 4], "little")
        decoded.append(done.stdout[at + 4:at + 4 + length])
        at += 4 + length
        counts.append(count)
    return numpy.concatenate(ids), numpy.array(counts, dtype="<u4"), decoded


def check(driver, report, codec, name, texts):
    strings = [text.decode("utf-8", errors="replace") for text in texts]
    ids, counts, decoded = run(driver, codec.path, texts, *getattr(codec, "options", ()))
    report.compare(f"{codec.name}: {name}", texts, (ids, counts), texts_of.peer_ids(codec.peer, strings))
    wrong = [i for i, text in enumerate(strings) if not codec.decodes_to(text, decoded[i].decode("utf-8"))]
    if codec.peer_decodes:
        ends = numpy.cumsum(counts)
        theirs = codec.peer.decode_batch([ids[end - n:end].tolist() for end, n in zip(ends, counts, strict=True)])
        wrong += [i for i, text in enumerate(theirs) if text != decoded[i].decode("utf-8")]
    for i in wrong[:texts_of.MISMATCHES_SHOWN]:
        print(f"  {codec.name}: {strings[i][:200]!r} decodes to {decoded[i][:200]!r}")
    report.mismatches += len(wrong)


def every_code_point():
    """Each code point alone, and beside letters, digits, spaces, quotes and itself: 16 to a text."""
    points = [chr(c) for c in range(0x110000) if texts_of.is_character(c)]
    forms = "{c}\n  {c}{c} a{c}A 1{c}1 '{c} 'l{c} .{c}. \t{c}   {c}\r"
    few = "{c}\na{c}1 {c} "  # for most of the ideographs, syllables and planes without characters

    def is_dull(c):
        return c % 16 != 0 and (0x3400 <= c < 0xA000 or 0xAC00 <= c < 0xD7A4 or 0x20000 <= c < 0x32000 or
                                0x40000 <= c < 0xE0000 or c >= 0xE1000)

    whole = [(few if is_dull(ord(c)) else forms).replace("{c}", c) for c in points]
    return ["".join(whole[at:at + 16]).encode("utf-8") for at in range(0, len(whole), 16)]


def generated(count):
    generator = texts_of.Generator(texts_of.SEED + 1, PIECES)
    chosen = random.Random(texts_of.SEED + 2)
    pieces = [piece.encode("utf-8") for piece in [*PIECES, *ADDED]] + texts_of.BROKEN[:6]
    texts = [b"".join(chosen.choices(pieces, k=chosen.randint(1, 14))) for _ in range(count)]
    texts += ["".join(chosen.choices("etaoins hrdlu", k=chosen.randint(1, 300))).encode() for _ in range(count // 4)]
    texts += [chosen.choice("a .1\n日").encode() * chosen.choice((63, 64, 65, 1000, 30000)) for _ in range(6)]
    return [b"", *generator.texts(count), *texts]


def make_codecs(folder):
    training = training_texts()
    cutting = cutting_merges()
    codecs = []
    for pre in PATTERNS:
        trained = train_merges(pre, training, 3000)
        words = sorted({"".join(ALPHABET[b] for b in word.encode("utf-8"))
                        for text in training[::50] for word in text.split() if len(word) < 20})
        codecs += [byte_level(folder, pre, "cuts", cutting),
                   byte_level(folder, pre, "trained", trained, unmerged=words),
                   byte_level(folder, pre, "user-defined tokens", trained + [
                       pair for pair in cutting if "".join(pair) not in {"".join(known) for known in trained}],
                       added=ADDED)]
    return [*codecs, sentencepiece(folder, training)]


def measure_speed(driver):
    """Bytes a second on WikiText, with vocabularies trained on it: of GPT-2's size, and SentencePiece's of 4,000."""
    text = (texts_of.SHARED / "data" / "wikitext-2" / "test.txt").read_text(encoding="utf-8")
    lines = [line.encode("utf-8") for line in text.split("\n") if line]
    size, repeats = sum(map(len, lines)), 21
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory() as folder:
        for pre in [*PATTERNS, "SentencePiece"]:
            codec = (byte_level(folder, pre, "speed", train_merges(pre, [text], 50000)) if pre in PATTERNS
                     else sentencepiece(folder, [text]))
            sent = b"".join(len(line).to_bytes(4, "little") + line for line in lines)
            done = subprocess.run([driver, codec.path, str(repeats)], input=sent, capture_output=True, check=True)
            mine = size * repeats / float(done.stderr)
            strings = [line.decode("utf-8") for line in lines]
            codec.peer.encode_batch_fast(strings)
            start = time.perf_counter()
            for _ in range(3):
                for line in strings:
                    codec.peer.encode(line)
            theirs = 3 * size / (time.perf_counter() - start)
            start = time.perf_counter()
            for _ in range(3):
                codec.peer.encode_batch_fast(strings)
            batch = 3 * size / (time.perf_counter() - start)
            print(f"{pre}: wisp {mine / 1e6:.1f} MB/s, tokenizers {theirs / 1e6:.1f} line by line and {batch / 1e6:.1f} as a "
                  f"batch, {mine / max(theirs, batch):.1f} times as fast")


def main():
    driver = sys.argv[1]
    if "--speed" in sys.argv:
        return measure_speed(driver)
    if not texts_of.EVERYTHING:
        print("skipped: nine tenths of the codecs' texts: in make test-all")
    start = time.monotonic()
    report = texts_of.Report()
    points = texts_of.sample(every_code_point())
    mixed = generated(texts_of.extent(5000))
    real = texts_of.sample(texts_of.real_texts()) if (texts_of.SHARED / "data").is_dir() else []
    if not real:
        print(f"skipped: {texts_of.SHARED / 'data'} is absent")
    with tempfile.TemporaryDirectory() as folder:
        for codec in make_codecs(folder):
            for name, texts in (("every code point", points if "cuts" in codec.name else points[::40]),
                                ("generated", mixed), ("real texts", real[::8])):
                if texts:
                    check(driver, report, codec, name, texts)
    print(f"{report.texts} texts, {report.mismatches} mismatches, {time.monotonic() - start:.0f} s")
    return 1 if report.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
