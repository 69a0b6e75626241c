#!/usr/bin/env python3
"""Writes src/text/unicode_tables.c, unicode_classes.c and unicode_nfc.c: what Hugging Face tokenizers knows about code
points, in the BERT pipeline, in the patterns that byte-level BPE splits texts with, and in its NFC normalizer.

Each library in these pipelines carries the tables of its own Unicode version, so each property here is pinned to one
(found by comparing all code points with tokenizers 0.23.3; tests/oracle/tokenizer.py and codecs.py compare them again):

    8.0   unicode_categories 0.1.1: controls to drop (Cc, Cf, Co), punctuation (P*), accents to drop (Mn)
    9.0   unicode-normalization-alignments 0.1.12: canonical decompositions, compositions and combining classes
    16.0  regex-syntax 0.8.11: \\w; Oniguruma: \\p{L}, \\p{N} and other general categories
    17.0  Rust 1.99's char::to_lowercase

No code point deviates from its version. What is not in the version's data is spelled out below: White_Space, BERT's
own additions to controls and punctuation, and those characters of \\w that no general category gives.

The data are read from the C tables in the source packages of unicodedata2 on PyPI, one package a Unicode version, each
checked by its sha256. They are looked for in .tools/unicode; --download fetches them with pip.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tarfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
DATA = REPO / ".tools" / "unicode"
TEXT = REPO / "src" / "text"

CODE_POINTS = 0x110000
WIDTH = 160  # of the lines of numbers, which nobody reads
SURROGATES = range(0xD800, 0xE000)
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by arithmetic, not by a table

# version of unicodedata2: where its tables are, and the sha256 of the source package
PACKAGES = {
    "8.0.0": ("unicodedata2/", "83ade023678f55a35650cd12213c9fd8b38e2af90d4a8c71ce92a04e609e95c2"),
    "9.0.0.post4": ("unicodedata2/py3/", "ef277bdec37f276829d0c249bda3447642c72248b697f2eea7a7c442dd4820d9"),
    "16.0.0": ("unicodedata2/", "05488d6592b59cd78b61ec37d38725416b2df62efafa6a0d63a631b27aa474fc"),
    "17.0.1": ("unicodedata2/", "d79943d153f5f6bfbe3f55a5ec611985184bda37fcedb3ecc75322d82ae6ad3b"),
}

# White_Space has been stable since Unicode 6.3. unicodedata2 has no table of it.
WHITE_SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
               0x3000}
# BertNormalizer's clean_text spares these controls, and drops U+FFFD with the rest.
SPARED_CONTROLS = {0x09, 0x0A, 0x0D}
DROPPED_TOO = {0xFFFD}
# BertPreTokenizer splits at all ASCII punctuation, symbols such as $ included.
ASCII_PUNCTUATION = {c for c in range(0x21, 0x7F) if not chr(c).isalnum()}
# \w is Alphabetic, M, Nd, Pc and Join_Control. Categories give all but Join_Control and the alphabetic symbols:
WORD_SYMBOLS = {0x200C, 0x200D, *range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A), *range(0x1F150, 0x1F16A),
                *range(0x1F170, 0x1F18A)}

# The bits of enum unicode_flag in src/text/unicode.h.
FLAGS = {"CONTROL": 1, "SPACE": 2, "PUNCTUATION": 4, "MARK": 8, "NONSTARTER": 16, "DECOMPOSES": 32, "HAS_LOWER": 64}

EXTENDED_CASE_MASK = 0x4000


class DataMissing(Exception):
    """A source package is missing."""


def package_path(version):
    return DATA / f"unicodedata2-{version}.tar.gz"


def download():
    DATA.mkdir(parents=True, exist_ok=True)
    for version, (_, digest) in PACKAGES.items():
        if not package_path(version).exists():
            # pip runs what is in a source package, so its bytes are checked before.
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
                            "--no-binary", ":all:", "--dest", str(DATA), "-r", "/dev/stdin"], check=True, text=True,
                           input=f"unicodedata2=={version} --hash=sha256:{digest}\n")


def read_package(version):
    """Reads the texts of a version's two tables."""
    path = package_path(version)
    if not path.exists():
        raise DataMissing(f"{path.relative_to(REPO)} is absent; run tools/generate_unicode.py --download")
    folder, digest = PACKAGES[version]
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        sys.exit(f"{path}: not the package whose sha256 is pinned")
    with tarfile.open(path) as archive:
        return [archive.extractfile(f"unicodedata2-{version}/{folder}{name}").read().decode("utf-8")
                for name in ("unicodedata_db.h", "unicodetype_db.h")]


