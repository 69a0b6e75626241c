#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares decoders' Hugging Face folders with transformers: tiny models of random weights, stored by save_pretrained.

    python-torch tests/oracle/decoder_folders.py LOGITS_DRIVER WISP [NAME]

Logits of 300 tokens must be within 1e-4 of the largest one of transformers, which reads the same folder, and the GGUF
that `wisp convert` makes of the folder must give the same bits. Weights are f32, f16 or bf16, in one file or in shards;
config.json is as transformers 5 writes it, or as version 4 did. NAME chooses the models whose names have it.
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

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TORCHDYNAMO_DISABLE="1")

import decoders  # tests/oracle/decoders.py: models, and the driver. It skips if packages are missing.

import decoder_configs as configs  # noqa: E402  (the packages are there)
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from tokenizers import Tokenizer, models, normalizers  # noqa: E402
from transformers import (BitNetConfig, BitNetForCausalLM, Gemma2Config, Gemma2ForCausalLM, Gemma3Config, Gemma3ForCausalLM,  # noqa: E402
                          Gemma3ForConditionalGeneration, Gemma3TextConfig, GptOssConfig, GptOssForCausalLM, GPT2Config, GPT2LMHeadModel, Lfm2Config,
                          Lfm2ForCausalLM, LlamaConfig, LlamaForCausalLM, Mistral3Config, Mistral3ForConditionalGeneration, MistralConfig, MistralForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, logging)
from transformers.integrations.bitnet import WeightQuant, pack_weights  # noqa: E402
from transformers.integrations.mxfp4 import convert_moe_packed_tensors  # noqa: E402

READ, TOLERANCE = 300, 1e-4


