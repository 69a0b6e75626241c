/* SPDX-License-Identifier: Apache-2.0 */
#include "models/decoder_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/schema.h"

/* Reads a float that is at least `least`. If the key is absent *value stays as it is. */
static wisp_status read_float(const struct config_reader *r, const char *name, int least,
                              float *value) {
    char key[CONFIG_KEY_BYTES];
    float read = *value;
    TRY(metadata_f32_or(r->dir, config_key(r, name, key), &read, r->error));
    if (directory_find_metadata(r->dir, key) && (!isfinite(read) || !(read >= (float)least)))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "not a finite number of at least %d", least);
    *value = read;
    return WISP_OK;
}

/* Reads the numbers that multiply embeddings, outputs of blocks and logits. The file has the number
 * that divides logits. If config->has_scales is false, refuses all but 1. */
static wisp_status read_scales(const struct config_reader *r) {
    static const char *const names[] = {"embedding_scale", "residual_scale", "logit_scale"};
    struct model_config *c = r->config;
    float *const scales[] = {&c->embedding_scale, &c->residual_scale, &c->logit_scale};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        TRY(c->has_scales ? read_float(r, names[i], 0, scales[i])
                          : config_refuse_others(r, names[i], "1"));
    if (c->logit_scale != 0)
        c->logit_scale = 1 / c->logit_scale;
    return WISP_OK;
}

/* Refuses models whose values are bounded or computed by experts if wisp does neither. */
static wisp_status refuse_variants(const struct config_reader *r) {
    static const char *const zeros[] = {"attention.clamp_kqv", "attention.max_alibi_bias"};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        TRY(config_refuse_others(r, zeros[i], "0"));
    char key[CONFIG_KEY_BYTES];
    if (r->config->may_be_parallel)
        TRY(metadata_bool_or(r->dir, config_key(r, "use_parallel_residual", key),
                             &r->config->is_parallel, r->error));
    else
        TRY(config_refuse_others(r, "use_parallel_residual", "false"));
    return r->config->has_experts ? WISP_OK : config_refuse_experts(r);
}

/* Reads a size of experts. If the key is absent *value stays as it is. */
static wisp_status read_expert_size(const struct config_reader *r, const char *name, uint32_t least,
                                    uint32_t most, uint32_t *value) {
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_u32_or(r->dir, config_key(r, name, key), value, r->error));
    if (*value < least || *value > most)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key, "%u is not between %u and %u",
                    *value, least, most);
    return WISP_OK;
}

/* Reads what config->experts has, whose defaults are those of llama.cpp for the architecture.
 * Experts have the layer's neurons if the file does not say how many. Refuses what some models have
 * besides. */
static wisp_status read_experts(const struct config_reader *r) {
    enum { MOST_EXPERTS = 4096, MOST_NEURONS = 1 << 20, SHARING = 4 };
    static const char *const zeros[] = {"expert_shared_count", "expert_shared_feed_forward_length",
                                        "expert_group_count", "expert_group_used_count",
                                        "moe_every_n_layers"};
    struct model_config *c = r->config;
    struct expert_config *e = &c->experts;
    uint32_t gate = e->gate;
    char key[CONFIG_KEY_BYTES];
    e->size = c->intermediate_size;
    e->scale = 1;
    for (size_t i = e->may_share ? SHARING : 0; i < sizeof zeros / sizeof *zeros; i++)
        TRY(config_refuse_others(r, zeros[i], "0"));
    TRY(read_expert_size(r, "expert_count", 1, MOST_EXPERTS, &e->count));
    TRY(read_expert_size(r, "expert_used_count", 1, e->count, &e->used));
    TRY(read_expert_size(r, "expert_feed_forward_length", 1, MOST_NEURONS, &e->size));
    TRY(read_expert_size(r, "leading_dense_block_count", 0, c->layers - 1, &e->first_layer));
    if ((uint64_t)e->used * e->size > MOST_NEURONS)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file,
                    config_key(r, "expert_feed_forward_length", key),
                    "%u experts of %u neurons are more than %d neurons", e->used, e->size,
                    MOST_NEURONS);
    TRY(metadata_u32_or(r->dir, config_key(r, "expert_gating_func", key), &gate, r->error));
    if (gate != EXPERTS_SOFTMAX && gate != EXPERTS_SIGMOID)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "%u is not supported, only 1 (softmax) and 2 (sigmoid)", gate);
    e->gate = (enum expert_gate)gate;
    TRY(metadata_bool_or(r->dir, config_key(r, "expert_weights_norm", key), &e->normalised,
                         r->error));
    TRY(read_float(r, "expert_weights_scale", 0, &e->scale));
    /* With experts in all layers this is what a token computes of a layer. */
    if (e->first_layer == 0)
        c->intermediate_size = e->used * e->size;
    return WISP_OK;
}