def array_text(source, name):
    return re.search(rf"\b{name}\[\] = \{{(.*?)\n\}};", source, re.DOTALL).group(1)


def numbers(text):
    return [int(word, 0) for word in re.findall(r"-?0x[0-9a-fA-F]+|-?\d+", text)]


def array(source, name):
    return numbers(array_text(source, name))


def records(source, name):
    return [numbers(record) for record in re.findall(r"\{(.*?)\}", array_text(source, name))]


def two_stage(source, shift_name, first, second):
    """Reads the entry of every code point from a two-stage index."""
    shift = int(re.search(rf"#define {shift_name} (\d+)", source).group(1))
    starts, entries = array(source, first), array(source, second)
    return [entries[(starts[c >> shift] << shift) + (c & ((1 << shift) - 1))] for c in range(CODE_POINTS)]


class Version:
    """One Unicode version's properties of every code point."""

    def __init__(self, version):
        data, types = read_package(version)
        names = re.findall(r'"(.*?)"', array_text(data, "_PyUnicode_CategoryNames"))
        entries = records(data, "_PyUnicode_Database_Records")
        index = two_stage(data, "SHIFT", "index1", "index2")
        self.category = [names[entries[i][0]] for i in index]
        self.combining = [entries[i][1] for i in index]
        self.parts = self.read_decompositions(data)
        self.pairs = self.read_compositions(data)
        self.types = records(types, "_PyUnicode_TypeRecords")
        self.type_index = two_stage(types, "SHIFT", "index1", "index2")
        self.extended = array(types, "_PyUnicode_ExtendedCase")

    @staticmethod
    def read_decompositions(data):
        """Returns {code point: its canonical decomposition, one step}."""
        parts = array(data, "decomp_data")
        decompositions = {}
        for c, start in enumerate(two_stage(data, "DECOMP_SHIFT", "decomp_index1", "decomp_index2")):
            kind, count = parts[start] & 255, parts[start] >> 8
            if start and kind == 0:
                decompositions[c] = parts[start + 1:start + 1 + count]
        return decompositions

    @staticmethod
    def read_compositions(data):
        """Returns {(first, second): the code point that the two compose to}."""
        def members(name):
            return [(start + i, index + i) for start, count, index in records(data, name) if start
                    for i in range(count + 1)]

        shift, lasts = (int(re.search(rf"#define {name} (\d+)", data).group(1)) for name in ("COMP_SHIFT", "TOTAL_LAST"))
        starts, composed = array(data, "comp_index"), array(data, "comp_data")
        pairs = {}
        for first, i in members("nfc_first"):
            for second, j in members("nfc_last"):
                at = i * lasts + j
                found = composed[(starts[at >> shift] << shift) + (at & ((1 << shift) - 1))]
                if found:
                    pairs[first, second] = found
        return pairs

    def in_categories(self, *prefixes):
        return {c for c, category in enumerate(self.category) if category.startswith(prefixes)} - set(SURROGATES)

    def with_type(self, mask):
        return {c for c, i in enumerate(self.type_index) if self.types[i][5] & mask}

    def lower(self, c):
        record = self.types[self.type_index[c]]
        if not record[5] & EXTENDED_CASE_MASK:
            return [c + record[1]]
        start, count = record[1] & 0xFFFF, record[1] >> 24
        return self.extended[start:start + max(count, 1)]

    def decompose(self, c):
        """Returns the full canonical decomposition of a code point, in canonical order."""
        expanded = [part for one in self.parts.get(c, []) for part in self.decompose(one)] or [c]
        for i in range(1, len(expanded)):  # insertion sort among what follows a starter
            j = i
            while j and self.combining[expanded[j - 1]] > self.combining[expanded[j]] > 0:
                expanded[j - 1], expanded[j] = expanded[j], expanded[j - 1]
                j -= 1
        return expanded


