#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares texts by a device library with those of the CPU, and checks what a device refuses.

usage: test_generator.py WISP LIBRARY STORIES [MODEL]

The model is a small one of random weights, with the tokenizer of STORIES (models/wisp-stories.gguf), whose own heads are too
small for a GPU; or MODEL.
"""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD = 64, 96, 2, 2, 1, 32
U32, F32, STRING, ARRAY = 4, 6, 8, 9
BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
PROMPTS = ["Once upon a time", "Lily and the dog went to the park. They"]


class Reader:
    """Reads the metadata of a GGUF file, as bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 24

    def take(self, n: int) -> bytes:
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, layout: str) -> int:
        return int(struct.unpack(layout, self.take(struct.calcsize(layout)))[0])

    def skip(self, kind: int) -> None:
        if kind == STRING:
            self.take(self.number("<Q"))
        elif kind == ARRAY:
            element, count = self.number("<I"), self.number("<Q")
            for _ in range(count):
                self.skip(element)
        else:
            self.take(BYTES[kind])


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def tokenizer_of(stories: bytes) -> tuple[list[bytes], int]:
    """Returns the entries of a file that belong to its tokenizer, and the number of tokens."""
    reader, kept, tokens = Reader(stories), [], 0
    for _ in range(struct.unpack("<Q", stories[16:24])[0]):
        start = reader.at
        key = reader.take(reader.number("<Q")).decode()
        kind = reader.number("<I")
        if key == "tokenizer.ggml.tokens":
            tokens = struct.unpack("<Q", stories[reader.at + 4 : reader.at + 12])[0]
        reader.skip(kind)
        if key.startswith("tokenizer."):
            kept.append(stories[start : reader.at])
    return kept, tokens


def make_model(stories: bytes) -> bytes:
    entries, tokens = tokenizer_of(stories)
    entries.append(text("general.architecture") + struct.pack("<I", STRING) + text("llama"))
    for name, number in {"context_length": 512, "embedding_length": HIDDEN, "feed_forward_length": INNER, "block_count": LAYERS,
                         "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "rope.dimension_count": HEAD,
                         "attention.key_length": HEAD, "attention.value_length": HEAD}.items():
        entries.append(text("llama." + name) + struct.pack("<II", U32, number))
    entries.append(text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", F32, 1e-5))
    shapes = {"token_embd.weight": (HIDDEN, tokens), "output_norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        for name, shape in {"attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,), "attn_q": (HIDDEN, HEADS * HEAD),
                            "attn_k": (HIDDEN, KV_HEADS * HEAD), "attn_v": (HIDDEN, KV_HEADS * HEAD),
                            "attn_output": (HEADS * HEAD, HIDDEN), "ffn_gate": (HIDDEN, INNER), "ffn_up": (HIDDEN, INNER),
                            "ffn_down": (INNER, HIDDEN)}.items():
            shapes[f"blk.{layer}.{name}.weight"] = shape
    random.seed(1)
    infos, values = b"", b""
    for name, shape in shapes.items():
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(values))
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        scale = 1.5 / shape[0] ** 0.5
        rows = [random.gauss(0, scale) if len(shape) > 1 else random.uniform(0.5, 1.5) for _ in range(count)]
        values += struct.pack(f"<{count}f", *rows)
        values += bytes(-len(values) % 32)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(entries)) + b"".join(entries) + infos
    return header + bytes(-len(header) % 32) + values


def run(wisp: str, library: str, model: str, *options: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, WISP_CUDA_LIBRARY=library)
    return subprocess.run([wisp, "generate", "--model", model, "--temperature", "0", *options], env=environment, text=True,
                          capture_output=True, check=False)


def texts_of(process: subprocess.CompletedProcess[str]) -> list[str]:
    """Returns the texts of beams, whose scores differ a little, or all that was written."""
    if not process.stdout.startswith("{"):
        return [process.stdout]
    return [json.loads(line)["text"] for line in process.stdout.splitlines()]


