/* SPDX-License-Identifier: Apache-2.0
 * Loads the predictors of sparse layers from a model's tensors.
 * Compiled for size in WebAssembly. */
#include <stdio.h>

#include "base/checked.h"
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

/* Loads NAME.weight [n, k] and NAME.bias [n]. The layer computes in int8 if the file stores its
 * weights quantised, otherwise in floats. */
static wisp_status load_linear(const struct loader *l, const char *name, size_t n, size_t k,
                               struct linear *layer) {
    char weight[TENSOR_NAME_BYTES + sizeof TENSOR_WEIGHT];
    const struct linear_source source = {.dir = l->dir, .names = &name, .parts = 1, .n = n, .k = k};
    snprintf(weight, sizeof weight, "%s.weight", name);
    const struct tensor *tensor = directory_find_tensor(l->dir, weight);
    const bool int8 = tensor && tensor->format->elements > 1;
    return linear_load(layer, &source, l->ffn->kernels, int8 ? WISP_COMPUTE_INT8 : WISP_COMPUTE_F32,
                       l->error);
}

static wisp_status load_part(const struct loader *l, const char *part, size_t n, size_t k,
                             struct linear *layer) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, l->index, part, "");
    return load_linear(l, name, n, k, layer);
}

/* Loads P, whose outputs are the rank. A file has one P for each layer; files of earlier versions
 * have one for all layers, which serves the predictor that chooses token by token. */
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
                    "a rank of %llu; at most %d is supported", (unsigned long long)tensor->rows,
                    MAX_RANK);
    return load_linear(l, common ? TENSOR_PREDICTOR_P : name, (size_t)tensor->rows, f->hidden_size,
                       &f->p);
}

wisp_status sparse_ffn_read_choice(struct sparse_ffn *ffn, const struct directory *dir,
                                   bool by_text, size_t index, wisp_error *error) {
    const struct loader l = {.ffn = ffn, .dir = dir, .index = index, .error = error};
    TRY(load_p(&l, by_text));
    return load_part(&l, by_text ? TENSOR_SENTENCE_Q : TENSOR_PREDICTOR_Q, ffn->intermediate_size,
                     ffn->p.n, &ffn->q);
}

wisp_status sparse_ffn_read_thresholds(struct sparse_ffn *ffn, const struct directory *dir,
                                       bool by_text, size_t index, wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, index, by_text ? TENSOR_SENTENCE_THRESHOLDS : TENSOR_THRESHOLDS, "");
    return directory_load_floats(dir, name, ffn->levels, ffn->intermediate_size, &ffn->thresholds,
                                 error);
}

wisp_status sparse_ffn_read_compensation(struct sparse_ffn *ffn, const struct directory *dir,
                                         size_t index, wisp_error *error) {
    const struct loader l = {.ffn = ffn, .dir = dir, .index = index, .error = error};
    return load_part(&l, TENSOR_COMPENSATION, ffn->hidden_size, ffn->rank, &ffn->compensation);
}

wisp_status sparse_ffn_load_predictor(struct sparse_ffn *ffn, const struct directory *dir,
                                      const struct sparse_plan *plan, size_t index,
                                      wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    TRY(sparse_ffn_read_choice(ffn, dir, plan->by_text, index, error));
    ffn->rank = ffn->p.n;
    ffn->levels = plan->levels;
    TRY(sparse_ffn_read_thresholds(ffn, dir, plan->by_text, index, error));
    layer_tensor_name(name, index, TENSOR_COMPENSATION, TENSOR_WEIGHT);
    if (!plan->by_text && directory_find_tensor(dir, name))
        TRY(sparse_ffn_read_compensation(ffn, dir, index, error));
    ffn->bytes = ffn->p.bytes + ffn->q.bytes + ffn->compensation.bytes +
                 ffn->levels * ffn->intermediate_size * sizeof *ffn->thresholds;
    return WISP_OK;
}

wisp_status sparse_ffn_load(struct sparse_ffn *ffn, struct neuron_store *store,
                            const struct sparse_plan *plan, size_t index,
                            struct tensor_cache *cache, wisp_error *error) {
    *ffn = (struct sparse_ffn){.kernels = store->kernels,
                               .activation = store->shape.activation,
                               .hidden_size = store->shape.hidden_size,
                               .intermediate_size = store->shape.intermediate_size,
                               .neurons = &store->layer[index]};
    wisp_status status = neuron_store_load_layer(store, index, cache, error);
    if (status == WISP_OK && store->by_rows)
        status = sparse_ffn_load_predictor(ffn, store->dir, plan, index, error);
    store->rank = larger(store->rank, ffn->rank);
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
