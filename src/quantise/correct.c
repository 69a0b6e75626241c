/* SPDX-License-Identifier: Apache-2.0 */
#include "quantise/correct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "calibrate/matrix.h"

/* The part of the mean of the inputs' squares that is added to each: it keeps weights whose inputs
 * hardly vary near what they were. */
static const double damping = 0.01;

enum { ROUNDS = 6, ROWS_AT_A_TIME = 16 };

struct work {
    size_t n, k;
    struct corrected *matrix;
    const struct block_grid *grid;
    size_t group;           /* rows that blocks may cross */
    size_t step;            /* of each tensor one in so many groups of ROWS_AT_A_TIME is quantised,
                               the first one too */
    float *metric;          /* [k, k]: x x^T, damped */
    float *target;          /* [n, k]: the real weights with the least error */
    float *feedback;        /* [k, k]: U, whose diagonal is 1 and which is 0 below it */
    float *variances;       /* [k]: D of metric = U D U^T */
    double *plain, *errors; /* [n]; NaN if a row is not quantised */
};

/* Rows that are quantised together because blocks cross from one to the next; in most formats a
 * single row. Arrays have the rows one after the other. */
struct group {
    size_t rows, n;           /* n = rows * k */
    int *codes;               /* [n] */
    struct grid_scale *scale; /* [blocks] */
    float *values;            /* [n]: of the codes */
    float *wanted;            /* [n]: what a code should be, errors so far included */
    float *pull;              /* [n]: metric (target - values) */
};

static void add_scaled(float *to, const float *from, float factor, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] += factor * from[i];
}

/* Returns the elements of the block that begins at element `first` of a group. */
static size_t block_elements(const struct work *w, const struct group *g, size_t first) {
    return smaller((size_t)w->grid->block, g->n - first);
}

static void compute_pull(const struct work *w, const float *target, const float *values,
                         const struct group *g) {
    memset(g->pull, 0, g->n * sizeof *g->pull);
    for (size_t at = 0; at < g->n; at++)
        add_scaled(g->pull + at / w->k * w->k, w->metric + at % w->k * w->k,
                   target[at] - values[at], w->k);
}

/* Sets the error of each row beyond that of its target, and returns the sum; the pull becomes that
 * of the values. */
static double error_of(const struct work *w, const float *target, const float *values,
                       const struct group *g, double *errors) {
    double sum = 0;
    compute_pull(w, target, values, g);
    for (size_t row = 0; row < g->rows; row++) {
        errors[row] = 0;
        for (size_t at = row * w->k; at < (row + 1) * w->k; at++)
            errors[row] += (double)(target[at] - values[at]) * (double)g->pull[at];
        sum += errors[row];
    }
    return sum;
}

/* Chooses codes from the first column to the last. Column j aims at its target and at the errors of
 * the columns before it, as far as their inputs predict its own. A scale that rows share is chosen
 * when the first of them begins it, by the targets of the others. */
static void feed_back(const struct work *w, const float *target, const struct group *g) {
    const size_t k = w->k, block = (size_t)w->grid->block;
    float weights[GRID_MOST];
    memcpy(g->wanted, target, g->n * sizeof *target);
    for (size_t at = 0; at < g->n; at++) {
        const size_t j = at % k;
        struct grid_scale *scale = &g->scale[at / block];
        if (at % block == 0) {
            const size_t n = block_elements(w, g, at);
            for (size_t i = 0; i < n; i++)
                weights[i] = w->variances[(at + i) % k];
            *scale = grid_fit(w->grid, g->wanted + at, weights, (int)n);
        }
        g->codes[at] = grid_code(w->grid, *scale, g->wanted[at]);
        g->values[at] = grid_value(w->grid, *scale, g->codes[at]);
        add_scaled(g->wanted + at + 1, w->feedback + j * k + j + 1, target[at] - g->values[at],
                   k - j - 1);
    }
}

/* Returns the metric of element `at` of a group with those from `first` on, which are in its row.
 */
static const float *metric_of(const struct work *w, size_t at, size_t first) {
    return w->metric + at % w->k * w->k + first % w->k;
}

/* Gives a block the scale and offset with the least error for its codes, if that is less than
 * before. */
