#!/usr/bin/env python3
"""Checks files whose neurons are rows with the gguf package.

    tests/oracle/neurons.py WISP

The default model and a gated one are written anew by gguf with an order of their neurons made up here. WISP (the
program) makes rows of them in every type, and undoes that. gguf must open the files, find the tensors that
docs/formats.md lists, all cold ones last, and take them apart into the same matrices.
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

REPO = Path(__file__).resolve().parents[2]
WISP = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else sys.exit(__doc__)
MODELS = (REPO / "models" / "wisp-default.gguf", REPO / "tests" / "data" / "models" / "nomic")
ORDER, HOT = "wisp.sparse.order", "wisp.sparse.hot"


def wisp(*words):
    subprocess.run([WISP, "convert", *map(str, words)], check=True, stderr=subprocess.DEVNULL)


def field(reader, key):
    return reader.fields[key].contents() if key in reader.fields else None


def tensors_of(reader):
    """Type, shape with the length of a row first, and bytes of each tensor by its name."""
    return {t.name: (t.tensor_type, tuple(int(n) for n in t.shape), t.data.tobytes()) for t in reader.tensors}


def layers_of(reader):
    return int(field(reader, field(reader, "general.architecture") + ".block_count"))


def write_ordered(path, source, chosen):
    """Writes the file with gguf, adding an order and a number of hot neurons for each layer."""
    reader = GGUFReader(source)
    layers = layers_of(reader)
    wide = int(field(reader, field(reader, "general.architecture") + ".feed_forward_length"))
    writer = GGUFWriter(path, field(reader, "general.architecture"))
    for key, entry in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            kind = entry.types[0]
            writer.add_key_value(key, entry.contents(), kind,
                                 entry.types[-1] if kind == GGUFValueType.ARRAY else None)
    order = [int(j) for _ in range(layers) for j in chosen.permutation(wide)]
    writer.add_array(ORDER, order)
    vocabulary = next(int(t.shape[1]) for t in reader.tensors if t.name == "token_embd.weight")
    writer.add_array("wisp.tokens.order", [int(i) for i in chosen.permutation(vocabulary)])
    writer.add_array(HOT, [int(n) for n in chosen.integers(1, wide, layers)])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
    for layer in range(0, layers, 2):  # a base belongs to centers alone
        writer.add_tensor(f"blk.{layer}.ffn_center", chosen.standard_normal(wide, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def nibbles(blocks):
    """Elements 0 to 31 of each block of 16 bytes."""
    return np.concatenate([blocks & 15, blocks >> 4], axis=-1)


def columns_of_down(kind, shape, data):
    """Column j of W_down as its neuron's row has it, and the scales."""
    wide, hidden = shape
    raw = np.frombuffer(data, np.uint8)
    if kind in (GGMLQuantizationType.F32, GGMLQuantizationType.F16):
        return raw.reshape(hidden, wide, -1).transpose(1, 0, 2).reshape(wide, -1), None
    blocks = raw.reshape(hidden, wide // 32, -1)
    scales, quants = blocks[..., :2], blocks[..., 2:]
    if kind == GGMLQuantizationType.Q8_0:
        return quants.reshape(hidden, wide).T, scales.tobytes()
    quants = nibbles(quants).reshape(hidden, wide).T
    return quants[:, 0::2] | quants[:, 1::2] << 4, scales.tobytes()


def row_scales(down):
    largest = np.abs(down).max(axis=1)
    return np.where(largest > 0, np.sqrt(largest), np.float32(1)).tobytes()


def base(down, bias, center):
    """b_down + W_down center, summed neuron after neuron in double precision."""
    products = down.astype(np.float64) * center.astype(np.float64)
    terms = np.concatenate([bias.astype(np.float64)[:, None], products], axis=1)
    return np.cumsum(terms, axis=1)[:, -1].astype(np.float32).tobytes()


class Rows(unittest.TestCase):
    def check_scales(self, prefix, plain, rows):
        kind, (wide, hidden), data = plain[f"{prefix}ffn_down.weight"]
        down = np.frombuffer(data, np.uint8).reshape(hidden, -1)
        down = gguf.quants.dequantize(down, kind).reshape(hidden, wide)
        wanted = {"ffn_down_row_scales": row_scales(down)}
        if f"{prefix}ffn_center" in plain:
            bias = plain.get(f"{prefix}ffn_down.bias", (0, 0, bytes(4 * hidden)))[2]
            center = plain[f"{prefix}ffn_center"][2]
            wanted["ffn_down_base"] = base(down, np.frombuffer(bias, np.float32), np.frombuffer(center, np.float32))
        for name in ("ffn_down_row_scales", "ffn_down_base"):
            self.assertEqual(f"{prefix}{name}" in rows, name in wanted)
            self.assertNotIn(f"{prefix}{name}", plain)
            if name in wanted:
                self.assertEqual(rows[f"{prefix}{name}"], (GGMLQuantizationType.F32, (hidden,), wanted[name]))

    def check_layer(self, layer, plain, rows, order, hot):
        prefix = f"blk.{layer}."
        parts = [name for name in ("ffn_up", "ffn_gate") if f"{prefix}{name}.weight" in plain]
        kind, (hidden, wide), _ = plain[f"{prefix}ffn_up.weight"]
        columns, scales = columns_of_down(*plain[f"{prefix}ffn_down.weight"])
        matrices = [np.frombuffer(plain[f"{prefix}{name}.weight"][2], np.uint8).reshape(wide, -1) for name in parts]
        expected = np.concatenate([*matrices, columns], axis=1)[order]
        stored = kind if scales is None else GGMLQuantizationType.I8
        values = (len(parts) + 1) * hidden if scales is None else expected.shape[1]
        for suffix, part in (("hot", expected[:hot]), ("cold", expected[hot:])):
            found = rows[f"{prefix}ffn_neurons.{suffix}"]
            self.assertEqual(found[:2], (stored, (values, len(part))))
            self.assertEqual(found[2], part.tobytes())
        self.assertEqual(f"{prefix}ffn_down_scales" in rows, scales is not None)
        if scales is not None:
            self.assertEqual(rows[f"{prefix}ffn_down_scales"],
                             (GGMLQuantizationType.F16, (wide // 32, hidden), scales))
        self.check_scales(prefix, plain, rows)
        for name in (*parts, "ffn_down"):
            self.assertNotIn(f"{prefix}{name}.weight", rows)

    def check_file(self, plain_path, rows_path):
        plain_reader, rows_reader = GGUFReader(plain_path), GGUFReader(rows_path)
        plain, rows = tensors_of(plain_reader), tensors_of(rows_reader)
        layers = layers_of(rows_reader)
        order = np.array(field(rows_reader, ORDER)).reshape(layers, -1)
        hot = field(rows_reader, HOT)
        for layer in range(layers):
            self.check_layer(layer, plain, rows, order[layer], hot[layer])
        for name in plain.keys() & rows.keys():
            self.assertEqual(plain[name], rows[name])
        cold = [name.endswith(".cold") for name in rows]
        self.assertEqual(cold, sorted(cold))
        self.assertEqual(sum(cold), layers)

    def test_rows_hold_what_the_matrices_held(self):
        chosen = np.random.default_rng(5)
        for model in MODELS:
            for kind in ("f32", "f16", "q8_0", "q4_0"):
                if model.is_dir() and kind.startswith("q"):
                    continue  # its rows are no whole blocks
                with self.subTest(model=model.name, type=kind), tempfile.TemporaryDirectory() as folder:
                    typed, ordered, rows, again = (Path(folder, name) for name in "abcd")
                    wisp("--type", kind, model, typed)
                    write_ordered(ordered, typed, chosen)
                    wisp("--neurons", ordered, rows)
                    self.check_file(ordered, rows)
                    wisp("--plain", rows, again)
                    self.assertEqual(list(tensors_of(GGUFReader(again)).items()),
                                     [entry for entry in tensors_of(GGUFReader(ordered)).items()
                                      if not entry[0].endswith("ffn_center")])


if __name__ == "__main__":
    unittest.main()
