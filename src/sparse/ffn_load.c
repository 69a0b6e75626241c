/* SPDX-License-Identifier: Apache-2.0
 * Loads the predictors of sparse layers from a model's tensors. */
#include <stdio.h>

#include "base/memory.h"
#include "formats/schema.h"
#include "sparse/ffn.h"

enum { MAX_RANK = 4096 };

struct loader {
    struct sparse_ffn *ffn;
    const struct directory *dir;
    size_t index;
    wisp_error *error;
};

/* Loads NAME.weight [n, k] and NAME.bias [n]. The layer computes in int8 where the file stores its
 * weights quantised, otherwise in floats. */
static wisp_status load_linear(const struct loader *l, const char *name, size_t n, size_t k,
                               struct linear *layer) {
    char weight[TENSOR_NAME_BYTES];
    const struct linear_source source = {.dir = l->dir, .names = &name, .parts = 1, .n = n, .k = k};
    snprintf(weight, sizeof weight, "%s.weight", name);
    const struct tensor *tensor = directory_find_tensor(l->dir, weight);
    const bool int8 = tensor && tensor->format->elements > 1;
    TRY(linear_load(layer, &source, l->ffn->kernels, int8, l->error));
    l->ffn->bytes += layer->bytes;
    return WISP_OK;
}

static wisp_status load_part(const struct loader *l, const char *part, size_t n, size_t k,
                             struct linear *layer) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, l->index, part, "");
    return load_linear(l, name, n, k, layer);
}

/* Loads P and sets the rank. A file has one P for each layer; files of earlier versions have one
 * for all layers, which serves the predictor that chooses token by token. */
static wisp_status load_p(const struct loader *l, bool by_text) {
    struct sparse_ffn *f = l->ffn;
    char name[TENSOR_NAME_BYTES], weight[TENSOR_NAME_BYTES];
    const char *part = by_text ? TENSOR_SENTENCE_P : TENSOR_PREDICTOR_P;
    layer_tensor_name(name, l->index, part, "");
    layer_tensor_name(weight, l->index, part, TENSOR_WEIGHT);
    const struct tensor *tensor = directory_find_tensor(l->dir, weight);
    const bool common = !tensor && !by_text;
    if (common)
        tensor = directory_find_tensor(l->dir, TENSOR_PREDICTOR_P TENSOR_WEIGHT);
    if (!tensor)
        return fail(l->error, WISP_ERROR_NOT_FOUND, l->dir->file, weight, "the tensor is missing");
    if (tensor->rows > MAX_RANK)
        return fail(l->error, WISP_ERROR_UNSUPPORTED, l->dir->file, tensor->name,
                    "a rank of %llu, where at most %d is supported",
                    (unsigned long long)tensor->rows, MAX_RANK);
    f->rank = (size_t)tensor->rows;
    return load_linear(l, common ? TENSOR_PREDICTOR_P : name, f->rank, f->hidden_size, &f->p);
}

static wisp_status load_predictor(const struct loader *l, const struct sparse_plan *plan) {
    struct sparse_ffn *f = l->ffn;
    char name[TENSOR_NAME_BYTES];
    TRY(load_p(l, plan->by_text));
    TRY(load_part(l, plan->by_text ? TENSOR_SENTENCE_Q : TENSOR_PREDICTOR_Q, f->intermediate_size,
                  f->rank, &f->q));
    layer_tensor_name(name, l->index,
                      plan->by_text ? TENSOR_SENTENCE_THRESHOLDS : TENSOR_THRESHOLDS, "");
    f->levels = plan->levels;
    TRY(directory_load_floats(l->dir, name, f->levels, f->intermediate_size, &f->thresholds,
                              l->error));
    f->bytes += f->levels * f->intermediate_size * sizeof *f->thresholds;
    layer_tensor_name(name, l->index, TENSOR_COMPENSATION, TENSOR_WEIGHT);
    if (plan->by_text || !directory_find_tensor(l->dir, name))
        return WISP_OK;
    return load_part(l, TENSOR_COMPENSATION, f->hidden_size, f->rank, &f->compensation);
}

wisp_status sparse_ffn_load(struct sparse_ffn *ffn, struct neuron_store *store,
                            const struct sparse_plan *plan, size_t index,
                            struct tensor_cache *cache, wisp_error *error) {
    const struct loader l = {.ffn = ffn, .dir = store->dir, .index = index, .error = error};
    *ffn = (struct sparse_ffn){.kernels = store->kernels,
                               .activation = store->shape.activation,
                               .hidden_size = store->shape.hidden_size,
                               .intermediate_size = store->shape.intermediate_size,
                               .neurons = &store->layer[index]};
    wisp_status status = neuron_store_load_layer(store, index, cache, error);
    if (status == WISP_OK && store->by_rows)
        status = load_predictor(&l, plan);
    if (status != WISP_OK)
        sparse_ffn_release(ffn);
    return status;
}

void sparse_ffn_release(struct sparse_ffn *ffn) {
    linear_release(&ffn->p);
    linear_release(&ffn->q);
    linear_release(&ffn->compensation);
    memory_free(ffn->thresholds);
    *ffn = (struct sparse_ffn){0};
}
