#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares decoders' Hugging Face folders with transformers: tiny models of random weights, stored by save_pretrained.

    python-torch tests/oracle/decoder_folders.py LOGITS_DRIVER WISP

Logits of 300 tokens must be within 1e-4 of the largest one of transformers, which reads the same folder, and the GGUF
that `wisp convert` makes of the folder must give the same bits. Weights are f32, f16 or bf16, in one file or in shards;
config.json is as transformers 5 writes it, or as version 4 did.
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import decoders  # tests/oracle/decoders.py: models, and the driver. It skips where packages are missing.

import numpy as np  # noqa: E402  (the packages are there)
import torch  # noqa: E402
from tokenizers import Tokenizer, models, normalizers  # noqa: E402
from transformers import (AutoModelForCausalLM, LlamaForCausalLM, MistralConfig, MistralForCausalLM,  # noqa: E402
                          Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, logging)

READ, TOLERANCE = 300, 1e-4


def as_version_4(config):
    """config.json as transformers 4 wrote it."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    config["torch_dtype"] = config.pop("dtype", "float32")


SIZES = decoders.SIZES
READ_AS_FOLDERS = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
PLAIN = {name: (kind, config) for name, (_, kind, config) in decoders.MODELS.items() if kind in READ_AS_FOLDERS}
MORE = {
    "mistral, no window": (MistralForCausalLM, MistralConfig(
        **SIZES, num_key_value_heads=2, sliding_window=None, rope_parameters=decoders.plain_rope(10000.0))),
    "mistral, a window of all positions": (MistralForCausalLM, MistralConfig(
        **SIZES, num_key_value_heads=2, sliding_window=512, rope_parameters=decoders.plain_rope(10000.0))),
    "qwen3, listed layers with a window": (Qwen3ForCausalLM, Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=16, use_sliding_window=True, sliding_window=41,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=decoders.plain_rope(1000000.0))),
    "qwen2, a window that no layer has": (Qwen2ForCausalLM, Qwen2Config(
        **SIZES, num_key_value_heads=2, use_sliding_window=True, sliding_window=41,
        rope_parameters=decoders.plain_rope(1000000.0))),
}
MODELS = PLAIN | MORE
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def write_tokenizer(folder):
    words = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    words += [f"t{i}" for i in range(decoders.VOCABULARY - len(words))]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [], unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.save(str(folder / "tokenizer.json"))


@torch.inference_mode()
def compare(driver, wisp, root, index, name, dtype, shards, version_4):
    kind, config = MODELS[name]
    torch.manual_seed(index)
    model = kind(config)
    for parameter in model.parameters():  # norms and biases too, which would else be 1 and 0
        parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() == 1 else 0.12) +
                        (1 if parameter.dim() == 1 else 0))
    folder, file = root / str(index), root / f"{index}.gguf"
    with contextlib.redirect_stderr(io.StringIO()):
        model.to(dtype).save_pretrained(folder, max_shard_size="40KB" if shards else "1GB")
        theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    if version_4:
        path = folder / "config.json"
        settings = json.loads(path.read_text())
        as_version_4(settings)
        path.write_text(json.dumps(settings))
    write_tokenizer(folder)
    ids = torch.randint(0, decoders.VOCABULARY, (1, READ))
    expected = theirs(ids).logits[0].numpy()
    subprocess.run([wisp, "convert", folder, file], check=True)
    mine = decoders.logits_of(driver, folder, ids[0].tolist(), "scalar", 1)
    converted = decoders.logits_of(driver, file, ids[0].tolist(), "scalar", 1)
    worst = float(np.abs(mine - expected).max() / np.abs(expected).max())
    same = np.array_equal(mine, converted)
    shutil.rmtree(folder)
    print(f"{name}, {str(dtype)[6:]}{', shards' if shards else ''}{', version 4' if version_4 else ''}: worst difference "
          f"{worst:.1e} of the largest, {'the same bits' if same else 'OTHER BITS'} converted", flush=True)
    return worst <= TOLERANCE and same


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    driver, wisp = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as root:
        good = [compare(driver, wisp, Path(root), i, name, DTYPES[i % 3], i % 2 == 0, i % 4 > 1)
                for i, name in enumerate([*MODELS, *reversed(MODELS)])]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
