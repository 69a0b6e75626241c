#!/usr/bin/env python3
"""Compares wisp's tokenizer with Hugging Face tokenizers, id for id.

    tests/oracle/tokenizer.py DRIVER

DRIVER is tests/oracle/tokenize_driver.c built against the core. Needs the Python packages tokenizers and numpy, and
the models and texts in $WISP_SHARED (../shared by default). With WISP_TEST_ALL in the environment, as `make test-all`
sets it, all texts are compared, else a sample of them, which is drawn from SEED. Exits with 1 on any mismatch.
"""

import csv
import functools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("WISP_SHARED", REPO / ".." / "shared"))
MODEL = SHARED / "models" / "all-MiniLM-L6-v2"
SEED = 20260501
ALL_IDS = 1 << 22
TRUNCATED = 1 << 31
MISMATCHES_SHOWN = 8
EVERYTHING = bool(os.environ.get("WISP_TEST_ALL"))
SAMPLED = 20  # one text of so many is compared in `make test`

try:
    import numpy
    from tokenizers import Tokenizer
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)


# ---- running both sides ----------------------------------------------------------------------------------------------

class Driver:
    """Runs wisp on texts, with the tokenizer of a folder."""

    def __init__(self, program):
        self.program = program

    def encode(self, folder, texts, max_tokens):
        """All ids in one array, and for each text the number of its ids with the bit that says it was truncated."""
        command = [self.program, str(folder), str(max_tokens)]
        sent = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
        done = subprocess.run(command, input=sent, stdout=subprocess.PIPE, check=True)
        words = numpy.frombuffer(done.stdout, dtype="<u4")
        heads = numpy.empty(len(texts), dtype=numpy.int64)
        keep = numpy.ones(len(words), dtype=bool)
        at = 0
        for i in range(len(texts)):
            heads[i] = at
            keep[at] = False
            at += 1 + (int(words[at]) & (TRUNCATED - 1))
        assert at == len(words)
        return words[keep], words[heads]


def peer_ids(peer, texts):
    """The ids of Hugging Face's tokenizer, in the same shape."""
    ids, counts = [], []
    for start in range(0, len(texts), 4096):
        for encoding in peer.encode_batch_fast(texts[start:start + 4096]):
            ids.append(numpy.array(encoding.ids, dtype="<u4"))
            counts.append(len(encoding.ids))
    return numpy.concatenate(ids), numpy.array(counts, dtype="<u4")


def truncate(ids, counts, max_tokens):
    """HF's truncation of full encodings: the last piece's place goes to [SEP]."""
    kept, heads = [], []
    for row in numpy.split(ids, numpy.cumsum(counts)[:-1]):
        cut = len(row) > max_tokens
        kept.append(numpy.append(row[:max_tokens - 1], row[-1:]) if cut else row)
        heads.append(len(kept[-1]) | (TRUNCATED if cut else 0))
    return numpy.concatenate(kept), numpy.array(heads, dtype="<u4")


class Report:
    """Counts texts and mismatches."""

    def __init__(self):
        self.texts = self.mismatches = 0

    def compare(self, name, texts, mine, theirs):
        """Two encodings (ids, heads) of the same texts."""
        bad = 0
        if not (numpy.array_equal(mine[0], theirs[0]) and numpy.array_equal(mine[1], theirs[1])):
            rows = [numpy.split(ids, numpy.cumsum(heads & (TRUNCATED - 1))[:-1]) for ids, heads in (mine, theirs)]
            for i, text in enumerate(texts):
                if numpy.array_equal(rows[0][i], rows[1][i]) and mine[1][i] == theirs[1][i]:
                    continue
                bad += 1
                if bad <= MISMATCHES_SHOWN:
                    print(f"  {name}: {text[:200]!r}\n    wisp {hex(mine[1][i])} {rows[0][i][:30].tolist()}"
                          f"\n    HF   {hex(theirs[1][i])} {rows[1][i][:30].tolist()}")
        self.texts += len(texts)
        self.mismatches += bad
        print(f"{name}: {len(texts)} texts, {bad} mismatches", flush=True)


