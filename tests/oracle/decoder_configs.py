# SPDX-License-Identifier: Apache-2.0
"""The tiny decoders that decoders.py compares with transformers: architectures and configurations."""

from transformers import (
    BitNetConfig, BitNetForCausalLM, GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, Gemma2Config,
    Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, Glm4Config, Glm4ForCausalLM, Glm4MoeLiteConfig,
    Glm4MoeLiteForCausalLM, GptOssConfig, GptOssForCausalLM, GraniteConfig, GraniteForCausalLM, GraniteMoeConfig,
    GraniteMoeForCausalLM, GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM, Lfm2Config, Lfm2ForCausalLM,
    Lfm2MoeConfig, Lfm2MoeForCausalLM, LlamaConfig, LlamaForCausalLM, Ministral3Config, Ministral3ForCausalLM,
    MistralConfig, MistralForCausalLM, Olmo2Config, Olmo2ForCausalLM, Olmo3Config, Olmo3ForCausalLM, OlmoeConfig,
    OlmoeForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM,
    Qwen3MoeConfig, Qwen3MoeForCausalLM, SmolLM3Config, SmolLM3ForCausalLM, StableLmConfig, StableLmForCausalLM,
    Starcoder2Config, Starcoder2ForCausalLM,
)

VOCABULARY = 300

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
    "granite": ("granite", GraniteForCausalLM, GraniteConfig(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=True, attention_multiplier=0.09, embedding_multiplier=7.0,
        residual_multiplier=0.22, logits_scaling=3.0, rope_parameters=plain_rope(10000.0))),
    "granite, an output of its own": ("granite", GraniteForCausalLM, GraniteConfig(
        **SIZES, num_key_value_heads=4, attention_multiplier=0.25, embedding_multiplier=12.0, residual_multiplier=1.3,
        logits_scaling=0.5, rope_parameters=plain_rope(500.0))),
    "minicpm": ("minicpm", GraniteForCausalLM, GraniteConfig(
        **SIZES, num_key_value_heads=2, attention_multiplier=0.25, embedding_multiplier=12.0,
        residual_multiplier=1.4 / 3**0.5, logits_scaling=SIZES["hidden_size"] / 256, rope_parameters=plain_rope(10000.0))),
    "olmo2": ("olmo2", Olmo2ForCausalLM, Olmo2Config(
        **SIZES, num_key_value_heads=4, rope_parameters=plain_rope(500000.0))),
    "olmo2, grouped queries": ("olmo2", Olmo2ForCausalLM, Olmo2Config(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=True, rope_parameters=plain_rope(10000.0))),
    "olmo3": ("olmo2", Olmo3ForCausalLM, Olmo3Config(
        **{**SIZES, "num_hidden_layers": 5}, num_key_value_heads=2, sliding_window=43,
        rope_parameters=plain_rope(10000.0))),
    "smollm3": ("smollm3", SmolLM3ForCausalLM, SmolLM3Config(
        **{**SIZES, "num_hidden_layers": 5}, num_key_value_heads=2, pad_token_id=0,
        rope_parameters=plain_rope(2000000.0))),
    "starcoder2": ("starcoder2", Starcoder2ForCausalLM, Starcoder2Config(
        **SIZES, num_key_value_heads=2, norm_epsilon=1e-4, rope_parameters=plain_rope(100000.0))),
    "starcoder2, a window, an output of its own": ("starcoder2", Starcoder2ForCausalLM, Starcoder2Config(
        **SIZES, num_key_value_heads=4, sliding_window=37, tie_word_embeddings=False, rope_parameters=plain_rope(10000.0))),
    "gptneox": ("gptneox", GPTNeoXForCausalLM, GPTNeoXConfig(
        **SIZES, rope_parameters=plain_rope(10000.0) | {"partial_rotary_factor": 0.25})),
    "gptneox, one block after the other, whole heads rotated": ("gptneox", GPTNeoXForCausalLM, GPTNeoXConfig(
        **SIZES, use_parallel_residual=False, hidden_act="gelu_new", tie_word_embeddings=True,
        rope_parameters=plain_rope(500.0) | {"partial_rotary_factor": 1.0})),
    "stablelm": ("stablelm", StableLmForCausalLM, StableLmConfig(
        **SIZES, num_key_value_heads=4, rope_parameters=plain_rope(10000.0) | {"partial_rotary_factor": 0.25})),
    "stablelm, grouped queries with biases": ("stablelm", StableLmForCausalLM, StableLmConfig(
        **SIZES, num_key_value_heads=2, use_qkv_bias=True, rope_parameters=plain_rope(1000.0) | {"partial_rotary_factor": 0.5})),
    "phi3": ("phi3", Phi3ForCausalLM, Phi3Config(
        **SIZES, num_key_value_heads=4, sliding_window=None, pad_token_id=0, rope_parameters=plain_rope(10000.0))),
    "phi3, a part of each head rotated": ("phi3", Phi3ForCausalLM, Phi3Config(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=True, sliding_window=40, pad_token_id=0,
        rope_parameters=plain_rope(10000.0) | {"partial_rotary_factor": 0.75})),
    "qwen3moe": ("qwen3moe", Qwen3MoeForCausalLM, Qwen3MoeConfig(
        **SIZES, num_key_value_heads=2, head_dim=32, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=40,
        norm_topk_prob=True, tie_word_embeddings=True, rope_parameters=plain_rope(1000000.0))),
    "qwen3moe, weights that are a part of 1": ("qwen3moe", Qwen3MoeForCausalLM, Qwen3MoeConfig(
        **SIZES, num_key_value_heads=4, head_dim=16, num_experts=5, num_experts_per_tok=1, moe_intermediate_size=33,
        norm_topk_prob=False, rope_parameters=plain_rope(10000.0))),
    "olmoe": ("olmoe", OlmoeForCausalLM, OlmoeConfig(
        **SIZES, num_key_value_heads=4, num_experts=16, num_experts_per_tok=8, pad_token_id=0,
        rope_parameters=plain_rope(10000.0))),
    "olmoe, grouped queries, weights of sum 1": ("olmoe", OlmoeForCausalLM, OlmoeConfig(
        **SIZES, num_key_value_heads=2, num_experts=4, num_experts_per_tok=4, norm_topk_prob=True, pad_token_id=0,
        rope_parameters=plain_rope(500.0))),
    "granitemoe": ("granitemoe", GraniteMoeForCausalLM, GraniteMoeConfig(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=True, attention_multiplier=0.09, embedding_multiplier=7.0,
        residual_multiplier=0.22, logits_scaling=3.0, num_local_experts=7, num_experts_per_tok=2,
        rope_parameters=plain_rope(10000.0))),
    "gpt-oss": ("gpt-oss", GptOssForCausalLM, GptOssConfig(
        **SIZES, num_key_value_heads=2, head_dim=32, num_local_experts=6, num_experts_per_tok=3, sliding_window=37,
        rope_parameters={"rope_type": "yarn", "rope_theta": 150000.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
                         "truncate": False, "original_max_position_embeddings": 64})),
    "gpt-oss, other windows, positions as they are": ("gpt-oss", GptOssForCausalLM, GptOssConfig(
        **SIZES, num_key_value_heads=4, head_dim=16, num_local_experts=4, num_experts_per_tok=4, sliding_window=21,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"], tie_word_embeddings=True,
        rope_parameters=plain_rope(10000.0))),
    "lfm2moe": ("lfm2moe", Lfm2MoeForCausalLM, Lfm2MoeConfig(
        **{**SIZES, "num_hidden_layers": 5}, num_key_value_heads=2, num_experts=8, num_experts_per_tok=2,
        moe_intermediate_size=40, num_dense_layers=2, rope_parameters=plain_rope(1000000.0),
        layer_types=["conv", "full_attention", "conv", "full_attention", "conv"])),
    "lfm2moe, no bias, a factor": ("lfm2moe", Lfm2MoeForCausalLM, Lfm2MoeConfig(
        **{**SIZES, "num_hidden_layers": 4}, num_key_value_heads=4, num_experts=6, num_experts_per_tok=3,
        moe_intermediate_size=24, num_dense_layers=0, use_expert_bias=False, norm_topk_prob=False,
        routed_scaling_factor=2.5, tie_word_embeddings=False, rope_parameters=plain_rope(10000.0),
        layer_types=["full_attention", "conv", "conv", "conv"])),
    "glm4_moe_lite": ("deepseek2", Glm4MoeLiteForCausalLM, Glm4MoeLiteConfig(
        **SIZES, num_key_value_heads=4, q_lora_rank=40, kv_lora_rank=32, qk_nope_head_dim=24, qk_rope_head_dim=8, v_head_dim=32,
        n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=40, n_shared_experts=1,
        rope_parameters=plain_rope(1000000.0))),
    "glm4_moe_lite, other sizes, weights that are a part of 1": ("deepseek2", Glm4MoeLiteForCausalLM, Glm4MoeLiteConfig(
        **{**SIZES, "num_hidden_layers": 4, "num_attention_heads": 5}, num_key_value_heads=5, q_lora_rank=None, kv_lora_rank=40,
        qk_nope_head_dim=12, qk_rope_head_dim=16, v_head_dim=20, n_routed_experts=5, num_experts_per_tok=2,
        moe_intermediate_size=24, n_shared_experts=2, norm_topk_prob=False, routed_scaling_factor=2.5, tie_word_embeddings=True,
        mlp_layer_types=["dense", "dense", "sparse", "sparse"], rope_parameters=plain_rope(10000.0))),
    "granitemoehybrid, attention in all layers": ("granite", GraniteMoeHybridForCausalLM, GraniteMoeHybridConfig(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=True, attention_multiplier=0.09, embedding_multiplier=7.0,
        residual_multiplier=0.22, logits_scaling=3.0, num_local_experts=0, shared_intermediate_size=SIZES["intermediate_size"],
        position_embedding_type="rope", layer_types=["attention"] * SIZES["num_hidden_layers"], mamba_n_heads=4,
        rope_parameters=plain_rope(10000.0))),
    "bitnet": ("bitnet-b1.58", BitNetForCausalLM, BitNetConfig(
        **SIZES, num_key_value_heads=1, tie_word_embeddings=True, rope_parameters=plain_rope(500000.0))),
    "bitnet, SiLU, an output of its own": ("bitnet", BitNetForCausalLM, BitNetConfig(
        **SIZES, num_key_value_heads=2, hidden_act="silu", rms_norm_eps=1e-4, rope_parameters=plain_rope(10000.0))),
    "ministral3": ("mistral3", Ministral3ForCausalLM, Ministral3Config(
        **SIZES, num_key_value_heads=2, head_dim=16, rope_parameters=YARN | {
            "original_max_position_embeddings": 32, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3})),
    "ministral3, an output of its own, other angles": ("mistral3", Ministral3ForCausalLM, Ministral3Config(
        **SIZES, num_key_value_heads=4, head_dim=24, tie_word_embeddings=True, rope_parameters=YARN | {
            "factor": 3.0, "mscale": 1.0, "mscale_all_dim": 0.6, "llama_4_scaling_beta": 0.1})),
    "glm4": ("glm4", Glm4ForCausalLM, Glm4Config(
        **SIZES, num_key_value_heads=2, head_dim=16, attention_bias=False, pad_token_id=0,
        rope_parameters=plain_rope(10000.0) | {"partial_rotary_factor": 0.5})),
    "glm4, biases, tied": ("glm4", Glm4ForCausalLM, Glm4Config(
        **SIZES, num_key_value_heads=4, head_dim=24, attention_bias=True, tie_word_embeddings=True, pad_token_id=0,
        rms_norm_eps=1e-5, rope_parameters=plain_rope(500.0) | {"partial_rotary_factor": 0.25})),
    "qwen2": ("qwen2", Qwen2ForCausalLM, Qwen2Config(
        **SIZES, num_key_value_heads=2, tie_word_embeddings=False, rope_parameters=plain_rope(1000000.0))),
    "qwen3": ("qwen3", Qwen3ForCausalLM, Qwen3Config(
        **SIZES, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True, rope_parameters=plain_rope(1000000.0))),
}
