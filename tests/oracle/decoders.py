#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares decoders with transformers: tiny models of random weights, written as GGUF by the gguf package.

    python-torch tests/oracle/decoders.py LOGITS_DRIVER [NAME]

Every model's logits must be within 1e-4 of the largest one at each of 300 positions, with experts 1e-5, and the tokens that transformers
chooses greedily for 200 further positions must be those with wisp's largest logits. NAME chooses the models whose names
have it.
"""

import copy
import re
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
    from decoder_configs import MODELS, VOCABULARY
except ImportError as error:
    print(f"skipped: decoders: {error}")
    sys.exit(0)

READ, GREEDY, TOLERANCE, EXPERT_TOLERANCE = 300, 200, 1e-4, 1e-5
RANK, PREDICTED_COSINE = 24, 0.98
BRIEF = 100  # tokens of a short text, which LongRoPE rotates otherwise

LAYER_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down", "self_attn.attn_sub_norm": "attn_sub_norm",
    "mlp.ffn_sub_norm": "ffn_sub_norm",
}
LAYER_NAMES |= {
    "mlp.gate": "ffn_gate_inp", "block_sparse_moe.router.layer": "ffn_gate_inp",
    "block_sparse_moe.output_linear": "ffn_down_exps", "shared_mlp.output_linear": "ffn_down",
}
STACKED_EXPERTS = ("mlp.experts.gate_up_proj", "block_sparse_moe.input_linear", "feed_forward.experts.gate_up_proj")
GEMMA_NAMES = LAYER_NAMES | {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
OLMO2_NAMES = LAYER_NAMES | {
    "post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm",
}
GPT_OSS_NAMES = LAYER_NAMES | {
    "post_attention_layernorm": "post_attention_norm", "self_attn.sinks": "attn_sinks", "mlp.router": "ffn_gate_inp",
}
GLM4_NAMES = LAYER_NAMES | {"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"}
LATENT_NAMES = LAYER_NAMES | {
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp",
}
LFM2_NAMES = {
    "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_output", "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm", "conv.conv": "shortconv.conv", "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj", "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up",
    "feed_forward.w2": "ffn_down", "feed_forward.gate": "ffn_gate_inp",
}
NEOX_NAMES = {
    "input_layernorm": "attn_norm", "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
}
GPT2_NAMES = {
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}


def apart(tensor, heads):
    """Queries of all heads, then keys, then values, where GPT-NeoX has those of one head after the other."""
    return tensor.reshape(heads, 3, -1, *tensor.shape[1:]).transpose(0, 1).reshape(tensor.shape)


NEIGHBOURS = ("llama", "granite", "granitemoe", "minicpm", "mistral3", "smollm3")  # whose rotary pairs are neighbours in GGUF


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


def write_experts(writer, architecture, config):
    """What files say of experts, and of that what llama.cpp's converter leaves out if it is unusual."""
    count = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    if not count:
        return
    writer.add_expert_count(count)
    writer.add_expert_used_count(config.num_experts_per_tok)
    if hasattr(config, "moe_intermediate_size"):
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if getattr(config, "norm_topk_prob", True) != (architecture not in ("olmoe", "deepseek2")):
        writer.add_expert_weights_norm(config.norm_topk_prob)
    if architecture == "lfm2moe":
        writer.add_leading_dense_block_count(config.num_dense_layers)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        if config.routed_scaling_factor != 1:
            writer.add_expert_weights_scale(config.routed_scaling_factor)