class Properties:
    """The contents of the tables, each from its Unicode version."""

    def __init__(self):
        old, normal, modern, newest = (Version(version) for version in PACKAGES)
        self.control = old.in_categories("Cc", "Cf", "Co") - SPARED_CONTROLS | DROPPED_TOO
        self.punctuation = old.in_categories("P") | ASCII_PUNCTUATION
        self.mark = old.in_categories("Mn")
        self.normal = normal
        self.combining = normal.combining
        # U+0F73, U+0F75 and U+0F81 are in class 0, but their decompositions are not.
        self.nonstarter = {c for c in range(CODE_POINTS) if normal.combining[normal.decompose(c)[0]]}
        self.stripped = self.strip(normal)
        # In the order of enum unicode_kind in src/text/unicode_classes.h, from 1.
        connectors = modern.in_categories("Pc")
        self.kinds = [modern.in_categories("Lu"), modern.in_categories("Ll"), modern.in_categories("Lt"),
                      modern.in_categories("Lm", "Lo"), modern.in_categories("M"), modern.in_categories("Nd"),
                      modern.in_categories("Nl", "No"), connectors, modern.in_categories("P") - connectors,
                      modern.in_categories("S"), WHITE_SPACE]
        self.word = modern.in_categories("L", "M", "Nd", "Nl", "Pc") | WORD_SYMBOLS
        lower = {c: newest.lower(c) for c in range(CODE_POINTS)}
        self.lower = {c: mapped for c, mapped in lower.items() if mapped != [c]}
        self.check()

    def strip(self, normal):
        """Returns {code point: its decomposition without marks}, for code points that this changes."""
        left = {c: [part for part in normal.decompose(c) if part not in self.mark] for c in normal.parts}
        return {c: parts for c, parts in left.items() if parts != [c] and c not in self.mark}

    def check(self):
        """Checks the properties that src/text/ relies on."""
        assert set(self.lower.pop(0x130)) == {0x69, 0x307}, "U+0130 alone has a lower case of two characters"
        assert all(len(mapped) == 1 and mapped[0] >> 16 == c >> 16 for c, mapped in self.lower.items())
        for c, parts in self.stripped.items():
            inside = [part in self.nonstarter for part in parts]
            assert parts and not inside[0] and inside == sorted(inside), "a starter comes first, nonstarters last"
            assert c not in self.nonstarter and c not in HANGUL and len(parts) <= 3
            assert len({self.combining[part] for part in parts if part in self.nonstarter}) <= 1
        assert not self.nonstarter & (self.control | self.punctuation | WHITE_SPACE)

    def flags(self, c):
        found = {"CONTROL": c in self.control, "SPACE": c in WHITE_SPACE, "PUNCTUATION": c in self.punctuation,
                 "MARK": c in self.mark, "NONSTARTER": c in self.nonstarter,
                 "DECOMPOSES": c in self.stripped or c in HANGUL, "HAS_LOWER": c in self.lower or c == 0x130}
        return sum(FLAGS[name] for name, there in found.items() if there)


def runs_of(code_points):
    """Returns [first, last] of each run of consecutive code points."""
    runs = []
    for c in sorted(code_points):
        if runs and runs[-1][1] == c - 1 and c & 0xFFFF:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    return runs


class Writer:
    """Collects the C text and its size in bytes."""

    def __init__(self):
        self.lines = []
        self.bytes = 0

    def add(self, text=""):
        self.lines.append(text)

    def array(self, declaration, items, size):
        """Adds an array with `size` bytes for each item, and as many items on a line as fit WIDTH."""
        self.bytes += size * len(items)
        self.add(f"const {declaration} = {{")
        line = "   "
        for item in items:
            if len(line) + len(item) + 2 > WIDTH:
                self.add(line)
                line = "   "
            line += f" {item},"
        self.add(line)
        self.add("};")
        self.add()

    def numbers(self, type_name, name, values):
        size = {"uint8_t": 1, "uint16_t": 2}[type_name]
        self.array(f"{type_name} {name}[{len(values)}]", [str(value) for value in values], size)

    def planes(self, name, firsts):
        """Adds the index at which each plane's entries start in a list sorted by code point, and its end."""
        starts = [sum(first >> 16 < plane for first in firsts) for plane in range(18)]
        self.numbers("uint16_t", name, starts)


