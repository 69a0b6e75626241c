/* SPDX-License-Identifier: Apache-2.0 */
#include "models/gpt_oss.h"

#include "models/norms_load.h"

static wisp_status read_config(const struct directory *dir, struct model_config *config,
                               wisp_error *error) {
    const struct config_reader r = {dir, architecture_gpt_oss.name, config, error};
    *config = (struct model_config){
        .activation = ACTIVATION_GATED_SILU_BOUNDED,
        .rope_theta = LLAMA_USUAL_THETA,
        .rope_pairs = ROPE_HALVES,
        .has_bias = true,
        .yarn = {.between_pairs = true},
        .has_experts = true,
        .experts = {.gate = EXPERTS_SOFTMAX, .normalised = true, .adds_bias = true}};
    TRY(decoder_read_sizes(&r));
    TRY(config_read_norm_epsilon(&r, "attention.layer_norm_rms_epsilon"));
    TRY(decoder_read_window(&r, 2));
    TRY(decoder_refuse_caps(&r));
    return decoder_read_rope(&r);
}

/* The norm before the feed-forward layer has the name of one that is behind attention elsewhere. */
static wisp_status load_layer(struct network *network, uint32_t l, wisp_error *error) {
    const size_t size = network->config.hidden_size, heads = network->config.heads;
    struct llama_layer *layer = &((struct llama_weights *)network->weights)->layer[l];
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, l, "attn_sinks", TENSOR_WEIGHT);
    network->resident_bytes += heads * sizeof *layer->attention.sinks;
    TRY(directory_load_floats(network->dir, name, 1, heads, &layer->attention.sinks, error));
    TRY(load_layer_rms_norm(network, l, "attn_norm", size, &layer->attention_norm, error));
    return load_layer_rms_norm(network, l, "post_attention_norm", size, &layer->feed_forward_norm,
                               error);
}

static const char *const layer_tensors[] = {"attn_norm", "post_attention_norm", "attn_sinks",
                                            LLAMA_EXPERT_TENSORS, NULL};

const struct architecture architecture_gpt_oss = {
    LLAMA_PAGE_BUT_LAYERS,    .load_layer = load_layer,       .name = "gpt-oss",
    .tensors = llama_tensors, .layer_tensors = layer_tensors, .read_config = read_config};