def write_latents(writer, config):
    """The sizes of latent attention, which llama.cpp counts as one head of keys and values."""
    writer.add_head_count_kv(1)
    sizes = {"kv_lora_rank": config.kv_lora_rank, "key_length": config.kv_lora_rank + config.qk_rope_head_dim,
             "value_length": config.kv_lora_rank, "key_length_mla": config.qk_head_dim, "value_length_mla": config.v_head_dim}
    for name, size in (sizes | ({"q_lora_rank": config.q_lora_rank} if config.q_lora_rank else {})).items():
        writer.add_uint32(f"deepseek2.attention.{name}", size)
    writer.add_leading_dense_block_count(config.mlp_layer_types.count("dense"))
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def write_config(writer, architecture, config):
    """The keys that llama.cpp's converter writes, and those of wisp's own if it has none."""
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
    write_experts(writer, architecture, config)
    kv_heads = getattr(config, "num_key_value_heads", heads)
    if architecture == "gptneox":
        writer.add_parallel_residual(config.use_parallel_residual)
    if architecture in ("lfm2", "lfm2moe"):
        writer.add_shortconv_l_cache(config.conv_L_cache)
        kv_heads = [kv_heads if kind == "full_attention" else 0 for kind in config.layer_types]
    if architecture == "deepseek2":
        write_latents(writer, config)
    else:
        writer.add_head_count_kv(kv_heads)
        writer.add_key_length(head_size)
        writer.add_value_length(head_size)
    if architecture == "starcoder2":
        writer.add_layer_norm_eps(config.norm_epsilon)
    elif architecture in ("gptneox", "stablelm"):
        writer.add_layer_norm_eps(config.layer_norm_eps)
    else:
        writer.add_layer_norm_rms_eps(config.norm_eps if architecture.startswith("lfm2") else config.rms_norm_eps)
    rope = config.rope_parameters
    writer.add_rope_dimension_count(int(head_size * rope.get("partial_rotary_factor", 1)))
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
        if architecture == "mistral3":
            writer.add_float32("mistral3.rope.scaling.yarn_log_multiplier", rope["mscale_all_dim"])
            writer.add_float32("mistral3.attention.temperature_scale", rope["llama_4_scaling_beta"])
        for key, setting in (("attn_factor", "attention_factor"), ("beta_fast", "beta_fast"), ("beta_slow", "beta_slow")):
            if setting in rope:
                writer.add_float32(f"{architecture}.rope.scaling.yarn_{key}", rope[setting])
    if rope["rope_type"] == "longrope":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if getattr(config, "hidden_act", "silu") not in ("silu", "gelu_pytorch_tanh", "gelu"):
        writer.add_string("wisp.hidden_act", config.hidden_act)
    if getattr(config, "attn_logit_softcapping", None):
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    if getattr(config, "final_logit_softcapping", None):
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if architecture in ("granite", "granitemoe"):
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if getattr(config, "query_pre_attn_scalar", head_size) != head_size:
        writer.add_float32(f"{architecture}.attention.scale", config.query_pre_attn_scalar**-0.5)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
        usual = [kind == "sliding_attention" for kind in getattr(config, "layer_types", None) or ["sliding_attention"]]
        period = {"gemma2": 2, "gpt-oss": 2, "gemma3": 6, "olmo2": 4}.get(architecture)
        if usual != [not period or (i + 1) % period > 0 for i in range(len(usual))]:
            writer.add_sliding_window_pattern(usual)


def oss_experts(layer, name, tensor):
    """Matrices [experts, inputs, outputs] or biases, those of gate and up in turns."""
    kind = "bias" if name.endswith("_bias") else "weight"
    tensor = tensor if kind == "bias" else tensor.transpose(1, 2)
    if name.startswith("down"):
        yield f"blk.{layer}.ffn_down_exps.{kind}", tensor
        return
    for first, half in enumerate(("gate", "up")):
        yield f"blk.{layer}.ffn_{half}_exps.{kind}", tensor[:, first::2]


