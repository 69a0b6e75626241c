/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sparse.h"
#include "sparse/compensation.h"
#include "sparse/grouping.h"
#include "sparse/matrix.h"

enum {
    SUBSAMPLE = 4096, /* tokens from which centers and groups are found */
    PART = 256,       /* tokens whose activations are held at a time */
    CENTER_ROUNDS = 4
};

static const double skipped_share = 0.8; /* but with ReLU: of neurons, of which GELU's mean is the
                                             center */

static size_t quads_of(const struct layer_sample *s) {
    return (s->wide + QUAD - 1) / QUAD;
}

/* The lengths of W_down's columns. */
static void column_lengths(const struct layer_sample *s, float *lengths) {
    for (size_t j = 0; j < s->wide; j++) {
        double squares = 0;
        for (size_t c = 0; c < s->hidden; c++)
            squares += (double)s->down[c * s->wide + j] * (double)s->down[c * s->wide + j];
        lengths[j] = (float)sqrt(squares);
    }
}

/* Values to contributions' sizes: |a - center| times the column's length. */
static void contributions(const struct layer_sample *s, const float *lengths, const float *center,
                          size_t n, float *a) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < s->wide; j++)
            a[i * s->wide + j] = fabsf(a[i * s->wide + j] - center[j]) * lengths[j];
}

/* ---- factors -------------------------------------------------------------------------------- */

/* Evens out the channels' ranges, half by x and half by the weights: what quantising x and W_up
 * loses is least then (Xiao et al., SmoothQuant, 2023). */
static void find_factors(const struct layer_sample *s, float *factors) {
    for (size_t c = 0; c < s->hidden; c++) {
        float x = 0, w = 0;
        for (size_t t = 0; t < s->tokens; t++)
            x = fmaxf(x, fabsf(s->x[t * s->hidden + c]));
        for (size_t j = 0; j < s->wide; j++) {
            w = fmaxf(w, fabsf(s->up[j * s->hidden + c]));
            w = fmaxf(w, s->gate ? fabsf(s->gate[j * s->hidden + c]) : 0);
        }
        const float factor = x > 0 && w > 0 ? sqrtf(w / x) : 1;
        factors[c] = fminf(fmaxf(factor, 0x1p-20f), 0x1p20f);
    }
}

/* ---- centers -------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The size that `share` of the contributions are below, from every so many of them. */
static wisp_status size_at(const float *a, const float *center, const float *lengths, size_t n,
                           size_t wide, double share, float *size, wisp_error *error) {
    enum { STRIDE = 61 };
    const size_t count = n * wide / STRIDE + 1;
    float *sizes = malloc(count * sizeof *sizes);
    if (!sizes)
        return fail_memory(error, count * sizeof *sizes);
    size_t used = 0;
    for (size_t i = 0; i < n * wide; i += STRIDE)
        sizes[used++] = fabsf(a[i] - center[i % wide]) * lengths[i % wide];
    qsort(sizes, used, sizeof *sizes, by_value);
    *size = sizes[(size_t)(share * (double)(used - 1))];
    free(sizes);
    return WISP_OK;
}

/* The mean of each neuron where its contribution about that mean is small: what skipping should
 * take it to be. What is gated is small about 0. */
static wisp_status find_centers(const struct layer_sample *s, const float *a, size_t n,
                                const float *lengths, float *center, wisp_error *error) {
    if (s->activation != ACTIVATION_GELU)
        return WISP_OK;
    double *sums = malloc(2 * s->wide * sizeof *sums), *counts = sums + s->wide;
    float limit = INFINITY;
    wisp_status status = sums ? WISP_OK : fail_memory(error, 2 * s->wide * sizeof *sums);
    for (int round = 0; round < CENTER_ROUNDS && status == WISP_OK; round++) {
        if (round > 0)
            status = size_at(a, center, lengths, n, s->wide, skipped_share, &limit, error);
        memset(sums, 0, 2 * s->wide * sizeof *sums);
        for (size_t i = 0; i < n * s->wide; i++) {
            const size_t j = i % s->wide;
            const bool is_small = round == 0 || fabsf(a[i] - center[j]) * lengths[j] <= limit;
            sums[j] += is_small ? (double)a[i] : 0;
            counts[j] += is_small;
        }
        for (size_t j = 0; j < s->wide; j++)
            center[j] = counts[j] > 0 ? (float)(sums[j] / counts[j]) : center[j];
    }
    free(sums);
    return status;
}

