/* SPDX-License-Identifier: Apache-2.0
 * Sparse layers from a model's tensors: neurons gathered into quads, in int8. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "sparse/ffn.h"

enum {
    NAME_BYTES = 64,
    MOST_INPUTS = 1 << 16, /* for which sums of products of bytes fit in 32 bits */
    MOST_RANK = 4096
};

/* ---- plan ----------------------------------------------------------------------------------- */

static const char order_key[] = "wisp.sparse.order", shares_key[] = "wisp.sparse.shares";

static wisp_status wrong_length(const struct directory *dir, const struct metadata *array,
                                uint64_t wanted, wisp_error *error) {
    return fail(error, WISP_ERROR_FORMAT, dir->file, array->key,
                "an array of %llu, where %llu numbers belong", (unsigned long long)array->count,
                (unsigned long long)wanted);
}

/* Each layer's part must name each neuron once. */
static wisp_status check_order(const struct directory *dir, const int32_t *order, size_t layers,
                               size_t wide, wisp_error *error) {
    bool *seen = calloc(wide, sizeof *seen);
    wisp_status status = seen ? WISP_OK : fail_memory(error, wide);
    for (size_t i = 0; i < layers * wide && status == WISP_OK; i++) {
        if (i % wide == 0)
            memset(seen, 0, wide * sizeof *seen);
        if (order[i] < 0 || (size_t)order[i] >= wide || seen[order[i]])
            status = fail(error, WISP_ERROR_FORMAT, dir->file, order_key,
                          "entry %zu is %d: not an order of %zu neurons", i, (int)order[i], wide);
        else
            seen[order[i]] = true;
    }
    free(seen);
    return status;
}

static wisp_status read_order(struct directory *dir, size_t layers, size_t wide,
                              struct sparse_plan *plan, wisp_error *error) {
    const struct metadata *array = directory_find_metadata(dir, order_key);
    const uint64_t n = (uint64_t)layers * wide;
    if (!array || array->type != VALUE_ARRAY || array->element != VALUE_I32)
        return fail(error, WISP_ERROR_FORMAT, dir->file, order_key, "an array of i32 belongs here");
    if (array->count != n)
        return wrong_length(dir, array, n, error);
    int32_t *order = arena_allocate(&dir->arena, (size_t)n * sizeof *order);
    if (!order)
        return fail_memory(error, n * sizeof *order);
    for (uint64_t i = 0; i < n; i++) {
        int64_t value = -1;
        metadata_array_i64(array, i, &value);
        order[i] = (int32_t)value;
    }
    plan->order = order;
    return check_order(dir, order, layers, wide, error);
}

wisp_status sparse_read_plan(struct directory *dir, size_t layers, size_t wide,
                             struct sparse_plan *plan, wisp_error *error) {
    const size_t most = sizeof plan->shares / sizeof *plan->shares;
    *plan = (struct sparse_plan){0};
    const struct metadata *array = directory_find_metadata(dir, shares_key);
    if (!array)
        return WISP_OK;
    if (array->type != VALUE_ARRAY || array->element != VALUE_F32)
        return fail(error, WISP_ERROR_FORMAT, dir->file, shares_key,
                    "an array of f32 belongs here");
    if (array->count == 0 || array->count > most)
        return fail(error, WISP_ERROR_FORMAT, dir->file, shares_key,
                    "%llu levels, where 1 to %zu are possible", (unsigned long long)array->count,
                    most);
    plan->levels = (size_t)array->count;
    memcpy(plan->shares, array->as.numbers, plan->levels * sizeof *plan->shares);
    for (size_t i = 0; i < plan->levels; i++)
        if (!(plan->shares[i] > (i ? plan->shares[i - 1] : 0)) || plan->shares[i] > 1)
            return fail(error, WISP_ERROR_FORMAT, dir->file, shares_key,
                        "level %zu is %g: levels rise from above 0 to 1", i,
                        (double)plan->shares[i]);
    plan->share = plan->shares[plan->levels - 1];
    TRY(metadata_f32_or(dir, "wisp.sparse.share", &plan->share, error));
    if (!(plan->share > 0 && plan->share <= 1))
        return fail(error, WISP_ERROR_FORMAT, dir->file, "wisp.sparse.share",
                    "%g is not above 0 and at most 1", (double)plan->share);
    return read_order(dir, layers, wide, plan, error);
}

/* ---- layers --------------------------------------------------------------------------------- */

struct loader {
    struct sparse_ffn *ffn;
    const struct directory *dir;
    const int32_t *order; /* of this layer, or NULL */
    size_t index;
    wisp_error *error;
};

static wisp_status read_floats(const struct loader *l, const char *suffix, size_t rows,
                               size_t row_length, float **values) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "blk.%zu.%s", l->index, suffix);
    return directory_load_floats(l->dir, name, rows, row_length, values, l->error);
}

