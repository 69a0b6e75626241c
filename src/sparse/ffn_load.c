/* SPDX-License-Identifier: Apache-2.0
 * Sparse layers from a model's tensors: neurons gathered into quads, in int8. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "kernels/weights.h"
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
    size_t levels; /* of thresholds; 0: all quads are computed */
    bool unbiased;
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

/* Row i [quad_row_bytes(k)] as it is packed. */
static void quad_row_floats(const struct quad_rows *rows, size_t i, float *row) {
    const int8_t *quad = rows->rows + i / QUAD * QUAD * quad_row_bytes(rows->k);
    const int8_t *chunk = quad + i % QUAD * QUAD_CHUNK;
    for (size_t c = 0; c < quad_row_bytes(rows->k); c += QUAD_CHUNK, chunk += QUAD * QUAD_CHUNK)
        for (size_t j = 0; j < QUAD_CHUNK; j++)
            row[c + j] = chunk[j];
}

/* Whether the sums of the rows' products with bytes, and parts of these sums, are whole numbers
 * that a float holds. */
static bool floats_hold_sums(const struct quad_rows *rows, float *row) {
    const float most = 0x1p24f / 255;
    for (size_t i = 0; i < QUAD * rows->quads; i++) {
        float sum = 0; /* exact up to the limit and well past it */
        quad_row_floats(rows, i, row);
        for (size_t c = 0; c < quad_row_bytes(rows->k); c++)
            sum += fabsf(row[c]);
        if (sum > most)
            return false;
    }
    return true;
}

