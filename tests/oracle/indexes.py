#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads and writes indexes as docs/formats.md describes them, with numpy, and compares with `wisp index` and `wisp search`.

    tests/oracle/indexes.py WISP

The file that WISP builds must have exactly the bytes that this program makes of the embeddings, and of the texts. The
matches that WISP finds must be those of integer products in numpy, with the same scores. Files of random vectors that
this program writes must be listed by WISP as they are. If the sqlite_vec package is there, it finds the same
entries among the vectors of the file.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: indexes: {error}")
    sys.exit(1 if os.environ.get("CI") else 0)

INT8, F32 = 0, 1
SENTENCE = "The quick brown fox jumps over the lazy dog."
MASK = (1 << 64) - 1


def checksum(data):
    """The checksum of docs/formats.md: four lanes, each of which multiplies and folds every fourth word."""
    words = np.frombuffer(data + bytes(-len(data) % 8), "<u8")
    lanes = [1, 2, 3, len(data)]
    for i, word in enumerate(words.tolist()):
        lanes[i % 4] = mix(lanes[i % 4], word)
    total = 0
    for lane in lanes:
        total = mix(total, lane)
    return total


def mix(lane, word):
    lane = (lane ^ word) * 0x9E3779B97F4A7C15 & MASK
    return lane ^ lane >> 32


def quantise(rows):
    """Returns int8 values and scales, with the roundings of 32-bit floats."""
    most = np.abs(rows).max(axis=1).astype(np.float32)
    zero = most < np.float32(2.0**-120)
    inverse = np.float32(127) / np.where(zero, np.float32(1), most)
    q = np.rint(rows * np.where(zero, np.float32(0), inverse)[:, None]).astype(np.int8)
    return q, np.where(zero, np.float32(0), most / np.float32(127)).astype(np.float32)


