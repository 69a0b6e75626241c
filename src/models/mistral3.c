/* SPDX-License-Identifier: Apache-2.0
 * The hyper-parameters and tensors of Ministral 3. Its forward pass is that of llama.c. */
#include "models/mistral3.h"

#include <math.h>

/* Reads by how much queries grow, and after how many positions. */
static wisp_status read_growth(const struct config_reader *r) {
    struct model_config *c = r->config;
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_f32_or(r->dir, config_key(r, "attention.temperature_scale", key), &c->query_growth,
                        r->error));
    if (!isfinite(c->query_growth) || !(c->query_growth >= 0))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "not a finite number of at least 0");
    if (c->query_growth == 0)
        return WISP_OK;
    TRY(metadata_u32(r->dir, config_key(r, "rope.scaling.original_context_length", key),
                     &c->query_growth_step, r->error));
    return c->query_growth_step > 0
               ? WISP_OK
               : fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key, "0 is not a length");
}

static wisp_status mistral3_read_config(const struct directory *dir, struct model_config *config,
                                        wisp_error *error) {
    const struct config_reader r = {dir, architecture_mistral3.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_NEIGHBOURS};
    TRY(llama_read_decoder(&r));
    return read_growth(&r);
}

static const char *const layer_tensors[] = {"attn_norm", "ffn_norm", LLAMA_LAYER_TENSORS, NULL};

const struct architecture architecture_mistral3 = {
    LLAMA_PAGE, .name = "mistral3", .tensors = llama_tensors, .layer_tensors = layer_tensors,
    .read_config = mistral3_read_config};