static void refit_block(const struct work *w, size_t first, const struct group *g) {
    const size_t k = w->k, end = first + block_elements(w, g, first);
    struct grid_scale *scale = &g->scale[first / (size_t)w->grid->block];
    const struct grid_scale old = *scale, unit = {1, 0};
    double ll = 0, l1 = 0, one = 0, lp = 0, p = 0; /* products in the metric */
    float moved[GRID_MOST] = {0}, levels[GRID_MOST] = {0};
    for (size_t i = first; i < end; i++)
        levels[i - first] = grid_value(w->grid, unit, g->codes[i]);
    for (size_t i = first; i < end; i++) {
        const size_t from = larger(first, i / k * k), to = smaller(end, i / k * k + k);
        const float *metric = metric_of(w, i, from);
        const double level = (double)levels[i - first];
        double sum = 0, products = 0;
        for (size_t j = from; j < to; j++) {
            sum += (double)metric[j - from];
            products += (double)metric[j - from] * (double)levels[j - first];
        }
        ll += level * products;
        l1 += products;
        one += sum;
        lp += level * (double)g->pull[i];
        p += (double)g->pull[i];
    }
    struct grid_scale at = old;
    const double determinant = ll * one - l1 * l1;
    if (w->grid->has_offset && determinant > 1e-9 * ll * one) {
        at.scale =
            grid_stored_scale(w->grid, old.scale + (float)((one * lp - l1 * p) / determinant));
        at.offset = grid_half(old.offset + (float)((ll * p - l1 * lp) / determinant));
    } else if (ll > 0) {
        at.scale = grid_stored_scale(w->grid, old.scale + (float)(lp / ll));
    }
    double gain = 0;
    for (size_t i = first; i < end; i++)
        moved[i - first] = grid_value(w->grid, at, g->codes[i]) - g->values[i];
    for (size_t i = first; i < end; i++) {
        const size_t from = larger(first, i / k * k), to = smaller(end, i / k * k + k);
        const float *metric = metric_of(w, i, from);
        double pull = 2 * (double)g->pull[i];
        for (size_t j = from; j < to; j++)
            pull -= (double)metric[j - from] * (double)moved[j - first];
        gain += pull * (double)moved[i - first];
    }
    if (!(gain > 0))
        return;
    *scale = at;
    for (size_t i = first; i < end; i++) {
        g->values[i] += moved[i - first];
        add_scaled(g->pull + i / k * k, w->metric + i % k * k, -moved[i - first], k);
    }
}

/* Gives each column the code that is best while all others stay. Returns whether any changed. */
static bool change_codes(const struct work *w, const struct group *g) {
    const size_t k = w->k;
    bool changed = false;
    for (size_t i = 0; i < g->n; i++) {
        const struct grid_scale at = g->scale[i / (size_t)w->grid->block];
        const float *metric = w->metric + i % k * k;
        const float weight = metric[i % k];
        const int code = grid_code(w->grid, at, g->values[i] + g->pull[i] / weight);
        if (code == g->codes[i])
            continue;
        const float value = grid_value(w->grid, at, code), moved = value - g->values[i];
        if (!(moved * (2 * g->pull[i] - weight * moved) > 0))
            continue;
        g->codes[i] = code;
        g->values[i] = value;
        add_scaled(g->pull + i / k * k, metric, -moved, k);
        changed = true;
    }
    return changed;
}

/* Writes the blocks of a group; zeros fill the last block of a tensor. */
static void store_group(const struct work *w, const struct group *g, unsigned char *bytes) {
    const size_t block = (size_t)w->grid->block;
    int codes[GRID_MOST];
    for (size_t first = 0; first < g->n; first += block, bytes += w->matrix->format->bytes) {
        const struct grid_scale at = g->scale[first / block];
        for (size_t i = 0; i < block; i++)
            codes[i] = first + i < g->n ? g->codes[first + i] : grid_code(w->grid, at, 0);
        grid_store(w->grid, at, codes, bytes);
    }
}

/* Returns the place of row i, with which a block begins. */
static unsigned char *bytes_of_row(const struct work *w, size_t i) {
    const struct corrected *m = w->matrix;
    const size_t tensor = i / m->tensor_rows, elements = m->format->elements;
    const size_t blocks = (m->tensor_rows * w->k + elements - 1) / elements;
    return m->bytes + (tensor * blocks + i % m->tensor_rows * w->k / elements) * m->format->bytes;
}