static bool has(const struct loader *l, const char *suffix) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "blk.%zu.%s", l->index, suffix);
    return directory_find_tensor(l->dir, name) != NULL;
}

/* Zeroed memory that counts as the layer's. */
static void *hold(const struct loader *l, size_t bytes) {
    void *held = memory_allocate(bytes);
    if (!held) {
        set_error(l->error, WISP_ERROR_MEMORY, NULL, NULL, "out of memory: %zu bytes were needed",
                  bytes);
        return NULL;
    }
    memset(held, 0, bytes);
    l->ffn->bytes += bytes;
    return held;
}

/* The neuron at a place of the quads, or SIZE_MAX past the last. */
static size_t neuron_at(const struct loader *l, size_t place) {
    if (place >= l->ffn->wide)
        return SIZE_MAX;
    return l->order ? (size_t)l->order[place] : place;
}

static wisp_status hold_rows(const struct loader *l, struct quad_rows *rows, size_t quads,
                             size_t k) {
    rows->quads = quads;
    rows->k = k;
    rows->rows = hold(l, quads * QUAD * quad_row_bytes(k));
    rows->parameters = rows->rows ? hold(l, quads * sizeof *rows->parameters) : NULL;
    return rows->parameters ? WISP_OK : WISP_ERROR_MEMORY;
}

/* Whether the sums of the rows' products with bytes, and parts of these sums, are whole numbers
 * that a float holds. */
static bool floats_hold_sums(const struct quad_rows *rows) {
    enum { LARGEST_BYTE = 255, LARGEST_WHOLE = 1 << 24 };
    const size_t row_bytes = quad_row_bytes(rows->k);
    for (size_t i = 0; i < QUAD * rows->quads; i++) {
        size_t sum = 0;
        for (size_t c = 0; c < row_bytes; c++)
            sum += (size_t)abs(quad_weight(rows->rows, rows->k, i, c));
        if (sum > LARGEST_WHOLE / LARGEST_BYTE)
            return false;
    }
    return true;
}

/* Packs rows, of which each token takes all, anew for the dense product, if that is as exact. */
static wisp_status use_dense_product(const struct loader *l, struct quad_rows *rows) {
    const size_t n = QUAD * rows->quads, k = quad_row_bytes(rows->k);
    const size_t panel = l->ffn->kernels->int8_panel;
    if (!floats_hold_sums(rows))
        return WISP_OK;
    float *w = memory_allocate(n * k * sizeof *w);
    rows->panels = w ? hold(l, packed_int8_bytes(n, k, panel)) : NULL;
    if (!rows->panels) {
        memory_free(w);
        return fail_memory(l->error, n * k * sizeof *w);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < k; c++)
            w[i * k + c] = quad_weight(rows->rows, rows->k, i, c);
    pack_int8_whole(w, k, n, k, panel, rows->panels);
    memory_free(w);
    memory_free(rows->rows);
    rows->rows = NULL;
    l->ffn->bytes -= n * k;
    return WISP_OK;
}

/* `w` [n, k] and `bias` [n] in their own order, padded with rows of 0. */
static wisp_status pack_plain(const struct loader *l, const float *w, const float *bias, size_t n,
                              size_t k, struct quad_rows *rows) {
    float *none = hold(l, k * sizeof *none);
    wisp_status status =
        none ? hold_rows(l, rows, (n + QUAD - 1) / QUAD, k) : (wisp_status)WISP_ERROR_MEMORY;
    for (size_t i = 0; i < rows->quads && status == WISP_OK; i++) {
        const float *four[QUAD];
        for (size_t j = 0; j < QUAD; j++) {
            const size_t row = QUAD * i + j;
            four[j] = row < n ? w + row * k : none;
            rows->parameters[i].bias[j] = row < n ? bias[row] : 0;
        }
        pack_quad_rows(four, k, rows->rows + i * QUAD * quad_row_bytes(k), &rows->parameters[i]);
    }
    memory_free(none);
    l->ffn->bytes -= k * sizeof *none;
    return status == WISP_OK ? use_dense_product(l, rows) : status;
}

static void divide_columns(float *w, size_t rows, size_t k, const float *by) {
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < k; c++)
            w[i * k + c] /= by[c];
}

static void pack_up(const struct loader *l, const float *w, const float *bias, const float *none) {
    struct quad_rows *up = &l->ffn->up;
    for (size_t i = 0; i < up->quads; i++) {
        const float *four[QUAD];
        for (size_t j = 0; j < QUAD; j++) {
            const size_t neuron = neuron_at(l, QUAD * i + j);
            four[j] = neuron == SIZE_MAX ? none : w + neuron * up->k;
            up->parameters[i].bias[j] = neuron == SIZE_MAX ? 0 : bias[neuron];
        }
        pack_quad_rows(four, up->k, up->rows + i * QUAD * quad_row_bytes(up->k),
                       &up->parameters[i]);
    }
}

