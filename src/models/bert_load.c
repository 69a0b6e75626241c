/* SPDX-License-Identifier: Apache-2.0
 * Hyper-parameters and weights of a BERT encoder. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "models/bert.h"

enum { NAME_BYTES = 64, MAX_SIZE = 1 << 20, MAX_LAYERS = 1024 };

/* ---- hyper-parameters ----------------------------------------------------------------------- */

static wisp_status read_size(const struct directory *dir, const char *key, uint32_t most,
                             uint32_t *value, wisp_error *error) {
    TRY(metadata_u32(dir, key, value, error));
    if (*value == 0 || *value > most)
        return fail(error, WISP_ERROR_FORMAT, dir->file, key, "%u is not between 1 and %u", *value,
                    most);
    return WISP_OK;
}

static wisp_status read_activation(const struct directory *dir, struct bert_config *config,
                                   wisp_error *error) {
    const char *name = "gelu"; /* what a BERT without the key has */
    TRY(metadata_text_or(dir, "wisp.hidden_act", &name, error));
    config->relu = strcmp(name, "relu") == 0;
    if (!config->relu && strcmp(name, "gelu") != 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, "wisp.hidden_act",
                    "%.32s is not supported, only gelu and relu", name);
    return WISP_OK;
}

static wisp_status read_pooling(const struct directory *dir, struct bert_config *config,
                                wisp_error *error) {
    static const char key[] = "bert.pooling_type";
    uint32_t type = BERT_POOL_MEAN;
    TRY(metadata_u32_or(dir, key, &type, error));
    if (type != BERT_POOL_MEAN && type != BERT_POOL_CLS)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, key,
                    "pooling type %u is not supported, only 1 (mean) and 2 (cls)", type);
    config->pooling = (enum bert_pooling)type;
    config->normalize = true; /* GGUF files of other makers do not say, and their users do */
    return metadata_bool_or(dir, "wisp.normalize", &config->normalize, error);
}

static wisp_status check_config(const struct directory *dir, const struct bert_config *config,
                                wisp_error *error) {
    if (config->hidden_size % config->heads != 0)
        return fail(error, WISP_ERROR_FORMAT, dir->file, "bert.attention.head_count",
                    "%u heads do not divide the hidden size %u", config->heads,
                    config->hidden_size);
    if (!isfinite(config->layer_norm_epsilon) || config->layer_norm_epsilon < 0)
        return fail(error, WISP_ERROR_FORMAT, dir->file, "bert.attention.layer_norm_epsilon",
                    "not a finite number of at least 0");
    return WISP_OK;
}

wisp_status bert_read_config(const struct directory *dir, struct bert_config *config,
                             wisp_error *error) {
    *config = (struct bert_config){.layer_norm_epsilon = 1e-12f, .token_types = 1};
    TRY(read_size(dir, "bert.embedding_length", MAX_SIZE, &config->hidden_size, error));
    TRY(read_size(dir, "bert.feed_forward_length", MAX_SIZE, &config->intermediate_size, error));
    TRY(read_size(dir, "bert.block_count", MAX_LAYERS, &config->layers, error));
    TRY(read_size(dir, "bert.attention.head_count", MAX_SIZE, &config->heads, error));
    TRY(read_size(dir, "bert.context_length", MAX_SIZE, &config->max_positions, error));
    TRY(metadata_f32_or(dir, "bert.attention.layer_norm_epsilon", &config->layer_norm_epsilon,
                        error));
    const struct tensor *table = directory_find_tensor(dir, "token_embd.weight");
    const struct tensor *types = directory_find_tensor(dir, "token_types.weight");
    if (table && table->rows <= UINT32_MAX)
        config->vocabulary_size = (uint32_t)table->rows;
    if (types && types->rows <= UINT32_MAX)
        config->token_types = (uint32_t)types->rows;
    TRY(read_activation(dir, config, error));
    TRY(read_pooling(dir, config, error));
    return check_config(dir, config, error);
}

/* ---- weights -------------------------------------------------------------------------------- */

struct loader {
    struct bert *model;
    const struct directory *dir;
    const struct kernels *kernels;
    bool int8;
    const struct sparse_plan *plan; /* NULL: dense */
    wisp_error *error;
};

static wisp_status load_norm(const struct loader *l, const char *name, struct norm *norm) {
    const size_t size = l->model->config.hidden_size;
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s.weight", name);
    TRY(directory_load_floats(l->dir, full, 1, size, &norm->weight, l->error));
    snprintf(full, sizeof full, "%s.bias", name);
    TRY(directory_load_floats(l->dir, full, 1, size, &norm->bias, l->error));
    l->model->resident_bytes += 2 * size * sizeof(float);
    return WISP_OK;
}

/* Stacks `parts` layers named blk.<index>.<names[i]>. */
static wisp_status load_linear(const struct loader *l, size_t index, const char *const names[],
                               size_t parts, size_t n, size_t k, struct linear *layer) {
    char full[LINEAR_MAX_PARTS][NAME_BYTES];
    const char *full_names[LINEAR_MAX_PARTS];
    for (size_t i = 0; i < parts; i++) {
        snprintf(full[i], sizeof full[i], "blk.%zu.%s", index, names[i]);
        full_names[i] = full[i];
    }
    const struct linear_source source = {
        .dir = l->dir, .names = full_names, .parts = parts, .n = n, .k = k};
    TRY(linear_load(layer, &source, l->kernels, l->int8, l->error));
    l->model->resident_bytes += layer->bytes;
    return WISP_OK;
}