/* Packs rows, of which each token takes all, anew for the dense product, if that is as exact. */
static wisp_status use_dense_product(const struct loader *l, struct quad_rows *rows) {
    const size_t n = QUAD * rows->quads, k = quad_row_bytes(rows->k);
    const size_t panel = l->ffn->kernels->int8_panel;
    float *w = memory_allocate(panel * k * sizeof *w);
    if (w && !floats_hold_sums(rows, w)) {
        memory_free(w);
        return WISP_OK;
    }
    unsigned char *packed = rows->panels = w ? hold(l, packed_int8_bytes(n, k, panel)) : NULL;
    if (!packed) {
        memory_free(w);
        return fail_memory(l->error, panel * k * sizeof *w);
    }
    for (size_t first = 0; first < n; first += panel) {
        const size_t here = n - first < panel ? n - first : panel;
        for (size_t i = 0; i < here; i++)
            quad_row_floats(rows, first + i, w + i * k);
        pack_int8_whole(w, k, here, k, panel, packed);
        packed += packed_int8_bytes(panel, k, panel);
    }
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

/* Rows of W_up or W_gate that make quad i, as floats [4, hidden], each value divided by the factor
 * of its column; those past the last are 0. */
static wisp_status read_quad(const struct loader *l, const struct tensor *tensor, size_t i,
                             void *stored, float *four) {
    const size_t k = l->ffn->hidden;
    memset(four, 0, QUAD * k * sizeof *four);
    for (size_t j = 0; j < QUAD; j++, four += k) {
        const size_t neuron = neuron_at(l, QUAD * i + j);
        if (neuron == SIZE_MAX)
            continue;
        TRY(directory_floats(l->dir, tensor, neuron, 1, stored, four, l->error));
        for (size_t c = 0; c < k; c++)
            four[c] /= l->ffn->by[c];
    }
    return WISP_OK;
}

/* Quad by quad: all of the matrix as floats would be four times what is kept of it. `bias` is in
 * the order of the quads. */
static wisp_status pack_chosen(const struct loader *l, const struct tensor *tensor,
                               const float *bias, void *stored, float *four,
                               struct quad_rows *rows) {
    const float *each[QUAD];
    for (size_t j = 0; j < QUAD; j++)
        each[j] = four + j * rows->k;
    for (size_t i = 0; i < rows->quads; i++) {
        TRY(read_quad(l, tensor, i, stored, four));
        for (size_t j = 0; j < QUAD; j++) {
            const size_t place = QUAD * i + j;
            rows->parameters[i].bias[j] = place < l->ffn->wide ? bias[place] : 0;
        }
        pack_quad_rows(each, rows->k, rows->rows + i * QUAD * quad_row_bytes(rows->k),
                       &rows->parameters[i]);
    }
    return WISP_OK;
}

/* The layer's part in the file that is called `names`, for its bias or all of it. */
static struct linear_source source_of(const struct loader *l, const char *const names[],
                                      size_t parts) {
    return (struct linear_source){.dir = l->dir,
                                  .names = names,
                                  .unbiased = l->unbiased,
                                  .parts = parts,
                                  .n = l->ffn->wide,
                                  .k = l->ffn->hidden,
                                  .order = l->order};
}

/* W_up or W_gate for tokens that choose among its rows. */
static wisp_status load_chosen(const struct loader *l, const char *matrix, struct quad_rows *rows) {
    struct sparse_ffn *f = l->ffn;
    const struct linear_source source = source_of(l, NULL, 1);
    const struct tensor *tensor;
    char name[NAME_BYTES], bias_name[NAME_BYTES];
    snprintf(name, sizeof name, "blk.%zu.%s.weight", l->index, matrix);
    snprintf(bias_name, sizeof bias_name, "blk.%zu.%s.bias", l->index, matrix);
    TRY(directory_require_tensor(l->dir, name, f->hidden, f->wide, &tensor, l->error));
    TRY(hold_rows(l, rows, f->quads, f->hidden));
    float *bias = memory_allocate(f->wide * sizeof *bias);
    float *four = memory_allocate(QUAD * f->hidden * sizeof *four);
    void *stored = memory_allocate((size_t)tensor->row_bytes);
    wisp_status status = bias && four && stored
                             ? WISP_OK
                             : fail_memory(l->error, (QUAD * f->hidden + f->wide) * sizeof *four);
    if (status == WISP_OK)
        status = linear_bias(&source, bias_name, bias, l->error);
    if (status == WISP_OK)
        status = pack_chosen(l, tensor, bias, stored, four, rows);
    memory_free(bias);
    memory_free(four);
    memory_free(stored);
    return status;
}

static bool is_gated(const struct loader *l) {
    return l->ffn->activation == ACTIVATION_GATED_SILU;
}

static wisp_status load_chosen_up(const struct loader *l) {
    TRY(load_chosen(l, "ffn_up", &l->ffn->up));
    return is_gated(l) ? load_chosen(l, "ffn_gate", &l->ffn->gate) : WISP_OK;
}

/* Both for tokens that take all of them: as dense layers have them, but for the order of rows. */
static wisp_status load_all_up(const struct loader *l) {
    struct sparse_ffn *f = l->ffn;
    char up[NAME_BYTES], gate[NAME_BYTES];
    const char *const names[] = {up, gate};
    const struct linear_source source = source_of(l, names, is_gated(l) ? 2 : 1);
    snprintf(up, sizeof up, "blk.%zu.ffn_up", l->index);
    snprintf(gate, sizeof gate, "blk.%zu.ffn_gate", l->index);
    TRY(linear_load(&f->all, &source, f->kernels, true, l->error));
    f->bytes += f->all.bytes;
    return WISP_OK;
}

/* What W_down is read in. All of it as floats would be four times what is kept, so it is read a few
 * rows at a time, and twice: for the columns' scales, and to be packed by them. */
enum { ROWS_AT_A_TIME = 32 };

struct down_load {
    const struct tensor *tensor;
    void *stored;   /* some rows */
    float *rows;    /* [ROWS_AT_A_TIME, wide] */
    float *ordered; /* [4 quads]: one of them in the quads' order, then zeros */
    float *factors; /* [4 quads]: what the columns are multiplied by; at first their largest */
    float *center;  /* [wide], or NULL */
};

/* A column has one scale for all its rows: rows whose weights are larger than most would leave few
 * of its steps to the others. By half of the way, in logarithms, they are brought to one size. */
static float row_scale(const float *row, size_t n) {
    const float largest = largest_magnitude(row, n);
    return largest > 0 ? sqrtf(largest) : 1;
}

/* Row c, in the quads' order and divided by its scale, to d->ordered. */
static void order_row(const struct loader *l, const struct down_load *d, size_t c,
                      const float *row) {
    const float inverse = 1 / l->ffn->row_scales[c];
    if (l->order)
        for (size_t i = 0; i < l->ffn->wide; i++)
            d->ordered[i] = row[l->order[i]] * inverse;
    else
        for (size_t i = 0; i < l->ffn->wide; i++)
            d->ordered[i] = row[i] * inverse;
}

/* The row's scale, what it adds to the largest of each column, and base += W_down center. */
static void measure_row(const struct loader *l, const struct down_load *d, size_t c,
                        const float *row) {
    struct sparse_ffn *f = l->ffn;
    double sum = (double)f->base[c];
    f->row_scales[c] = row_scale(row, f->wide);
    order_row(l, d, c, row);
    for (size_t i = 0; i < f->wide; i++) {
        const float size = fabsf(d->ordered[i]);
        d->factors[i] = size > d->factors[i] ? size : d->factors[i];
    }
    for (size_t i = 0; d->center && i < f->wide; i++)
        sum += (double)row[i] * (double)d->center[i];
    f->base[c] = (float)sum;
}

static void pack_row(const struct loader *l, const struct down_load *d, size_t c,
                     const float *row) {
    struct sparse_ffn *f = l->ffn;
    order_row(l, d, c, row);
    pack_quad_columns(d->ordered, d->factors, f->quads, c, f->hidden,
                      f->kernels->signed_activations, f->columns.w);
}

static wisp_status each_down_row(const struct loader *l, const struct down_load *d,
                                 void (*take)(const struct loader *l, const struct down_load *d,
                                              size_t c, const float *row)) {
    const size_t hidden = l->ffn->hidden, wide = l->ffn->wide;
    for (size_t first = 0; first < hidden; first += ROWS_AT_A_TIME) {
        const size_t left = hidden - first, n = left < ROWS_AT_A_TIME ? left : ROWS_AT_A_TIME;
        TRY(directory_floats(l->dir, d->tensor, first, n, d->stored, d->rows, l->error));
        for (size_t i = 0; i < n; i++)
            take(l, d, first + i, d->rows + i * wide);
    }
    return WISP_OK;
}

static wisp_status pack_columns(const struct loader *l, const struct down_load *d) {
    struct sparse_ffn *f = l->ffn;
    TRY(each_down_row(l, d, measure_row));
    for (size_t i = 0; i < f->wide; i++) {
        f->columns.scale[i] = d->factors[i] / 127;
        d->factors[i] = inverse_scale(d->factors[i]);
    }
    return each_down_row(l, d, pack_row);
}

static wisp_status load_center(const struct loader *l, struct down_load *d) {
    struct sparse_ffn *f = l->ffn;
    f->columns.center = hold(l, f->quads * QUAD * sizeof *f->columns.center);
    if (!f->columns.center)
        return WISP_ERROR_MEMORY;
    if (!has(l, "ffn_center"))
        return WISP_OK;
    TRY(read_floats(l, "ffn_center", 1, f->wide, &d->center));
    for (size_t i = 0; i < f->wide; i++)
        f->columns.center[i] = d->center[neuron_at(l, i)];
    return WISP_OK;
}

static wisp_status pack_down(const struct loader *l, struct down_load *d) {
    struct sparse_ffn *f = l->ffn;
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "blk.%zu.ffn_down.weight", l->index);
    TRY(directory_require_tensor(l->dir, name, f->wide, f->hidden, &d->tensor, l->error));
    snprintf(name, sizeof name, "blk.%zu.ffn_down.bias", l->index);
    f->base = hold(l, f->hidden * sizeof *f->base);
    if (!f->base)
        return WISP_ERROR_MEMORY;
    const struct linear_source bias = {.dir = l->dir, .unbiased = l->unbiased, .n = f->hidden};
    TRY(linear_bias(&bias, name, f->base, l->error));
    const size_t rows = ROWS_AT_A_TIME * f->wide * sizeof *d->rows;
    const size_t one = QUAD * f->quads * sizeof(float);
    d->stored = memory_allocate(ROWS_AT_A_TIME * (size_t)d->tensor->row_bytes);
    d->rows = memory_allocate(rows);
    d->ordered = memory_allocate(one);
    d->factors = memory_allocate(one);
    f->row_scales = hold(l, f->hidden * sizeof *f->row_scales);
    f->columns.w = hold(l, f->quads * QUAD * quad_row_bytes(f->hidden));
    f->columns.scale = hold(l, one);
    if (!d->stored || !d->rows || !d->ordered || !d->factors || !f->row_scales || !f->columns.w ||
        !f->columns.scale)
        return fail_memory(l->error, rows);
    memset(d->ordered, 0, one);
    memset(d->factors, 0, one);
    if (l->levels > 0)
        TRY(load_center(l, d));
    return pack_columns(l, d);
}

