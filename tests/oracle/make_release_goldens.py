#!/usr/bin/env python3
"""Writes tests/data/releases/VERSION/: files of every kind that a version's program writes, with its embeddings of texts.

Later versions must open these files and embed the same (tests/unit/test_releases.c). The models are tiny and random:
BERT with GELU, BERT with ReLU, and nomic-bert. Each folder has the .gguf files, and goldens.json with the texts and, for
each file, the rows that scalar kernels compute in each mode. Needs only Python and the program.

Run at a release, with a program built from the release's commit: make native, then
tests/oracle/make_release_goldens.py build/wisp. A folder that exists is not written again: released files do not change.
"""

import argparse
import json
import random
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

RELEASES = Path(__file__).resolve().parents[1] / "data" / "releases"

HIDDEN, WIDE, LAYERS, HEADS, POSITIONS = 32, 64, 2, 2, 16
WORDS = ("the a cat dog water river runs sits drinks sleeps under over on by old small red blue house tree and not quickly "
         "slowly ##s ##ing ##ed , . ! ?").split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TEXTS = ["", "The Dog, not the cat, runs!", "a small red river runs quickly by the old tree"]

BERT = {"model_type": "bert", "hidden_act": "gelu", "hidden_size": HIDDEN, "intermediate_size": WIDE,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "vocab_size": len(VOCABULARY)}
NOMIC = {"model_type": "nomic_bert", "activation_function": "swiglu", "causal": False, "layer_norm_epsilon": 1e-12,
         "mlp_fc1_bias": False, "mlp_fc2_bias": False, "n_embd": HIDDEN, "n_head": HEADS, "n_inner": WIDE,
         "n_layer": LAYERS, "n_positions": POSITIONS, "parallel_block": False, "prenorm": False, "qkv_proj_bias": False,
         "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
         "rotary_emb_scale_base": None, "rotary_scaling_factor": None, "scale_attn_by_inverse_layer_idx": False,
         "scale_attn_weights": True, "type_vocab_size": 2, "use_rms_norm": False, "vocab_size": len(VOCABULARY)}


def bert_tensors():
    yield "embeddings.word_embeddings.weight", [len(VOCABULARY), HIDDEN]
    yield "embeddings.position_embeddings.weight", [POSITIONS, HIDDEN]
    yield "embeddings.token_type_embeddings.weight", [2, HIDDEN]
    yield from norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        start = f"encoder.layer.{layer}."
        for name in ("query", "key", "value"):
            yield from dense(f"{start}attention.self.{name}", HIDDEN, HIDDEN)
        yield from dense(f"{start}attention.output.dense", HIDDEN, HIDDEN)
        yield from norm(f"{start}attention.output.LayerNorm")
        yield from dense(f"{start}intermediate.dense", WIDE, HIDDEN)
        yield from dense(f"{start}output.dense", HIDDEN, WIDE)
        yield from norm(f"{start}output.LayerNorm")


def nomic_tensors():
    yield "embeddings.word_embeddings.weight", [len(VOCABULARY), HIDDEN]
    yield "embeddings.token_type_embeddings.weight", [2, HIDDEN]
    yield from norm("emb_ln")
    for layer in range(LAYERS):
        start = f"encoder.layers.{layer}."
        yield f"{start}attn.Wqkv.weight", [3 * HIDDEN, HIDDEN]
        yield f"{start}attn.out_proj.weight", [HIDDEN, HIDDEN]
        yield from norm(f"{start}norm1")
        yield f"{start}mlp.fc11.weight", [WIDE, HIDDEN]
        yield f"{start}mlp.fc12.weight", [WIDE, HIDDEN]
        yield f"{start}mlp.fc2.weight", [HIDDEN, WIDE]
        yield from norm(f"{start}norm2")


def dense(name, outputs, inputs):
    yield f"{name}.weight", [outputs, inputs]
    yield f"{name}.bias", [outputs]


def norm(name):
    yield f"{name}.weight", [HIDDEN]
    yield f"{name}.bias", [HIDDEN]


def write_safetensors(path, tensors, seed):
    """Writes random weights: those of norms about 1, all others about 0."""
    chance = random.Random(seed)
    header, data = {}, b""
    for name, shape in tensors:
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        middle = 1 if re.search(r"(norm\d|LayerNorm|emb_ln)\.weight$", name) else 0
        values = [middle + chance.uniform(-0.4, 0.4) for _ in range(count)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += struct.pack(f"<{count}f", *values)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_folder(folder, config, tensors, seed):
    """Writes a model as sentence-transformers does, with mean pooling and normalised rows."""
    folder.mkdir()
    files = {
        "config.json": config,
        "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "do_lower_case": True,
                                  "tokenize_chinese_chars": True, "strip_accents": None, "model_max_length": POSITIONS},
        "sentence_bert_config.json": {"max_seq_length": POSITIONS, "do_lower_case": False},
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}],
        "1_Pooling/config.json": {"word_embedding_dimension": HIDDEN, "pooling_mode_cls_token": False,
                                  "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False,
                                  "pooling_mode_mean_sqrt_len_tokens": False},
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    write_safetensors(folder / "model.safetensors", tensors, seed)


