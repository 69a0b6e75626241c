#!/usr/bin/env python3
"""Checks `wisp quantize --type bitnet_t158` with a quantiser in numpy that was written from PT-BitNet's document alone.

    tests/oracle/bitnet.py WISP

A Hugging Face folder of a model that wisp does not know, with GLM-4.7-Flash's tensors and random weights of small widths, in BF16 and in three shards, goes
through WISP under the policy glm-4.7-flash, with several options. Every byte of every tensor must be that of numpy, and
the statistics of --report those of its codes. A larger folder of the same kind, whose files are larger than the limit,
goes through in an address space of the largest tensor in floats plus 100 MB.
"""

import json
import resource
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: bitnet: {error}")
    sys.exit(0)

BLOCK, T158, F32 = 256, 30, 0
HIDDEN, EXPERT, DENSE, EXPERTS, LAYERS, VOCABULARY = 96, 72, 200, 4, 3, 1000
LARGE = 65536  # rows of the tensors of the folder that tests memory
KEYS = {"version": "1", "weight_encoding": "absmean_ternary", "activation_bits": "8", "block_size": "256",
        "kernel_hint": "tl1"}
OPTIONS = ({}, {"clip_threshold": 2.0}, {"clip_threshold": 0.4}, {"epsilon": 0.01}, {"target_sparsity": 0.6})


# ---- the document --------------------------------------------------------------------------------

def ternary_of(block, epsilon, clip_threshold, target_sparsity):
    """Codes and scale of a block of floats, which the caller has padded; only `real` of them are weights."""
    values, real = block
    total = np.float32(0)
    for magnitude in np.abs(values):
        total = np.float32(total + magnitude)
    scale = np.float32(np.float32(total / np.float32(BLOCK)) + np.float32(epsilon))
    cut = np.clip((values / scale).astype(np.float32), -np.float32(clip_threshold), np.float32(clip_threshold))
    rounded = np.sign(cut) * np.floor(np.abs(cut).astype(np.float64) + 0.5)  # halves away from 0
    ternary = np.clip(rounded, -1, 1).astype(int)
    if target_sparsity > 0:
        wanted = int(np.ceil(float(np.float32(target_sparsity)) * real))
        ternary[np.argsort(np.abs(values[:real]), kind="stable")[:wanted]] = 0
    return ternary, scale


def quantise(values, epsilon=1e-8, clip_threshold=1.0, target_sparsity=0.0):
    """The bytes of a tensor, its ternary values and its scales."""
    flat = values.reshape(-1)
    blocks, codes, scales = bytearray(), [], []
    for start in range(0, flat.size, BLOCK):
        real = min(BLOCK, flat.size - start)
        padded = np.zeros(BLOCK, np.float32)
        padded[:real] = flat[start:start + real]
        ternary, scale = ternary_of((padded, real), epsilon, clip_threshold, target_sparsity)
        stored = np.float16(scale)
        if not np.isfinite(stored):
            stored = np.float16(epsilon)
        quads = (ternary + 1).reshape(-1, 4)
        blocks += bytes(int(a | b << 2 | c << 4 | d << 6) for a, b, c, d in quads) + stored.tobytes()
        codes.append(ternary[:real])
        scales.append(float(stored))
    return bytes(blocks), np.concatenate(codes), np.array(scales)


# ---- the model -----------------------------------------------------------------------------------

def shapes():
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}.{norm}.weight", (HIDDEN,)
        yield f"{at}.self_attn.q_a_proj.weight", (48, HIDDEN)
        yield f"{at}.self_attn.q_a_layernorm.weight", (48,)
        yield f"{at}.self_attn.q_b_proj.weight", (128, 48)
        yield f"{at}.self_attn.kv_a_proj_with_mqa.weight", (40, HIDDEN)
        yield f"{at}.self_attn.kv_a_layernorm.weight", (32,)
        yield f"{at}.self_attn.kv_b_proj.weight", (112, 32)
        yield f"{at}.self_attn.o_proj.weight", (HIDDEN, 64)
        if layer == 0:
            names, width = [f"{at}.mlp"], DENSE
        else:
            yield f"{at}.mlp.gate.weight", (EXPERTS, HIDDEN)
            yield f"{at}.mlp.gate.e_score_correction_bias", (EXPERTS,)
            names, width = [f"{at}.mlp.experts.{e}" for e in range(EXPERTS)] + [f"{at}.mlp.shared_experts"], EXPERT
        for name in names:
            yield f"{name}.gate_proj.weight", (width, HIDDEN)
            yield f"{name}.up_proj.weight", (width, HIDDEN)
            yield f"{name}.down_proj.weight", (HIDDEN, width)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCABULARY, HIDDEN)


def write_shards(folder, tensors, shards=3):
    names, places = list(tensors), {}
    for shard in range(shards):
        header, data, file = {}, bytearray(), f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        for name in names[shard::shards]:
            bits = (tensors[name].view(np.uint32) >> 16).astype("<u2").tobytes()
            header[name] = {"dtype": "BF16", "shape": tensors[name].shape, "data_offsets": [len(data), len(data) + len(bits)]}
            data += bits
            places[name] = file
        text = json.dumps(header).encode()
        (folder / file).write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "config.json").write_text(json.dumps({"model_type": "glm_of_another_kind", "architectures": ["GlmOfAnotherKind"]}))


