/* SPDX-License-Identifier: Apache-2.0
 * The hyper-parameters and tensors of Llama's page with experts. */
#include "models/llama_experts.h"

/* Sets what llama.cpp's files leave out: Qwen3's and Granite's weights of experts have a sum of 1,
 * OLMoE's a lower one. */
static wisp_status qwen3moe_read_config(const struct directory *dir, struct model_config *config,
                                        wisp_error *error) {
    const struct config_reader r = {dir, architecture_qwen3moe.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qk_norm = true,
                                    .has_experts = true,
                                    .experts = {.gate = EXPERTS_SOFTMAX, .normalised = true}};
    return llama_read_decoder(&r);
}

static wisp_status olmoe_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_olmoe.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qk_norm = true,
                                    .wide_qk_norm = true,
                                    .has_experts = true,
                                    .experts = {.gate = EXPERTS_SOFTMAX}};
    return llama_read_decoder(&r);
}

static wisp_status granitemoe_read_config(const struct directory *dir, struct model_config *config,
                                          wisp_error *error) {
    const struct config_reader r = {dir, architecture_granitemoe.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_NEIGHBOURS,
                                    .has_scales = true,
                                    .has_experts = true,
                                    .experts = {.gate = EXPERTS_SOFTMAX, .normalised = true}};
    TRY(config_refuse_others(&r, "rope.scaling.finetuned", "true")); /* else nothing is rotated */
    return llama_read_decoder(&r);
}

static const char *const normal_heads[] = {"attn_norm",   "ffn_norm",           "attn_q_norm",
                                           "attn_k_norm", LLAMA_EXPERT_TENSORS, NULL};
static const char *const layer_tensors[] = {"attn_norm", "ffn_norm", LLAMA_EXPERT_TENSORS, NULL};

const struct architecture architecture_qwen3moe = {
    LLAMA_PAGE, .name = "qwen3moe", .tensors = llama_tensors, .layer_tensors = normal_heads,
    .read_config = qwen3moe_read_config};
const struct architecture architecture_olmoe = {
    LLAMA_PAGE, .name = "olmoe", .tensors = llama_tensors, .layer_tensors = normal_heads,
    .read_config = olmoe_read_config};
const struct architecture architecture_granitemoe = {LLAMA_PAGE,
                                                     .name = "granitemoe",
                                                     .tensors = llama_tensors,
                                                     .layer_tensors = layer_tensors,
                                                     .norms_outputs = true,
                                                     .read_config = granitemoe_read_config};
