/* SPDX-License-Identifier: Apache-2.0
 * Hyper-parameters of a BERT encoder and its kin. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/schema.h"
#include "models/bert.h"

enum { KEY_BYTES = 64, MAX_SIZE = 1 << 20, MAX_LAYERS = 1024 };

/* What is being read, and where. */
struct reader {
    const struct directory *dir;
    struct bert_config *config;
    char key[KEY_BYTES]; /* the last that was named */
    wisp_error *error;
};

/* A key of the architecture, for as long as no other is named. */
static const char *key_of(struct reader *r, const char *name) {
    snprintf(r->key, sizeof r->key, "%s.%s", r->config->architecture, name);
    return r->key;
}

static wisp_status read_architecture(struct reader *r) {
    static const struct bert_config kinds[] = {
        {.architecture = "bert", .activation = ACTIVATION_GELU},
        {.architecture = "nomic-bert",
         .activation = ACTIVATION_GATED_SILU,
         .rotary = true,
         .fused_qkv = true,
         .unbiased = true},
    };
    static const char key[] = "general.architecture";
    const char *name = NULL;
    TRY(metadata_text(r->dir, key, &name, r->error));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, kinds[i].architecture) == 0) {
            *r->config = kinds[i];
            return WISP_OK;
        }
    return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                "models of architecture %.64s are not supported, only bert and nomic-bert", name);
}

static wisp_status read_size(struct reader *r, const char *name, uint32_t most, uint32_t *value) {
    const char *key = key_of(r, name);
    TRY(metadata_u32(r->dir, key, value, r->error));
    if (*value == 0 || *value > most)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key, "%u is not between 1 and %u",
                    *value, most);
    return WISP_OK;
}

static wisp_status read_sizes(struct reader *r) {
    struct bert_config *c = r->config;
    TRY(read_size(r, "embedding_length", MAX_SIZE, &c->hidden_size));
    TRY(read_size(r, "feed_forward_length", MAX_SIZE, &c->intermediate_size));
    TRY(read_size(r, "block_count", MAX_LAYERS, &c->layers));
    TRY(read_size(r, "attention.head_count", MAX_SIZE, &c->heads));
    TRY(read_size(r, "context_length", MAX_SIZE, &c->max_positions));
    if (c->hidden_size % c->heads != 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key_of(r, "attention.head_count"),
                    "%u heads do not divide the hidden size %u", c->heads, c->hidden_size);
    const struct tensor *table = directory_find_tensor(r->dir, "token_embd.weight");
    const struct tensor *types = directory_find_tensor(r->dir, "token_types.weight");
    c->token_types = 1;
    if (table && table->rows <= UINT32_MAX)
        c->vocabulary_size = (uint32_t)table->rows;
    if (types && types->rows <= UINT32_MAX)
        c->token_types = (uint32_t)types->rows;
    return WISP_OK;
}

static wisp_status read_epsilon(struct reader *r) {
    const char *key = key_of(r, "attention.layer_norm_epsilon");
    float *epsilon = &r->config->layer_norm_epsilon;
    *epsilon = 1e-12f;
    TRY(metadata_f32_or(r->dir, key, epsilon, r->error));
    if (!isfinite(*epsilon) || *epsilon < 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "not a finite number of at least 0");
    return WISP_OK;
}

/* The key may only make a choice that the architecture leaves open. */
static wisp_status read_activation(struct reader *r) {
    static const char key[] = KEY_HIDDEN_ACT;
    enum activation *activation = &r->config->activation;
    const bool is_gated = *activation == ACTIVATION_GATED_SILU;
    const char *name = is_gated ? "silu" : "gelu"; /* what a model without the key has */
    TRY(metadata_text_or(r->dir, key, &name, r->error));
    if (!is_gated && strcmp(name, "relu") == 0)
        *activation = ACTIVATION_RELU;
    else if (strcmp(name, is_gated ? "silu" : "gelu") != 0)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "%.32s is not supported, only %s", name, is_gated ? "silu" : "gelu and relu");
    return WISP_OK;
}

static wisp_status read_pooling(struct reader *r) {
    const char *key = key_of(r, "pooling_type");
    uint32_t type = BERT_POOL_MEAN;
    TRY(metadata_u32_or(r->dir, key, &type, r->error));
    if (type != BERT_POOL_MEAN && type != BERT_POOL_CLS)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "pooling type %u is not supported, only 1 (mean) and 2 (cls)", type);
    r->config->pooling = (enum bert_pooling)type;
    r->config->normalize = true; /* GGUF files of other makers do not say, and their users do */
    return metadata_bool_or(r->dir, KEY_NORMALIZE, &r->config->normalize, r->error);
}

static wisp_status check_causal(struct reader *r) {
    const char *key = key_of(r, "attention.causal");
    bool causal = false;
    TRY(metadata_bool_or(r->dir, key, &causal, r->error));
    if (causal)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "decoders are not supported");
    return WISP_OK;
}

/* ---- rotary positions ----------------------------------------------------------------------- */

static wisp_status check_unscaled(struct reader *r) {
    static const char *const factors[] = {"rope.scaling.factor", "rope.scale_linear"};
    const char *type = "none", *key = key_of(r, "rope.scaling.type");
    TRY(metadata_text_or(r->dir, key, &type, r->error));
    if (strcmp(type, "none") != 0)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "%.32s is not supported, only none", type);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        float factor = 1;
        key = key_of(r, factors[i]);
        TRY(metadata_f32_or(r->dir, key, &factor, r->error));
        if (!(factor == 1))
            return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                        "positions scaled by %g are not supported", (double)factor);
    }
    return WISP_OK;
}

static wisp_status read_rotary(struct reader *r) {
    struct bert_config *c = r->config;
    const uint32_t head_size = c->hidden_size / c->heads;
    uint32_t turned = head_size;
    const char *key = key_of(r, "attention.head_count");
    if (head_size % 2 != 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "heads of %u values, of which no pairs can be made", head_size);
    key = key_of(r, "rope.dimension_count");
    TRY(metadata_u32_or(r->dir, key, &turned, r->error));
    if (turned != head_size)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file, key,
                    "%u of a head's %u values, where all are to be turned", turned, head_size);
    key = key_of(r, "rope.freq_base");
    TRY(metadata_f32(r->dir, key, &c->rotary_base, r->error));
    if (!isfinite(c->rotary_base) || !(c->rotary_base >= 1))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "not a finite number of at least 1");
    return check_unscaled(r);
}

wisp_status bert_read_config(const struct directory *dir, struct bert_config *config,
                             wisp_error *error) {
    struct reader r = {.dir = dir, .config = config, .error = error};
    TRY(read_architecture(&r));
    TRY(read_sizes(&r));
    TRY(read_epsilon(&r));
    TRY(read_activation(&r));
    TRY(read_pooling(&r));
    TRY(check_causal(&r));
    return config->rotary ? read_rotary(&r) : WISP_OK;
}
