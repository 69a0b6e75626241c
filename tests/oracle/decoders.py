#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares decoders with transformers: tiny models of random weights, written as GGUF by the gguf package.

    python-torch tests/oracle/decoders.py LOGITS_DRIVER

Every model's logits must be within 1e-4 of the largest one at each of 300 positions, and the tokens that transformers
chooses greedily for 200 further positions must be those with wisp's largest logits.
"""

import struct
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
# The Python that has PyTorch need not have gguf; the one of tools/setup.py has it.
sys.path += [str(folder) for folder in (REPO / ".tools" / "python" / "lib").glob("python3*/site-packages")]

try:
    import gguf
    import numpy as np
    import torch
    from transformers import (Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config,
                              GPT2LMHeadModel, Lfm2Config, Lfm2ForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                              Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)
except ImportError as error:
    print(f"skipped: decoders: {error}")
    sys.exit(0)

VOCABULARY, READ, GREEDY, TOLERANCE = 300, 300, 200, 1e-4
BRIEF = 100  # tokens of a short text, which LongRoPE rotates otherwise

SIZES = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4,
             max_position_embeddings=512, bos_token_id=1, eos_token_id=2)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 128}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 128,
            "short_factor": [1.0 + 0.03 * i for i in range(16)], "long_factor": [1.05 * 1.3**i for i in range(16)]}


def plain_rope(theta):
    return {"rope_type": "default", "rope_theta": theta}


MODELS = {
    "llama, every head its keys, tied": ("llama", LlamaForCausalLM, LlamaConfig(
        **SIZES, num_key_value_heads=4, tie_word_embeddings=True, rms_norm_eps=1e-6,
        rope_parameters=plain_rope(10000.0))),
    "llama, grouped queries": ("llama", LlamaForCausalLM, LlamaConfig(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=False, rms_norm_eps=1e-5,
        rope_parameters=plain_rope(10000.0))),
    "llama, one key-value head, large heads": ("llama", LlamaForCausalLM, LlamaConfig(
        **SIZES, num_key_value_heads=1, head_dim=24, tie_word_embeddings=True, rope_parameters=plain_rope(500.0))),
    "llama, frequencies of Llama 3.1": ("llama", LlamaForCausalLM, LlamaConfig(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=True, rope_parameters=LLAMA3)),
    "llama, positions scaled linearly": ("llama", LlamaForCausalLM, LlamaConfig(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=True,
        rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0})),
    "llama, YaRN": ("llama", LlamaForCausalLM, LlamaConfig(
        **SIZES, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True, rope_parameters=YARN)),
    "qwen3, YaRN with settings of its own": ("qwen3", Qwen3ForCausalLM, Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True, rope_parameters=YARN | {
            "rope_theta": 1000000.0, "factor": 2.5, "beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.3})),
    "llama, LongRoPE": ("llama", LlamaForCausalLM, LlamaConfig(
        **SIZES, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True, rope_parameters=LONGROPE)),
    "qwen3, LongRoPE with settings of its own": ("qwen3", Qwen3ForCausalLM, Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True, rope_parameters=LONGROPE | {
            "rope_theta": 1000000.0, "factor": 2.5, "attention_factor": 1.3})),
    "llama, gates of ReLU": ("llama", LlamaForCausalLM, LlamaConfig(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=False, hidden_act="relu",
        rope_parameters=plain_rope(10000.0))),
    "llama, gates of squared ReLU": ("llama", LlamaForCausalLM, LlamaConfig(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=True, hidden_act="relu2",
        rope_parameters=plain_rope(10000.0))),
    "mistral, a sliding window": ("llama", MistralForCausalLM, MistralConfig(
        **SIZES, num_key_value_heads=2, head_dim=16, tie_word_embeddings=False, sliding_window=37,
        rope_parameters=plain_rope(10000.0))),
    "qwen2, a sliding window in the last layers": ("qwen2", Qwen2ForCausalLM, Qwen2Config(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=True, use_sliding_window=True, sliding_window=50,
        max_window_layers=1, rope_parameters=plain_rope(1000000.0))),
    "gpt2": ("gpt2", GPT2LMHeadModel, GPT2Config(
        vocab_size=VOCABULARY, n_positions=512, n_embd=64, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=2)),
    "gemma2": ("gemma2", Gemma2ForCausalLM, Gemma2Config(
        **SIZES, num_key_value_heads=2, head_dim=24, query_pre_attn_scalar=24, sliding_window=45,
        attn_logit_softcapping=5.0, final_logit_softcapping=3.0, rope_parameters=plain_rope(10000.0))),
    "gemma3, local and global layers": ("gemma3", Gemma3ForCausalLM, Gemma3TextConfig(
        **{**SIZES, "num_hidden_layers": 7}, num_key_value_heads=2, head_dim=24, query_pre_attn_scalar=24,
        sliding_window=33, rope_parameters={
            "sliding_attention": plain_rope(10000.0),
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}})),
    "gemma3, another scale of queries, a final cap": ("gemma3", Gemma3ForCausalLM, Gemma3TextConfig(
        **SIZES, num_key_value_heads=1, head_dim=32, query_pre_attn_scalar=100, sliding_window=20,
        final_logit_softcapping=2.0, layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        rope_parameters={"sliding_attention": plain_rope(5000.0), "full_attention": plain_rope(1000000.0)})),
    "lfm2": ("lfm2", Lfm2ForCausalLM, Lfm2Config(
        **{**SIZES, "num_hidden_layers": 5}, num_key_value_heads=2, full_attn_idxs=[1, 3],
        block_auto_adjust_ff_dim=False, rope_parameters=plain_rope(1000000.0))),
    "lfm2, five taps, an output of its own": ("lfm2", Lfm2ForCausalLM, Lfm2Config(
        **{**SIZES, "num_hidden_layers": 4}, num_key_value_heads=4, full_attn_idxs=[0], conv_L_cache=5,
        block_auto_adjust_ff_dim=False, tie_word_embeddings=False, rope_parameters=plain_rope(10000.0))),
    "qwen2": ("qwen2", Qwen2ForCausalLM, Qwen2Config(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=False, rope_parameters=plain_rope(1000000.0))),
    "qwen3": ("qwen3", Qwen3ForCausalLM, Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True, rope_parameters=plain_rope(1000000.0))),
}

LAYER_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
GEMMA_NAMES = LAYER_NAMES | {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
LFM2_NAMES = {
    "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_output", "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm", "conv.conv": "shortconv.conv", "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj", "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up",
    "feed_forward.w2": "ffn_down",
}
GPT2_NAMES = {
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}


def neighbours(weight, heads):
    """Turns rotary halves, which transformers has, into the neighbouring pairs of GGUF's Llama."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def rope_factors(model):
    """The numbers by which Llama 3.1 divides the angles of each pair."""
    config = model.config
    size = config.head_dim
    usual = config.rope_parameters["rope_theta"] ** (-torch.arange(0, size, 2).float() / size)
    return (usual / model.model.rotary_emb.inv_freq).float().numpy()


