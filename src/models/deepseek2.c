/* SPDX-License-Identifier: Apache-2.0 */
#include "models/deepseek2.h"

#include <math.h>
#include <stdlib.h>

#include "models/latent_attention.h"
#include "models/linears.h"

/* ---- the weights ---------------------------------------------------------------------------- */

static size_t linears(const struct network *network, uint32_t l, struct linear_entry *out) {
    const struct llama_weights *w = network->weights;
    if (l == network->config.layers)
        return llama_linears(network, l, out);
    struct latent_attention *latent = w->layer[l].attention.latent; /* NULL if `load` failed */
    return latent ? latent_attention_linears(&network->config, latent, out) : 0;
}

static wisp_status load(struct network *network, wisp_error *error) {
    const uint32_t layers = network->config.layers;
    struct llama_weights *w = network->weights;
    struct latent_attention *latent = calloc(layers, sizeof *latent);
    if (!latent)
        return fail_memory(error, layers * sizeof *latent);
    for (uint32_t l = 0; l < layers; l++)
        w->layer[l].attention.latent = &latent[l];
    return llama_load(network, error);
}

static wisp_status load_layer(struct network *network, uint32_t l, wisp_error *error) {
    const struct llama_weights *w = network->weights;
    TRY(llama_load_layer(network, l, error));
    return latent_attention_load(network, l, w->layer[l].attention.latent, error);
}

static void release(struct network *network) {
    const struct llama_weights *w = network->weights;
    struct latent_attention *latent = w->layer[0].attention.latent; /* that of all layers */
    for (uint32_t l = 0; latent && l < network->config.layers; l++)
        latent_attention_release(&network->config, &latent[l]);
    free(latent);
    llama_release(network);
}

/* ---- the pass ------------------------------------------------------------------------------- */

static wisp_status step(struct pass *pass, uint32_t member, struct cursor at, wisp_error *error) {
    const struct llama_weights *w = pass->network->weights;
    const struct llama_layer *layer = &w->layer[at.layer];
    if (at.block != PASS_ATTENTION)
        return llama_step(pass, member, at, error);
    TRY(latent_attention_run(pass, member, at, layer->attention.latent, &w->common.rope, error));
    decoder_add_and_norm(pass, member, at, NULL, layer->feed_forward_norm);
    return WISP_OK;
}

/* ---- the hyper-parameters ------------------------------------------------------------------- */

/* Reads a size, which must be at most `most`. */
static wisp_status read_size(const struct config_reader *r, const char *name, uint32_t most,
                             uint32_t *size) {
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_u32(r->dir, config_key(r, name, key), size, r->error));
    if (*size < 1 || *size > most)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "%u is not between 1 and %u", *size, most);
    return WISP_OK;
}

/* Reads the sizes of latent attention, and refuses those for which latent_attention.c has no room.
 */
static wisp_status read_latents(const struct config_reader *r) {
    struct model_config *c = r->config;
    struct latent_config *l = &c->latent;
    char key[CONFIG_KEY_BYTES];
    if (c->kv_heads != 1 || c->head_size != l->rank + c->rotary_size)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file,
                    config_key(r, "attention.key_length", key),
                    "%u values in %u heads of keys, not kv_lora_rank + rope.dimension_count = %u "
                    "in one",
                    c->head_size, c->kv_heads, l->rank + c->rotary_size);
    if (directory_find_metadata(r->dir, config_key(r, "attention.q_lora_rank", key)))
        TRY(read_size(r, "attention.q_lora_rank", c->hidden_size, &l->q_rank));
    TRY(read_size(r, "attention.key_length_mla", c->head_size, &l->key_size));
    TRY(read_size(r, "attention.value_length_mla", c->head_size, &l->value_size));
    if (l->key_size <= c->rotary_size)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file,
                    config_key(r, "attention.key_length_mla", key),
                    "%u values of a key, all of which rotate", l->key_size);
    c->attention_scale = 1 / sqrtf((float)l->key_size);
    return WISP_OK;
}

/* Reads what experts have besides those of other architectures. */
static wisp_status read_experts(const struct config_reader *r) {
    static const char *const groups[] = {"expert_group_count", "expert_group_used_count"};
    struct expert_config *e = &r->config->experts;
    char key[CONFIG_KEY_BYTES];
    uint32_t shared = 0, count;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        count = 1;
        TRY(metadata_u32_or(r->dir, config_key(r, groups[i], key), &count, r->error));
        if (count > 1)
            return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                        "%u groups of experts are not supported, only 1", count);
    }
    TRY(metadata_u32_or(r->dir, config_key(r, "expert_shared_count", key), &shared, r->error));
    if (shared > e->used)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "%u experts for all tokens beside %u for each are not supported", shared,
                    e->used);
    e->shared = shared * e->size;
    e->has_bias = decoder_has_choice_bias(r);
    if (!e->has_bias && !directory_find_metadata(r->dir, config_key(r, "expert_gating_func", key)))
        e->gate = EXPERTS_SOFTMAX; /* as in llama.cpp */
    return WISP_OK;
}

static wisp_status read_config(const struct directory *dir, struct model_config *config,
                               wisp_error *error) {
    const struct config_reader r = {dir, architecture_deepseek2.name, config, error};
    enum { MOST = 1 << 16 };
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_NEIGHBOURS,
                                    .has_experts = true,
                                    .experts = {.gate = EXPERTS_SIGMOID, .may_share = true}};
    TRY(read_size(&r, "attention.kv_lora_rank", MOST, &config->latent.rank));
    TRY(decoder_read_sizes(&r));
    TRY(config_read_norm_epsilon(&r, "attention.layer_norm_rms_epsilon"));
    TRY(config_refuse_others(&r, "rope.scaling.type", "none")); /* which would scale scores too */
    TRY(decoder_refuse_caps(&r));
    TRY(decoder_read_rope(&r));
    TRY(read_latents(&r));
    return read_experts(&r);
}

static const char *const layer_tensors[] = {
    "attn_norm",       LATENT_TENSORS,       "ffn_norm",
    TENSOR_FFN_GATE,   TENSOR_FFN_UP,        TENSOR_FFN_DOWN,
    TENSOR_ROUTER,     TENSOR_ROUTER_CHOICE, TENSOR_GATE_EXPERTS,
    TENSOR_UP_EXPERTS, TENSOR_DOWN_EXPERTS,  TENSOR_GATE_SHARED,
    TENSOR_UP_SHARED,  TENSOR_DOWN_SHARED,   NULL};

const struct architecture architecture_deepseek2 = {.generates = true,
                                                    .by_outputs = true,
                                                    .norms_first = true,
                                                    .weights_bytes = sizeof(struct llama_weights),
                                                    .layer_bytes = sizeof(struct llama_layer),
                                                    .linears = linears,
                                                    .load = load,
                                                    .load_layer = load_layer,
                                                    .release = release,
                                                    .attention = decoder_attention_shape,
                                                    .take = decoder_take,
                                                    .rope = decoder_rope,
                                                    .step = step,
                                                    .name = "deepseek2",
                                                    .tensors = llama_tensors,
                                                    .layer_tensors = layer_tensors,
                                                    .read_config = read_config};
