/* SPDX-License-Identifier: Apache-2.0 */
#include "models/bitnet.h"

static wisp_status read_config(const char *name, enum activation usual, const struct directory *dir,
                               struct model_config *config, wisp_error *error) {
    static const struct named_activation gates[] = {{"relu2", ACTIVATION_GATED_RELU_SQUARED},
                                                    {"relu", ACTIVATION_GATED_RELU},
                                                    {"silu", ACTIVATION_GATED_SILU}};
    const struct config_reader r = {dir, name, config, error};
    *config = (struct model_config){.activation = usual,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_sub_norms = true};
    TRY(decoder_read_sizes(&r));
    TRY(config_read_norm_epsilon(&r, "attention.layer_norm_rms_epsilon"));
    TRY(decoder_read_activation(&r, gates, sizeof gates / sizeof *gates));
    TRY(decoder_refuse_caps(&r));
    return decoder_read_rope(&r);
}

static wisp_status read_bitnet(const struct directory *dir, struct model_config *config,
                               wisp_error *error) {
    return read_config(architecture_bitnet.name, ACTIVATION_GATED_SILU, dir, config, error);
}

static wisp_status read_bitnet_b158(const struct directory *dir, struct model_config *config,
                                    wisp_error *error) {
    return read_config(architecture_bitnet_b158.name, ACTIVATION_GATED_RELU_SQUARED, dir, config,
                       error);
}

static const char *const layer_tensors[] = {"attn_norm",    "attn_sub_norm",     "ffn_norm",
                                            "ffn_sub_norm", LLAMA_LAYER_TENSORS, NULL};

const struct architecture architecture_bitnet = {
    LLAMA_PAGE, .name = "bitnet", .tensors = llama_tensors, .layer_tensors = layer_tensors,
    .read_config = read_bitnet};
const struct architecture architecture_bitnet_b158 = {
    LLAMA_PAGE, .name = "bitnet-b1.58", .tensors = llama_tensors, .layer_tensors = layer_tensors,
    .read_config = read_bitnet_b158};