/* Reads how a model makes embeddings, if it does. */
static wisp_status read_pooling(const struct config_reader *r) {
    struct model_config *c = r->config;
    uint32_t type = c->pooling;
    bool causal = !c->sees_all;
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_u32_or(r->dir, config_key(r, "pooling_type", key), &type, r->error));
    if (type > POOLING_LAST)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "pooling type %u of a decoder is not supported, only 1 (mean), 2 (cls) and 3 "
                    "(last)",
                    type);
    c->pooling = (enum pooling)type;
    TRY(metadata_bool_or(r->dir, config_key(r, "attention.causal", key), &causal, r->error));
    if (!causal && !config_embeds(c))
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "false is not supported in a model that generates, only true");
    c->sees_all = !causal;
    c->normalize = true;
    return metadata_bool_or(r->dir, KEY_NORMALIZE, &c->normalize, r->error);
}

wisp_status decoder_read_sizes(const struct config_reader *r) {
    struct model_config *c = r->config;
    TRY(refuse_variants(r));
    TRY(read_pooling(r));
    TRY(read_scales(r));
    TRY(config_read_sizes(r));
    TRY(config_read_kv_heads(r));
    if (c->has_experts)
        TRY(read_experts(r));
    c->rope_divisor = c->rope_length = 1;
    TRY(read_float(r, "attention.scale", 0, &c->attention_scale));
    if (c->attention_scale == 0) /* files write it for "as usual" */
        c->attention_scale = 1 / sqrtf((float)c->head_size);
    return WISP_OK;
}

static void set_local(struct model_config *c, uint32_t layer) {
    c->local_layers[layer / 64] |= UINT64_C(1) << layer % 64;
}

wisp_status decoder_read_window(const struct config_reader *r, uint32_t pattern) {
    struct model_config *c = r->config;
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_u32_or(r->dir, config_key(r, "attention.sliding_window", key), &c->window,
                        r->error));
    config_key(r, "attention.sliding_window_pattern", key);
    const struct metadata *entry = directory_find_metadata(r->dir, key);
    const bool listed = entry && entry->type == VALUE_ARRAY;
    if (listed && entry->count != c->layers)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "%llu entries, but there are %u layers", (unsigned long long)entry->count,
                    c->layers);
    if (!listed)
        TRY(metadata_u32_or(r->dir, key, &pattern, r->error));
    for (uint32_t l = 0; l < c->layers; l++) {
        int64_t local = pattern == 0 || l % pattern + 1 < pattern;
        if (listed && (!metadata_array_i64(entry, l, &local) || local < 0 || local > 1))
            return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                        "not an array of bools (entry %u)", l);
        if (c->window > 0 && local)
            set_local(c, l);
    }
    return WISP_OK;
}

static const char ATTENTION_FACTOR[] = "rope.scaling.attn_factor",
                  YARN_ATTENTION_FACTOR[] = "rope.scaling.yarn_attn_factor";

/* Reads the number of positions that the model was trained with before its angles were scaled. */
static wisp_status read_original_context(const struct config_reader *r, uint32_t *context) {
    char key[CONFIG_KEY_BYTES];
    *context = r->config->max_positions;
    TRY(metadata_u32_or(r->dir, config_key(r, "rope.scaling.original_context_length", key), context,
                        r->error));
    if (*context == 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key, "0 is not a length");
    return WISP_OK;
}

static wisp_status refuse_zero_factor(const struct config_reader *r, const char *name) {
    char key[CONFIG_KEY_BYTES];
    return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, config_key(r, name, key),
                "0, by which all scores would be 0");
}

/* Reads YaRN's settings. The usual attention factor is 0.1 log(divisor) + 1, divided by the same
 * with 0.1 times the log multiplier. llama.cpp multiplies
 * it by its key attn_factor. If a model has a factor of its own, llama.cpp's converter writes it
 * as yarn_attn_factor. */
static wisp_status read_yarn(const struct config_reader *r) {
    struct model_config *c = r->config;
    struct rope_yarn *yarn = &c->yarn;
    char key[CONFIG_KEY_BYTES];
    float share = 1, of_all = 0;
    yarn->beta_fast = 32;
    yarn->beta_slow = 1;
    TRY(config_refuse_others(r, "rope.scaling.yarn_ext_factor", "1"));
    TRY(read_original_context(r, &yarn->context));
    if (!(c->rope_theta > 1))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, config_key(r, "rope.freq_base", key),
                    "1, by which YaRN knows no slow pairs");
    TRY(read_float(r, "rope.scaling.yarn_beta_fast", 0, &yarn->beta_fast));
    TRY(read_float(r, "rope.scaling.yarn_beta_slow", 0, &yarn->beta_slow));
    if (yarn->beta_fast == 0 || yarn->beta_slow == 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file,
                    config_key(r,
                               yarn->beta_fast == 0 ? "rope.scaling.yarn_beta_fast"
                                                    : "rope.scaling.yarn_beta_slow",
                               key),
                    "0 is not a number of turns");
    TRY(read_float(r, ATTENTION_FACTOR, 0, &share));
    TRY(read_float(r, "rope.scaling.yarn_log_multiplier", 0, &of_all));
    c->rope_length = share * (float)((0.1 * log((double)c->rope_divisor) + 1) /
                                     (0.1 * (double)of_all * log((double)c->rope_divisor) + 1));
    TRY(read_float(r, YARN_ATTENTION_FACTOR, 0, &c->rope_length));
    if (c->rope_length == 0)
        return refuse_zero_factor(r, share == 0 ? ATTENTION_FACTOR : YARN_ATTENTION_FACTOR);
    return WISP_OK;
}

