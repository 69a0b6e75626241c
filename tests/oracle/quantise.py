#!/usr/bin/env python3
"""Checks `wisp quantize` and models of every block format with the gguf package, and with llama.cpp if it is there.

    tests/oracle/quantise.py WISP LOGITS_DRIVER [LLAMA_DRIVER]

gguf writes a tiny Llama of random weights. WISP quantises it to each type: gguf must read the same bytes that it packs
itself (of the types that it packs), and the losses that WISP prints must be those of the dequantised weights. Then the
logits of 300 positions are compared with a forward pass of the dequantised weights in numpy, in double precision: in
f32 within 1e-4 of the largest, in int8 with the same likeliest token at 99 % of the positions and a mean
Kullback-Leibler divergence of at most 0.01, and the same bits with one thread and with three. With WISP_TEST_ALL all kernel
sets are compared but the slow scalar one, else the fastest.

LLAMA_DRIVER is a program that computes logits with llama.cpp as LOGITS_DRIVER (tests/oracle/logits_driver.c) does: MODEL
as its argument, token ids from standard input, floats to standard output. Its logits and wisp's in int8 are held to the
same limits.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import gguf
    import numpy as np
except ImportError as error:
    print(f"skipped: quantise: {error}")
    sys.exit(0)

HIDDEN, WIDE, LAYERS, HEADS, KEY_HEADS, VOCABULARY, POSITIONS = 256, 768, 2, 4, 2, 320, 300
HEAD, EPSILON, THETA = HIDDEN // HEADS, 1e-5, 10000.0
SMALL = ("norm.weight",)


def random_weights(rng):
    """Weights of a model that is sure of its next token, which each token's own row of output.weight makes likely."""
    def matrix(n, k):
        w = rng.normal(size=(n, k)) / np.sqrt(k)
        w[rng.random((n, k)) < 0.002] *= 6  # outliers
        return w.astype(np.float32)

    def norm(n):
        return (1 + 0.2 * rng.normal(size=n)).astype(np.float32)

    embedding = rng.normal(size=(VOCABULARY, HIDDEN)).astype(np.float32)
    weights = {"token_embd.weight": embedding, "output_norm.weight": norm(HIDDEN),
               "output.weight": (embedding[rng.permutation(VOCABULARY)] * 0.03).astype(np.float32)}
    for layer in range(LAYERS):
        block = {"attn_norm": norm(HIDDEN), "attn_q": matrix(HIDDEN, HIDDEN), "attn_k": matrix(KEY_HEADS * HEAD, HIDDEN),
                 "attn_v": matrix(KEY_HEADS * HEAD, HIDDEN), "attn_output": matrix(HIDDEN, HIDDEN), "ffn_norm": norm(HIDDEN),
                 "ffn_gate": matrix(WIDE, HIDDEN), "ffn_up": matrix(WIDE, HIDDEN), "ffn_down": matrix(HIDDEN, WIDE)}
        weights |= {f"blk.{layer}.{name}.weight": w for name, w in block.items()}
    return weights