static wisp_status load_up(const struct loader *l, const float *none) {
    struct sparse_ffn *f = l->ffn;
    float *w = NULL, *bias = NULL;
    wisp_status status = hold_rows(l, &f->up, (f->wide + QUAD - 1) / QUAD, f->hidden);
    if (status == WISP_OK)
        status = read_floats(l, "ffn_up.weight", f->wide, f->hidden, &w);
    if (status == WISP_OK)
        status = read_floats(l, "ffn_up.bias", 1, f->wide, &bias);
    if (status == WISP_OK) {
        divide_columns(w, f->wide, f->hidden, f->by);
        pack_up(l, w, bias, none);
    }
    memory_free(w);
    memory_free(bias);
    return status;
}

/* w [hidden, wide], transposed into quads; center [wide] or NULL. */
static void pack_down(const struct loader *l, const float *w, const float *center, float *columns) {
    struct sparse_ffn *f = l->ffn;
    const size_t hidden = f->hidden, bytes = QUAD * quad_row_bytes(hidden);
    for (size_t i = 0; i < f->up.quads; i++) {
        const float *four[QUAD];
        for (size_t j = 0; j < QUAD; j++) {
            const size_t neuron = neuron_at(l, QUAD * i + j);
            float *column = columns + j * hidden;
            for (size_t c = 0; c < hidden; c++)
                column[c] = neuron == SIZE_MAX ? 0 : w[c * f->wide + neuron];
            four[j] = column;
            f->up.parameters[i].center[j] = neuron == SIZE_MAX || !center ? 0 : center[neuron];
        }
        pack_quad_columns(four, hidden, f->kernels->signed_activations, f->columns + i * bytes,
                          &f->up.parameters[i]);
    }
}

/* base += W_down center */
static void fold_centers(const struct sparse_ffn *f, const float *w, const float *center) {
    for (size_t c = 0; c < f->hidden; c++) {
        double sum = (double)f->base[c];
        for (size_t j = 0; j < f->wide; j++)
            sum += (double)w[c * f->wide + j] * (double)center[j];
        f->base[c] = (float)sum;
    }
}

static wisp_status load_down(const struct loader *l) {
    struct sparse_ffn *f = l->ffn;
    float *w = NULL, *center = NULL, *columns = memory_allocate(QUAD * f->hidden * sizeof *columns);
    wisp_status status =
        columns ? WISP_OK : fail_memory(l->error, QUAD * f->hidden * sizeof *columns);
    f->columns = hold(l, f->up.quads * QUAD * quad_row_bytes(f->hidden));
    if (status == WISP_OK && !f->columns)
        status = WISP_ERROR_MEMORY;
    if (status == WISP_OK)
        status = read_floats(l, "ffn_down.weight", f->hidden, f->wide, &w);
    if (status == WISP_OK)
        status = read_floats(l, "ffn_down.bias", 1, f->hidden, &f->base);
    if (status == WISP_OK && has(l, "ffn_center"))
        status = read_floats(l, "ffn_center", 1, f->wide, &center);
    if (status == WISP_OK) {
        f->bytes += f->hidden * sizeof *f->base;
        pack_down(l, w, center, columns);
        if (center)
            fold_centers(f, w, center);
    }
    memory_free(columns);
    memory_free(w);
    memory_free(center);
    return status;
}

static wisp_status find_rank(const struct loader *l) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "blk.%zu.ffn_predictor_p.weight", l->index);
    const struct tensor *tensor = directory_find_tensor(l->dir, name);
    if (!tensor)
        return fail(l->error, WISP_ERROR_NOT_FOUND, l->dir->file, name, "the tensor is missing");
    if (tensor->rows > MOST_RANK)
        return fail(l->error, WISP_ERROR_UNSUPPORTED, l->dir->file, name,
                    "a rank of %llu, where at most %d is supported",
                    (unsigned long long)tensor->rows, MOST_RANK);
    l->ffn->rank = (size_t)tensor->rows;
    return WISP_OK;
}

static wisp_status load_predictor(const struct loader *l, size_t levels) {
    struct sparse_ffn *f = l->ffn;
    const size_t quads = f->up.quads;
    float *p = NULL, *p_bias = NULL, *q = NULL, *q_bias = NULL;
    TRY(find_rank(l));
    f->levels = levels;
    wisp_status status = read_floats(l, "ffn_predictor_p.weight", f->rank, f->hidden, &p);
    if (status == WISP_OK)
        status = read_floats(l, "ffn_predictor_p.bias", 1, f->rank, &p_bias);
    if (status == WISP_OK)
        status = read_floats(l, "ffn_predictor_q.weight", quads, f->rank, &q);
    if (status == WISP_OK)
        status = read_floats(l, "ffn_predictor_q.bias", 1, quads, &q_bias);
    if (status == WISP_OK)
        status = read_floats(l, "ffn_thresholds", levels, quads, &f->thresholds);
    if (status == WISP_OK) {
        f->bytes += levels * quads * sizeof *f->thresholds;
        divide_columns(p, f->rank, f->hidden, f->by);
        status = pack_plain(l, p, p_bias, f->rank, f->hidden, &f->p);
    }
    if (status == WISP_OK)
        status = pack_plain(l, q, q_bias, quads, f->rank, &f->q);
    memory_free(p);
    memory_free(p_bias);
    memory_free(q);
    memory_free(q_bias);
    return status;
}

