/* SPDX-License-Identifier: Apache-2.0
 * The hyper-parameters and tensors of Granite and MiniCPM. Their forward pass is that of llama.c.
 */
#include "models/granite.h"

#include <math.h>

static wisp_status granite_read_config(const struct directory *dir, struct model_config *config,
                                       wisp_error *error) {
    const struct config_reader r = {dir, architecture_granite.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_NEIGHBOURS,
                                    .has_scales = true};
    TRY(config_refuse_others(&r, "rope.scaling.finetuned", "true")); /* else nothing is rotated */
    return llama_read_decoder(&r);
}

/* Older files have none of the three numbers. MiniCPM's first models have these, by which logits
 * are divided by hidden_size / 256. */
static wisp_status minicpm_read_config(const struct directory *dir, struct model_config *config,
                                       wisp_error *error) {
    const struct config_reader r = {dir, architecture_minicpm.name, config, error};
    char key[CONFIG_KEY_BYTES];
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_NEIGHBOURS,
                                    .has_scales = true};
    TRY(llama_read_decoder(&r));
    if (!directory_find_metadata(dir, config_key(&r, "embedding_scale", key)))
        config->embedding_scale = 12;
    if (!directory_find_metadata(dir, config_key(&r, "residual_scale", key)))
        config->residual_scale = 1.4f / sqrtf((float)config->layers);
    if (!directory_find_metadata(dir, config_key(&r, "logit_scale", key)))
        config->logit_scale = 256 / (float)config->hidden_size;
    return WISP_OK;
}

static const char *const layer_tensors[] = {"attn_norm", "ffn_norm", LLAMA_LAYER_TENSORS, NULL};

const struct architecture architecture_granite = {LLAMA_PAGE,
                                                  .name = "granite",
                                                  .tensors = llama_tensors,
                                                  .layer_tensors = layer_tensors,
                                                  .norms_outputs = true,
                                                  .read_config = granite_read_config};
const struct architecture architecture_minicpm = {LLAMA_PAGE,
                                                  .name = "minicpm",
                                                  .tensors = llama_tensors,
                                                  .layer_tensors = layer_tensors,
                                                  .norms_outputs = true,
                                                  .read_config = minicpm_read_config};