def hexadecimal(value):
    return f"0x{value:04X}"


def write_flags(out, properties):
    """Adds blocks of 128 code points. Four bits for each code point name one of up to 16 sets of flags."""
    flags = [properties.flags(c) for c in range(CODE_POINTS)]
    kinds = sorted(set(flags))
    assert len(kinds) <= 16
    limit, block = 0x1F000, 128
    blocks = {}
    index = []
    for start in range(0, limit, block):
        kind = [kinds.index(flag) for flag in flags[start:start + block]]
        packed = tuple(low | high << 4 for low, high in zip(kind[::2], kind[1::2]))
        index.append(blocks.setdefault(packed, len(blocks)))
    out.numbers("uint8_t", "unicode_kinds", kinds)
    out.numbers("uint8_t", "unicode_index", index)
    out.numbers("uint8_t", "unicode_blocks", [pair for packed in blocks for pair in packed])
    rare = []
    for c in range(limit, CODE_POINTS):
        if flags[c] and rare and rare[-1][1] == c - 1 and rare[-1][2] == flags[c]:
            rare[-1][1] = c
        elif flags[c]:
            rare.append([c, c, flags[c]])
    out.array(f"struct unicode_rare unicode_rare[{len(rare)}]",
              [f"{{{hexadecimal(first)}, {hexadecimal(last)}, {flag}}}" for first, last, flag in rare], 12)
    return limit, len(rare)


def write_set(out, name, code_points):
    """Adds the lengths of the runs of code points that are not in the set and that are, by turns: in base 128, the low
    digits first, where all bytes but the last have the high bit. Returns the number of bytes."""
    digits = []
    at = 0
    for first, last in runs_of(code_points):
        for length in (first - at, last + 1 - first):
            while length >= 0x80:
                digits.append(0x80 | length & 0x7F)
                length >>= 7
            digits.append(length)
        at = last + 1
    out.numbers("uint8_t", f"unicode_{name}", digits)
    return len(digits)


def write_lower(out, lower):
    """Adds runs of every or every other code point whose lower case is at one distance."""
    runs = []
    for c, (mapped,) in sorted(lower.items()):
        add = mapped - c & 0xFFFF
        run = runs[-1] if runs else {"first": -1, "last": -1, "add": -1}
        step = c - run["last"]
        steps = (1, 2) if run["first"] == run["last"] else (run["step"],)
        if add == run["add"] and c >> 16 == run["first"] >> 16 and step in steps:
            run.update(last=c, step=step)
        else:
            runs.append({"first": c, "last": c, "add": add, "step": 1})
    out.planes("unicode_lower_planes", [run["first"] for run in runs])
    out.array(f"struct unicode_shift unicode_lower_runs[{len(runs)}]",
              [f"{{{run['first'] & 0xFFFF}, {run['last'] & 0xFFFF}, {run['add']}, {run['step']}}}" for run in runs], 8)


def write_stripped(out, stripped):
    """Adds code points that one other replaces, as runs of keys (with gaps filled) and values. Then adds the rest."""
    single = {c: parts[0] for c, parts in stripped.items() if len(parts) == 1}
    runs = []
    for c in sorted(single):
        gap = range(runs[-1][1] + 1, c) if runs else ()
        if runs and len(gap) <= 2 and not stripped.keys() & set(gap) and runs[-1][0] >> 16 == c >> 16:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    keys = [c for first, last in runs for c in range(first, last + 1)]
    values = [single.get(c, c) for c in keys]
    assert all(value >> 16 in (c >> 16, 2 - (c >> 16)) for c, value in zip(keys, values) if c >> 16 != 1)
    assert all(value >> 16 == 1 for c, value in zip(keys, values) if c >> 16 == 1)
    # Keys of plane 1 have their values there; those of planes 0 and 2 in plane 0, or in plane 2 if the bit is set.
    far = [value >> 16 == 2 for value in values]
    starts = [0]
    for first, last in runs:
        starts.append(starts[-1] + last - first + 1)
    out.planes("unicode_strip_planes", [first for first, _ in runs])
    out.array(f"struct unicode_slice unicode_strip_runs[{len(runs)}]",
              [f"{{{first & 0xFFFF}, {last & 0xFFFF}, {start}}}" for (first, last), start in zip(runs, starts)], 6)
    out.numbers("uint16_t", "unicode_strip_values", [value & 0xFFFF for value in values])
    bits = [sum(is_far << i for i, is_far in enumerate(far[at:at + 8])) for at in range(0, len(far), 8)]
    out.numbers("uint8_t", "unicode_strip_far", bits)
    several = sorted((c, parts) for c, parts in stripped.items() if len(parts) > 1)
    out.array(f"struct unicode_parts unicode_strip_several[{len(several)}]",
              [f"{{{hexadecimal(c)}, {{{', '.join(map(hexadecimal, parts))}}}}}" for c, parts in several], 16)
    return len(several)


