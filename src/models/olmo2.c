/* SPDX-License-Identifier: Apache-2.0
 * The hyper-parameters and tensors of OLMo 2 and 3. Their forward pass is that of llama.c. */
#include "models/olmo2.h"

static wisp_status olmo2_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    static const struct named_activation gated[] = {{"silu", ACTIVATION_GATED_SILU}};
    const struct config_reader r = {dir, architecture_olmo2.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .norms = NORMS_AFTER,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qk_norm = true,
                                    .wide_qk_norm = true};
    TRY(decoder_read_sizes(&r));
    TRY(config_read_norm_epsilon(&r, "attention.layer_norm_rms_epsilon"));
    TRY(decoder_read_activation(&r, gated, 1));
    TRY(decoder_read_window(&r, 4));
    TRY(decoder_refuse_caps(&r));
    TRY(decoder_read_rope(&r));
    config->local_rope_theta = config->rope_theta;
    return decoder_read_local_theta(&r);
}

static const char *const layer_tensors[] = {"attn_q_norm",         "attn_k_norm",
                                            "post_attention_norm", "post_ffw_norm",
                                            LLAMA_LAYER_TENSORS,   NULL};

const struct architecture architecture_olmo2 = {LLAMA_PAGE,
                                                .name = "olmo2",
                                                .tensors = llama_tensors,
                                                .layer_tensors = layer_tensors,
                                                .norms_outputs = true,
                                                .read_config = olmo2_read_config};
