#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares decoders and codecs with llama.cpp, which node-llama-cpp brings as libraries and as a git bundle.

    python-torch tests/oracle/llama.py WISP LOGITS_DRIVER CODEC_DRIVER [NAME]

Run `npm ci` in bench/ first. Small models of random weights, of each architecture, are written as GGUF and quantised by
WISP to each type. At 300 positions of each file wisp's likeliest token must be llama.cpp's at 99 % of them, and the mean
Kullback-Leibler divergence at most 0.01. Of the F32 file wisp must be within a divergence of 1e-8 of transformers in
doubles, and of 1e-6 of llama.cpp if that keeps floats and does without flash attention, which computes in 16 bits.

Hidden states share the token's embedding with the rows of the output, so that models are as sure of their tokens as
trained ones are. Of purely random weights the two likeliest tokens differ by 0.2 nats, and 8-bit activations, which both
programs have, choose among ties at 3 to 8 % of the positions.

Ids of texts must be llama.cpp's in all of Unicode but for what it does not do: NFC of Qwen's texts, characters of
Unicode 16, contractions with a long s. There wisp follows Hugging Face tokenizers (codecs.py). NAME chooses the models
whose names have it, and leaves the texts out.
"""

import copy
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import decoders  # tests/oracle/decoders.py: how models are written. It skips if packages are missing.

import numpy as np  # noqa: E402  (the packages are there)
import quantise  # noqa: E402  (tests/oracle/quantise.py: comparisons)
import torch  # noqa: E402
from decoder_configs import VOCABULARY, plain_rope  # noqa: E402
from transformers import (Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config,  # noqa: E402
                          GPT2LMHeadModel, Lfm2Config, Lfm2ForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

POSITIONS = 300
TYPES = ["F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q4_K", "Q5_K", "Q6_K"]
# 256 columns, so that each type has whole blocks.
SIZES = dict(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=512, bos_token_id=1, eos_token_id=2)
KEYS = dict(num_key_value_heads=2)
MODELS = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SIZES, **KEYS, tie_word_embeddings=True, rope_parameters=plain_rope(1e4))),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SIZES, **KEYS, tie_word_embeddings=True, rope_parameters=plain_rope(1e6))),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(
        **SIZES, **KEYS, head_dim=64, tie_word_embeddings=True, rope_parameters=plain_rope(1e6))),
    "gpt2": (GPT2LMHeadModel, GPT2Config(
        vocab_size=VOCABULARY, n_positions=512, n_embd=256, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)),
    "lfm2": (Lfm2ForCausalLM, Lfm2Config(
        **{**SIZES, "num_hidden_layers": 4}, **KEYS, full_attn_idxs=[1, 3], block_auto_adjust_ff_dim=False,
        rope_parameters=plain_rope(1e6))),
    "gemma2": (Gemma2ForCausalLM, Gemma2Config(
        **SIZES, **KEYS, head_dim=64, query_pre_attn_scalar=64, sliding_window=45, rope_parameters=plain_rope(1e4))),
    "gemma3": (Gemma3ForCausalLM, Gemma3TextConfig(
        **{**SIZES, "num_hidden_layers": 7}, **KEYS, head_dim=64, query_pre_attn_scalar=64, sliding_window=33,
        rope_parameters={"sliding_attention": plain_rope(1e4),
                         "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}})),
}


def build_driver(folder):
    """Compiles bench/generate/llama_driver.c. Returns the words that run it."""
    packages = decoders.REPO / "bench" / "node_modules"
    machine = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    libraries = packages / "@node-llama-cpp" / f"linux-{machine}" / "bins" / f"linux-{machine}"
    bundle = packages / "node-llama-cpp" / "llama" / "gitRelease.bundle"
    if not libraries.is_dir() or not bundle.is_file():
        print(f"skipped: {packages} has no node-llama-cpp: npm ci in bench/")
        sys.exit(0)
    source, driver = folder / "llama.cpp", folder / "llama_driver"
    subprocess.run(["git", "-c", "advice.detachedHead=false", "clone", "-q", bundle, source], check=True)
    names = [f"-l:{path.name}" for kind in ("libllama.v*", "libggml.v*", "libggml-base*") for path in libraries.glob(kind)]
    subprocess.run(["cc", "-O1", f"-I{source}/include", f"-I{source}/ggml/include",
                    decoders.REPO / "bench" / "generate" / "llama_driver.c", "-o", driver, f"-L{libraries}", *names,
                    f"-Wl,-rpath,{libraries}"], check=True)
    return [driver, libraries]


def fill(model, name):
    """Draws weights. The residual stream is mostly the token's embedding, whose row of the output is then likely."""
    # Gemma multiplies by 16.
    embedding = {"gpt2": 0.6, "lfm2": 0.8, "gemma2": 1.0 / 16, "gemma3": 1.6 / 16}.get(name, 0.4)
    for path, values in model.named_parameters():
        inputs = values.shape[0] if name == "gpt2" and values.dim() == 2 else values.shape[-1]
        if "embed_tokens" in path or "wte" in path:
            values.copy_(torch.randn_like(values) * embedding)
        elif values.dim() > 1:
            values.copy_(torch.randn_like(values) / inputs**0.5)
        elif path.endswith("bias"):
            values.copy_(torch.randn_like(values) * 0.1)
        else:
            last = path in ("model.norm.weight", "model.embedding_norm.weight", "transformer.ln_f.weight")
            mean = 0.06 / embedding if last else 1.0
            values.copy_(mean * (1 + 0.2 * torch.randn_like(values)) - (1 if name.startswith("gemma") else 0))


