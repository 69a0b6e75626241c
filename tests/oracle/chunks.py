#!/usr/bin/env python3
"""Checks the digests of chunks in files that wisp writes, with hashlib and a reader of its own.

    tests/oracle/chunks.py WISP

The default model gets an order of its neurons made up (neurons.py), and WISP (the program) makes rows of them. Every
digest of the file must be right by docs/formats.md. Then bytes are changed, one at a time: this reader and `wisp inspect
--verify` must name the same chunk and the same bytes.
"""

import hashlib
import json
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from neurons import MODELS, REPO, WISP, columns_of_down, tensors_of, wisp, write_ordered

HOT_TOKENS = 5000
SMALL = REPO / "tests" / "data" / "releases" / "0.2.0" / "gelu-cold.gguf"
SMALL_HEADER = "591ac332229de801047cedfb69399d39797380139cb9aed393afd02916d32603"
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Header:
    """The keys of a file and its list of tensors: name and offset behind the header."""

    def __init__(self, data):
        self.data, self.at = data, 8
        n_tensors, n_keys = self.take("Q"), self.take("Q")
        self.keys = {self.text(): self.value(self.take("I")) for _ in range(n_keys)}
        self.tensors = [self.tensor() for _ in range(n_tensors)]
        self.end = -(-self.at // 32) * 32

    def take(self, kind):
        self.at += struct.calcsize(kind)
        return struct.unpack_from("<" + kind, self.data, self.at - struct.calcsize(kind))[0]

    def text(self):
        length = self.take("Q")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.take(NUMBERS[kind])
        element, n = self.take("I"), self.take("Q")
        if element == 8:
            return [self.text() for _ in range(n)]
        size = struct.calcsize(NUMBERS[element])
        self.at += n * size
        return self.data[self.at - n * size : self.at]

    def tensor(self):
        name = self.text()
        for _ in range(self.take("I")):
            self.take("Q")
        self.take("I")
        return name, self.take("Q")


def chunks_of(data):
    """First byte, end and digest of each chunk, and the end of the header."""
    header = Header(data)
    size, table = header.keys["wisp.chunks.bytes"], header.keys["wisp.chunks.sha256"]
    cold = min((header.end + at for name, at in header.tensors if name == "token_embd.cold" or name.endswith(".ffn_neurons.cold")), default=len(data))
    starts = [*range(header.end, cold, size), *range(cold, len(data), size)]
    ends = [*starts[1:], len(data)]
    assert len(table) == 32 * len(starts)
    return [(first, end, table[32 * i : 32 * i + 32]) for i, (first, end) in enumerate(zip(starts, ends))], header.end


def wrong_chunks(data):
    return [i for i, (first, end, digest) in enumerate(chunks_of(data)[0])
            if hashlib.sha256(data[first:end]).digest() != digest]


def verify(path):
    return subprocess.run([WISP, "inspect", "--verify", "--format", "json", path], capture_output=True, text=True)


class Chunks(unittest.TestCase):
    def test_a_small_file(self):
        """A file of this repository: its digests, its tokens' rows and its neurons' rows, by docs/formats.md alone."""
        data = SMALL.read_bytes()
        chunks, header = chunks_of(data)
        self.assertEqual(wrong_chunks(data), [])
        self.assertEqual(hashlib.sha256(data[:header]).hexdigest(), SMALL_HEADER)
        keys = Header(data).keys
        with tempfile.TemporaryDirectory() as folder:
            restored = Path(folder, "plain")
            wisp("--plain", SMALL, restored)
            plain, rows = tensors_of(GGUFReader(restored)), tensors_of(GGUFReader(SMALL))
        tokens = np.frombuffer(keys["wisp.tokens.order"], np.uint16)
        embeddings = np.frombuffer(plain["token_embd.weight"][2], np.uint8).reshape(len(tokens), -1)
        stored = rows["token_embd.hot"][2] + rows["token_embd.cold"][2]
        self.assertEqual(stored, embeddings[tokens].tobytes())
        hot = np.frombuffer(keys["wisp.sparse.hot"], np.int32)
        order = np.frombuffer(keys["wisp.sparse.order"], np.int32).reshape(len(hot), -1)
        for layer, neurons in enumerate(order):
            prefix = f"blk.{layer}."
            up = np.frombuffer(plain[f"{prefix}ffn_up.weight"][2], np.uint8).reshape(len(neurons), -1)
            down, scales = columns_of_down(*plain[f"{prefix}ffn_down.weight"])
            wanted = np.concatenate([up, down], axis=1)[neurons]
            found = [rows[f"{prefix}ffn_neurons.{part}"][2] for part in ("hot", "cold")]
            self.assertEqual(found, [wanted[: hot[layer]].tobytes(), wanted[hot[layer] :].tobytes()])
            self.assertEqual(rows[f"{prefix}ffn_down_scales"][2], scales)

    def check_tokens(self, plain, split):
        """The rows of both tensors are those of the plain one, in the order of wisp.tokens.order."""
        order = np.array(GGUFReader(plain).fields["wisp.tokens.order"].contents())
        rows = {t.name: t.data for path in (plain, split) for t in GGUFReader(path).tensors if "token_embd." in t.name}
        expected = rows["token_embd.weight"][order]
        self.assertTrue(np.array_equal(rows["token_embd.hot"], expected[:HOT_TOKENS]))
        self.assertTrue(np.array_equal(rows["token_embd.cold"], expected[HOT_TOKENS:]))

    def test_digests_are_right_and_find_changed_bytes(self):
        chosen = np.random.default_rng(11)
        with tempfile.TemporaryDirectory() as folder:
            ordered, rows = Path(folder, "ordered"), Path(folder, "rows")
            write_ordered(ordered, MODELS[0], chosen)
            wisp("--neurons", "--hot-tokens", HOT_TOKENS, ordered, rows)
            data = bytearray(rows.read_bytes())
            chunks, header = chunks_of(data)
            self.assertEqual(wrong_chunks(data), [])
            self.check_tokens(ordered, rows)
            self.assertEqual(json.loads(verify(rows).stdout)["verified"],
                             {"chunks": len(chunks), "chunk_bytes": 65536, "header_bytes": header,
                              "header_sha256": hashlib.sha256(data[:header]).hexdigest()})
            for at in (header, len(data) - 1, *chosen.integers(header, len(data), 6)):
                changed = bytearray(data)
                changed[at] ^= 1 << int(chosen.integers(8))
                rows.write_bytes(changed)
                [wrong] = wrong_chunks(changed)
                first, end, _ = chunks[wrong]
                self.assertTrue(first <= at < end)
                said = verify(rows)
                self.assertEqual(said.returncode, 3)
                self.assertIn(f"bytes {first} to {end - 1} of the file are not what its table says: "
                              f"the SHA-256 of chunk {wrong} differs", said.stderr)

    def test_tokens_alone_may_be_cold(self):
        """Plain matrices and split tokens: small chunks, and the tensors that a plain file has."""
        with tempfile.TemporaryDirectory() as folder:
            ordered, split, plain, again = (Path(folder, name) for name in ("ordered", "split", "plain", "again"))
            write_ordered(ordered, MODELS[0], np.random.default_rng(12))
            wisp("--plain", "--hot-tokens", HOT_TOKENS, ordered, split)
            data = split.read_bytes()
            chunks, header = chunks_of(data)
            self.assertEqual(wrong_chunks(data), [])
            self.assertEqual(json.loads(verify(split).stdout)["verified"],
                             {"chunks": len(chunks), "chunk_bytes": 16384, "header_bytes": header,
                              "header_sha256": hashlib.sha256(data[:header]).hexdigest()})
            self.check_tokens(ordered, split)
            wisp("--plain", ordered, plain)
            wisp("--plain", split, again)
            self.assertEqual(plain.read_bytes(), again.read_bytes())
            stored = {t.name: t.data.tobytes() for t in GGUFReader(split).tensors}
            wanted = {t.name: t.data.tobytes() for t in GGUFReader(plain).tensors}
            self.assertEqual(list(stored)[-1], "token_embd.cold")
            self.assertEqual(stored.keys() ^ wanted.keys(), {"token_embd.weight", "token_embd.hot", "token_embd.cold"})
            self.assertTrue(all(stored[name] == wanted[name] for name in stored.keys() & wanted.keys()))
            self.assertFalse([key for key in Header(data).keys if key.startswith("wisp.sparse.")])


if __name__ == "__main__":
    unittest.main()
