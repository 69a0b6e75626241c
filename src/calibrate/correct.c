/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/correct.h"

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
    float *metric;          /* [k, k]: x x^T, damped */
    float *target;          /* [n, k]: the real weights with the least error */
    float *feedback;        /* [k, k]: U, whose diagonal is 1 and which is 0 below it */
    float *variances;       /* [k]: D of metric = U D U^T */
    double *plain, *errors; /* [n] */
};

/* One row on its way. */
struct row {
    int *codes;               /* [k] */
    struct grid_scale *scale; /* [k / GRID_BLOCK] */
    float *values;            /* [k]: of the codes */
    float *wanted;            /* [k]: what a code should be, errors so far included */
    float *pull;              /* [k]: metric (target - values) */
};

static void add_scaled(float *to, const float *from, float factor, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] += factor * from[i];
}

static void compute_pull(const struct work *w, const float *target, const float *values,
                         float *pull) {
    memset(pull, 0, w->k * sizeof *pull);
    for (size_t j = 0; j < w->k; j++)
        add_scaled(pull, w->metric + j * w->k, target[j] - values[j], w->k);
}

/* Returns the error of values beyond that of the target; `pull` becomes theirs. */
static double error_of(const struct work *w, const float *target, const float *values,
                       float *pull) {
    double error = 0;
    compute_pull(w, target, values, pull);
    for (size_t j = 0; j < w->k; j++)
        error += (double)(target[j] - values[j]) * (double)pull[j];
    return error;
}

/* Chooses codes from the first column to the last. Column j aims at its target and at the errors of
 * the columns before it, as far as their inputs foretell its own. */
static void feed_back(const struct work *w, const float *target, const struct row *r) {
    memcpy(r->wanted, target, w->k * sizeof *target);
    for (size_t first = 0; first < w->k; first += GRID_BLOCK) {
        const struct grid_scale at = grid_fit(w->grid, r->wanted + first, w->variances + first);
        r->scale[first / GRID_BLOCK] = at;
        for (size_t j = first; j < first + GRID_BLOCK; j++) {
            r->codes[j] = grid_code(w->grid, at, r->wanted[j]);
            r->values[j] = grid_value(w->grid, at, r->codes[j]);
            add_scaled(r->wanted + j + 1, w->feedback + j * w->k + j + 1, target[j] - r->values[j],
                       w->k - j - 1);
        }
    }
}

/* Gives a block the scale and offset with the least error for its codes, where that is less than
 * before. */