def sentences(count):
    """Returns random sentences to calibrate with."""
    chance = random.Random(7)
    words = [word for word in WORDS if not word.startswith("##")]
    return [" ".join(chance.choices(words, k=chance.randint(3, 12))) for _ in range(count)]


class Writer:
    def __init__(self, program, out, scratch):
        self.program, self.out, self.scratch = Path(program).resolve(), out, scratch
        self.files = []

    def run(self, *arguments, text=None):
        words = [str(self.program), *map(str, arguments)]
        done = subprocess.run(words, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: {done.stderr.decode()}")
        return done.stdout

    def supports(self, command, option):
        return option in self.run(command, "--help").decode()

    def rows(self, file, compute, predictor):
        data = self.run("embed", "-m", file, "--compute", compute, "--predictor", predictor, "--cpu", "scalar", "-t", 1,
                        "--format", "f32", text="".join(f"{text}\n" for text in TEXTS).encode())
        values = struct.unpack(f"<{len(data) // 4}f", data)
        return [[float(f"{value:.8g}") for value in values[i:i + HIDDEN]] for i in range(0, len(values), HIDDEN)]

    def keep(self, name, *modes):
        """Records the rows of a file in each mode (compute, predictor)."""
        self.files.append({"file": name, "modes": [
            {"compute": compute, "predictor": predictor, "rows": self.rows(self.out / name, compute, predictor)}
            for compute, predictor in modes]})

    def convert(self, folder, name, *options, modes):
        self.run("convert", *options, self.scratch / folder, self.out / name)
        self.keep(name, *modes)

    def calibrate(self, model, name, *options, modes):
        lines = self.scratch / "lines.txt"
        lines.write_text("".join(f"{line}\n" for line in sentences(400)), encoding="utf-8")
        self.run("calibrate", self.out / model, "--data", lines, "-o", self.out / name, "-t", 1, "--rank", 4,
                 "--sparsity", 0.5, *options)
        self.keep(name, *modes)


def write_all(writer):
    both = [("f32", "dense"), ("int8", "dense")]
    write_folder(writer.scratch / "gelu", BERT, bert_tensors(), 1)
    write_folder(writer.scratch / "relu", {**BERT, "hidden_act": "relu"}, bert_tensors(), 2)
    write_folder(writer.scratch / "nomic", NOMIC, nomic_tensors(), 3)
    for kind in ("f32", "q8_0", "q4_0"):
        writer.convert("gelu", f"gelu-{kind}.gguf", "--type", kind, modes=both)
    writer.convert("gelu", "gelu-f16-rows.gguf", "--type", "f16", "--neurons", modes=both)
    writer.convert("relu", "relu-q4_0-rows.gguf", "--type", "q4_0", "--embedding-type", "q8_0", "--neurons",
                   modes=[*both, ("int8", "exact")])
    writer.run("convert", "--type", "q8_0", writer.scratch / "nomic", writer.scratch / "nomic.gguf")
    writer.calibrate(writer.scratch / "nomic.gguf", "nomic-lowrank.gguf", modes=[*both, ("int8", "lowrank")])
    writer.calibrate("gelu-q8_0.gguf", "gelu-lowrank.gguf", modes=[*both, ("int8", "lowrank")])
    writer.calibrate("relu-q4_0-rows.gguf", "relu-q4_0-sentence.gguf", "--sentence", "--predictor-type", "f32",
                     modes=[("int8", "exact"), ("int8", "lowrank"), ("int8", "sentence")])
    if writer.supports("calibrate", "--hot-tokens"):
        writer.calibrate("gelu-q8_0.gguf", "gelu-cold.gguf", "--hot", 0.5, "--hot-tokens", 12,
                         modes=[("int8", "dense"), ("int8", "lowrank")])
    if writer.supports("calibrate", "--shared-p"):
        writer.calibrate("gelu-q4_0.gguf", "gelu-q4_0-shared-p.gguf", "--shared-p", modes=[("int8", "lowrank")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the program wisp of the version")
    parser.add_argument("--name", help="the folder's name (default: the program's version)")
    arguments = parser.parse_args()
    version = subprocess.run([arguments.program, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[1]
    out = RELEASES / (arguments.name or version)
    if out.exists():
        sys.exit(f"{out} exists; files of a release do not change")
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        writer = Writer(arguments.program, out, Path(scratch))
        write_all(writer)
    goldens = {"version": version, "texts": TEXTS, "files": writer.files}
    (out / "goldens.json").write_text(json.dumps(goldens, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{out}: {sum(file.stat().st_size for file in out.iterdir())} bytes")


if __name__ == "__main__":
    main()