/* Reads LongRoPE's settings. Its factors are tensors, so a divisor besides them is refused.
 * */
static wisp_status read_longrope(const struct config_reader *r) {
    struct model_config *c = r->config;
    TRY(config_refuse_others(r, "rope.scaling.factor", "1"));
    TRY(config_refuse_others(r, "rope.scale_linear", "1"));
    TRY(read_original_context(r, &c->long_after));
    TRY(read_float(r, ATTENTION_FACTOR, 0, &c->rope_length));
    return c->rope_length == 0 ? refuse_zero_factor(r, ATTENTION_FACTOR) : WISP_OK;
}

/* Follows llama.cpp: without a type a file with LongRoPE's factors has that, and else positions are
 * scaled linearly, and if the file has both factors the newer one, which is the second here,
 * counts. */
wisp_status decoder_read_rope(const struct config_reader *r) {
    static const char *const factors[] = {"rope.scale_linear", "rope.scaling.factor"};
    struct model_config *c = r->config;
    const char *scaling = "linear";
    char key[CONFIG_KEY_BYTES];
    TRY(config_read_rotation(r));
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        TRY(read_float(r, factors[i], 1, &c->rope_divisor));
    if (directory_find_tensor(r->dir, "rope_factors_long.weight"))
        scaling = "longrope";
    TRY(metadata_text_or(r->dir, config_key(r, "rope.scaling.type", key), &scaling, r->error));
    if (strcmp(scaling, "none") == 0)
        c->rope_divisor = 1;
    else if (strcmp(scaling, "yarn") == 0)
        return read_yarn(r);
    else if (strcmp(scaling, "longrope") == 0)
        return read_longrope(r);
    else if (strcmp(scaling, "linear") != 0)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "%.32s is not supported, only none, linear, yarn and longrope", scaling);
    return WISP_OK;
}

wisp_status decoder_read_caps(const struct config_reader *r) {
    TRY(read_float(r, "attn_logit_softcapping", 0, &r->config->attention_cap));
    return read_float(r, "final_logit_softcapping", 0, &r->config->logit_cap);
}

wisp_status decoder_refuse_caps(const struct config_reader *r) {
    TRY(config_refuse_others(r, "attn_logit_softcapping", "0"));
    return config_refuse_others(r, "final_logit_softcapping", "0");
}

wisp_status decoder_read_local_theta(const struct config_reader *r) {
    TRY(read_float(r, "rope.freq_base_swa", 1, &r->config->local_rope_theta));
    if (r->config->window == 0)
        r->config->local_rope_theta = 0;
    return WISP_OK;
}

/* Returns whether any layer from `first` on has the tensor. */
static bool has_in_layers(const struct config_reader *r, uint32_t first, const char *part,
                          const char *suffix) {
    for (uint32_t l = first; l < r->config->layers; l++) {
        char name[TENSOR_NAME_BYTES];
        layer_tensor_name(name, l, part, suffix);
        if (directory_find_tensor(r->dir, name))
            return true;
    }
    return false;
}

bool decoder_has_choice_bias(const struct config_reader *r) {
    return has_in_layers(r, r->config->experts.first_layer, TENSOR_ROUTER_CHOICE, TENSOR_BIAS);
}

bool decoder_has_gates(const struct config_reader *r) {
    const struct metadata *places = directory_find_metadata(r->dir, KEY_NEURONS_PLACES);
    /* There is no such tensor if gates are in rows of neurons. */
    const bool in_rows =
        places && places->type == VALUE_ARRAY && places->count == 3 * (uint64_t)r->config->layers;
    return in_rows || r->config->has_experts || has_in_layers(r, 0, TENSOR_FFN_GATE, TENSOR_WEIGHT);
}

wisp_status decoder_read_activation(const struct config_reader *r,
                                    const struct named_activation *known, size_t n) {
    static const char key[] = KEY_HIDDEN_ACT;
    const char *name = NULL;
    char all[64] = "";
    TRY(metadata_text_or(r->dir, key, &name, r->error));
    if (!name)
        return WISP_OK;
    for (size_t i = 0, used = 0; i < n; i++) {
        if (strcmp(name, known[i].name) == 0) {
            r->config->activation = known[i].activation;
            return WISP_OK;
        }
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s",
                                 i == 0      ? ""
                                 : i + 1 < n ? ", "
                                             : " and ",
                                 known[i].name);
    }
    return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                "%.32s is not supported, only %s", name, all);
}