def tensors_of(architecture, model):
    """The tensors under llama.cpp's names, as its converter writes them."""
    config = model.config
    names = {"gpt2": GPT2_NAMES, "gptneox": NEOX_NAMES, "lfm2": LFM2_NAMES, "lfm2moe": LFM2_NAMES, "olmo2": OLMO2_NAMES, "glm4": GLM4_NAMES, "gemma2": GEMMA_NAMES, "gemma3": GEMMA_NAMES, "gpt-oss": GPT_OSS_NAMES, "deepseek2": LATENT_NAMES}.get(architecture, LAYER_NAMES)
    outside = {"embed_tokens": "token_embd", "norm": "output_norm", "embedding_norm": "token_embd_norm", "lm_head": "output", "wte": "token_embd",
               "wpe": "position_embd", "ln_f": "output_norm", "embed_in": "token_embd", "embed_out": "output",
               "final_layer_norm": "output_norm"}
    for name, tensor in model.state_dict().items():
        name = re.sub("(expert_bias|gate.e_score_correction_bias)$", "exp_probs_b.bias", name)
        name = name if name.endswith((".weight", ".bias")) else f"{name}.weight"  # experts
        *parts, kind = name.removeprefix("model.").removeprefix("transformer.").removeprefix("gpt_neox.").split(".")
        if parts in (["lm_head"], ["embed_out"]) and config.tie_word_embeddings:
            continue
        if architecture.startswith("gemma") and "norm" in parts[-1]:
            tensor = tensor + 1
        if parts[0] not in ("layers", "h"):
            yield f"{outside[parts[0]]}.{kind}", tensor
            continue
        part = ".".join(parts[2:])
        if parts[2:4] == ["mlp", "experts"] and architecture == "gpt-oss":
            yield from oss_experts(int(parts[1]), parts[4], tensor)
            continue
        if part == "shared_mlp.input_linear":
            for half, matrix in zip(("gate", "up"), tensor.chunk(2), strict=True):
                yield f"blk.{parts[1]}.ffn_{half}.{kind}", matrix
            continue
        if part in STACKED_EXPERTS:
            for half, matrix in zip(("gate", "up"), tensor.chunk(2, dim=1), strict=True):
                yield f"blk.{parts[1]}.ffn_{half}_exps.{kind}", matrix
            continue
        if part.endswith(".experts.down_proj"):
            yield f"blk.{parts[1]}.ffn_down_exps.{kind}", tensor
            continue
        if part == "self_attn.kv_b_proj":
            keys, values = tensor.unflatten(0, (config.num_attention_heads, -1)).split(
                [config.qk_nope_head_dim, config.v_head_dim], dim=1)
            yield f"blk.{parts[1]}.attn_k_b.{kind}", keys.transpose(1, 2)
            yield f"blk.{parts[1]}.attn_v_b.{kind}", values
            continue
        if part.endswith(".exp_probs_b"):
            yield f"blk.{parts[1]}.exp_probs_b.{kind}", tensor
            continue
        if architecture in NEIGHBOURS and part in ("self_attn.q_proj", "self_attn.k_proj"):
            tensor = neighbours(
                tensor, config.num_attention_heads if part.endswith("q_proj") else config.num_key_value_heads)
        if architecture == "gpt2" and kind == "weight" and tensor.dim() == 2:
            tensor = tensor.T
        if part == "attention.query_key_value":
            tensor = apart(tensor, config.num_attention_heads)
        if part == "conv.conv":
            tensor = tensor.squeeze(1)
        yield f"blk.{parts[1]}.{names[part]}.{kind}", tensor


class Predicted(torch.nn.Module):
    """A gated layer of which a token computes the neurons whose logits Q (P x + p) + q exceed their thresholds."""

    def __init__(self, mlp):
        super().__init__()
        neurons, size = mlp.gate_proj.weight.shape
        self.mlp, self.p, self.q = mlp, torch.nn.Linear(size, RANK), torch.nn.Linear(RANK, neurons)
        self.threshold = torch.nn.Parameter(torch.randn(neurons))

    def forward(self, x):
        chosen = self.q(self.p(x)) > self.threshold
        return self.mlp.down_proj(self.mlp.act_fn(self.mlp.gate_proj(x)) * self.mlp.up_proj(x) * chosen)

    def tensors(self):
        return {"ffn_predictor_p.weight": self.p.weight, "ffn_predictor_p.bias": self.p.bias,
                "ffn_predictor_q.weight": self.q.weight, "ffn_predictor_q.bias": self.q.bias, "ffn_thresholds": self.threshold}