def sample(texts, one_in=SAMPLED):
    """All texts in `make test-all`, else some of them in their order."""
    if EVERYTHING:
        return texts
    chosen = random.Random(SEED).sample(range(len(texts)), len(texts) // one_in)
    return [texts[i] for i in sorted(chosen)]


def extent(count):
    """How many texts are generated if `make test-all` generates `count`."""
    return count if EVERYTHING else count // SAMPLED


# ---- texts -----------------------------------------------------------------------------------------------------------

def real_texts():
    """Every text of the data sets in shared/data."""
    data = SHARED / "data"
    texts = []
    for name in ("train", "dev", "test"):
        for line in (data / "stsb" / f"sts-{name}.csv").read_text(encoding="utf-8").splitlines():
            texts.extend(line.split("\t")[5:7])
    for name in ("valid", "test"):
        texts.extend((data / "wikitext-2" / f"{name}.txt").read_text(encoding="utf-8").split("\n"))
    for file in sorted((data / "mmlu").glob("*.csv")):
        with open(file, encoding="utf-8", newline="") as lines:
            texts.extend(field for row in csv.reader(lines) for field in row)
    return [text.encode("utf-8") for text in texts]


def is_character(c):
    return not 0xD800 <= c < 0xE000


@functools.cache
class Characters:
    """Pools of characters to draw from; made once, as that takes a second."""

    def __init__(self):
        everything = [chr(c) for c in range(0x110000) if is_character(c)]
        self.everything = everything
        by = {}
        for c in everything:
            by.setdefault(unicodedata.category(c), []).append(c)
        marks = by["Mn"] + by["Mc"] + by["Me"]
        self.combining = [c for c in marks if unicodedata.combining(c)]
        # Nonstarters that HF's old tables do not take for accents, so that their order shows.
        self.kept = [c for c in self.combining if unicodedata.category(c) == "Mc" or c in map(chr, range(0x8D4, 0x8E2))
                     or 0x1E000 <= ord(c) <= 0x1E02A or 0x1E944 <= ord(c) <= 0x1E94A or ord(c) == 0x1DFB]
        self.case = [*"ΣσςΑΟIİıKKÅẞß'.:·\u00ad\u0345ʰǅᾈ", *by["Lt"]]
        self.decomposing = [c for c in everything if unicodedata.decomposition(c)[:1] not in ("", "<")]
        ranges = [(0x20, 0x7F), (0x20, 0x7F), (0x61, 0x7B), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x400),
                  (0x400, 0x530), (0x590, 0x600), (0x600, 0x700), (0x900, 0x980), (0xE00, 0xE80), (0xF00, 0x1000),
                  (0x1100, 0x1200), (0x1B00, 0x1BC0), (0x1E00, 0x2000), (0x2000, 0x2070), (0x3000, 0x3100),
                  (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0xF900, 0xFB00), (0xFE00, 0xFE30), (0x1D150, 0x1D1D0),
                  (0x1F300, 0x1F650), (0x2F800, 0x2FA1E), (0xE0000, 0xE0080), (0xE0100, 0xE01F0)]
        blocks = [list(map(chr, range(*r))) for r in ranges]
        emoji = [*"👩👨👧❤🏳🌈🏽☺", "\u200d", "\u200d", "\ufe0f", "\U000e0067", "\U000e007f"]
        spaces = [*" \t\n\r\v\f\x1c\x85\xa0\u1680\u2003\u2028\u202f\u3000\u200b\ufeff"]
        self.pools = [*blocks, *by.values(), everything, self.combining, self.kept, self.case, self.decomposing,
                      self.decomposing, emoji, spaces, spaces]
        self.pools = [pool for pool in self.pools if pool]