@torch.inference_mode()
def compare_logits(wisp, driver, llama, folder, name):
    kind, config = MODELS[name]
    config._attn_implementation = "eager"  # the only one that bounds scores softly
    torch.manual_seed(list(MODELS).index(name))
    model = kind(config).eval()
    fill(model, name)
    plain, quantised = folder / "plain.gguf", folder / "quantised.gguf"
    decoders.write_gguf(plain, name, model)
    ids = torch.randint(3, VOCABULARY, (1, POSITIONS))
    given, kernels = ids[0].numpy(), subprocess.run([wisp, "--version"], capture_output=True, check=True, text=True)
    fastest = kernels.stdout.split("kernel sets: ")[1].split(" (")[0].split(", ")[0]

    def logits(*words):
        sent = quantise.run(*words, given=given.astype("<i4").tobytes())
        return np.frombuffer(sent, "<f4").reshape(POSITIONS, VOCABULARY)

    doubles = copy.deepcopy(model).double()(ids).logits[0].numpy()
    best = np.sort(quantise.log_softmax(doubles), axis=1)
    mine, default = logits(driver, plain, fastest, 1), logits(*llama, plain, "logits")
    exact = logits(*llama, plain, "exact")
    own, near, far = (quantise.compare(a, b) for a, b in ((doubles, mine), (exact, mine), (doubles, default)))
    good = own[1] <= 1e-8 and near[1] <= 1e-6
    print(f"{name}: the two likeliest tokens differ by {np.median(best[:, -1] - best[:, -2]):.1f} nats\n"
          f"  F32    wisp from doubles {own[0]:.4f}, {own[1]:.0e}; llama.cpp {far[0]:.4f}, {far[1]:.0e}; "
          f"without 16 bits from wisp {near[0]:.4f}, {near[1]:.0e}{'' if good else '  FAILED'}", flush=True)
    for type_name in TYPES:
        quantise.run(wisp, "quantize", "--type", type_name, plain, quantised)
        mine, theirs = logits(driver, quantised, fastest, 1, "int8"), logits(*llama, quantised, "logits")
        exact = logits(driver, quantised, fastest, 1)
        top, divergence = quantise.compare(theirs, mine)
        right = top >= 0.99 and divergence <= 0.01
        print(f"  {type_name:6} {top:.4f}, {divergence:.0e}; of wisp's in f32: wisp {quantise.compare(exact, mine)[1]:.0e}, "
              f"llama.cpp {quantise.compare(exact, theirs)[1]:.0e}{'' if right else '  FAILED'}", flush=True)
        good = good and right
    return good


# Blocks and characters of Unicode 16, which llama.cpp's tables lack.
UNICODE_16 = [(0x897, 0x897), (0x1B4E, 0x1B4F), (0x1B7F, 0x1B7F), (0x1C89, 0x1C8A), (0x2427, 0x2429), (0x31E4, 0x31E5),
              (0xA7CB, 0xA7CD), (0xA7DA, 0xA7DC), (0x105C0, 0x105FF), (0x10D40, 0x10D8F), (0x10EC2, 0x10EC4),
              (0x10EFC, 0x10EFC), (0x11380, 0x113FF), (0x116D0, 0x116FF), (0x11BC0, 0x11BFF), (0x11F5A, 0x11F5A),
              (0x13460, 0x143FF), (0x16100, 0x1613F), (0x16D40, 0x16D7F), (0x18CFF, 0x18CFF), (0x1CC00, 0x1CEBF),
              (0x1E5D0, 0x1E5FF), (0x1F8B2, 0x1F8C1), (0x1FA89, 0x1FAE9), (0x1FBCB, 0x1FBEF)]


def is_equal_in_both(name, text):
    """Whether llama.cpp does all that the model's tokenizer.json says for a text."""
    if any(first <= ord(c) <= last for c in text for first, last in UNICODE_16) or ("'" in text and "\u017f" in text):
        return False
    return not name.startswith("qwen2") or unicodedata.is_normalized("NFC", text)


def compare_ids(driver, llama, folder):
    spec = importlib.util.spec_from_file_location("codec_texts", Path(__file__).with_name("codecs.py"))
    codecs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(codecs)
    texts = codecs.every_code_point()[::8] + codecs.generated(2000)
    good = True
    for codec in codecs.make_codecs(folder):
        if "user-defined" in codec.name:  # llama.cpp prefers the longest of them, tokenizers the first
            continue
        some = [text for text in texts if len(text) < 20000 and text == text.decode("utf-8", "ignore").encode() and
                is_equal_in_both(codec.name, text.decode("utf-8"))]
        sent = b"".join(len(text).to_bytes(4, "little") + text for text in some)
        mine, theirs = (quantise.run(*words, given=sent) for words in ((driver, codec.path), (*llama, codec.path, "ids")))
        print(f"{codec.name}: ids of {len(some)} texts and their texts {'equal' if mine == theirs else 'DIFFER'}", flush=True)
        good = good and mine == theirs
    return good


def main():
    wisp, driver, codec_driver = (Path(word).resolve() for word in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        llama = build_driver(folder)
        good = [compare_logits(wisp, driver, llama, folder, name) for name in MODELS if (sys.argv[4:] or [""])[0] in name]
        if not sys.argv[4:]:
            good.append(compare_ids(codec_driver, llama, folder))
    return 0 if all(good) else 1


if __name__ == "__main__":
    os.environ["WISP_TEST_ALL"] = "1"  # codecs.py: all texts, of which some are taken here
    sys.exit(main())