/* Quantises the rows from i on, of which `bytes` and `values` are in the result. */
static void correct_group(const struct work *w, size_t i, const struct group *g) {
    struct corrected *m = w->matrix;
    const struct block_format *format = m->format;
    const float *target = w->target + i * w->k;
    const size_t block = (size_t)w->grid->block;
    unsigned char *bytes = bytes_of_row(w, i);
    float *values = m->values + i * w->k;
    format->quantise(m->weights + i * w->k, g->n, bytes);
    format->dequantise(bytes, g->n, values);
    const double plain = error_of(w, target, values, g, w->plain + i);
    feed_back(w, target, g);
    for (int round = 0; round < ROUNDS; round++) {
        compute_pull(w, target, g->values, g);
        for (size_t first = 0; first < g->n; first += block)
            refit_block(w, first, g);
        if (!change_codes(w, g))
            break;
    }
    for (size_t at = 0; at < g->n; at++)
        g->values[at] = grid_value(w->grid, g->scale[at / block], g->codes[at]);
    if (!(error_of(w, target, g->values, g, w->errors + i) < plain)) {
        memcpy(w->errors + i, w->plain + i, g->rows * sizeof *w->errors);
        return;
    }
    memcpy(values, g->values, g->n * sizeof *values);
    store_group(w, g, bytes);
}

/* Returns the end of the rows that a member takes together: whole groups of one tensor. */
static size_t rows_end(const void *context, size_t first) {
    const struct work *w = context;
    const size_t tensor = w->matrix->tensor_rows;
    return smaller(first + round_up(ROWS_AT_A_TIME, w->group), (first / tensor + 1) * tensor);
}

static wisp_status correct_rows(void *context, uint32_t member, size_t first, size_t end,
                                wisp_error *error) {
    const struct work *w = context;
    const size_t most = w->group * w->k;
    struct arena arena = {0};
    struct group g;
    (void)member;
    if (first % w->matrix->tensor_rows / ROWS_AT_A_TIME % w->step > 0)
        return WISP_OK;
    g.codes = arena_allocate(&arena, most * sizeof *g.codes);
    g.scale = arena_allocate(&arena, (most / GRID_BLOCK + 1) * sizeof *g.scale);
    g.values = arena_allocate(&arena, most * sizeof *g.values);
    g.wanted = arena_allocate(&arena, most * sizeof *g.wanted);
    g.pull = arena_allocate(&arena, most * sizeof *g.pull);
    const bool room = g.codes && g.scale && g.values && g.wanted && g.pull;
    for (size_t i = first; i < end && room; i += g.rows) {
        g.rows = smaller(w->group, end - i);
        g.n = g.rows * w->k;
        correct_group(w, i, &g);
    }
    arena_release(&arena);
    return room ? WISP_OK : fail_memory(error, 5 * most * sizeof *g.values);
}

/* Takes the means out of the sums: a bias makes up for them. */
static void centre(struct layer_sums *s) {
    for (size_t i = 0; i < s->k; i++) {
        for (size_t j = 0; j < s->k; j++)
            s->xx[i * s->k + j] -= s->x[i] * s->x[j] / s->tokens;
        for (size_t j = 0; j < s->n; j++)
            s->xy[i * s->n + j] -= s->x[i] * s->y[j] / s->tokens;
    }
}

/* Sets metric, target, feedback and variances. The factor of the metric with its rows and columns
 * in reverse is L L^T, so that of the metric is U D U^T with U from L's columns. */
static wisp_status prepare(struct work *w, struct layer_sums *s, struct arena *arena,
                           wisp_error *error) {
    const size_t n = w->n, k = w->k;
    const float *weights = w->matrix->weights;
    double trace = 0, *factor, *turned;
    ARENA_TAKE(arena, factor, k * k, error);
    ARENA_TAKE(arena, turned, k * n, error);
    if (w->matrix->bias)
        centre(s);
    for (size_t i = 0; i < k; i++)
        trace += s->xx[i * k + i];
    const double damped = damping * trace / (double)k + 1e-12;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++) {
            const double value = s->xx[i * k + j] + (i == j ? damped : 0);
            w->metric[i * k + j] = (float)value;
            factor[(k - 1 - i) * k + (k - 1 - j)] = value;
        }
    matrix_factor(factor, k);
    for (size_t i = 0; i < k; i++)
        for (size_t r = 0; r < n; r++)
            turned[(k - 1 - i) * n + r] = s->xy[i * n + r] + damped * (double)weights[r * k + i];
    matrix_solve_lower(factor, turned, k, n);
    matrix_solve_upper(factor, turned, k, n);
    for (size_t i = 0; i < k; i++)
        for (size_t r = 0; r < n; r++)
            w->target[r * k + i] = (float)turned[(k - 1 - i) * n + r];
    for (size_t j = 0; j < k; j++) {
        const double *column = factor + (k - 1 - j);
        const double diagonal = column[(k - 1 - j) * k];
        w->variances[j] = (float)(diagonal * diagonal);
        for (size_t i = 0; i <= j; i++)
            w->feedback[i * k + j] = (float)(column[(k - 1 - i) * k] / diagonal);
    }
    return WISP_OK;
}

