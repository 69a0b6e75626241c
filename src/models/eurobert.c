/* SPDX-License-Identifier: Apache-2.0
 * The hyper-parameters and tensors of EuroBERT. Its forward pass is that of llama.c. */
#include "models/eurobert.h"

static wisp_status eurobert_read_config(const struct directory *dir, struct model_config *config,
                                        wisp_error *error) {
    const struct config_reader r = {dir, architecture_eurobert.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .pooling = POOLING_MEAN,
                                    .sees_all = true,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_HALVES};
    return llama_read_decoder(&r);
}

static const char *const layer_tensors[] = {"attn_norm", "ffn_norm", LLAMA_LAYER_TENSORS, NULL};

const struct architecture architecture_eurobert = {
    LLAMA_PAGE, .name = "eurobert", .tensors = llama_tensors, .layer_tensors = layer_tensors,
    .read_config = eurobert_read_config};