SPECIAL = ["[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "[cls]", "[CLS", "CLS]", "[", "]", "[[", "[MAS", "[M", "[S",
           "##", "##ing", "[unused1]", " ", "  ", "\t", "a", "word", "_", "é", "1", "\u0301", "日"]


BROKEN = [b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xff", b"\x80", b"\xc0\xaf", b"\xf4\x90", b"\xe2\x82",
          b"\xf0\x9f\x98", b"\x00", b"\xce", b"\xf8\x88", b"["]


class Generator:
    """Seeded texts as bytes, some of which are no valid UTF-8."""

    def __init__(self, seed, pieces=()):
        self.random = random.Random(seed)
        self.characters = Characters()
        self.pieces = [*SPECIAL, *pieces, *pieces, *pieces]

    def mixed(self):
        chosen = self.random
        text = []
        for _ in range(chosen.randint(1, 8)):
            text.extend(chosen.choices(chosen.choice(self.characters.pools), k=chosen.randint(1, 5)))
        return "".join(text)

    def combining(self):
        """Bases with runs of combining characters, of many classes in no order."""
        chosen, characters = self.random, self.characters
        text = []
        for _ in range(chosen.randint(1, 4)):
            text.append(chosen.choice(("a", "é", "\u1109", "\U0001d15f", "\u1b06", "[", "", chosen.choice(
                characters.decomposing))))
            for _ in range(chosen.randint(1, 12)):
                dropped = ["\u200d", "\x01", "\ufffd"]
                pool = chosen.choice((characters.combining, characters.kept, characters.kept, dropped))
                text.append(chosen.choice(pool))
        return "".join(text)

    def special(self):
        chosen = self.random
        return "".join(self.mixed()[:2] if chosen.random() < 0.1 else chosen.choice(self.pieces)
                       for _ in range(chosen.randint(1, 10)))

    def sigma(self):
        return "".join(self.random.choices(self.characters.case + [*"abΣΣΣ.' "], k=self.random.randint(1, 12)))

    def long_word(self):
        chosen = self.random
        pool = chosen.choice((["a"], [*"abcdefghij"], ["é"], ["e\u0301"], ["я"], ["\u302e", "\u1b44"], [*"ab\u200d"]))
        return "".join(chosen.choices(pool, k=chosen.choice((3, 5, 6, 50, 99, 100, 101, 102, 999, 1000, 1001, 1002))))

    def text(self):
        kind = self.random.random()
        if kind < 0.45:
            return self.mixed()
        if kind < 0.65:
            return self.combining()
        if kind < 0.9:
            return self.special()
        return self.sigma() if kind < 0.985 else self.long_word()

    def broken(self):
        """Bytes that are no text, wholly or here and there."""
        chosen = self.random
        if chosen.random() < 0.3:
            return chosen.randbytes(chosen.randint(1, 40))
        data = bytearray(self.text().encode("utf-8"))[:400]
        for _ in range(chosen.randint(1, 4)):
            at = chosen.randint(0, len(data))
            what = chosen.random()
            if what < 0.3 and at < len(data):
                data[at] = chosen.randrange(256)
            elif what < 0.5:
                del data[at:at + chosen.randint(1, 3)]
            else:
                data[at:at] = chosen.choice(BROKEN)
        return bytes(data)

    def texts(self, count):
        return [self.broken() if self.random.random() < 0.15 else self.text().encode("utf-8") for _ in range(count)]


def every_code_point(apart):
    """Texts that hold each code point alone and between letters: one each if `apart`, else many to a text."""
    points = [chr(c) for c in range(0x110000) if is_character(c)]
    if apart:
        return [form.encode("utf-8") for c in points for form in (c, f"a{c}B")]
    return [" ".join(f"{c} A{c}b{c}" for c in points[at:at + 50]).encode("utf-8") for at in range(0, len(points), 50)]


# ---- tokenizers ------------------------------------------------------------------------------------------------------

def character_vocabulary():
    """A vocabulary in which nearly every character is a piece, so that ids show what normalisation does to it."""
    def is_wanted(c):
        dull = 0x3400 <= c < 0xA000 or 0xAC00 <= c < 0xD7A4 or c >= 0x20000
        return is_character(c) and c > 0 and unicodedata.category(chr(c)) != "Co" and (
            not dull or c % 16 == 0 or c >= 0xE0000)

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "foo", "Foo", "##foo", "ab", "##ab", "abc", "▁", "##▁",
              "##[UNK]", "[unused1]"]
    singles = [chr(c) for c in range(0x32000) if is_wanted(c)] + [chr(c) for c in range(0xE0000, 0xE0200)]
    tokens += [form for c in singles for form in (c, "##" + c)]
    return {token: i for i, token in enumerate(dict.fromkeys(tokens))}


def describe(vocabulary, normalizer, added=(), word_limit=100, lowercase_first=False):
    """tokenizer.json. `added` holds (content, flags, special); flags as in wisp.tokenizer.added_flags."""
    tokens = []
    past = len(vocabulary)
    for content, flags, special in [*((t, 0, True) for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")), *added]:
        token_id = vocabulary.get(content, past)
        past += token_id == past
        tokens.append({"id": token_id, "content": content, "single_word": bool(flags & 1), "lstrip": bool(flags & 2),
                       "rstrip": bool(flags & 4), "normalized": bool(flags & 8), "special": special})
    ends = {name: {"id": name, "ids": [vocabulary[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    steps = normalizer and {"type": "BertNormalizer", **normalizer}
    if lowercase_first:
        steps = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, steps]}
    first, last = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ends)
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
        "normalizer": steps,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [first, sequence, last],
                           "pair": [first, sequence, last], "special_tokens": ends},
        "decoder": None,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": word_limit, "vocab": vocabulary},
    }


def bert(clean=True, chinese=True, strip=None, lower=True):
    return {"clean_text": clean, "handle_chinese_chars": chinese, "strip_accents": strip, "lowercase": lower}


class Case:
    """One tokenizer on both sides."""

    def __init__(self, driver, report, description):
        self.driver = driver
        self.report = report
        self.folder = tempfile.TemporaryDirectory()
        text = json.dumps(description)
        Path(self.folder.name, "tokenizer.json").write_text(text, encoding="utf-8")
        # For a class of BERT's, wisp would not take all settings from tokenizer.json.
        config = json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"})
        Path(self.folder.name, "tokenizer_config.json").write_text(config, encoding="utf-8")
        self.peer = Tokenizer.from_str(text)

    def check(self, name, texts, max_tokens=None):
        strings = [text.decode("utf-8", errors="replace") for text in texts]
        theirs = peer_ids(self.peer, strings)
        if max_tokens:
            theirs = truncate(*theirs, max_tokens)
        mine = self.driver.encode(self.folder.name, texts, max_tokens or ALL_IDS)
        self.report.compare(name, texts, mine, theirs)


# ---- the checks ------------------------------------------------------------------------------------------------------

def check_real(driver, report):
    """Real texts, with the model's own tokenizer.json and with its vocab.txt."""
    texts = sample(real_texts())
    description = json.loads((MODEL / "tokenizer.json").read_text(encoding="utf-8"))
    description["truncation"] = description["padding"] = None
    case = Case(driver, report, description)
    case.check("real texts", texts)
    case.check("real texts, truncated to 16", texts[::7], max_tokens=16)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json"):
            Path(folder, name).write_bytes((MODEL / name).read_bytes())
        some = texts[::5]
        theirs = peer_ids(case.peer, [text.decode("utf-8") for text in some])
        report.compare("real texts, vocab.txt", some, driver.encode(folder, some, ALL_IDS), theirs)


def check_normalizers(driver, report, vocabulary):
    """Generated texts and every code point under each combination of settings."""
    settings = {
        "uncased": bert(), "cased": bert(lower=False), "uncased, accents kept": bert(strip=False),
        "cased, accents off": bert(strip=True, lower=False), "uncased, accents off": bert(strip=True),
        "cased, accents kept": bert(strip=False, lower=False),
        "uncased, not cleaned": bert(clean=False, chinese=False),
        "cased, accents off, not cleaned": bert(clean=False, strip=True, lower=False), "no normalizer": None,
    }
    generated = Generator(SEED).texts(extent(40000))
    together = sample(every_code_point(apart=False))
    for name, normalizer in settings.items():
        case = Case(driver, report, describe(vocabulary, normalizer, word_limit=7 if name == "cased" else 100))
        case.check(f"{name}, generated", generated)
        case.check(f"{name}, every code point", together)
        if name == "uncased":
            case.check(f"{name}, generated, truncated to 5", generated[:extent(10000)], max_tokens=5)
            case.check(f"{name}, each code point apart", sample(every_code_point(apart=True), one_in=50))


def check_lowercase(driver, report, vocabulary):
    """A Lowercase normalizer before BertNormalizer, as sentence-transformers writes for do_lower_case."""
    generated = Generator(SEED + 1).texts(extent(30000))
    together = sample(every_code_point(apart=False))
    for name, normalizer in (("uncased", bert()), ("accents kept", bert(strip=False)), ("cased", bert(lower=False)),
                             ("cased, accents off", bert(strip=True, lower=False))):
        case = Case(driver, report, describe(vocabulary, normalizer, lowercase_first=True))
        case.check(f"lower-cased first, {name}, generated", generated)
        case.check(f"lower-cased first, {name}, every code point", together)


ADDED = ["foo", "Foo Bar", "foobar", "日本", "日", " lead", "trail ", "é", "e\u0301x", "aσ", "ς", "##ab", "ab", "abab",
         "x", "\u302e", "i", "k", "\ufffd!", "[X]", "[X][Y]", "[MASK]s", "\u00c5z", "tab\tbed", "_", "한글"]


def check_added_tokens(driver, report, vocabulary):
    """Added tokens with every combination of flags, each alone and mixed."""
    chosen = random.Random(SEED + 2)
    glue = [" ", "  ", "\t", "\u3000", "a", "Z", "_", ".", "-", "\u0301", "日", "é", "[", "\u200d", "\x01", "İ", "\u212a",
            "Σ"]
    sets = [[(content, flags, bool(flags & 1)) for content in ADDED] for flags in range(16)]
    sets += [[(content, chosen.randrange(16), chosen.random() < 0.5) for content in chosen.sample(ADDED, 12)]
             for _ in range(14)]
    # Stripping shows only beside tokens that have white space themselves.
    spaced = [("trail ", 8, False), (" lead", 8, False), ("foo  ", 8, False), ("  ", 8, False), ("\tab", 8, False)]
    sets += [[*spaced, ("[X]", flags, False), ("x", flags | 1, False), ("ab ", other, False)]
             for flags, other in ((2, 0), (4, 2), (6, 4), (2, 6), (6, 1), (6, 5))]
    for i, added in enumerate(sets):
        lower, strip = i % 3 != 2, (None, False, True)[i % 5 % 3]
        pieces = [content for content, _, _ in added] * 2 + glue
        pieces += [content[:k] for content, _, _ in added for k in (1, len(content) - 1)] + ["FOO", "foo bar", "Å"]
        case = Case(driver, report, describe(vocabulary, bert(strip=strip, lower=lower, chinese=i % 4 != 3), added))
        texts = Generator(SEED + 3 + i, [piece for piece in pieces if piece]).texts(extent(5000))
        flags = f"flags {i}" if i < 16 else "mixed flags"
        case.check(f"added tokens, {flags}", texts)
        if i % 5 == 0:
            case.check(f"added tokens, {flags}, truncated to 4", texts, max_tokens=4)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if not MODEL.is_dir():
        print(f"skipped: {MODEL} is absent (WISP_SHARED says where shared/ is)")
        return 0
    if not EVERYTHING:
        print("skipped: nine tenths of the texts: in make test-all")
    start = time.monotonic()
    driver, report = Driver(sys.argv[1]), Report()
    vocabulary = character_vocabulary()
    check_real(driver, report)
    check_added_tokens(driver, report, vocabulary)
    check_lowercase(driver, report, vocabulary)
    check_normalizers(driver, report, vocabulary)
    print(f"{report.texts} texts, {report.mismatches} mismatches, {time.monotonic() - start:.0f} s")
    return 1 if report.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