def read_gguf(path):
    """The metadata and {name: (type, shape, bytes)} of a file."""
    data, at = path.read_bytes(), 4

    def take(kind):
        nonlocal at
        value, = struct.unpack_from("<" + kind, data, at)
        at += struct.calcsize(kind)
        return value

    def text():
        nonlocal at
        length = take("Q")
        at += length
        return data[at - length:at].decode()

    assert take("I") == 3
    n_tensors, n_keys = take("Q"), take("Q")
    metadata, listed = {}, []
    for _ in range(n_keys):
        key, kind = text(), take("I")
        metadata[key] = text() if kind == 8 else take({4: "I", 5: "i", 6: "f", 7: "?"}[kind])
    for _ in range(n_tensors):
        name = text()
        shape = [take("Q") for _ in range(take("I"))]
        listed.append((name, shape[::-1], take("I"), take("Q")))
    start, tensors = (at + 31) // 32 * 32, {}
    for name, shape, kind, offset in listed:
        n = int(np.prod(shape))
        size = (n + BLOCK - 1) // BLOCK * 66 if kind == T158 else 4 * n
        tensors[name] = (kind, tuple(shape), data[start + offset:start + offset + size])
    return metadata, tensors


# ---- the comparison ------------------------------------------------------------------------------

def is_ternary(name):
    return ".mlp.experts." in name or ".mlp.shared_experts." in name


def run(wisp, folder, *options, limit=resource.RLIM_INFINITY):
    """Quantises the folder to its out.gguf, which is returned, in an address space of so many bytes."""
    out = folder / "out.gguf"
    subprocess.run([wisp, "quantize", "--type", "bitnet_t158", "--policy", "glm-4.7-flash", "--any-architecture", folder,
                    out, *options], check=True, stdout=subprocess.DEVNULL,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    return out


def check(wisp, folder, tensors, options):
    named = [word for option, value in options.items() for word in ("--" + option.replace("_", "-"), repr(value))]
    metadata, written = read_gguf(run(wisp, folder, "--report", folder / "report", *named))
    assert {name: metadata["craftsman.bitnet." + name] for name in KEYS} == KEYS
    assert metadata["general.architecture"] == "glm_of_another_kind"
    assert json.loads(metadata["wisp.huggingface.config"])["model_type"] == "glm_of_another_kind"
    assert written.keys() == tensors.keys()
    told = {entry["name"]: entry for entry in json.loads((folder / "report.json").read_text())["tensors"]}
    for name, values in tensors.items():
        kind, shape, found = written[name]
        assert shape == values.shape and kind == (T158 if is_ternary(name) else F32), name
        if not is_ternary(name):
            assert found == values.tobytes(), name
            continue
        blocks, codes, scales = quantise(values, **options)
        assert found == blocks, f"{name}: {options}"
        back = codes * np.repeat(scales, BLOCK)[:codes.size]
        flat, entry = values.reshape(-1).astype(np.float64), told[name]
        norm = np.linalg.norm(flat) * np.linalg.norm(back)
        for key, want in (("mse", np.mean((flat - back) ** 2)), ("cosine", flat @ back / norm if norm else 0),
                          ("sparsity", np.mean(codes == 0)), ("scale_mean", scales.mean()),
                          ("scale_deviation", scales.std()), ("blocks", scales.size)):
            assert abs(entry[key] - want) <= 1e-6 * max(abs(want), 1e-3), (name, key, entry[key], want)
    assert (folder / "report.svg").read_text().rstrip().endswith("</svg>")


def check_memory(wisp, folder):
    """Experts' weights are zeros in an array that all share, so that the test itself is small."""
    large = np.zeros((LARGE, HIDDEN), np.float32)
    tensors = {"model.embed_tokens.weight": large[:8]}
    tensors |= {f"model.layers.1.mlp.experts.{expert}.up_proj.weight": large for expert in range(11)}
    limit = large.nbytes + 100_000_000
    write_shards(folder, tensors)
    assert sum(file.stat().st_size for file in folder.glob("*.safetensors")) > limit
    _, written = read_gguf(run(wisp, folder, limit=limit))
    assert written.keys() == tensors.keys()
    zeros = bytes([0x55] * 64 + [0, 0]) * (large.size // BLOCK)
    assert all(written[name][2] == zeros for name in tensors if is_ternary(name))


def main():
    wisp = Path(sys.argv[1]).resolve()
    rng = np.random.default_rng(18)
    tensors = {}
    for name, shape in shapes():
        values = (rng.normal(size=shape) * rng.choice([0.02, 1.0, 7.0])).astype(np.float32)
        tensors[name] = (values.view(np.uint32) & 0xffff0000).view(np.float32)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_shards(folder, tensors)
        for options in OPTIONS:
            check(wisp, folder, tensors, options)
    with tempfile.TemporaryDirectory() as temporary:
        check_memory(wisp, Path(temporary))
    print(f"bitnet: {len(tensors)} tensors, {len(OPTIONS)} sets of options: the bytes of numpy")


main()