static void refit_block(const struct work *w, size_t first, const struct row *r) {
    const struct grid_scale old = r->scale[first / GRID_BLOCK];
    double ll = 0, l1 = 0, one = 0, lp = 0, p = 0; /* products in the metric */
    float moved[GRID_BLOCK];
    for (size_t i = 0; i < GRID_BLOCK; i++) {
        const struct grid_scale unit = {1, 0};
        const double level = (double)grid_value(w->grid, unit, r->codes[first + i]);
        const float *metric = w->metric + (first + i) * w->k + first;
        double sum = 0, levels = 0;
        for (size_t j = 0; j < GRID_BLOCK; j++) {
            sum += (double)metric[j];
            levels += (double)metric[j] * (double)grid_value(w->grid, unit, r->codes[first + j]);
        }
        ll += level * levels;
        l1 += levels;
        one += sum;
        lp += level * (double)r->pull[first + i];
        p += (double)r->pull[first + i];
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
    for (size_t i = 0; i < GRID_BLOCK; i++)
        moved[i] = grid_value(w->grid, at, r->codes[first + i]) - r->values[first + i];
    for (size_t i = 0; i < GRID_BLOCK; i++) {
        const float *metric = w->metric + (first + i) * w->k + first;
        double pull = 2 * (double)r->pull[first + i];
        for (size_t j = 0; j < GRID_BLOCK; j++)
            pull -= (double)metric[j] * (double)moved[j];
        gain += pull * (double)moved[i];
    }
    if (!(gain > 0))
        return;
    r->scale[first / GRID_BLOCK] = at;
    for (size_t i = 0; i < GRID_BLOCK; i++) {
        r->values[first + i] += moved[i];
        add_scaled(r->pull, w->metric + (first + i) * w->k, -moved[i], w->k);
    }
}

/* Gives each column the code that is best while all others stay. Returns whether any changed. */
static bool change_codes(const struct work *w, const struct row *r) {
    bool changed = false;
    for (size_t j = 0; j < w->k; j++) {
        const struct grid_scale at = r->scale[j / GRID_BLOCK];
        const float *metric = w->metric + j * w->k;
        const int code = grid_code(w->grid, at, r->values[j] + r->pull[j] / metric[j]);
        if (code == r->codes[j])
            continue;
        const float value = grid_value(w->grid, at, code), moved = value - r->values[j];
        if (!(moved * (2 * r->pull[j] - metric[j] * moved) > 0))
            continue;
        r->codes[j] = code;
        r->values[j] = value;
        add_scaled(r->pull, metric, -moved, w->k);
        changed = true;
    }
    return changed;
}

/* Quantises row i, of which `bytes` and `values` are in the result. */
static void correct_row(const struct work *w, size_t i, const struct row *r) {
    struct corrected *m = w->matrix;
    const struct block_format *format = m->format;
    const float *target = w->target + i * w->k;
    const size_t row_bytes = w->k / format->elements * format->bytes;
    unsigned char *bytes = m->bytes + i * row_bytes;
    float *values = m->values + i * w->k;
    format->quantise(m->weights + i * w->k, w->k, bytes);
    format->dequantise(bytes, w->k, values);
    w->plain[i] = error_of(w, target, values, r->pull);
    feed_back(w, target, r);
    for (int round = 0; round < ROUNDS; round++) {
        compute_pull(w, target, r->values, r->pull);
        for (size_t first = 0; first < w->k; first += GRID_BLOCK)
            refit_block(w, first, r);
        if (!change_codes(w, r))
            break;
    }
    for (size_t first = 0; first < w->k; first += GRID_BLOCK)
        for (size_t j = first; j < first + GRID_BLOCK; j++)
            r->values[j] = grid_value(w->grid, r->scale[first / GRID_BLOCK], r->codes[j]);
    w->errors[i] = error_of(w, target, r->values, r->pull);
    if (!(w->errors[i] < w->plain[i])) {
        w->errors[i] = w->plain[i];
        return;
    }
    memcpy(values, r->values, w->k * sizeof *values);
    for (size_t first = 0; first < w->k; first += GRID_BLOCK)
        grid_store(w->grid, r->scale[first / GRID_BLOCK], r->codes + first,
                   bytes + first / GRID_BLOCK * format->bytes);
}

static wisp_status correct_rows(void *context, uint32_t member, size_t first, size_t end,
                                wisp_error *error) {
    const struct work *w = context;
    struct arena arena = {0};
    struct row r;
    (void)member;
    r.codes = arena_allocate(&arena, w->k * sizeof *r.codes);
    r.scale = arena_allocate(&arena, w->k / GRID_BLOCK * sizeof *r.scale);
    r.values = arena_allocate(&arena, w->k * sizeof *r.values);
    r.wanted = arena_allocate(&arena, w->k * sizeof *r.wanted);
    r.pull = arena_allocate(&arena, w->k * sizeof *r.pull);
    const bool room = r.codes && r.scale && r.values && r.wanted && r.pull;
    for (size_t i = first; i < end && room; i++)
        correct_row(w, i, &r);
    arena_release(&arena);
    return room ? WISP_OK : fail_memory(error, 5 * w->k * sizeof *r.values);
}

static size_t rows_end(const void *context, size_t first) {
    const struct work *w = context;
    return smaller(first + ROWS_AT_A_TIME, w->n);
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

static wisp_status correct(struct work *w, struct layer_sums *s, struct pool *team,
                           struct arena *arena, wisp_error *error) {
    const size_t n = w->n, k = w->k;
    struct corrected *m = w->matrix;
    ARENA_TAKE(arena, w->metric, k * k, error);
    ARENA_TAKE(arena, w->target, n * k, error);
    ARENA_TAKE(arena, w->feedback, k * k, error);
    ARENA_TAKE(arena, w->variances, k, error);
    ARENA_TAKE(arena, w->plain, n, error);
    ARENA_TAKE(arena, w->errors, n, error);
    TRY(prepare(w, s, arena, error));
    struct pool_work rows = {.items = n, .group_end = rows_end, .run = correct_rows, .context = w};
    TRY(pool_each(team, pool_size(team), &rows, error));
    double plain = 0, errors = 0, outputs = 0;
    for (size_t r = 0; r < n; r++) {
        const float *target = w->target + r * k;
        plain += w->plain[r];
        errors += w->errors[r];
        for (size_t j = 0; j < k; j++)
            outputs += (double)target[j] * s->xy[j * n + r];
        if (!m->bias)
            continue;
        double bias = s->y[r];
        for (size_t j = 0; j < k; j++)
            bias -= (double)m->values[r * k + j] * s->x[j];
        m->bias[r] = (float)(bias / s->tokens);
    }
    m->plain = outputs > 0 ? plain / outputs : 0;
    m->error = outputs > 0 ? errors / outputs : 0;
    return WISP_OK;
}

wisp_status correct_matrix(struct layer_sums *sums, struct corrected *matrix, struct pool *team,
                           wisp_error *error) {
    struct work w = {
        .n = sums->n, .k = sums->k, .matrix = matrix, .grid = block_grid_of(matrix->format->id)};
    struct arena arena = {0};
    const wisp_status status = correct(&w, sums, team, &arena, error);
    arena_release(&arena);
    return status;
}