def predict(model, writer):
    """Puts predictors before the model's layers, and writes them."""
    for i, layer in enumerate(model.model.layers):
        layer.mlp = Predicted(layer.mlp)
        for name, tensor in layer.mlp.tensors().items():
            writer.add_tensor(f"blk.{i}.{name}", tensor.numpy())
    writer.add_array("wisp.sparse.shares", [0.5])


def write_gguf(path, architecture, model, predicts=False):
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
    if predicts:
        predict(model, writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits_of(driver, path, ids, kernels, threads, predictor=()):
    run = subprocess.run([driver, path, kernels, str(threads), *predictor], input=struct.pack(f"<{len(ids)}i", *ids),
                         capture_output=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"{path}: {run.stderr.decode()}")
    return np.frombuffer(run.stdout, dtype="<f4").reshape(len(ids), VOCABULARY)


def random_model(kind, config, seed):
    config._attn_implementation = "eager"  # the only one that bounds scores softly
    torch.manual_seed(seed)
    model = kind(config).eval()
    for parameter in model.parameters():  # norms and biases too, which would else be 1 and 0
        parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() == 1 else 0.12) +
                        (1 if parameter.dim() == 1 else 0))
    return model


@torch.inference_mode()
def compare(driver, folder, index, name, sets):
    architecture, kind, config = MODELS[name]
    config._experts_implementation = "eager"  # the only one for experts of any number of neurons
    model = random_model(kind, config, index)
    for buffer in (buffer for name, buffer in model.named_buffers() if name.endswith(("expert_bias", "correction_bias"))):
        buffer.copy_(torch.randn_like(buffer) * 0.3)
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
    return worst <= (EXPERT_TOLERANCE if architecture.endswith(("moe", "gpt-oss", "deepseek2")) else TOLERANCE)


def likeness(a, b):
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


@torch.inference_mode()
def compare_predicted(driver, folder, name, sets):
    """Gates of ReLU, in int8: all that are open, and those of the neurons that a predictor chooses."""
    architecture, kind, config = MODELS[name]
    config = copy.deepcopy(config)
    config.intermediate_size = 128  # whole blocks
    model, path = random_model(kind, config, 0), folder / "predicted.gguf"
    ids = torch.randint(0, VOCABULARY, (1, READ))
    dense = model(ids).logits[0].numpy()
    write_gguf(path, architecture, model, predicts=True)
    predicted = model(ids).logits[0].numpy()
    apart = likeness(dense, predicted)
    least = min(likeness(logits_of(driver, path, ids[0].tolist(), kernels, threads, ("int8", predictor, "0")), expected)
                for kernels in sets for threads in (1, 3)
                for predictor, expected in (("gate", dense), ("lowrank", predicted)))
    print(f"{name}, predicted: {READ} positions, least cosine {least:.5f}, of dense logits {apart:.3f}")
    return least > PREDICTED_COSINE and apart < 0.9


def main():
    driver = sys.argv[1]
    program = Path(driver).resolve().parents[3] / "wisp"
    version = subprocess.run([program, "--version"], capture_output=True, check=True, text=True).stdout
    sets = version.split("kernel sets: ")[1].split(" (")[0].split(", ")
    with tempfile.TemporaryDirectory() as folder:
        good = [compare(driver, Path(folder), i, name, sets) for i, name in enumerate(MODELS)
                if len(sys.argv) < 3 or sys.argv[2] in name]
        good += [compare_predicted(driver, Path(folder), name, sets) for name in MODELS
                 if "gates of" in name and (len(sys.argv) < 3 or sys.argv[2] in name)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
