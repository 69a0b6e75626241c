/* SPDX-License-Identifier: Apache-2.0 */
#include "models/config_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number_text.h"
#include "base/product.h"
#include "formats/schema.h"

enum { MAX_SIZE = 1 << 20 };

const char *config_key(const struct config_reader *r, const char *name,
                       char key[CONFIG_KEY_BYTES]) {
    snprintf(key, CONFIG_KEY_BYTES, "%s.%s", r->architecture, name);
    return key;
}

static wisp_status read_size(const struct config_reader *r, const char *name, uint32_t most,
                             uint32_t *value) {
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_u32(r->dir, config_key(r, name, key), value, r->error));
    if (*value == 0 || *value > most)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key, "%u is not between 1 and %u",
                    *value, most);
    return WISP_OK;
}

wisp_status config_read_sizes(const struct config_reader *r) {
    struct model_config *c = r->config;
    char key[CONFIG_KEY_BYTES];
    TRY(read_size(r, "embedding_length", MAX_SIZE, &c->hidden_size));
    TRY(read_size(r, "feed_forward_length", MAX_SIZE, &c->intermediate_size));
    TRY(read_size(r, "block_count", CONFIG_MAX_LAYERS, &c->layers));
    TRY(read_size(r, "attention.head_count", MAX_SIZE, &c->heads));
    TRY(read_size(r, "context_length", MAX_SIZE, &c->max_positions));
    if (c->hidden_size % c->heads != 0 && c->latent.rank == 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file,
                    config_key(r, "attention.head_count", key),
                    "%u heads do not divide the hidden size %u", c->heads, c->hidden_size);
    c->kv_heads = c->heads;
    c->head_size = c->hidden_size / c->heads;
    const struct tensor *tokens = directory_find_tensor(r->dir, TENSOR_TOKENS);
    const struct tensor *types = directory_find_tensor(r->dir, "token_types.weight");
    c->token_types = 1;
    if (tokens && tokens->rows <= UINT32_MAX)
        c->vocabulary_size = (uint32_t)tokens->rows;
    if (types && types->rows <= UINT32_MAX)
        c->token_types = (uint32_t)types->rows;
    return WISP_OK;
}

/* Reads an array with the number of key-value heads of each layer: one number for all, or 0 if a
 * layer has a short convolution. */
static wisp_status read_kv_heads_of_layers(const struct config_reader *r, const char *key,
                                           const struct metadata *array) {
    struct model_config *c = r->config;
    int64_t common = 0;
    if (array->count != c->layers)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "%llu entries, but there are %u layers", (unsigned long long)array->count,
                    c->layers);
    for (uint32_t l = 0; l < c->layers; l++) {
        int64_t heads;
        if (!metadata_array_i64(array, l, &heads) || heads < 0 || heads > MAX_SIZE)
            return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                        "entry %u is not a number of heads", l);
        if (heads == 0 && c->conv_taps > 0)
            c->conv_layers[l / 64] |= UINT64_C(1) << l % 64;
        else if (heads == 0 || (common > 0 && heads != common))
            return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                        "%lld heads in layer %u, but other layers have %lld", (long long)heads, l,
                        (long long)common);
        else
            common = heads;
    }
    if (common > 0)
        c->kv_heads = (uint32_t)common;
    return WISP_OK;
}

wisp_status config_read_kv_heads(const struct config_reader *r) {
    struct model_config *c = r->config;
    char key[CONFIG_KEY_BYTES];
    const struct metadata *entry =
        directory_find_metadata(r->dir, config_key(r, "attention.head_count_kv", key));
    if (entry && entry->type == VALUE_ARRAY)
        TRY(read_kv_heads_of_layers(r, key, entry));
    else
        TRY(metadata_u32_or(r->dir, key, &c->kv_heads, r->error));
    if (c->kv_heads == 0 || c->heads % c->kv_heads != 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "%u key-value heads do not divide %u heads", c->kv_heads, c->heads);
    uint32_t value_size = c->head_size;
    TRY(metadata_u32_or(r->dir, config_key(r, "attention.value_length", key), &value_size,
                        r->error));
    TRY(metadata_u32_or(r->dir, config_key(r, "attention.key_length", key), &c->head_size,
                        r->error));
    if (c->head_size == 0 || (uint64_t)c->head_size * c->heads > MAX_SIZE)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "%u heads of %u values are not between 1 and %d values", c->heads, c->head_size,
                    MAX_SIZE);
    if (value_size != c->head_size && c->latent.rank == 0 && directory_find_metadata(r->dir, key))
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "%u values of a key, but a value vector has %u", c->head_size, value_size);
    return WISP_OK;
}

wisp_status config_read_norm_epsilon(const struct config_reader *r, const char *name) {
    float *epsilon = &r->config->norm_epsilon;
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_f32(r->dir, config_key(r, name, key), epsilon, r->error));
    if (!isfinite(*epsilon) || *epsilon < 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "not a finite number of at least 0");
    return WISP_OK;
}

wisp_status config_read_activation(const struct config_reader *r) {
    static const char key[] = KEY_HIDDEN_ACT;
    const bool gated = config_is_gated(r->config);
    const char *name = gated ? "silu" : "gelu";
    TRY(metadata_text_or(r->dir, key, &name, r->error));
    if (!gated && strcmp(name, "relu") == 0)
        r->config->activation = ACTIVATION_RELU;
    else if (strcmp(name, gated ? "silu" : "gelu") != 0)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "%.32s is not supported, only %s", name, gated ? "silu" : "gelu and relu");
    return WISP_OK;
}

