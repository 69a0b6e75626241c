/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "models/distances.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "models/norms_load.h"

/* ---- buckets -------------------------------------------------------------------------------- */

/* Returns the number whose power `n` is `power`, at least 1, to its last bit or two. Logarithms
 * would add more to WebAssembly modules than all else here. */
static double root_of(double power, size_t n) {
    double low = 1, high = power;
    for (double middle; (middle = low + (high - low) / 2) > low && middle < high;) {
        double product = 1;
        for (size_t i = 0; i < n; i++)
            product *= middle;
        *(product > power ? &high : &low) = middle;
    }
    return low;
}

/* Goes through distances of 0, 1 and so on. */
struct buckets {
    size_t alone;       /* distances up to it have a bucket each */
    double limit, step; /* the bucket ends at `limit`, and the next at step times it */
    size_t bucket, most;
};

/* Half of the buckets are for distances of their own. The others end at distances that grow by
 * equal factors, so that the last one ends at most - 1. */
static struct buckets first_bucket(const struct disentangled_config *c) {
    const size_t half = c->buckets / 2;
    if (c->buckets == 0)
        return (struct buckets){.alone = SIZE_MAX};
    return (struct buckets){.alone = half,
                            .limit = half > 1 ? (double)half : INFINITY,
                            .step = root_of((double)(c->most - 1) / (double)half, half - 1),
                            .bucket = half,
                            .most = c->span};
}

/* Returns the bucket of the next distance. What is so near to a limit that rounding could decide
 * is at it. */