def write_vocabulary(writer):
    writer.add_tokenizer_model("llama")
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % i for i in range(256)]
    types = [2, 3, 3] + [6] * 256
    tokens += [b"t%d" % i for i in range(VOCABULARY - len(tokens))]
    types += [1] * (VOCABULARY - len(types))
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(VOCABULARY)])
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def write_config(writer, architecture, config):
    """The keys that llama.cpp's converter writes, and those of wisp's own where it has none."""
    heads = config.num_attention_heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(heads)
    if architecture == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    writer.add_feed_forward_length(config.intermediate_size)
    kv_heads = config.num_key_value_heads
    if architecture == "lfm2":
        writer.add_shortconv_l_cache(config.conv_L_cache)
        kv_heads = [kv_heads if kind == "full_attention" else 0 for kind in config.layer_types]
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_size)
    writer.add_value_length(head_size)
    writer.add_layer_norm_rms_eps(config.norm_eps if architecture == "lfm2" else config.rms_norm_eps)
    writer.add_rope_dimension_count(head_size)
    rope = config.rope_parameters
    if architecture == "gemma3":
        writer.add_float32("gemma3.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
        rope = rope["full_attention"]
    if architecture != "gemma2":  # whose converter writes none
        writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        for key, setting in (("attn_factor", "attention_factor"), ("beta_fast", "beta_fast"), ("beta_slow", "beta_slow")):
            if setting in rope:
                writer.add_float32(f"{architecture}.rope.scaling.yarn_{key}", rope[setting])
    if rope["rope_type"] == "longrope":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if getattr(config, "hidden_act", "silu") != "silu":
        writer.add_string("wisp.hidden_act", config.hidden_act)
    if getattr(config, "attn_logit_softcapping", None):
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    if getattr(config, "final_logit_softcapping", None):
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if getattr(config, "query_pre_attn_scalar", head_size) != head_size:
        writer.add_float32(f"{architecture}.attention.scale", config.query_pre_attn_scalar**-0.5)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
        usual = [kind == "sliding_attention" for kind in getattr(config, "layer_types", None) or ["sliding_attention"]]
        period = {"gemma2": 2, "gemma3": 6}.get(architecture)
        if usual != [not period or (i + 1) % period > 0 for i in range(len(usual))]:
            writer.add_sliding_window_pattern(usual)


def tensors_of(architecture, model):
    """The tensors under llama.cpp's names, as its converter writes them."""
    config = model.config
    names = {"gpt2": GPT2_NAMES, "lfm2": LFM2_NAMES, "gemma2": GEMMA_NAMES, "gemma3": GEMMA_NAMES}.get(architecture, LAYER_NAMES)
    outside = {"embed_tokens": "token_embd", "norm": "output_norm", "embedding_norm": "token_embd_norm", "lm_head": "output", "wte": "token_embd",
               "wpe": "position_embd", "ln_f": "output_norm"}
    for name, tensor in model.state_dict().items():
        *parts, kind = name.removeprefix("model.").removeprefix("transformer.").split(".")
        if parts == ["lm_head"] and config.tie_word_embeddings:
            continue
        if architecture.startswith("gemma") and "norm" in parts[-1]:
            tensor = tensor + 1
        if parts[0] not in ("layers", "h"):
            yield f"{outside[parts[0]]}.{kind}", tensor
            continue
        part = ".".join(parts[2:])
        if architecture == "llama" and part in ("self_attn.q_proj", "self_attn.k_proj"):
            tensor = neighbours(
                tensor, config.num_attention_heads if part.endswith("q_proj") else config.num_key_value_heads)
        if architecture == "gpt2" and kind == "weight" and tensor.dim() == 2:
            tensor = tensor.T
        if part == "conv.conv":
            tensor = tensor.squeeze(1)
        yield f"blk.{parts[1]}.{names[part]}.{kind}", tensor


def write_gguf(path, architecture, model):
    writer = gguf.GGUFWriter(path, architecture)
    write_config(writer, architecture, model.config)
    write_vocabulary(writer)
    for name, tensor in tensors_of(architecture, model):
        writer.add_tensor(name, np.ascontiguousarray(tensor.float().numpy()))
    if architecture == "llama" and model.config.rope_parameters["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(model))
    rope = getattr(model.config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        writer.add_rope_scaling_attn_factors(model.model.rotary_emb.attention_scaling)
        for name in ("short", "long"):
            factors = np.array(rope[f"{name}_factor"], dtype=np.float32)
            writer.add_tensor(f"rope_factors_{name}.weight", factors)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits_of(driver, path, ids, kernels, threads):
    run = subprocess.run([driver, path, kernels, str(threads)], input=struct.pack(f"<{len(ids)}i", *ids),
                         capture_output=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"{path}: {run.stderr.decode()}")
    return np.frombuffer(run.stdout, dtype="<f4").reshape(len(ids), VOCABULARY)


@torch.inference_mode()
def compare(driver, folder, index, name, sets):
    architecture, kind, config = MODELS[name]
    config._attn_implementation = "eager"  # the only one that bounds scores softly
    torch.manual_seed(index)
    model = kind(config).eval()
    for parameter in model.parameters():  # norms and biases too, which would else be 1 and 0
        parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() == 1 else 0.12) +
                        (1 if parameter.dim() == 1 else 0))
    path = folder / f"{index}.gguf"
    write_gguf(path, architecture, model)
    ids = torch.randint(0, VOCABULARY, (1, READ))
    # Greedy decoding that never ends; the scores of all tokens are compared at once below.
    whole = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=GREEDY, do_sample=False,
                           eos_token_id=VOCABULARY, pad_token_id=0)
    expected, brief = model(whole).logits[0].numpy(), model(whole[:, :BRIEF]).logits[0].numpy()
    worst = 0.0
    for kernels in sets:
        for threads in (1, 3):
            got = logits_of(driver, path, whole[0].tolist(), kernels, threads)
            worst = max(worst, float(np.abs(got - expected).max() / np.abs(expected).max()))
            alone = logits_of(driver, path, whole[0, :BRIEF].tolist(), kernels, threads)
            worst = max(worst, float(np.abs(alone - brief).max() / np.abs(brief).max()))
            chosen = got[READ - 1 : READ + GREEDY - 1].argmax(axis=1)
            if not np.array_equal(chosen, whole[0, READ:].numpy()):
                print(f"FAILED: {name}, {kernels}: greedy tokens differ")
                return False
    print(f"{name}: {READ + GREEDY} positions, {len(sets)} kernel sets, worst difference {worst:.1e} of the largest")
    return worst <= TOLERANCE


def main():
    driver = sys.argv[1]
    program = Path(driver).resolve().parents[3] / "wisp"
    version = subprocess.run([program, "--version"], capture_output=True, check=True, text=True).stdout
    sets = version.split("kernel sets: ")[1].split(" (")[0].split(", ")
    with tempfile.TemporaryDirectory() as folder:
        good = [compare(driver, Path(folder), i, name, sets) for i, name in enumerate(MODELS)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
