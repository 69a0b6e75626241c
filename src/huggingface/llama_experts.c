/* SPDX-License-Identifier: Apache-2.0
 * Qwen3MoeForCausalLM, OlmoeForCausalLM and GraniteMoeForCausalLM. */
#include "formats/schema.h"
#include "huggingface/decoders.h"
#include "huggingface/experts.h"

/* Qwen3-MoE's settings by which some layers are dense. */
static wisp_status refuse_dense_layers(const struct hf_config *config, wisp_error *error) {
    static const char step_name[] = "decoder_sparse_step", only[] = "mlp_only_layers";
    const struct json *step = json_get(config->root, step_name);
    const struct json *dense = json_get(config->root, only);
    uint64_t every;
    if (step && (!json_to_u64(step, &every) || every != 1))
        return hf_unsupported_setting(config, step_name, step, "1", error);
    if (!json_is_absent(dense) && (!json_is(dense, JSON_ARRAY) || dense->count > 0))
        return hf_unsupported_setting(config, only, dense, "an empty list", error);
    return WISP_OK;
}

static wisp_status read_qwen3_moe(struct directory *dir, const struct hf_decoder *decoder,
                                  const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {
        {"attention_bias", JSON_FALSE}, {"use_sliding_window", JSON_FALSE}, {0}};
    static const char *const silu[] = {"silu"};
    static const struct hf_size size = {"moe_intermediate_size", NULL, "expert_feed_forward_length",
                                        768};
    TRY(hf_check_settings(config, settings, error));
    TRY(refuse_dense_layers(config, error));
    TRY(hf_put_activation(dir, config, "hidden_act", silu, 1, error));
    TRY(hf_put_experts(dir, decoder, config, false, error));
    TRY(hf_put_sizes(dir, decoder, config, &size, 1, error));
    return hf_put_decoder(dir, decoder, config, error);
}

static wisp_status read_olmoe(struct directory *dir, const struct hf_decoder *decoder,
                              const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {
        {"attention_bias", JSON_FALSE}, {"clip_qkv", JSON_NULL}, {0}};
    static const char *const silu[] = {"silu"};
    TRY(hf_check_settings(config, settings, error));
    TRY(hf_put_activation(dir, config, "hidden_act", silu, 1, error));
    TRY(hf_put_experts(dir, decoder, config, false, error));
    return hf_put_decoder(dir, decoder, config, error);
}

static wisp_status stack_experts(struct directory *dir, const struct hf_config *config,
                                 wisp_error *error) {
    (void)config;
    const char *architecture;
    TRY(metadata_text(dir, "general.architecture", &architecture, error));
    return hf_stack_experts(dir, architecture, error);
}

static wisp_status read_granite_moe(struct directory *dir, const struct hf_decoder *decoder,
                                    const struct hf_config *config, wisp_error *error) {
    TRY(hf_put_experts(dir, decoder, config, true, error));
    return hf_granite.read_config(dir, decoder, config, error);
}

static wisp_status divide_experts(struct directory *dir, const struct hf_config *config,
                                  wisp_error *error) {
    (void)config;
    static const char *const names[] = {".gate_linear.weight", ".up_linear.weight"};
    return hf_divide_experts(dir, ".input_linear.weight", names, error);
}

static const struct hf_name layer_names[] = {
    {"input_layernorm.", "attn_norm.", true},
    {"self_attn.q_proj.", "attn_q.", true},
    {"self_attn.k_proj.", "attn_k.", true},
    {"self_attn.v_proj.", "attn_v.", true},
    {"self_attn.q_norm.", "attn_q_norm.", true},
    {"self_attn.k_norm.", "attn_k_norm.", true},
    {"self_attn.o_proj.", "attn_output.", true},
    {"post_attention_layernorm.", "ffn_norm.", true},
    {"mlp.gate.", TENSOR_ROUTER ".", true},
    {"mlp.experts.gate_proj.", TENSOR_GATE_EXPERTS ".", true},
    {"mlp.experts.up_proj.", TENSOR_UP_EXPERTS ".", true},
    {"mlp.experts.down_proj.", TENSOR_DOWN_EXPERTS ".", true},
    {"block_sparse_moe.router.layer.", TENSOR_ROUTER ".", true},
    {"block_sparse_moe.gate_linear.", TENSOR_GATE_EXPERTS ".", true},
    {"block_sparse_moe.up_linear.", TENSOR_UP_EXPERTS ".", true},
    {"block_sparse_moe.output_linear.", TENSOR_DOWN_EXPERTS ".", true},
    {0},
};

#define EXPERTS(its_type, its_class, its_architecture)                                             \
    .type = (its_type), .class = (its_class), .architecture = (its_architecture),                  \
    .prefixes = {"model."}, .tensors = {"layers.", hf_llama_names, layer_names},                   \
    .rope = {.usual_theta = 10000, .has_factors = true}

const struct hf_decoder hf_qwen3_moe = {EXPERTS("qwen3_moe", "Qwen3MoeForCausalLM", "qwen3moe"),
                                        .usual = {.head_size = HF_DERIVED},
                                        .read_config = read_qwen3_moe, .split = stack_experts};

const struct hf_decoder hf_olmoe = {
    EXPERTS("olmoe", "OlmoeForCausalLM", "olmoe"),
    .usual = {.kv_heads = HF_DERIVED, .head_size = HF_DERIVED, .epsilon = 1e-5},
    .read_config = read_olmoe, .split = stack_experts};

const struct hf_decoder hf_granite_moe = {
    EXPERTS("granitemoe", "GraniteMoeForCausalLM", "granitemoe"),
    .usual = {.kv_heads = HF_DERIVED, .head_size = HF_DERIVED}, .read_config = read_granite_moe,
    .split = divide_experts, .adapt = hf_pair_rotary};