static wisp_status load_compensation(const struct loader *l) {
    struct sparse_ffn *f = l->ffn;
    float *w = NULL, *bias = NULL;
    if (!has(l, "ffn_compensation.weight"))
        return WISP_OK;
    wisp_status status = read_floats(l, "ffn_compensation.weight", f->hidden, f->rank, &w);
    if (status == WISP_OK)
        status = read_floats(l, "ffn_compensation.bias", 1, f->hidden, &bias);
    if (status == WISP_OK)
        status = pack_plain(l, w, bias, f->hidden, f->rank, &f->compensation);
    memory_free(w);
    memory_free(bias);
    return status;
}

/* The factors by which x is multiplied; 1 where the model has none. */
static wisp_status load_factors(const struct loader *l) {
    struct sparse_ffn *f = l->ffn;
    if (!has(l, "ffn_factors")) {
        f->by = hold(l, f->hidden * sizeof *f->by);
        for (size_t c = 0; f->by && c < f->hidden; c++)
            f->by[c] = 1;
        return f->by ? WISP_OK : WISP_ERROR_MEMORY;
    }
    TRY(read_floats(l, "ffn_factors", 1, f->hidden, &f->by));
    f->bytes += f->hidden * sizeof *f->by;
    for (size_t c = 0; c < f->hidden; c++)
        if (!(f->by[c] >= 0x1p-40f && f->by[c] <= 0x1p40f))
            return fail(l->error, WISP_ERROR_FORMAT, l->dir->file, "ffn_factors",
                        "factor %zu of layer %zu is %g, not a number between 2^-40 and 2^40", c,
                        l->index, (double)f->by[c]);
    return WISP_OK;
}

static wisp_status load_sparse_parts(const struct loader *l, size_t levels) {
    TRY(load_predictor(l, levels));
    return load_compensation(l);
}

static wisp_status load_all(const struct loader *l, const struct sparse_plan *plan) {
    struct sparse_ffn *f = l->ffn;
    float *none = memory_allocate(f->hidden * sizeof *none);
    if (!none)
        return fail_memory(l->error, f->hidden * sizeof *none);
    memset(none, 0, f->hidden * sizeof *none);
    wisp_status status = load_factors(l);
    if (status == WISP_OK)
        status = load_up(l, none);
    if (status == WISP_OK)
        status = load_down(l);
    if (status == WISP_OK && plan->levels && !plan->exact)
        status = load_sparse_parts(l, plan->levels);
    else if (status == WISP_OK)
        status = use_dense_product(l, &f->up);
    memory_free(none);
    return status;
}

wisp_status sparse_ffn_load(struct sparse_ffn *ffn, const struct directory *dir,
                            const struct sparse_plan *plan, size_t index, size_t hidden,
                            size_t wide, bool relu, const struct kernels *kernels,
                            wisp_error *error) {
    const struct loader l = {.ffn = ffn,
                             .dir = dir,
                             .order = plan->order ? plan->order + index * wide : NULL,
                             .index = index,
                             .error = error};
    *ffn = (struct sparse_ffn){.kernels = kernels,
                               .activation = relu ? QUAD_RELU : QUAD_GELU,
                               .hidden = hidden,
                               .wide = wide};
    if (hidden > MOST_INPUTS || wide > MOST_INPUTS)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, NULL,
                    "sparse layers of %zu x %zu are larger than %d", hidden, wide, MOST_INPUTS);
    const wisp_status status = load_all(&l, plan);
    if (status != WISP_OK)
        sparse_ffn_release(ffn);
    return status;
}

static void release_rows(struct quad_rows *rows) {
    memory_free(rows->rows);
    memory_free(rows->panels);
    memory_free(rows->parameters);
}

void sparse_ffn_release(struct sparse_ffn *ffn) {
    release_rows(&ffn->up);
    release_rows(&ffn->p);
    release_rows(&ffn->q);
    release_rows(&ffn->compensation);
    memory_free(ffn->columns);
    memory_free(ffn->by);
    memory_free(ffn->base);
    memory_free(ffn->thresholds);
    *ffn = (struct sparse_ffn){0};
}