def write_ranks(out, properties):
    """Adds the combining classes of nonstarters that are not dropped as marks, numbered from 1 in their order."""
    kept = properties.nonstarter - properties.mark
    classes = sorted({properties.combining[c] for c in kept})
    runs = []
    for c in sorted(kept):
        rank = classes.index(properties.combining[c]) + 1
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == rank:
            runs[-1][1] = c
        else:
            runs.append([c, c, rank])
    out.array(f"struct unicode_rare unicode_ranks[{len(runs)}]",
              [f"{{{hexadecimal(first)}, {hexadecimal(last)}, {rank}}}" for first, last, rank in runs], 12)
    return len(runs), len(classes)


def write_kinds(out, kinds):
    """Adds blocks of 128 code points, with four bits for the kind of each. The supplementary variation selectors are left
    out, which would make the index four times as long."""
    block, mark = 128, 5
    selectors = range(0xE0100, 0xE01F0)
    assert set(selectors) <= kinds[mark - 1]
    limit = (max(c for members in kinds for c in members if c < 0xE0000) // block + 1) * block
    assert all(c < limit or c in selectors for members in kinds for c in members)
    of = [sum(i * (c in members) for i, members in enumerate(kinds, 1)) for c in range(limit)]
    blocks = {}
    index = []
    for start in range(0, limit, block):
        packed = tuple(of[c] | of[c + 1] << 4 for c in range(start, start + block, 2))
        index.append(blocks.setdefault(packed, len(blocks)))
    size = "uint8_t" if len(blocks) <= 256 else "uint16_t"
    out.numbers(size, "unicode_kind_index", index)
    out.numbers("uint8_t", "unicode_kind_blocks", [two for packed in blocks for two in packed])
    return limit


def write_blocks(out, name, members, limit):
    """Adds blocks of 128 code points, with a bit for each that tells whether it is a member."""
    blocks = {}
    index = []
    for start in range(0, limit, 128):
        packed = tuple(sum((c + i in members) << i for i in range(8)) for c in range(start, start + 128, 8))
        index.append(blocks.setdefault(packed, len(blocks)))
    assert len(blocks) <= 256 and max(members) < limit
    out.numbers("uint8_t", f"{name}_index", index)
    out.numbers("uint8_t", f"{name}_blocks", [eight for packed in blocks for eight in packed])


def bytes_apart(code_points):
    """The low bytes of code points, then the middle ones, then the high ones."""
    return [code_point >> shift & 0xFF for shift in (0, 8, 16) for code_point in code_points]


def write_bytes(out, declaration, values):
    out.array(f"uint8_t {declaration}", [str(value) for value in values], 1)


def generate_nfc(properties):
    """Decompositions in one step with the pairs that compose again, combining classes, and what NFC may change."""
    normal = properties.normal
    out = start_file("unicode_nfc.h")
    parts = {c: [*two, 0][:2] for c, two in normal.parts.items()}
    changed = {c for c, two in normal.parts.items() if normal.pairs.get(tuple(two)) != c}
    seconds = {second for _, second in normal.pairs} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    combining = [c for c in range(CODE_POINTS) if normal.combining[c]]
    runs = []
    for c in combining:
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == normal.combining[c]:
            runs[-1][1] = c
        else:
            runs.append([c, c, normal.combining[c]])
    # src/text/nfc.c relies on these.
    for c in normal.parts:
        whole = normal.decompose(c)
        assert not parts[c][1] in normal.parts and 2 * len(whole) <= 3 * len(chr(c).encode("utf-8"))
        assert len("".join(map(chr, whole)).encode("utf-8")) <= 3 * len(chr(c).encode("utf-8"))
    for (first, second), c in normal.pairs.items():
        assert normal.parts[c] == [first, second] and len(chr(c).encode()) <= len((chr(first) + chr(second)).encode())
    order = sorted(normal.parts)
    columns = [order, [parts[c][0] for c in order], [parts[c][1] for c in order]]
    write_bytes(out, f"unicode_nfc_parts[{9 * len(order)}]", [byte for column in columns for byte in bytes_apart(column)])
    out.numbers("uint16_t", "unicode_nfc_pairs", [order.index(c) for _, c in sorted(normal.pairs.items())])
    write_bytes(out, f"unicode_nfc_class_firsts[{3 * len(runs)}]", bytes_apart([first for first, _, _ in runs]))
    write_bytes(out, f"unicode_nfc_class_more[{len(runs)}]", [last - first for first, last, _ in runs])
    write_bytes(out, f"unicode_nfc_classes[{len(runs)}]", [rank for _, _, rank in runs])
    limit = (max(changed) // 128 + 1) * 128
    write_blocks(out, "unicode_nfc_unsure", changed | seconds | set(combining), limit)
    out.add(f"_Static_assert(UNICODE_NFC_PARTS == {len(order)} && UNICODE_NFC_PAIRS == {len(normal.pairs)} &&")
    out.add(f"                   UNICODE_NFC_CLASSES == {len(runs)} && UNICODE_NFC_LIMIT == {hexadecimal(limit)},")
    out.add('               "src/text/unicode_nfc.h does not fit these tables");')
    return out


def start_file(header):
    out = Writer()
    out.add("/* SPDX-License-Identifier: Apache-2.0")
    out.add(" * Written by tools/generate_unicode.py, which says where each property comes from. */")
    out.add("/* clang-format off */")
    out.add(f'#include "text/{header}"')
    out.add()
    return out


def generate_classes(properties):
    out = start_file("unicode_classes.h")
    limit = write_kinds(out, properties.kinds)
    out.add(f"_Static_assert(UNICODE_KIND_LIMIT == {hexadecimal(limit)},")
    out.add('               "src/text/unicode_classes.h does not fit these tables");')
    return out


def generate_tables(properties):
    out = start_file("unicode_tables.h")
    limit, rare = write_flags(out, properties)
    ranks, rank_count = write_ranks(out, properties)
    write_lower(out, properties.lower)
    several = write_stripped(out, properties.stripped)
    word = write_set(out, "word", properties.word)
    # The compiler compares the sizes in the header, which are written by hand, with these.
    out.add(f"_Static_assert(UNICODE_LIMIT == {hexadecimal(limit)} && UNICODE_RARE == {rare} &&")
    out.add(f"                   UNICODE_RANK_RUNS == {ranks} && UNICODE_RANKS == {rank_count} &&")
    out.add(f"                   UNICODE_SEVERAL == {several} && UNICODE_WORD == {word},")
    out.add('               "src/text/unicode_tables.h does not fit these tables");')
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the committed tables differ; write nothing")
    parser.add_argument("--download", action="store_true", help="fetch the source packages first")
    arguments = parser.parse_args()
    if arguments.download:
        download()
    try:
        properties = Properties()
    except DataMissing as missing:
        if not arguments.check:
            sys.exit(str(missing))
        print(f"skipped: {missing}")
        return 0
    differing = 0
    for name, out in (("unicode_tables.c", generate_tables(properties)),
                      ("unicode_classes.c", generate_classes(properties)),
                      ("unicode_nfc.c", generate_nfc(properties))):
        text, output = "\n".join(out.lines) + "\n", TEXT / name
        if not arguments.check:
            output.write_text(text, encoding="utf-8")
            print(f"{output.relative_to(REPO)}: {out.bytes} bytes of tables")
        elif not output.exists() or output.read_text(encoding="utf-8") != text:
            print(f"{output.relative_to(REPO)} differs from what tools/generate_unicode.py writes", file=sys.stderr)
            differing += 1
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
