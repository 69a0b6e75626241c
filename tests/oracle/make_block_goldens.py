#!/usr/bin/env python3
"""Writes tests/data/blocks.bin: blocks and floats, and their conversions by the gguf package, ggml and numpy.

The file opens with text that says what is where, padded with spaces to the length in its first line. After the words
`dequantise NAME` stand the bytes of the blocks and the floats they expand to; after `quantise NAME` the floats and the
blocks they are packed into. Each is an offset from the end of the header and a length in bytes, all little-endian.

Blocks are packed by ggml's library, which node-llama-cpp brings (bench/package.json), and by the gguf package too if
it can; both must agree. Another build of the library can be named as an argument.

Run with the Python of tools/setup.py: .tools/bin/python tests/oracle/make_block_goldens.py [LIBGGML_BASE]
"""

import ctypes
import sys
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

HEADER_BYTES = 4096
OUT = Path(__file__).resolve().parents[1] / "data" / "blocks.bin"
GGML = OUT.parents[2] / "bench/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-base.so"

# The offsets of the half floats that scale a block.
SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,),
          "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
          "IQ4_NL": (0,), "IQ4_XS": (0,), "TQ1_0": (52,), "TQ2_0": (64,)}
WRITTEN = ("BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS",
           "TQ1_0", "TQ2_0", "MXFP4")

# 0, -0, the least and the largest subnormal, the least normal, 1, the largest, infinities, NaN.
EXTREME_HALVES = (0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00)


class Goldens:
    def __init__(self):
        self.lines = []
        self.data = b""
        self.places = {}

    def put(self, array):
        raw = np.ascontiguousarray(array).tobytes()
        if raw not in self.places:
            self.places[raw] = len(self.data)
            self.data += raw + bytes(-len(raw) % 4)
        return f"{self.places[raw]} {len(raw)}"

    def add(self, what, name, given, result):
        self.lines.append(f"{what} {name} {self.put(given)} {self.put(result)}")

    def write(self, path):
        header = "\n".join([
            f"wisp-block-goldens 1 {HEADER_BYTES}",
            "# Written by tests/oracle/make_block_goldens.py with the gguf package, ggml and numpy.",
            "# Offsets count from the end of this header, of the length above. Little-endian.",
            "# dequantise TYPE, then offset and bytes of blocks, offset and bytes of f32 values",
            "# quantise TYPE, then offset and bytes of f32 values, offset and bytes of blocks",
            *self.lines, "end", ""])
        assert len(header) <= HEADER_BYTES
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(header.ljust(HEADER_BYTES).encode() + self.data)
        print(f"{path}: {path.stat().st_size} bytes")


def random_blocks(rng, name):
    """Random bytes; the scales of most blocks are replaced by ordinary ones, so that values are seldom NaN."""
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    count = {1: 2048, 32: 56, 256: 13}[elements]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in SCALES.get(name, ()):
        scales = rng.normal(size=count).astype(np.float16).view(np.uint16)
        scales[:len(EXTREME_HALVES)] = rng.permutation(EXTREME_HALVES)
        blocks[:, at:at + 2] = scales[:, None].view(np.uint8)
    if name == "F16":
        blocks[:len(EXTREME_HALVES)] = np.array(EXTREME_HALVES, np.uint16)[:, None].view(np.uint8)
    return blocks.reshape(-1)


def edge_floats(rng):
    """Floats that test rounding to half: ties and their neighbours, overflow, subnormals, random bits."""
    halves = np.arange(0, 0x7c00, 61, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves + np.nextafter(halves.astype(np.float16), np.float16(np.inf)).astype(np.float32)) / 2
    beside = np.concatenate([np.nextafter(middles, np.float32(0)), np.nextafter(middles, np.float32(1e30))])
    edges = np.array([0, 65504, 65519.996, 65520, 65536, 1e38, np.inf, np.nan, 2**-14, 2**-24, 2**-25, 2**-26,
                      1.0000001 * 2**-25, 1e-45, 1e-38], np.float32)
    bits = rng.integers(0, 2**32, 800, dtype=np.uint32).view(np.float32)
    small = (rng.normal(size=400) * 10.0 ** rng.uniform(-9, 5, 400)).astype(np.float32)
    values = np.concatenate([middles, beside, edges, small])
    return np.concatenate([values * np.where(rng.integers(0, 2, values.size), 1, -1).astype(np.float32), bits])


