#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a calibrated encoder of random weights, piece by piece: python3 bench/cold/big.py LIKE.gguf OUT.gguf

The tokenizer and the settings are those of LIKE, a calibrated model of `wisp calibrate`; the shape is another's. Linear
layers are Q4_0. Neurons are stored plain: `wisp convert --hot SHARE OUT.gguf COLD.gguf` makes rows of them. Each token needs
a share of a layer's neurons that the predictor chooses; a few neurons are needed often and most of them seldom, as in
calibrated models."""

import argparse
import random
import statistics
import struct
from math import exp, sqrt

F32, Q4_0 = 0, 2
U32_VALUE, I32_VALUE, F32_VALUE, ARRAY = 4, 5, 6, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING = 8
ALIGNMENT = 32
PIECE_BLOCKS = 1 << 16  # of random blocks, repeated from another place each time
DEVIATION = 4.61  # of the numbers -8 to 7, each as likely
RANK = 256


class Reader:
    """Reads the metadata of a GGUF file, whose values stay bytes."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read(1 << 23)
        self.at = 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def skip(self, kind):
        if kind == STRING:
            self.take(self.number("Q"))
        elif kind == ARRAY:
            item, count = self.number("I"), self.number("Q")
            if item == STRING:
                for _ in range(count):
                    self.skip(STRING)
            else:
                self.take(SIZES[item] * count)
        else:
            self.take(SIZES[kind])

    def metadata(self):
        magic, _, _, count = struct.unpack("<4sIQQ", self.take(24))
        if magic != b"GGUF":
            raise SystemExit("big: not a GGUF file")
        entries = {}
        for _ in range(count):
            name = self.take(self.number("Q")).decode()
            begin = self.at
            self.skip(self.number("I"))
            entries[name] = self.data[begin:self.at]
        return entries


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


class Weights:
    """Random blocks of Q4_0 with a scale, without end."""

    def __init__(self, seed, scale):
        source = random.Random(seed)
        head = struct.pack("<e", scale)
        self.piece = b"".join(head + source.randbytes(16) for _ in range(PIECE_BLOCKS))
        self.source = source

    def write(self, file, n):
        left = n // 32 * 18
        while left > 0:
            begin = 18 * self.source.randrange(PIECE_BLOCKS)
            part = (self.piece[begin:] + self.piece[:begin])[:left]
            file.write(part)
            left -= len(part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("like")
    parser.add_argument("output")
    parser.add_argument("--layers", type=int, default=34)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--neurons", type=int, default=16384)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--share", type=float, default=0.16, help="of neurons that a token needs")
    options = parser.parse_args()
    hidden, neurons, layers = options.hidden, options.neurons, options.layers
    entries = {name: value for name, value in Reader(options.like).metadata().items()
               if not name.startswith(("wisp.neurons.", "wisp.chunks.", "wisp.sparse."))}
    vocabulary = struct.unpack("<Q", entries["tokenizer.ggml.tokens"][8:16])[0]
    for name, value in (("embedding_length", hidden), ("feed_forward_length", neurons), ("block_count", layers),
                        ("attention.head_count", options.heads)):
        entries[f"bert.{name}"] = struct.pack("<II", U32_VALUE, value)
    text = f"random encoder of {layers} layers".encode()
    entries["general.name"] = struct.pack("<IQ", STRING, len(text)) + text
    entries["wisp.sparse.order"] = struct.pack("<IIQ", ARRAY, I32_VALUE, layers * neurons) + \
        struct.pack(f"<{neurons}i", *range(neurons)) * layers
    entries["wisp.sparse.hot"] = struct.pack(f"<IIQ{layers}i", ARRAY, I32_VALUE, layers, *[neurons] * layers)
    entries["wisp.sparse.shares"] = struct.pack("<IIQf", ARRAY, F32_VALUE, 1, options.share)
    entries["wisp.sparse.share"] = struct.pack("<If", F32_VALUE, options.share)

    # The frequencies fall by e^3 from the first place to the last; a logit is about normal.
    most = options.share * 3 / (1 - exp(-3))
    frequency = [most * exp(-3 * (i + 0.5) / neurons) for i in range(neurons)]
    logit = sqrt(hidden) * 0.02 * DEVIATION * sqrt(RANK) * 0.02 * DEVIATION
    normal = statistics.NormalDist(0, logit)
    thresholds = floats([normal.inv_cdf(1 - each) for each in frequency])
    zeros, ones = bytes(4 * hidden), floats([1.0] * hidden)
    none = bytes(4 * neurons)
    wide = Weights(1, 1 / sqrt(hidden) / DEVIATION)
    down = Weights(2, 1 / sqrt(neurons) / DEVIATION)
    chooser = Weights(3, 0.02)
    table = Weights(4, 1 / DEVIATION)

    tensors = []  # (name, type, shape with the length of a row first, bytes or Weights)

    def vector(name, data):
        tensors.append((name, F32, [len(data) // 4], data))

    def linear(name, n_in, n_out, weights, bias=None):
        tensors.append((f"{name}.weight", Q4_0, [n_in, n_out], weights))
        vector(f"{name}.bias", bias or bytes(4 * n_out))

    vector("token_embd_norm.weight", ones)
    vector("token_embd_norm.bias", zeros)
    tensors.append(("position_embd.weight", Q4_0, [hidden, 512], table))
    tensors.append(("token_types.weight", F32, [hidden, 2], 2 * zeros))
    tensors.append(("token_embd.weight", Q4_0, [hidden, vocabulary], table))
    for layer in range(layers):
        block = f"blk.{layer}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            linear(block + name, hidden, hidden, wide)
        linear(block + "ffn_up", hidden, neurons, wide)
        linear(block + "ffn_down", neurons, hidden, down)
        for name in ("attn_output_norm", "layer_output_norm"):
            vector(f"{block}{name}.weight", ones)
            vector(f"{block}{name}.bias", zeros)
        linear(block + "ffn_predictor_p", hidden, RANK, chooser)
        linear(block + "ffn_predictor_q", RANK, neurons, chooser, none)
        tensors.append((block + "ffn_thresholds", F32, [neurons, 1], thresholds))
        vector(block + "ffn_factors", ones)
        vector(block + "ffn_frequency", floats(frequency))

    sizes, total = [], 0
    for _, kind, shape, _ in tensors:
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        sizes.append((count, total))
        total += -(-(count // 32 * 18 if kind == Q4_0 else 4 * count) // ALIGNMENT) * ALIGNMENT
    with open(options.output, "wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(entries)))
        for name, value in entries.items():
            file.write(struct.pack("<Q", len(name)) + name.encode() + value)
        for (name, kind, shape, _), (_, offset) in zip(tensors, sizes):
            file.write(struct.pack("<Q", len(name)) + name.encode() +
                       struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
        file.write(bytes(-file.tell() % ALIGNMENT))
        for (_, _, _, data), (count, _) in zip(tensors, sizes):
            if isinstance(data, Weights):
                data.write(file, count)
            else:
                file.write(data)
            file.write(bytes(-file.tell() % ALIGNMENT))
    print(f"{sum(count for count, _ in sizes) / 1e9:.2f} billion weights")


if __name__ == "__main__":
    main()