static size_t next_bucket(struct buckets *b, size_t distance) {
    const double near = 1 - 1e-9;
    if (distance <= b->alone)
        return distance;
    while ((double)distance * near > b->limit && b->bucket < b->most) {
        b->limit *= b->step;
        b->bucket++;
    }
    return b->bucket;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Takes `rows` x `row_length` floats, and counts them. */
static wisp_status take(struct network *network, size_t rows, size_t row_length, float **floats,
                        wisp_error *error) {
    size_t bytes;
    if (!checked_floats(rows, row_length, &bytes))
        return fail_memory(error, UINT64_MAX);
    *floats = memory_allocate(bytes);
    network->resident_bytes += bytes;
    return *floats ? WISP_OK : fail_memory(error, bytes);
}

/* ---- what layers share ---------------------------------------------------------------------- */

/* Finds the row of each distance. Row 0 becomes that of the farthest key before a query, which had
 * number *first. */
static wisp_status find_rows(const struct network *network, size_t n, struct distances *d,
                             size_t *first, wisp_error *error) {
    const struct disentangled_config *c = &network->config.disentangled;
    const size_t middle = c->span - 1; /* the row of distance 0; the last is 2 middle + 1 */
    struct buckets buckets = first_bucket(c);
    const size_t bytes = array_bytes(2 * n - 1, sizeof *d->row_of);
    d->row_of = memory_allocate(bytes);
    if (!d->row_of)
        return fail_memory(error, bytes);
    d->n = n;
    for (size_t i = 0; i < n; i++) {
        const size_t bucket = next_bucket(&buckets, i);
        d->row_of[n - 1 + i] = (uint32_t)smaller(middle + bucket, 2 * middle + 1);
        d->row_of[n - 1 - i] = (uint32_t)(middle - smaller(bucket, middle));
    }
    *first = d->row_of[0];
    for (size_t i = 0; i < 2 * n - 1; i++)
        d->row_of[i] -= (uint32_t)*first;
    d->rows = d->row_of[2 * n - 2] + 1;
    return WISP_OK;
}

/* Replaces the embeddings by their norm. */
static wisp_status normalise(const struct network *network, struct distances *d,
                             wisp_error *error) {
    const size_t size = network->config.hidden_size, bytes = array_bytes(size, sizeof(float));
    struct norm norm = {0};
    float *nothing = memory_allocate(bytes);
    wisp_status status = nothing ? norm_load(&norm, network->dir, "attn_rel_norm", size, error)
                                 : fail_memory(error, bytes);
    if (status == WISP_OK) {
        memset(nothing, 0, bytes);
        for (size_t i = 0; i < d->rows; i++)
            network->kernels->layer_norm(d->rows_of + i * size, nothing, norm.weight, norm.bias,
                                         network->config.norm_epsilon, 1, size);
    }
    memory_free(nothing);
    norm_release(&norm);
    return status;
}

wisp_status distances_load(struct network *network, size_t n, struct distances *d,
                           wisp_error *error) {
    const struct disentangled_config *c = &network->config.disentangled;
    const size_t size = network->config.hidden_size, all = 2 * (size_t)c->span;
    size_t first;
    float *stored = NULL;
    TRY(find_rows(network, n, d, &first, error));
    wisp_status status =
        directory_load_floats(network->dir, "attn_rel_embd.weight", all, size, &stored, error);
    if (status == WISP_OK) {
        d->rows_of = memory_allocate(d->rows * size * sizeof(float)); /* no more than was stored */
        status = d->rows_of ? WISP_OK : fail_memory(error, d->rows * size * sizeof(float));
    }
    for (size_t i = 0; i < d->rows && status == WISP_OK; i++)
        memcpy(d->rows_of + i * size, stored + (all - 1 - first - i) * size, size * sizeof(float));
    memory_free(stored);
    network->resident_bytes += (2 * n - 1) * sizeof *d->row_of;
    return status == WISP_OK && c->has_norm ? normalise(network, d, error) : status;
}

void distances_release(struct distances *distances) {
    memory_free(distances->row_of);
    memory_free(distances->rows_of);
}

/* ---- layers --------------------------------------------------------------------------------- */

/* Computes y [rows, layer->n] of the embeddings, which the caller frees. */
static wisp_status apply(const struct linear *layer, const struct distances *d, float **y,
                         wisp_error *error) {
    struct workspace space = {0};
    size_t bytes;
    if (!checked_floats(d->rows, layer->n, &bytes))
        return fail_memory(error, UINT64_MAX);
    *y = memory_allocate(bytes);
    if (!*y)
        return fail_memory(error, bytes);
    const wisp_status status =
        workspace_reserve(&space, linear_workspace_bytes(d->rows, layer->k), error);
    if (status == WISP_OK)
        linear_apply(layer, d->rows_of, d->rows, *y, space);
    workspace_release(&space);
    return status;
}

/* A part of scores, while it is loaded. */
struct part {
    const char *own; /* the matrix that makes its rows */
    size_t qkv;      /* if that is one of queries, keys and values: which */
    bool is_packed;  /* its rows are weights of products, else inputs */
    float **rows, **scale;
};

/* Stores a part's rows y [rows, ld] head by head, as products take them. */
static wisp_status store(struct network *network, size_t rows, const struct part *part,
                         const float *y, size_t ld, wisp_error *error) {
    const struct kernels *kernels = network->kernels;
    const struct i16_kernels *i16 = network->compute == WISP_COMPUTE_INT8 ? kernels->i16 : NULL;
    const size_t heads = network->config.heads, size = network->config.head_size;
    const size_t words =
        part->is_packed ? (i16 ? i16_pairs(size) : size) : disentangled_words(i16 != NULL, size);
    const size_t each = (part->is_packed ? round_up(rows, kernels->f32_panel) : rows) * words;
    TRY(take(network, heads, each, part->rows, error));
    TRY(take(network, 1, heads, part->scale, error));
    for (size_t h = 0; h < heads; h++, y += size) {
        float *out = *part->rows + h * each;
        (*part->scale)[h] = 1;
        if (i16) {
            const struct i16_scale scale = i16_scale_of(i16, y, ld, rows, size, i16_most(size));
            (*part->scale)[h] = scale.to_float;
            if (part->is_packed)
                i16->pack(y, ld, rows, size, scale.to_i16, (int32_t *)(void *)out);
            else
                i16->quantise(y, ld, rows, size, scale.to_i16, (int32_t *)(void *)out, words);
        } else if (part->is_packed) {
            kernels->pack_f32(y, ld, rows, size, out);
        } else {
            for (size_t i = 0; i < rows; i++)
                memcpy(out + i * size, y + i * ld, size * sizeof *out);
        }
    }
    return WISP_OK;
}

/* Loads a part whose rows a matrix of its own makes. */
static wisp_status load_own(struct network *network, uint32_t l, const struct distances *d,
                            const struct part *part, wisp_error *error) {
    const size_t size = network->config.hidden_size;
    char name[TENSOR_NAME_BYTES];
    const char *names[] = {layer_tensor_name(name, l, part->own, "")};
    const struct linear_source source = {
        .dir = network->dir, .names = names, .parts = 1, .n = size, .k = size};
    struct linear own = {0};
    float *y = NULL;
    wisp_status status = linear_load(&own, &source, network->kernels, network->compute, error);
    if (status == WISP_OK)
        status = apply(&own, d, &y, error);
    if (status == WISP_OK)
        status = store(network, d->rows, part, y, size, error);
    linear_release(&own);
    memory_free(y);
    return status;
}

wisp_status distances_load_layer(struct network *network, uint32_t l, const struct linear *qkv,
                                 struct distances *d, struct disentangled *parts,
                                 wisp_error *error) {
    const struct disentangled_config *c = &network->config.disentangled;
    const size_t size = network->config.hidden_size;
    const struct part all[] = {{"attn_rel_k", 1, true, &parts->to_position, &parts->position_scale},
                               {"attn_rel_q", 0, false, &parts->to_content, &parts->content_scale}};
    const bool wanted[] = {c->to_position, c->to_content};
    wisp_status status = WISP_OK;
    float *y = NULL;
    parts->take = disentangled_take;
    parts->add = disentangled_add;
    parts->row_of = d->row_of + d->n - 1;
    parts->rows = d->rows;
    while (parts->alone + 1 < d->n &&
           parts->row_of[parts->alone + 1] == parts->row_of[0] + parts->alone + 1 &&
           parts->row_of[-(ptrdiff_t)parts->alone - 1] + parts->alone + 1 == parts->row_of[0])
        parts->alone++;
    if (!c->has_own)
        status = apply(qkv, d, &y, error);
    for (size_t i = 0; i < 2 && status == WISP_OK; i++)
        if (wanted[i])
            status = c->has_own
                         ? load_own(network, l, d, &all[i], error)
                         : store(network, d->rows, &all[i], y + all[i].qkv * size, 3 * size, error);
    memory_free(y);
    if (l + 1 == network->config.layers) {
        memory_free(d->rows_of);
        d->rows_of = NULL;
    }
    return status;
}

void distances_release_layer(struct disentangled *parts) {
    memory_free(parts->to_position);
    memory_free(parts->to_content);
    memory_free(parts->position_scale);
    memory_free(parts->content_scale);
}