/* Reads whether the head reads the mean of tokens. */
static wisp_status read_head_pooling(const struct config_reader *r) {
    const bool means = strcmp(r->architecture, "modern-bert") == 0;
    uint32_t type = means ? POOLING_MEAN : POOLING_CLS;
    TRY(metadata_u32_or(r->dir, KEY_HEAD_POOLING, &type, r->error));
    r->config->ranks_mean = type == POOLING_MEAN;
    if (type == POOLING_MEAN || type == POOLING_CLS)
        return WISP_OK;
    return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, KEY_HEAD_POOLING,
                "pooling type %u is not supported, only 1 (mean) and 2 (cls)", type);
}

wisp_status config_read_pooling(const struct config_reader *r) {
    uint32_t type = POOLING_MEAN;
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_u32_or(r->dir, config_key(r, "pooling_type", key), &type, r->error));
    const bool has_head = type == POOLING_RANK || type == POOLING_SPLADE || type == POOLING_TOKENS;
    if (type != POOLING_MEAN && type != POOLING_CLS && !(RANKS && has_head))
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "pooling type %u is not supported, only 1 (mean), 2 (cls)%s", type,
                    RANKS ? ", 4 (rank), 65536 (SPLADE) and 65537 (tokens)" : "");
    r->config->pooling = (enum pooling)type;
    if (CLASSIFIES && type == POOLING_RANK)
        TRY(read_head_pooling(r));
    /* Files of llama.cpp have no key for this, and llama.cpp normalises every embedding. */
    r->config->normalize = !has_head;
    return metadata_bool_or(r->dir, KEY_NORMALIZE, &r->config->normalize, r->error);
}

wisp_status config_refuse_others(const struct config_reader *r, const char *name,
                                 const char *wanted) {
    char key[CONFIG_KEY_BYTES], given[32];
    const struct metadata *entry = directory_find_metadata(r->dir, config_key(r, name, key));
    if (!entry)
        return WISP_OK;
    metadata_format(entry, given, sizeof given);
    if (strcmp(given, wanted) == 0)
        return WISP_OK;
    return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key, "%s is not supported, only %s",
                given, wanted);
}

wisp_status config_refuse_variants(const struct config_reader *r) {
    static const char *const zero[] = {"attention.scale",     "attention.sliding_window",
                                       "attention.clamp_kqv", "attention.max_alibi_bias",
                                       "expert_count",        "moe_every_n_layers"};
    const size_t others = PROJECTS && r->config->has_experts ? 2 : 0;
    bool causal = false;
    char key[CONFIG_KEY_BYTES], head_size[16];
    TRY(metadata_bool_or(r->dir, config_key(r, "attention.causal", key), &causal, r->error));
    if (causal)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "decoders are not supported");
    for (size_t i = 0; i < sizeof zero / sizeof *zero - others; i++)
        TRY(config_refuse_others(r, zero[i], "0"));
    TRY(config_refuse_others(r, "use_parallel_residual", "false"));
    snprintf(head_size, sizeof head_size, "%u", r->config->hidden_size / r->config->heads);
    TRY(config_refuse_others(r, "attention.key_length", head_size));
    return config_refuse_others(r, "attention.value_length", head_size);
}

wisp_status config_refuse_experts(const struct config_reader *r) {
    uint32_t experts = 0;
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_u32_or(r->dir, config_key(r, "expert_count", key), &experts, r->error));
    if (experts > 0)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "layers of %u experts are not supported", experts);
    return WISP_OK;
}

wisp_status config_read_rotation(const struct config_reader *r) {
    struct model_config *c = r->config;
    const uint32_t head_size = c->head_size;
    char key[CONFIG_KEY_BYTES];
    if (head_size % 2 != 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file,
                    config_key(r, "attention.head_count", key),
                    "heads of %u values, of which no pairs can be made", head_size);
    c->rotary_size = head_size;
    config_key(r, "rope.dimension_count", key);
    TRY(metadata_u32_or(r->dir, key, &c->rotary_size, r->error));
    if (c->rotary_size == 0 || c->rotary_size > head_size || c->rotary_size % 2 != 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "%u of a head's %u values, not an even number of them", c->rotary_size,
                    head_size);
    config_key(r, "rope.freq_base", key);
    TRY(c->rope_theta != 0 ? metadata_f32_or(r->dir, key, &c->rope_theta, r->error)
                           : metadata_f32(r->dir, key, &c->rope_theta, r->error));
    if (!isfinite(c->rope_theta) || !(c->rope_theta >= 1))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "not a finite number of at least 1");
    return WISP_OK;
}

wisp_status config_read_rope(const struct config_reader *r) {
    static const char *const factors[] = {"rope.scaling.factor", "rope.scale_linear"};
    const char *scaling = "none";
    char key[CONFIG_KEY_BYTES];
    TRY(config_read_rotation(r));
    if (r->config->rotary_size != r->config->head_size)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file,
                    config_key(r, "rope.dimension_count", key),
                    "%u of a head's %u values; all must be rotated", r->config->rotary_size,
                    r->config->head_size);
    TRY(metadata_text_or(r->dir, config_key(r, "rope.scaling.type", key), &scaling, r->error));
    if (strcmp(scaling, "none") != 0)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "%.32s is not supported, only none", scaling);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        float factor = 1;
        TRY(metadata_f32_or(r->dir, config_key(r, factors[i], key), &factor, r->error));
        if (!(factor == 1))
            return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                        "positions scaled by %s are not supported",
                        number_text((double)factor, 6).text);
    }
    return WISP_OK;
}