static wisp_status load_layer_norm(const struct loader *l, size_t index, const char *name,
                                   struct norm *norm) {
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "blk.%zu.%s", index, name);
    return load_norm(l, full, norm);
}

static wisp_status load_feed_forward(const struct loader *l, size_t i, struct bert_layer *layer) {
    struct bert *model = l->model;
    const size_t hidden = model->config.hidden_size, wide = model->config.intermediate_size;
    if (!l->plan) {
        TRY(load_linear(l, i, (const char *[]){"ffn_up"}, 1, wide, hidden, &layer->up));
        return load_linear(l, i, (const char *[]){"ffn_down"}, 1, hidden, wide, &layer->down);
    }
    TRY(sparse_ffn_load(&layer->sparse, l->dir, l->plan, i, hidden, wide, model->config.relu,
                        l->kernels, l->error));
    model->resident_bytes += layer->sparse.bytes;
    if (layer->sparse.rank > model->rank)
        model->rank = layer->sparse.rank;
    return WISP_OK;
}

static wisp_status load_layer(const struct loader *l, size_t i) {
    const size_t hidden = l->model->config.hidden_size;
    struct bert_layer *layer = &l->model->layer[i];
    TRY(load_linear(l, i, (const char *[]){"attn_q", "attn_k", "attn_v"}, 3, hidden, hidden,
                    &layer->qkv));
    TRY(load_linear(l, i, (const char *[]){"attn_output"}, 1, hidden, hidden, &layer->output));
    TRY(load_layer_norm(l, i, "attn_output_norm", &layer->attention_norm));
    TRY(load_feed_forward(l, i, layer));
    return load_layer_norm(l, i, "layer_output_norm", &layer->output_norm);
}

static wisp_status load_token_embedding(const struct loader *l) {
    struct bert *model = l->model;
    const struct tensor *table;
    TRY(directory_require_tensor(l->dir, "token_embd.weight", model->config.hidden_size,
                                 model->config.vocabulary_size, &table, l->error));
    model->token_embedding = table;
    const wisp_source *source = &l->dir->sources[table->source];
    if (source->lasting && !source->data)
        return WISP_OK;
    if (!source->data) {
        size_t bytes;
        if (!checked_size(table->bytes, &bytes) ||
            !(model->owned_token_rows = memory_allocate(bytes)))
            return fail_memory(l->error, table->bytes);
        model->resident_bytes += bytes;
    }
    return directory_rows(l->dir, table, 0, table->rows, model->owned_token_rows,
                          &model->token_rows, l->error);
}

/* Every token is of type 0, so its row is added to all positions once and for all. */
static wisp_status load_positions(const struct loader *l) {
    const struct bert_config *c = &l->model->config;
    const size_t size = c->hidden_size;
    float *types = NULL;
    TRY(directory_load_floats(l->dir, "position_embd.weight", c->max_positions, size,
                              &l->model->position_embedding, l->error));
    l->model->resident_bytes += c->max_positions * size * sizeof(float);
    const wisp_status status =
        directory_load_floats(l->dir, "token_types.weight", c->token_types, size, &types, l->error);
    for (size_t p = 0; p < c->max_positions && status == WISP_OK; p++)
        l->kernels->add(l->model->position_embedding + p * size, types, size);
    memory_free(types);
    return status;
}

static wisp_status load_all(const struct loader *l) {
    struct bert *model = l->model;
    TRY(bert_read_config(l->dir, &model->config, l->error));
    TRY(load_token_embedding(l));
    TRY(load_positions(l));
    TRY(load_norm(l, "token_embd_norm", &model->embedding_norm));
    model->layer = calloc(model->config.layers, sizeof *model->layer);
    if (!model->layer)
        return fail_memory(l->error, model->config.layers * sizeof *model->layer);
    for (size_t i = 0; i < model->config.layers; i++)
        TRY(load_layer(l, i));
    return WISP_OK;
}

wisp_status bert_load(struct bert *model, const struct directory *dir,
                      const struct kernels *kernels, bool int8, const struct sparse_plan *plan,
                      wisp_error *error) {
    *model = (struct bert){.dir = dir, .kernels = kernels, .sparse = plan != NULL};
    const struct loader l = {
        .model = model, .dir = dir, .kernels = kernels, .int8 = int8, .plan = plan, .error = error};
    const wisp_status status = load_all(&l);
    if (status != WISP_OK)
        bert_release(model);
    return status;
}

static void release_norm(struct norm *norm) {
    memory_free(norm->weight);
    memory_free(norm->bias);
}

void bert_release(struct bert *model) {
    for (size_t i = 0; model->layer && i < model->config.layers; i++) {
        struct bert_layer *layer = &model->layer[i];
        linear_release(&layer->qkv);
        linear_release(&layer->output);
        release_norm(&layer->attention_norm);
        linear_release(&layer->up);
        linear_release(&layer->down);
        sparse_ffn_release(&layer->sparse);
        release_norm(&layer->output_norm);
    }
    free(model->layer);
    release_norm(&model->embedding_norm);
    memory_free(model->position_embedding);
    memory_free(model->owned_token_rows);
    *model = (struct bert){0};
}
