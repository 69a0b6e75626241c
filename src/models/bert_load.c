/* SPDX-License-Identifier: Apache-2.0
 * Weights of a BERT encoder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "models/bert.h"

enum { NAME_BYTES = 64 };

struct loader {
    struct bert *model;
    const struct directory *dir;
    const struct kernels *kernels;
    bool int8;
    const struct sparse_plan *plan; /* NULL: dense */
    struct tensor_cache *cache;
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
    const struct linear_source source = {.dir = l->dir,
                                         .names = full_names,
                                         .unbiased = l->model->config.unbiased,
                                         .parts = parts,
                                         .n = n,
                                         .k = k,
                                         .cache = l->cache};
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

static wisp_status load_dense_feed_forward(const struct loader *l, size_t i,
                                           struct bert_layer *layer) {
    const struct bert_config *c = &l->model->config;
    const size_t hidden = c->hidden_size, wide = c->intermediate_size;
    if (c->activation == ACTIVATION_GATED_SILU)
        TRY(load_linear(l, i, (const char *[]){"ffn_gate"}, 1, wide, hidden, &layer->gate));
    TRY(load_linear(l, i, (const char *[]){"ffn_up"}, 1, wide, hidden, &layer->up));
    return load_linear(l, i, (const char *[]){"ffn_down"}, 1, hidden, wide, &layer->down);
}

static wisp_status load_feed_forward(const struct loader *l, size_t i, struct bert_layer *layer) {
    struct bert *model = l->model;
    if (!l->plan)
        return load_dense_feed_forward(l, i, layer);
    TRY(sparse_ffn_load(&layer->sparse, &model->neurons, l->plan, i, l->cache, l->error));
    model->resident_bytes += layer->sparse.bytes;
    if (layer->sparse.rank > model->rank)
        model->rank = layer->sparse.rank;
    return WISP_OK;
}

static wisp_status load_qkv(const struct loader *l, size_t i, struct linear *qkv) {
    const size_t hidden = l->model->config.hidden_size;
    if (l->model->config.fused_qkv)
        return load_linear(l, i, (const char *[]){"attn_qkv"}, 1, 3 * hidden, hidden, qkv);
    return load_linear(l, i, (const char *[]){"attn_q", "attn_k", "attn_v"}, 3, hidden, hidden,
                       qkv);
}

static wisp_status load_layer(const struct loader *l, size_t i) {
    const size_t hidden = l->model->config.hidden_size;
    struct bert_layer *layer = &l->model->layer[i];
    TRY(load_qkv(l, i, &layer->qkv));
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
    return directory_rows(l->dir, table, 0, table->rows, NULL, model->owned_token_rows,
                          &model->token_rows, l->error);
}

/* Every token is of type 0, so its row is added to all positions once and for all. */
static wisp_status load_positions(const struct loader *l) {
    const struct bert_config *c = &l->model->config;
    const size_t size = c->hidden_size, rows = c->rotary ? c->token_types : c->max_positions;
    float *types = NULL;
    TRY(directory_load_floats(l->dir, c->rotary ? "token_types.weight" : "position_embd.weight",
                              rows, size, &l->model->position_embedding, l->error));
    l->model->resident_bytes += rows * size * sizeof(float);
    if (c->rotary)
        return WISP_OK;
    const wisp_status status =
        directory_load_floats(l->dir, "token_types.weight", c->token_types, size, &types, l->error);
    for (size_t p = 0; p < c->max_positions && status == WISP_OK; p++)
        l->kernels->add(l->model->position_embedding + p * size, types, size);
    memory_free(types);
    return status;
}

/* An empty store for the neurons of sparse layers. */
static wisp_status open_neurons(const struct loader *l) {
    const struct bert_config *c = &l->model->config;
    const struct sparse_shape shape = {.layers = c->layers,
                                       .hidden_size = c->hidden_size,
                                       .intermediate_size = c->intermediate_size,
                                       .activation = c->activation,
                                       .unbiased = c->unbiased};
    return neuron_store_open(&l->model->neurons, l->dir, l->plan, &shape, l->kernels, l->error);
}

/* Room for the layers. Each has tensors, so that a file can only ask for as many as it is large. */
static wisp_status make_layers(const struct loader *l) {
    struct bert *model = l->model;
    const uint32_t layers = model->config.layers;
    char key[NAME_BYTES];
    snprintf(key, sizeof key, "%s.block_count", model->config.architecture);
    if (layers > l->dir->n_tensors)
        return fail(l->error, WISP_ERROR_FORMAT, l->dir->file, key,
                    "%u layers in a file of %zu tensors", layers, l->dir->n_tensors);
    model->layer = calloc(layers, sizeof *model->layer);
    return model->layer ? WISP_OK : fail_memory(l->error, layers * sizeof *model->layer);
}

static wisp_status load_all(const struct loader *l) {
    struct bert *model = l->model;
    TRY(bert_read_config(l->dir, &model->config, l->error));
    TRY(load_token_embedding(l));
    TRY(load_positions(l));
    TRY(load_norm(l, "token_embd_norm", &model->embedding_norm));
    TRY(make_layers(l));
    if (l->plan)
        TRY(open_neurons(l));
    for (size_t i = 0; i < model->config.layers; i++)
        TRY(load_layer(l, i));
    model->resident_bytes += model->neurons.bytes;
    return WISP_OK;
}

wisp_status bert_load(struct bert *model, const struct directory *dir,
                      const struct kernels *kernels, bool int8, const struct sparse_plan *plan,
                      wisp_error *error) {
    *model = (struct bert){
        .dir = dir, .kernels = kernels, .sparse = plan != NULL, .by_text = plan && plan->by_text};
    struct tensor_cache cache = {0};
    const struct loader l = {.model = model,
                             .dir = dir,
                             .kernels = kernels,
                             .int8 = int8,
                             .plan = plan,
                             .cache = &cache,
                             .error = error};
    const wisp_status status = load_all(&l);
    tensor_cache_release(&cache);
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
        linear_release(&layer->gate);
        linear_release(&layer->up);
        linear_release(&layer->down);
        sparse_ffn_release(&layer->sparse);
        release_norm(&layer->output_norm);
    }
    free(model->layer);
    neuron_store_release(&model->neurons);
    release_norm(&model->embedding_norm);
    memory_free(model->position_embedding);
    memory_free(model->owned_token_rows);
    *model = (struct bert){0};
}