def compare(wisp: str, library: str, model: str) -> None:
    for options in (["-n", "24"], ["-n", "8", "--beams", "2"], ["-n", "12", "--draft", "3"]):
        for compute in ("f32", "int8"):
            tried = [*options, "--compute", compute, "--text", PROMPTS[0]]
            device = run(wisp, library, model, *tried, "--device", "cuda")
            cpu = run(wisp, library, model, *tried)
            assert device.returncode == 0, device.stderr
            assert compute == "int8" or texts_of(device) == texts_of(cpu), f"{tried}: {device.stdout!r}, the CPU's: {cpu.stdout!r}"
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file: # texts beside each other
        file.write("".join(json.dumps(prompt) + "\n" for prompt in [*PROMPTS, PROMPTS[0] + " there"]))
        file.flush()
        options = ["-n", "16", "--compute", "f32", "--data", file.name]
        device = run(wisp, library, model, *options, "--device", "cuda")
        cpu = run(wisp, library, model, *options)
        assert device.returncode == 0 and device.stdout == cpu.stdout, device.stderr + device.stdout


def sparse(wisp: str, library: str, model: str) -> None:
    """All neurons give the text of a dense decoder, and few of them another one."""
    options = ["-n", "16", "--compute", "int8", "--text", PROMPTS[0], "--device", "cuda"]
    dense = run(wisp, library, model, *options)
    texts = [run(wisp, library, model, *options, "--predictor", "topk", "--sparsity", share) for share in ("0.001", "0.8", "0.8")]
    assert all(process.returncode == 0 for process in texts), texts[0].stderr
    assert texts[0].stdout == dense.stdout != texts[1].stdout == texts[2].stdout, (dense.stdout, texts)


def devices(wisp: str, library: str) -> None:
    environment = dict(os.environ, WISP_CUDA_LIBRARY=library)
    version = subprocess.run([wisp, "--version"], env=environment, text=True, capture_output=True, check=True).stdout
    assert "devices: cpu, cuda (" in version, version
    environment["WISP_CUDA_LIBRARY"] = "/no/library"
    version = subprocess.run([wisp, "--version"], env=environment, text=True, capture_output=True, check=True).stdout
    assert version.endswith("devices: cpu\n"), version


def limits(wisp: str, library: str, model: str, folder: str) -> None:
    """Limits of scores from calibration choose neurons, too."""
    data, gates = f"{folder}/texts.txt", f"{folder}/gates.gguf"
    Path(data).write_text("\n".join(PROMPTS * 4), encoding="utf-8")
    subprocess.run([wisp, "calibrate", model, "--data", data, "--sparsity", "0.5", "-o", gates], check=True, capture_output=True)
    options = ["-n", "16", "--text", PROMPTS[0], "--device", "cuda"]
    dense = run(wisp, library, gates, *options, "--compute", "int8")
    texts = [run(wisp, library, gates, *options, "--predictor", "gate", "--sparsity", "0.8") for _ in range(2)]
    assert all(process.returncode == 0 for process in texts), texts[0].stderr
    assert dense.stdout != texts[0].stdout == texts[1].stdout, (dense.stdout, texts)


def refusals(wisp: str, library: str, model: str, stories: str) -> None:
    for options, what in ((["--cache-type", "int8"], "cache_type"), (["--attention", "local"], "attention"),
                          (["--predictor", "lowrank"], "sparse"), (["--kv-memory", "1M"], "kv_memory")):
        device = run(wisp, library, model, "--text", "a", "-n", "2", "--device", "cuda", *options)
        assert device.returncode == 3 and what in device.stderr, (options, device.returncode, device.stderr)
    device = run(wisp, library, stories, "--text", "a", "-n", "2", "--device", "cuda")
    assert device.returncode == 3 and "8 heads of 8 values" in device.stderr, device.stderr
    automatic = run(wisp, library, stories, "--text", "a", "-n", "5", "--device", "auto")
    cpu = run(wisp, library, stories, "--text", "a", "-n", "5")
    assert automatic.returncode == 0 and automatic.stdout == cpu.stdout, automatic.stderr


def main() -> None:
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    wisp, library, stories = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        model = sys.argv[4] if len(sys.argv) > 4 else f"{folder}/random.gguf"
        if len(sys.argv) == 4:
            Path(model).write_bytes(make_model(Path(stories).read_bytes()))
        devices(wisp, library)
        compare(wisp, library, model)
        sparse(wisp, library, model)
        limits(wisp, library, model, folder)
        refusals(wisp, library, model, stories)
    print("texts of the device are those of the CPU")


if __name__ == "__main__":
    main()