static wisp_status load_down(const struct loader *l) {
    struct down_load d = {0};
    const wisp_status status = pack_down(l, &d);
    memory_free(d.stored);
    memory_free(d.rows);
    memory_free(d.ordered);
    memory_free(d.factors);
    memory_free(d.center);
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

static void divide_columns(float *w, size_t rows, size_t k, const float *by) {
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < k; c++)
            w[i * k + c] /= by[c];
}

static wisp_status load_predictor(const struct loader *l) {
    struct sparse_ffn *f = l->ffn;
    const size_t levels = l->levels, quads = f->quads;
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

static wisp_status load_all(const struct loader *l) {
    TRY(load_down(l));
    if (l->levels == 0)
        return load_all_up(l);
    TRY(load_factors(l));
    TRY(load_chosen_up(l));
    TRY(load_predictor(l));
    return load_compensation(l);
}

bool sparse_ffn_fits(size_t hidden, size_t wide) {
    return hidden <= MOST_INPUTS && wide <= MOST_INPUTS;
}

wisp_status sparse_ffn_load(struct sparse_ffn *ffn, const struct directory *dir,
                            const struct sparse_plan *plan, size_t index,
                            const struct sparse_shape *shape, const struct kernels *kernels,
                            wisp_error *error) {
    const struct loader l = {.ffn = ffn,
                             .dir = dir,
                             .order = plan->order ? plan->order + index * shape->wide : NULL,
                             .index = index,
                             .levels = plan->exact ? 0 : plan->levels,
                             .unbiased = shape->unbiased,
                             .error = error};
    *ffn = (struct sparse_ffn){.kernels = kernels,
                               .activation = shape->activation,
                               .hidden = shape->hidden,
                               .wide = shape->wide,
                               .quads = (shape->wide + QUAD - 1) / QUAD};
    if (!sparse_ffn_fits(shape->hidden, shape->wide))
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, NULL,
                    "sparse layers of %zu x %zu are larger than %d", shape->hidden, shape->wide,
                    MOST_INPUTS);
    const wisp_status status = load_all(&l);
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
    linear_release(&ffn->all);
    release_rows(&ffn->up);
    release_rows(&ffn->gate);
    release_rows(&ffn->p);
    release_rows(&ffn->q);
    release_rows(&ffn->compensation);
    memory_free(ffn->row_scales);
    memory_free(ffn->columns.w);
    memory_free(ffn->columns.scale);
    memory_free(ffn->columns.center);
    memory_free(ffn->by);
    memory_free(ffn->base);
    memory_free(ffn->thresholds);
    *ffn = (struct sparse_ffn){0};
}
