/* SPDX-License-Identifier: Apache-2.0
 * The hyper-parameters and tensors of SmolLM3. Its forward pass is that of llama.c. */
#include "models/smollm3.h"

static wisp_status smollm3_read_config(const struct directory *dir, struct model_config *config,
                                       wisp_error *error) {
    const struct config_reader r = {dir, architecture_smollm3.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_NEIGHBOURS,
                                    .no_rope_step = 4}; /* files have no key for it */
    return llama_read_decoder(&r);
}

static const char *const layer_tensors[] = {"attn_norm", "ffn_norm", LLAMA_LAYER_TENSORS, NULL};

const struct architecture architecture_smollm3 = {
    LLAMA_PAGE, .name = "smollm3", .tensors = llama_tensors, .layer_tensors = layer_tensors,
    .read_config = smollm3_read_config};