def row_bytes(kind, dimensions):
    return -(-dimensions * (4 if kind == F32 else 1) // 16) * 16


def write_index(kind, rows, ids, metadata, deleted=(), name=b"", fingerprint=None):
    """Returns the bytes of an index. A deleted row has neither id nor metadata."""
    n, dimensions = rows.shape
    width = row_bytes(kind, dimensions)
    values, scales = quantise(rows) if kind == INT8 else (rows.astype("<f4"), np.zeros(0, "<f4"))
    vectors = np.zeros((n, width), np.uint8)
    vectors[:, : values.nbytes // max(n, 1)] = np.ascontiguousarray(values).view(np.uint8).reshape(n, -1)
    marks = bytearray(-(-n // 8))
    for row in deleted:
        marks[row // 8] |= 1 << row % 8
    texts = b"".join(b"" if i in deleted else ids[i] + metadata[i] for i in range(n))
    lengths = b"".join(struct.pack("<II", 0, 0) if i in deleted else struct.pack("<II", len(ids[i]), len(metadata[i]))
                       for i in range(n))
    print_of = b"" if fingerprint is None else np.asarray(fingerprint, "<f4").tobytes()
    sections = [name, print_of, scales.astype("<f4").tobytes(), bytes(marks), lengths, texts, vectors.tobytes()]
    body = bytearray(128)
    for section in sections:
        body += bytes(-len(body) % 64) + section
    header = struct.pack("<8sIIQIIQQQII", b"WISPINDX", 1, kind, len(body), dimensions, width, n, len(deleted), len(texts),
                         len(name), fingerprint is not None)
    header += b"".join(struct.pack("<Q", checksum(section)) for section in sections)
    body[:128] = header + struct.pack("<Q", checksum(header))
    return bytes(body)


def read_index(data):
    """Returns kind, rows of values and scales, and a list of (id, metadata), None if a row is deleted."""
    fields = struct.unpack_from("<8sIIQIIQQQII", data)
    magic, version, kind, size, dimensions, width, n, deleted, text_bytes, name_bytes, model = fields
    assert (magic, version, size) == (b"WISPINDX", 1, len(data)) and width == row_bytes(kind, dimensions)
    assert struct.unpack_from("<Q", data, 120)[0] == checksum(data[:120])
    lengths = [name_bytes, 4 * dimensions * model, 4 * n * (kind == INT8), -(-n // 8), 8 * n, text_bytes, width * n]
    at, sections = 128, []
    for i, length in enumerate(lengths):
        start = -(-at // 64) * 64
        assert not any(data[at:start])
        at = start + length
        sections.append(data[start:at])
        assert checksum(sections[-1]) == struct.unpack_from("<Q", data, 64 + 8 * i)[0]
    assert at == len(data)
    rows = np.frombuffer(sections[6], np.int8 if kind == INT8 else "<f4").reshape(n, -1)[:, :dimensions]
    scales = np.frombuffer(sections[2], "<f4")
    entries, place = [], 0
    for row in range(n):
        first, second = struct.unpack_from("<II", sections[4], 8 * row)
        texts = sections[5][place : place + first], sections[5][place + first : place + first + second]
        entries.append(None if sections[3][row // 8] >> row % 8 & 1 else texts)
        place += first + second
    assert sum(entry is None for entry in entries) == deleted
    return kind, rows, scales, entries


def best(kind, rows, scales, entries, query, k):
    """Returns (score, row) of the k best, by integer products if the index is int8."""
    if kind == INT8:
        steps = np.float32(min((2**31 - 1) // (128 * len(query)), 32767))
        most = np.abs(query).max()
        q = np.rint(query * (steps / most)).astype(np.int64)
        sums = rows.astype(np.int64) @ q
        factors = np.float64(most / steps) * scales.astype(np.float64)
        scores = (sums.astype(np.float64) * factors).astype(np.float32)
    else:
        scores = (rows.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
    order = sorted((-score, row) for row, score in enumerate(scores.tolist()) if entries[row] is not None)
    return [(-score, row) for score, row in order[:k]]


def wisp(program, *args, text=None):
    done = subprocess.run([program, *args], input=text, capture_output=True)
    if done.returncode:
        sys.exit(f"indexes: wisp {' '.join(args)}: exit code {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def embed(program, texts):
    out = wisp(program, "embed", "--prompt-text", "", "--format", "f32", text="\n".join(texts).encode())
    return np.frombuffer(out, "<f4").reshape(len(texts), -1)


def check_built(program, folder, kind, texts, queries):
    """Builds an index, removes an entry, and compares bytes and matches."""
    lines, path = folder / "lines.txt", folder / "built.index"
    lines.write_text("\n".join(texts) + "\n", encoding="utf-8")
    wisp(program, "index", "build", path, "--kind", ("int8", "f32")[kind], "--prompt-text", "", lines)
    wisp(program, "index", "remove", path, f"{lines}:3", "no such id")
    data = path.read_bytes()
    ids = [f"{lines}:{i + 1}".encode() for i in range(len(texts))]
    metadata = [('{"text":' + json.dumps(text, ensure_ascii=False) + "}").encode() for text in texts]
    name = json.loads(wisp(program, "index", "info", "--format", "json", path))["model"].encode()
    own = write_index(kind, embed(program, texts), ids, metadata, {2}, name, embed(program, [SENTENCE])[0])
    if data != own:
        sys.exit(f"indexes: the file of {('int8', 'f32')[kind]} differs from docs/formats.md")
    kind, rows, scales, entries = read_index(data)
    out = wisp(program, "search", path, "--prompt-text", "", "--format", "ndjson", "--top", "7",
               text="\n".join(queries).encode())
    for line, query in zip(out.splitlines(), embed(program, queries), strict=True):
        found = json.loads(line)["matches"]
        for match, (score, row) in zip(found, best(kind, rows, scales, entries, query, 7), strict=True):
            near = abs(match["score"] - score) < 2e-6
            if not near or kind == INT8 and match["id"].encode() != entries[row][0]:
                sys.exit(f"indexes: found {match}, and numpy {score} {entries[row]}")
    return rows, scales, entries


def check_written(program, folder, rng):
    """WISP lists what this program writes."""
    for case in range(60):
        kind, n, dimensions = int(rng.integers(2)), int(rng.integers(0, 30)), int(rng.integers(1, 70))
        ids = [f"id {i} \u00e9".encode() for i in range(n)]
        metadata = [json.dumps({"text": "x" * i}).encode() for i in range(n)]
        deleted = {i for i in range(n) if rng.random() < 0.3}
        path = folder / "written.index"
        path.write_bytes(write_index(kind, rng.normal(size=(n, dimensions)).astype(np.float32), ids, metadata, deleted))
        listed = [json.loads(line) for line in wisp(program, "index", "list", "--format", "ndjson", path).splitlines()]
        kept = [i for i in range(n) if i not in deleted]
        if listed != [{"id": ids[i].decode(), "metadata": json.loads(metadata[i])} for i in kept]:
            sys.exit(f"indexes: case {case}: listed {listed}")


def check_sqlite(program, rows, scales, entries, queries):
    """sqlite-vec finds the same among the vectors of the file."""
    try:
        import apsw
        import sqlite_vec
    except ImportError as error:
        print(f"skipped: sqlite-vec: {error}")
        sys.exit(1 if os.environ.get("CI") else 0)
    db = apsw.Connection(":memory:")
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    db.execute(f"create virtual table items using vec0(vector float[{rows.shape[1]}] distance_metric=cosine)")
    values = rows * scales[:, None] if len(scales) else rows
    for row, entry in enumerate(entries):
        if entry is not None:
            db.execute("insert into items(rowid, vector) values (?, ?)", (row, values[row].astype("<f4").tobytes()))
    kind = INT8 if len(scales) else F32
    for query in embed(program, queries):
        found = db.execute("select rowid, distance from items where vector match ? and k = 5 order by distance",
                           (query.tobytes(),)).fetchall()
        wanted = best(kind, rows, scales, entries, query, 5)
        if any(abs(1 - distance - score) > 0.01 for (_, distance), (score, _) in zip(found, wanted, strict=True)):
            sys.exit(f"indexes: sqlite-vec found {found}, and wisp {wanted}")
    print("indexes: sqlite-vec finds the same")


def main():
    program = sys.argv[1]
    rng = np.random.default_rng(1)
    words = "a man woman dog cat eats plays the violin red car drives along road caf\u00e9 \u65e5\u672c \"quoted\" \\ tab".split()
    texts = [" ".join(rng.choice(words, int(rng.integers(1, 9)))) for _ in range(150)]
    queries = ["someone has a meal", "music", "an animal", "traffic"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in (F32, INT8):
            built = check_built(program, folder, kind, texts, queries)
        check_written(program, folder, rng)
        print("indexes: files and matches agree")
        check_sqlite(program, *built, queries)


if __name__ == "__main__":
    main()
