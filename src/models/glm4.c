/* SPDX-License-Identifier: Apache-2.0
 * The hyper-parameters and tensors of GLM-4. Its forward pass is that of llama.c. */
#include "models/glm4.h"

static wisp_status glm4_read_config(const struct directory *dir, struct model_config *config,
                                    wisp_error *error) {
    const struct config_reader r = {dir, architecture_glm4.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_NEIGHBOURS,
                                    .norms = NORMS_AROUND,
                                    .has_qkv_bias =
                                        directory_find_tensor(dir, "blk.0.attn_q.bias") != NULL};
    return llama_read_decoder(&r);
}

static const char *const layer_tensors[] = {"attn_norm",     "post_attention_norm", "ffn_norm",
                                            "post_ffw_norm", LLAMA_LAYER_TENSORS,   NULL};

const struct architecture architecture_glm4 = {LLAMA_PAGE,
                                               .name = "glm4",
                                               .tensors = llama_tensors,
                                               .layer_tensors = layer_tensors,
                                               .norms_outputs = true,
                                               .read_config = glm4_read_config};