def block_values(rng):
    """Blocks of 32 values, like weights and unlike them."""
    def normal(n, scale=1.0):
        return rng.normal(size=(n, 32)) * scale

    outlier = normal(8)
    outlier[np.arange(8), rng.integers(0, 32, 8)] *= 50
    sparse = normal(4) * (rng.random((4, 32)) < 0.1)
    grid = rng.integers(-8, 8, (4, 32)) * 2.0 ** rng.integers(-6, 6, (4, 1))
    return np.concatenate([
        normal(12, 0.05), normal(4, 1e-5), normal(4, 1e4), rng.uniform(-1, 1, (8, 32)), outlier, sparse, grid,
        np.zeros((1, 32)), np.full((1, 32), 0.3), np.full((1, 32), -7.0), abs(normal(2)), -abs(normal(2)),
        normal(2, 1e-7), rng.integers(-127, 128, (4, 32)) / 2.0, normal(5, 1e-20),
        normal(16) * 10.0 ** rng.uniform(-2, 2, (16, 1)), normal(26, 0.05) + 0.1]).astype(np.float32).reshape(-1)


def quantise(library, values, name):
    """Returns the blocks of ggml's reference quantiser, without importances."""
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = np.zeros(values.size // elements * size, np.uint8)
    library.ggml_quantize_chunk(GGMLQuantizationType[name], values.ctypes.data, blocks.ctypes.data, 0,
                                values.size // 256, 256, None)
    try:
        assert (quants.quantize(values, GGMLQuantizationType[name]).view(np.uint8) == blocks).all(), name
    except NotImplementedError:
        pass
    return blocks


def low_bits(rng, bits, elements):
    """Random blocks of a half float and codes of so many bits, the first in the lowest, and their values. The gguf
    package cannot read these types. Q1_0 has the values -d and d, Q2_0 and PQ2_0 (code - 1) d."""
    blocks = random_scaled(rng, 1024 // elements + len(EXTREME_HALVES), 2 + elements * bits // 8)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    codes = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").reshape(len(blocks), elements, bits)
    numbers = (codes * (1 << np.arange(bits))).sum(axis=2)
    values = np.where(numbers == 1, scales, -scales) if bits == 1 else (numbers - 1).astype(np.float32) * scales
    return blocks.reshape(-1), values.astype("<f4")


def random_scaled(rng, count, size):
    """Random blocks that begin with a half float, the first of which are extreme."""
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    scales = rng.normal(size=count).astype("<f2").view("<u2")
    scales[:len(EXTREME_HALVES)] = EXTREME_HALVES
    blocks[:, :2] = scales[:, None].view(np.uint8)
    return blocks


def i2_s(rng):
    """A tensor of BitNet's I2_S: blocks of 32 bytes whose pairs of bits, from the highest to the lowest, are elements
    0..31, 32..63, 64..95 and 96..127; then the scale and bytes without meaning."""
    codes = rng.integers(0, 3, (6, 4, 32), dtype=np.uint8)
    blocks = codes[:, 0] << 6 | codes[:, 1] << 4 | codes[:, 2] << 2 | codes[:, 3]
    scale = np.float32(0.0371)
    end = np.concatenate([np.array([scale], "<f4").view(np.uint8), rng.integers(0, 256, 28, dtype=np.uint8)])
    return np.concatenate([blocks.reshape(-1), end]), ((codes.astype(np.float32) - 1) * scale).astype("<f4")


def main():
    library = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else str(GGML))
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                                            ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    rng = np.random.default_rng(20240607)
    goldens = Goldens()
    with np.errstate(all="ignore"):
        for name in ("F32", "F16", *WRITTEN):
            blocks = random_blocks(rng, name)
            values = quants.dequantize(blocks, GGMLQuantizationType[name])
            goldens.add("dequantise", name, blocks, values.astype("<f4"))
        floats = edge_floats(rng)
        goldens.add("quantise", "F16", floats.astype("<f4"), floats.astype("<f2"))
        values = block_values(rng)
        given = values.astype("<f4")
        for name in WRITTEN:
            goldens.add("quantise", name, given, quantise(library, values, name))
        rng = np.random.default_rng(20261122)
        for name, bits, elements in (("Q1_0", 1, 128), ("Q2_0", 2, 64), ("PQ2_0", 2, 128)):
            goldens.add("dequantise", name, *low_bits(rng, bits, elements))
        goldens.add("dequantise", "I2_S", *i2_s(rng))
    goldens.write(OUT)


if __name__ == "__main__":
    assert sys.byteorder == "little"
    main()