def write_model(path, weights):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(WIDE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(THETA)
    writer.add_rope_dimension_count(HEAD)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("llama")
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % i for i in range(256)]
    tokens += [b"t%d" % i for i in range(VOCABULARY - len(tokens))]
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(VOCABULARY)])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, values in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def forward(weights, ids):
    """The logits of each position, in double precision."""
    w = {name: values.astype(np.float64) for name, values in weights.items()}
    n = len(ids)
    angles = np.arange(n)[:, None] * THETA ** (-np.arange(0, HEAD, 2) / HEAD)
    turn = np.exp(1j * angles)[:, None, :]

    def rms(x, weight):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPSILON) * weight

    def rotate(x):
        pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)

    x = w["token_embd.weight"][ids]
    for layer in range(LAYERS):
        b = {name.split(".")[2]: v for name, v in w.items() if name.startswith(f"blk.{layer}.")}
        y = rms(x, b["attn_norm"])
        q = rotate((y @ b["attn_q"].T).reshape(n, HEADS, HEAD))
        k = rotate((y @ b["attn_k"].T).reshape(n, KEY_HEADS, HEAD)).repeat(HEADS // KEY_HEADS, axis=1)
        v = (y @ b["attn_v"].T).reshape(n, KEY_HEADS, HEAD).repeat(HEADS // KEY_HEADS, axis=1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(HEAD)
        scores[:, np.triu_indices(n, 1)[0], np.triu_indices(n, 1)[1]] = -np.inf
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        x = x + np.einsum("hij,jhd->ihd", shares, v).reshape(n, HIDDEN) @ b["attn_output"].T
        y = rms(x, b["ffn_norm"])
        gate = y @ b["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ b["ffn_up"].T)) @ b["ffn_down"].T
    return rms(x, w["output_norm.weight"]) @ w["output.weight"].T


def log_softmax(logits):
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def compare(expected, got):
    """The share of positions with the same likeliest token, and the mean divergence."""
    p, q = log_softmax(expected), log_softmax(got)
    return float((p.argmax(1) == q.argmax(1)).mean()), float((np.exp(p) * (p - q)).sum(1).mean())


def run(*words, given=None):
    result = subprocess.run([str(word) for word in words], input=given, capture_output=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {result.stderr.decode()}")
    return result.stdout


def logits_of(ids, *words):
    return np.frombuffer(run(*words, given=ids.astype("<i4").tobytes()), "<f4").reshape(len(ids), VOCABULARY)


def check_bytes(path, name, weights, printed):
    """Compares the tensors of a file with what gguf packs. Returns the dequantised weights."""
    losses = {tensor["name"]: tensor for tensor in printed["tensors"]}
    kind, values = gguf.GGMLQuantizationType[name], {}
    for tensor in gguf.GGUFReader(path).tensors:
        original = weights[tensor.name]
        small = tensor.name.endswith(SMALL)
        assert tensor.tensor_type == (gguf.GGMLQuantizationType.F32 if small else kind), tensor.name
        back = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(original.shape)
        values[tensor.name] = back
        if small:
            assert (back == original).all(), tensor.name
            continue
        try:
            packed = gguf.quantize(original, kind)
            assert packed.tobytes() == tensor.data.tobytes(), f"{name}: {tensor.name}: other bytes than gguf's"
        except NotImplementedError:
            pass
        a, b = original.astype(np.float64).ravel(), back.astype(np.float64).ravel()
        assert losses[tensor.name]["bytes"] == tensor.n_bytes
        assert abs(losses[tensor.name]["mse"] - ((a - b) ** 2).mean()) <= 1e-6 * losses[tensor.name]["mse"] + 1e-15
        assert abs(losses[tensor.name]["cosine"] - a @ b / np.sqrt((a @ a) * (b @ b))) < 1e-7
    return values


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    wisp, driver, llama = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None
    rng = np.random.default_rng(18)
    weights, good = random_weights(rng), True
    ids = np.concatenate([[1], rng.integers(3, VOCABULARY, POSITIONS - 1)])
    sets = run(wisp, "--version").decode().split("kernel sets: ")[1].split(" (")[0].split(", ")
    sets = sets[:-1] or sets if os.environ.get("WISP_TEST_ALL") else sets[:1]
    with tempfile.TemporaryDirectory() as folder:
        plain, quantised = Path(folder) / "plain.gguf", Path(folder) / "quantised.gguf"
        write_model(plain, weights)
        types = [entry["type"] for entry in json.loads(run(wisp, "quantize", "--dry-run", "--format", "json", plain))["types"]]
        types.remove("BITNET_T158")  # tests/oracle/bitnet.py: ggml has none
        assert len(types) == 17, types
        for name in types:
            printed = json.loads(run(wisp, "quantize", "--type", name, "--format", "json", plain, quantised))["types"][0]
            expected = forward(check_bytes(quantised, name, weights, printed), ids)
            exact = logits_of(ids, driver, quantised, sets[0], 1)
            far = float(np.abs(exact - expected).max() / np.abs(expected).max())
            same, divergence = 1.0, 0.0
            for kernels in sets:
                once = logits_of(ids, driver, quantised, kernels, 1, "int8")
                assert once.tobytes() == logits_of(ids, driver, quantised, kernels, 3, "int8").tobytes(), kernels
                top, kl = compare(expected, once)
                same, divergence = min(same, top), max(divergence, kl)
            line = f"{name:8} f32 off by {far:.1e}, int8: same token {same:.4f}, divergence {divergence:.1e}"
            right = far <= 1e-4 and same >= 0.99 and divergence <= 0.01
            if llama:
                theirs = logits_of(ids, llama, quantised)
                top, kl = compare(theirs, once)
                line += f"; llama.cpp: same token {top:.4f}, divergence {kl:.1e}"
                line += " (its own from f64: {:.4f}, {:.1e})".format(*compare(expected, theirs))
                right = right and top >= 0.99 and kl <= 0.01
            print(line if right else f"FAILED: {line}")
            good = good and right
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