/* ---- groups --------------------------------------------------------------------------------- */

static void describe_neurons(const struct layer_sample *s, const float *sizes, size_t n,
                             float limit, struct layer_fit *fit) {
    for (size_t i = 0; i < n * s->wide; i++) {
        fit->frequency[i % s->wide] += sizes[i] > limit ? 1 / (float)n : 0;
        fit->magnitude[i % s->wide] += sizes[i] / (float)n;
    }
}

/* Centers, neurons' habits and quads, from a part of the tokens, evenly spread. */
static wisp_status study_neurons(const struct layer_sample *s, const float *lengths,
                                 struct layer_fit *fit, wisp_error *error) {
    const size_t n = s->tokens < SUBSAMPLE ? s->tokens : SUBSAMPLE;
    float *x = malloc(n * s->hidden * sizeof *x), *a = malloc(n * s->wide * sizeof *a);
    wisp_status status = x && a ? WISP_OK : fail_memory(error, n * s->wide * sizeof *a);
    float limit = 0;
    for (size_t i = 0; i < n && status == WISP_OK; i++)
        memcpy(x + i * s->hidden, s->x + i * s->tokens / n * s->hidden, s->hidden * sizeof *x);
    if (status == WISP_OK)
        status = layer_activations(s, x, n, a, error);
    if (status == WISP_OK)
        status = find_centers(s, a, n, lengths, fit->center, error);
    if (status == WISP_OK && s->activation != ACTIVATION_RELU)
        status = size_at(a, fit->center, lengths, n, s->wide, skipped_share, &limit, error);
    if (status == WISP_OK) {
        contributions(s, lengths, fit->center, n, a);
        describe_neurons(s, a, n, limit, fit);
        status = group_neurons(s->kernels, a, n, s->wide, fit->order, error);
    }
    free(x);
    free(a);
    return status;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* sizes [n, quads]: the roots of the summed squares of a quad's contributions. */
static wisp_status quad_sizes(const struct layer_sample *s, const struct layer_fit *fit,
                              const float *lengths, const float *x, size_t n, float *sizes,
                              wisp_error *error) {
    const size_t quads = quads_of(s);
    float *a = malloc(PART * s->wide * sizeof *a);
    wisp_status status = a ? WISP_OK : fail_memory(error, PART * s->wide * sizeof *a);
    for (size_t first = 0; first < n && status == WISP_OK; first += PART) {
        const size_t rows = n - first < PART ? n - first : PART;
        status = layer_activations(s, x + first * s->hidden, rows, a, error);
        if (status != WISP_OK)
            break;
        contributions(s, lengths, fit->center, rows, a);
        for (size_t t = 0; t < rows; t++)
            for (size_t i = 0; i < quads; i++) {
                float squares = 0;
                for (size_t j = QUAD * i; j < QUAD * (i + 1) && j < s->wide; j++) {
                    const float size = a[t * s->wide + (size_t)fit->order[j]];
                    squares += size * size;
                }
                sizes[(first + t) * quads + i] = sqrtf(squares);
            }
    }
    free(a);
    return status;
}

/* The mean over tokens of the squared deviation of x + y from its mean over the token: what the
 * norm that follows divides by. */
static wisp_status output_variance(const struct layer_sample *s, double *variance,
                                   wisp_error *error) {
    const size_t n = s->tokens < PART ? s->tokens : PART;
    float *a = malloc(n * s->wide * sizeof *a), *y = malloc(n * s->hidden * sizeof *y);
    wisp_status status = a && y ? layer_activations(s, s->x, n, a, error)
                                : fail_memory(error, n * s->wide * sizeof *a);
    if (status == WISP_OK)
        status = layer_outputs(s, a, n, y, error);
    *variance = 1e-30;
    for (size_t t = 0; t < n && status == WISP_OK; t++) {
        double sum = 0, squares = 0;
        for (size_t c = 0; c < s->hidden; c++) {
            const double value = (double)y[t * s->hidden + c] + (double)s->down_bias[c] +
                                 (double)s->x[t * s->hidden + c];
            sum += value;
            squares += value * value;
        }
        *variance += (squares - sum * sum / (double)s->hidden) / (double)n;
    }
    free(a);
    free(y);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static wisp_status fit_predictor(const struct layer_sample *s, const float *lengths, size_t rank,
                                 float wanted, uint64_t seed, struct layer_fit *fit,
                                 wisp_error *error) {
    const size_t quads = quads_of(s), n = s->tokens * quads;
    float *sizes = malloc(n * sizeof *sizes), *logits = malloc(n * sizeof *logits);
    float *h = malloc(s->tokens * rank * sizeof *h);
    wisp_status status = sizes && logits && h ? WISP_OK : fail_memory(error, n * sizeof *sizes);
    if (status == WISP_OK)
        status = quad_sizes(s, fit, lengths, s->x, s->tokens, sizes, error);
    if (status == WISP_OK)
        status = predictor_fit(&(struct fit_task){.kernels = s->kernels,
                                                  .x = s->x,
                                                  .sizes = sizes,
                                                  .tokens = s->tokens,
                                                  .hidden = s->hidden,
                                                  .quads = quads,
                                                  .rank = rank,
                                                  .wanted = wanted,
                                                  .seed = seed,
                                                  .stopped = s->stopped,
                                                  .context = s->context},
                               &fit->predictor, error);
    if (status == WISP_OK)
        status = predictor_apply(s->kernels, &fit->predictor, s->x, s->tokens, h, logits, error);
    if (status == WISP_OK)
        status = output_variance(s, &fit->variance, error);
    for (size_t i = 0; i < n && status == WISP_OK; i++)
        sizes[i] *= sizes[i] / (float)fit->variance;
    if (status == WISP_OK)
        status = gains_fit(logits, sizes, s->tokens, quads, &fit->gains, error);
    free(sizes);
    free(logits);
    free(h);
    return status;
}

wisp_status layer_fit(const struct layer_sample *s, size_t rank, float wanted, uint64_t seed,
                      struct layer_fit *fit, wisp_error *error) {
    float *lengths = calloc(s->wide, sizeof *lengths);
    *fit = (struct layer_fit){.wide = s->wide,
                              .order = malloc(s->wide * sizeof *fit->order),
                              .center = calloc(s->wide, sizeof *fit->center),
                              .factors = malloc(s->hidden * sizeof *fit->factors),
                              .frequency = calloc(s->wide, sizeof *fit->frequency),
                              .magnitude = calloc(s->wide, sizeof *fit->magnitude)};
    wisp_status status =
        lengths && fit->order && fit->center && fit->factors && fit->frequency && fit->magnitude
            ? WISP_OK
            : fail_memory(error, s->wide * sizeof *lengths);
    if (status == WISP_OK) {
        column_lengths(s, lengths);
        find_factors(s, fit->factors);
        status = study_neurons(s, lengths, fit, error);
    }
    if (status == WISP_OK)
        status = fit_predictor(s, lengths, rank, wanted, seed, fit, error);
    free(lengths);
    if (status != WISP_OK)
        layer_fit_release(fit);
    return status;
}

void layer_fit_release(struct layer_fit *fit) {
    free(fit->order);
    free(fit->center);
    free(fit->factors);
    free(fit->frequency);
    free(fit->magnitude);
    predictor_release(&fit->predictor);
    gains_release(&fit->gains);
    free(fit->compensation);
    *fit = (struct layer_fit){0};
}

/* ---- measuring ------------------------------------------------------------------------------ */

/* What one measurement works in. */
struct measure {
    float *lengths, *sizes, *h, *logits; /* [wide], [n, quads], [n, rank], [n, quads] */
    float *a, *y, *errors;               /* [PART, wide], [PART, hidden] twice */
};

/* Counts quads, with `limit` the size above which one is needed. */
static void count_quads(const struct measure *m, const float *thresholds, size_t n, size_t quads,
                        float limit, struct layer_quality *q) {
    double computed = 0, needed = 0, both = 0;
    for (size_t i = 0; i < n * quads; i++) {
        const bool is_computed = m->logits[i] > thresholds[i % quads];
        const bool is_needed = m->sizes[i] > limit;
        computed += is_computed;
        needed += is_needed;
        both += is_computed && is_needed;
    }
    q->share = computed / (double)(n * quads);
    q->needed = needed / (double)(n * quads);
    q->recall = needed > 0 ? both / needed : 1;
    q->precision = computed > 0 ? both / computed : 1;
}

/* Squared differences of the sparse output from the dense, and of the dense from its mean. */
static wisp_status output_error(const struct layer_sample *s, const struct layer_fit *fit,
                                const float *thresholds, const struct measure *m, double *relative,
                                wisp_error *error) {
    double off = 0, squares = 0, sum = 0;
    for (size_t first = 0; first < s->held_out_tokens; first += PART) {
        const size_t left = s->held_out_tokens - first, n = left < PART ? left : PART;
        const float *x = s->held_out + first * s->hidden;
        TRY(layer_activations(s, x, n, m->a, error));
        TRY(layer_outputs(s, m->a, n, m->y, error));
        TRY(layer_errors(s, fit, thresholds, x, n, m->errors, error));
        for (size_t i = 0; i < n * s->hidden; i++) {
            const double y = (double)m->y[i] + (double)s->down_bias[i % s->hidden];
            off += (double)m->errors[i] * (double)m->errors[i];
            squares += y * y;
            sum += y;
        }
    }
    const double count = (double)(s->held_out_tokens * s->hidden);
    *relative = off / fmax(squares - sum * sum / count, 1e-30);
    return WISP_OK;
}

static wisp_status measure_all(const struct layer_sample *s, const struct layer_fit *fit,
                               const float *thresholds, const struct measure *m,
                               struct layer_quality *quality, wisp_error *error) {
    const size_t n = s->held_out_tokens, quads = quads_of(s);
    float limit = 0;
    column_lengths(s, m->lengths);
    TRY(quad_sizes(s, fit, m->lengths, s->held_out, n, m->sizes, error));
    TRY(predictor_apply(s->kernels, &fit->predictor, s->held_out, n, m->h, m->logits, error));
    if (s->activation != ACTIVATION_RELU) {
        float *sorted = malloc(n * quads * sizeof *sorted);
        if (!sorted)
            return fail_memory(error, n * quads * sizeof *sorted);
        memcpy(sorted, m->sizes, n * quads * sizeof *sorted);
        qsort(sorted, n * quads, sizeof *sorted, by_value);
        limit = sorted[(size_t)(skipped_share * (double)(n * quads - 1))];
        free(sorted);
    }
    count_quads(m, thresholds, n, quads, limit, quality);
    return output_error(s, fit, thresholds, m, &quality->error, error);
}

wisp_status layer_measure(const struct layer_sample *s, const struct layer_fit *fit,
                          const float *thresholds, struct layer_quality *quality,
                          wisp_error *error) {
    const size_t n = s->held_out_tokens * quads_of(s);
    struct measure m = {.lengths = calloc(s->wide, sizeof(float)),
                        .sizes = calloc(n + 1, sizeof(float)),
                        .h = calloc(s->held_out_tokens * fit->predictor.rank + 1, sizeof(float)),
                        .logits = calloc(n + 1, sizeof(float)),
                        .a = malloc(PART * s->wide * sizeof(float)),
                        .y = malloc(PART * s->hidden * sizeof(float)),
                        .errors = malloc(PART * s->hidden * sizeof(float))};
    *quality = (struct layer_quality){0};
    wisp_status status = m.lengths && m.sizes && m.h && m.logits && m.a && m.y && m.errors
                             ? WISP_OK
                             : fail_memory(error, n * sizeof(float));
    if (status == WISP_OK && s->held_out_tokens > 0)
        status = measure_all(s, fit, thresholds, &m, quality, error);
    free(m.lengths);
    free(m.sizes);
    free(m.h);
    free(m.logits);
    free(m.a);
    free(m.y);
    free(m.errors);
    return status;
}