def as_version_4(config):
    """config.json as transformers 4 wrote it."""
    if "text_config" in config:
        as_version_4(config["text_config"])
    rope = config.pop("rope_parameters", {})
    if "full_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    if config["model_type"] == "gpt_oss" and rope["rope_type"] == "default":  # without an object the class takes YaRN
        config["rope_parameters"] = rope
    elif rope:
        theta, part = ("rotary_emb_base", "rotary_pct") if config["model_type"] == "gpt_neox" else ("rope_theta", "partial_rotary_factor")
        config[theta] = rope.pop("rope_theta")
        if "partial_rotary_factor" in rope:
            config[part] = rope.pop("partial_rotary_factor")
        kind = rope.pop("rope_type")
        config["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    if config["model_type"] == "lfm2":  # as LiquidAI's own folders have it
        config["full_attn_idxs"] = [i for i, kind in enumerate(config.pop("layer_types")) if kind == "full_attention"]
        config["block_ff_dim"] = config.pop("intermediate_size")
        config["tie_embedding"] = config.pop("tie_word_embeddings", True)
    config["torch_dtype"] = config.pop("dtype", "float32")


SIZES, LLAMA = configs.SIZES, dict(**configs.SIZES, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True)
VOCABULARY = configs.VOCABULARY
PLAIN = {name: (kind, config) for name, (_, kind, config) in configs.MODELS.items()}
GEMMA3 = dict(num_key_value_heads=2, head_dim=24, query_pre_attn_scalar=24, sliding_window=33)
MORE = {
    "mistral, no window": (MistralForCausalLM, MistralConfig(
        **SIZES, num_key_value_heads=2, sliding_window=None, rope_parameters=configs.plain_rope(10000.0))),
    "mistral, a window of all positions": (MistralForCausalLM, MistralConfig(
        **SIZES, num_key_value_heads=2, sliding_window=512, rope_parameters=configs.plain_rope(10000.0))),
    "qwen3, listed layers with a window": (Qwen3ForCausalLM, Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=16, use_sliding_window=True, sliding_window=41,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=configs.plain_rope(1000000.0))),
    "qwen2, a window that no layer has": (Qwen2ForCausalLM, Qwen2Config(
        **SIZES, num_key_value_heads=2, use_sliding_window=True, sliding_window=41,
        rope_parameters=configs.plain_rope(1000000.0))),
    "llama, YaRN by two mscales": (LlamaForCausalLM, LlamaConfig(
        **LLAMA, rope_parameters=configs.YARN | {"mscale": 0.707, "mscale_all_dim": 1.4})),
    "qwen2, YaRN of the whole context": (Qwen2ForCausalLM, Qwen2Config(
        **SIZES, num_key_value_heads=2, rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 8.0})),
    "llama, LongRoPE of a longer original": (LlamaForCausalLM, LlamaConfig(
        **LLAMA, rope_parameters=configs.LONGROPE | {"original_max_position_embeddings": 400, "factor": 8.0})),
    "llama, dynamic": (LlamaForCausalLM, LlamaConfig(
        **LLAMA, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0})),
    "phi3, a window": (Phi3ForCausalLM, Phi3Config(
        **SIZES, num_key_value_heads=2, sliding_window=47, pad_token_id=0, rope_parameters=configs.plain_rope(10000.0))),
    "phi3, LongRoPE": (Phi3ForCausalLM, Phi3Config(
        **SIZES, num_key_value_heads=4, original_max_position_embeddings=128, pad_token_id=0, rope_parameters={
            "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": configs.LONGROPE["short_factor"][:8],
            "long_factor": configs.LONGROPE["long_factor"][:8]})),
    "phi3, LongRoPE of a part of each head": (Phi3ForCausalLM, Phi3Config(
        **SIZES, num_key_value_heads=2, original_max_position_embeddings=128, pad_token_id=0, rope_parameters={
            "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
            "short_factor": configs.LONGROPE["short_factor"][:6], "long_factor": configs.LONGROPE["long_factor"][:6]})),
    "gpt2, neurons of their own number, ReLU, a head of its own": (GPT2LMHeadModel, GPT2Config(
        vocab_size=VOCABULARY, n_positions=512, n_embd=64, n_layer=2, n_head=4, n_inner=96, activation_function="relu",
        layer_norm_epsilon=1e-3, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)),
    "gemma2, listed layers, no caps": (Gemma2ForCausalLM, Gemma2Config(
        **SIZES, num_key_value_heads=1, head_dim=32, query_pre_attn_scalar=50, sliding_window=30,
        attn_logit_softcapping=None, final_logit_softcapping=None,
        layer_types=["full_attention", "full_attention", "sliding_attention"],
        rope_parameters=configs.plain_rope(10000.0))),
    "gemma3, every second layer": (Gemma3ForCausalLM, Gemma3TextConfig(
        **SIZES, **GEMMA3, sliding_window_pattern=2)),
    "gemma3 with images": (Gemma3ForConditionalGeneration, Gemma3Config(
        text_config=dict(**{**SIZES, "num_hidden_layers": 7}, **GEMMA3), mm_tokens_per_image=4, boi_token_index=290, eoi_token_index=291,
        image_token_index=292, vision_config=dict(
            hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14))),
    "mistral3 with images": (Mistral3ForConditionalGeneration, Mistral3Config(
        tie_word_embeddings=False, text_config=dict(**SIZES, model_type="mistral", num_key_value_heads=2, head_dim=16, sliding_window=None,
                         rope_parameters=configs.plain_rope(10000.0)),
        vision_config=dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=1,
                           num_attention_heads=2, image_size=28, patch_size=14), image_token_index=292)),
    "lfm2, an adjusted number of neurons": (Lfm2ForCausalLM, Lfm2Config(
        **{**SIZES, "num_hidden_layers": 4, "intermediate_size": 211}, num_key_value_heads=2,
        layer_types=["conv", "full_attention", "conv", "full_attention"], block_multiple_of=24,
        block_ffn_dim_multiplier=1.3, rope_parameters=configs.LLAMA3)),
}
MORE |= {"gpt-oss, experts in MXFP4": (GptOssForCausalLM, GptOssConfig(
    **{**SIZES, "intermediate_size": 96}, num_key_value_heads=2, head_dim=32, num_local_experts=5, num_experts_per_tok=2,
    sliding_window=37, rope_parameters={"rope_type": "yarn", "rope_theta": 150000.0, "factor": 8.0, "beta_fast": 32.0,
                                        "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 64}))}
BITNET = dict(num_key_value_heads=1, rope_parameters=configs.plain_rope(500000.0))
WIDE = {**SIZES, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 2, "tie_word_embeddings": True}
MORE |= {f"bitnet, {form}, {size}": (BitNetForCausalLM, BitNetConfig(**sizes, **BITNET))
         for form in ("packed", "made ternary") for size, sizes in (("small", SIZES), ("wide", WIDE))}
MODELS = PLAIN | MORE
MODELS["ministral3 with images"] = (Mistral3ForConditionalGeneration, Mistral3Config(
    tie_word_embeddings=False, text_config=dict(**SIZES, model_type="ministral3", num_key_value_heads=2, head_dim=16,
        rope_parameters=PLAIN["ministral3"][1].rope_parameters),
    vision_config=dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=1,
                       num_attention_heads=2, image_size=28, patch_size=14), image_token_index=292))


def as_minicpm(config):
    """config.json as MiniCPM's own class has it, of what Granite's computes."""
    config.update(model_type="minicpm", architectures=["MiniCPMForCausalLM"], scale_emb=config.pop("embedding_multiplier"),
                  scale_depth=config.pop("residual_multiplier") * config["num_hidden_layers"]**0.5,
                  dim_model_base=config["hidden_size"] / config.pop("logits_scaling"))
    del config["attention_multiplier"]


def as_mxfp4(folder, settings, model):
    """Packs the experts as OpenAI's folders have them: random codes, whose floats transformers' own function gives the model."""
    settings["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    settings |= {"swiglu_limit": 7.0, "experts_per_token": settings["num_experts_per_tok"], "initial_context_length": 64}
    for file in folder.glob("*.safetensors"):
        tensors = load_file(file)
        for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
            experts, inputs, outputs = tensors.pop(name).shape
            codes = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8)
            scales = torch.randint(121, 126, (experts, outputs, inputs // 32), dtype=torch.uint8)
            tensors |= {f"{name}_blocks": codes, f"{name}_scales": scales}
            model.get_parameter(name).copy_(convert_moe_packed_tensors(codes, scales, dtype=torch.float32))
        save_file(tensors, file)
    for index in folder.glob("*.index.json"):
        text = json.loads(index.read_text())
        text["weight_map"] = {name: file.name for file in folder.glob("*.safetensors") for name in load_file(file)}
        index.write_text(json.dumps(text))


def as_bitnet(folder, settings, model, form):
    """Stores matrices as the folders of BitNet b1.58 2B4T do, packed or as floats that are made ternary when they are used."""
    settings["quantization_config"] = {"quant_method": "bitnet", "linear_class": "autobitlinear",
                                       "quantization_mode": "offline" if form == "packed" else "online"}
    for file in folder.glob("*.safetensors"):
        tensors = load_file(file)
        for name in [name for name in tensors if name.endswith("_proj.weight")]:
            stored = tensors[name]
            if form == "packed":
                values, scale = torch.randint(-1, 2, stored.shape).float(), (0.05 + 0.1 * torch.rand(1)).to(torch.bfloat16)
                model.get_parameter(name).copy_(values * scale.float())
                tensors |= {name: pack_weights(values), f"{name}_scale": scale}
            else:
                model.get_parameter(name).copy_(WeightQuant.apply(stored).float())
        save_file(tensors, file)
    for index in folder.glob("*.index.json"):
        text = json.loads(index.read_text())
        text["weight_map"] = {name: file.name for file in folder.glob("*.safetensors") for name in load_file(file)}
        index.write_text(json.dumps(text))


DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def write_tokenizer(folder):
    words = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    words += [f"t{i}" for i in range(configs.VOCABULARY - len(words))]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [], unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.save(str(folder / "tokenizer.json"))


@torch.inference_mode()
def compare(driver, wisp, root, index, name, dtype, shards, version_4):
    kind, config = MODELS[name]
    if name == "bitnet, made ternary, wide" and version_4:  # the published one's type, of whose matrices TQ2_0 is made
        dtype = torch.bfloat16
    # Every form of a folder has equal weights: angles, which transformers rounds to f32 at each position, and wisp does
    # not, differ by 1e-5 at 300 positions, and with some random weights attention magnifies that to 1e-4.
    torch.manual_seed(list(MODELS).index(name))
    model = kind(config)
    for parameter in model.parameters():  # norms and biases too, which would else be 1 and 0
        parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() == 1 else 0.12) +
                        (1 if parameter.dim() == 1 else 0))
    for buffer in (buffer for name, buffer in model.named_buffers() if name.endswith(("expert_bias", "correction_bias"))):
        buffer.copy_(torch.randn_like(buffer) * 0.3)
    folder, file = root / str(index), root / f"{index}.gguf"
    with contextlib.redirect_stderr(io.StringIO()):
        model.to(dtype).save_pretrained(folder, max_shard_size="40KB" if shards else "1GB")
        theirs = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                       experts_implementation="eager").eval()
    path = folder / "config.json"
    settings = json.loads(path.read_text())
    if version_4:
        as_version_4(settings)
    if name == "minicpm":
        as_minicpm(settings)
    if name.startswith("bitnet") and name in MORE:
        as_bitnet(folder, settings, theirs, name.split(", ")[1])
    if name.endswith("MXFP4"):
        as_mxfp4(folder, settings, theirs)
    path.write_text(json.dumps(settings))
    write_tokenizer(folder)
    ids = torch.randint(0, configs.VOCABULARY, (1, READ))
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
        good = [compare(driver, wisp, Path(root), i, name, DTYPES[i % 3], i % 2 == 0, (i % 4 > 1) != (i >= len(MODELS)))
                for i, name in enumerate([*MODELS, *reversed(MODELS)]) if not sys.argv[3:] or sys.argv[3] in name]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