/* Quantises all rows, or one in w->step groups, and sets the errors relative to the outputs. */
static wisp_status correct(struct work *w, const struct layer_sums *s, struct pool *team,
                           wisp_error *error) {
    const size_t n = w->n, k = w->k;
    struct corrected *m = w->matrix;
    struct pool_work rows = {.items = n, .group_end = rows_end, .run = correct_rows, .context = w};
    w->grid = block_grid_of(m->format->id);
    w->group = (size_t)block_whole_rows(m->format, k, 1);
    for (size_t r = 0; r < n; r++)
        w->plain[r] = w->errors[r] = (double)NAN;
    TRY(pool_each(team, pool_size(team), &rows, error));
    double plain = 0, errors = 0, outputs = 0;
    for (size_t r = 0; r < n; r++) {
        const float *target = w->target + r * k;
        if (w->step > 1 && isnan(w->plain[r]) && isnan(w->errors[r]))
            continue;
        plain += w->plain[r];
        errors += w->errors[r];
        for (size_t j = 0; j < k; j++)
            outputs += (double)target[j] * s->xy[j * n + r];
    }
    m->plain = outputs > 0 ? plain / outputs : 0;
    m->error = outputs > 0 ? errors / outputs : 0;
    return WISP_OK;
}

static void fit_bias(const struct corrected *m, const struct layer_sums *s) {
    for (size_t r = 0; r < s->n; r++) {
        double bias = s->y[r];
        for (size_t j = 0; j < s->k; j++)
            bias -= (double)m->values[r * s->k + j] * s->x[j];
        m->bias[r] = (float)(bias / s->tokens);
    }
}

static wisp_status open_work(struct work *w, struct layer_sums *s, struct arena *arena,
                             wisp_error *error) {
    const size_t n = w->n, k = w->k;
    ARENA_TAKE(arena, w->metric, k * k, error);
    ARENA_TAKE(arena, w->target, n * k, error);
    ARENA_TAKE(arena, w->feedback, k * k, error);
    ARENA_TAKE(arena, w->variances, k, error);
    ARENA_TAKE(arena, w->plain, n, error);
    ARENA_TAKE(arena, w->errors, n, error);
    return prepare(w, s, arena, error);
}

wisp_status correct_matrix(struct layer_sums *sums, struct corrected *matrix, struct pool *team,
                           wisp_error *error) {
    struct work w = {.n = sums->n, .k = sums->k, .matrix = matrix, .step = 1};
    struct arena arena = {0};
    wisp_status status = open_work(&w, sums, &arena, error);
    if (status == WISP_OK)
        status = correct(&w, sums, team, error);
    if (status == WISP_OK && matrix->bias)
        fit_bias(matrix, sums);
    arena_release(&arena);
    return status;
}

static wisp_status estimate(struct work *w, struct layer_sums *s,
                            const struct block_format *const *formats, size_t count, double *errors,
                            double *plain, struct pool *team, struct arena *arena,
                            wisp_error *error) {
    struct corrected *m = w->matrix;
    TRY(open_work(w, s, arena, error));
    ARENA_TAKE(arena, m->values, w->n * w->k, error);
    ARENA_TAKE(arena, m->bytes, w->n * w->k * 2 + GRID_MOST * sizeof(float), error);
    for (size_t i = 0; i < count; i++) {
        m->format = formats[i];
        TRY(correct(w, s, team, error));
        errors[i] = m->error;
        plain[i] = m->plain;
    }
    return WISP_OK;
}

wisp_status correct_estimate(struct layer_sums *sums, const struct corrected *matrix,
                             const struct block_format *const *formats, size_t count, size_t step,
                             double *errors, double *plain, struct pool *team, wisp_error *error) {
    struct corrected tried = *matrix;
    struct work w = {.n = sums->n, .k = sums->k, .matrix = &tried, .step = step};
    struct arena arena = {0};
    const wisp_status status =
        estimate(&w, sums, formats, count, errors, plain, team, &arena, error);
    arena_release(&arena);
    return status;
}
