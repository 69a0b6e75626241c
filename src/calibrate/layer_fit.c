/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/layer_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"
#include "calibrate/compensation.h"
#include "calibrate/order.h"

enum {
    SUBSAMPLE = 4096,       /* tokens from which centers and the order are found */
    PART = 256,             /* tokens whose activations are held at a time */
    BLOCK_VALUES = 1 << 22, /* of all tokens for some neurons, held at a time */
    STRIDE = 61,            /* of sizes every so many are sorted, */
    FEW_SIZES = 1 << 18,    /* but all where there are fewer than these */
    CENTER_ROUNDS = 4
};

static const double spread_share = 0.01; /* of a neuron's loss */
static const double skipped_share = 0.8; /* but with ReLU: of neurons, of which GELU's mean is the
                                             center */

/* The lengths of W_down's columns. */
static void column_lengths(const struct layer_sample *s, float *lengths) {
    for (size_t j = 0; j < s->wide; j++) {
        double squares = 0;
        for (size_t c = 0; c < s->hidden; c++)
            squares += (double)s->down[c * s->wide + j] * (double)s->down[c * s->wide + j];
        lengths[j] = (float)sqrt(squares);
    }
}

/* Values [n, neurons] of the neurons from `first` on to their contributions' sizes: |a - center|
 * times the column's length. */
static void contributions(const struct layer_fit *fit, size_t first, size_t neurons, size_t n,
                          float *a) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < neurons; j++)
            a[i * neurons + j] =
                fabsf(a[i * neurons + j] - fit->center[first + j]) * fit->lengths[first + j];
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

static size_t stride_of(size_t sizes) {
    return sizes < FEW_SIZES ? 1 : STRIDE;
}

/* The size that `share` of the contributions are below, from every so many of them. */
static wisp_status size_at(const float *a, const float *center, const float *lengths, size_t n,
                           size_t wide, double share, float *size, wisp_error *error) {
    const size_t stride = stride_of(n * wide), count = n * wide / stride + 1;
    float *sizes = malloc(count * sizeof *sizes);
    if (!sizes)
        return fail_memory(error, count * sizeof *sizes);
    size_t used = 0;
    for (size_t i = 0; i < n * wide; i += stride)
        sizes[used++] = fabsf(a[i] - center[i % wide]) * lengths[i % wide];
    *size = quantile_below(sizes, used, share);
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

/* ---- neurons --------------------------------------------------------------------------------- */

static void describe_neurons(const struct layer_sample *s, const float *sizes, size_t n,
                             float limit, struct layer_fit *fit) {
    for (size_t i = 0; i < n * s->wide; i++) {
        fit->frequency[i % s->wide] += sizes[i] > limit ? 1 / (float)n : 0;
        fit->magnitude[i % s->wide] += sizes[i] / (float)n;
    }
}

/* Centers, neurons' habits and their order, from a part of the tokens, evenly spread. */
static wisp_status study_neurons(const struct layer_sample *s, struct layer_fit *fit,
                                 wisp_error *error) {
    const size_t n = s->tokens < SUBSAMPLE ? s->tokens : SUBSAMPLE;
    float *x = malloc(n * s->hidden * sizeof *x), *a = malloc(n * s->wide * sizeof *a);
    wisp_status status = x && a ? WISP_OK : fail_memory(error, n * s->wide * sizeof *a);
    float limit = 0;
    for (size_t i = 0; i < n && status == WISP_OK; i++)
        memcpy(x + i * s->hidden, s->x + i * s->tokens / n * s->hidden, s->hidden * sizeof *x);
    if (status == WISP_OK)
        status = layer_activations(s, x, n, a, error);
    if (status == WISP_OK)
        status = find_centers(s, a, n, fit->lengths, fit->center, error);
    if (status == WISP_OK && s->activation != ACTIVATION_RELU)
        status = size_at(a, fit->center, fit->lengths, n, s->wide, skipped_share, &limit, error);
    if (status == WISP_OK) {
        const struct neurons neurons = {.n = s->wide,
                                        .frequency = fit->frequency,
                                        .magnitude = fit->magnitude,
                                        .contributions = a,
                                        .tokens = n};
        contributions(fit, 0, s->wide, n, a);
        describe_neurons(s, a, n, limit, fit);
        status = order_neurons(s->kernels, &neurons, fit->order, error);
    }
    free(x);
    free(a);
    return status;
}

/* Numbers the neurons by their places. */
static wisp_status put_in_order(struct layer_sample *s, struct layer_fit *fit, wisp_error *error) {
    float *center = malloc(s->wide * sizeof *center);
    if (!center)
        return fail_memory(error, s->wide * sizeof *center);
    for (size_t i = 0; i < s->wide; i++)
        center[i] = fit->center[fit->order[i]];
    free(fit->center);
    fit->center = center;
    fit->hot = hot_neurons(fit->frequency, fit->order, s->wide);
    TRY(layer_reorder(s, fit->order, error));
    column_lengths(s, fit->lengths);
    return WISP_OK;
}

/* ---- the predictor -------------------------------------------------------------------------- */

struct sizes {
    const struct layer_sample *sample;
    const struct layer_fit *fit;
};

/* sizes [n, wide] of contributions, as predictor_fit wants them. */
static wisp_status find_sizes(const void *layer, const float *x, size_t n, float *sizes,
                              wisp_error *error) {
    const struct sizes *of = layer;
    TRY(layer_activations(of->sample, x, n, sizes, error));
    contributions(of->fit, 0, of->sample->wide, n, sizes);
    return WISP_OK;
}

static struct fit_task task_of(const struct layer_sample *s, const struct sizes *sizes, size_t rank,
                               float wanted, int steps, uint64_t seed) {
    return (struct fit_task){.kernels = s->kernels,
                             .x = s->x,
                             .seen = layer_seen(s),
                             .tokens = s->tokens,
                             .hidden = s->hidden,
                             .wide = s->wide,
                             .rank = rank,
                             .sizes = find_sizes,
                             .layer = sizes,
                             .wanted = wanted,
                             .steps = steps,
                             .seed = seed,
                             .stopped = s->stopped,
                             .context = s->context};
}

/* ---- gains ---------------------------------------------------------------------------------- */

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

/* What some neurons' gains are found in, for all tokens. */
struct block {
    float *h;               /* [tokens, rank] */
    float *chances;         /* [tokens] */
    float *logits, *losses; /* [tokens, neurons] */
    size_t neurons;
};

/* Where no token of the sample needs a neuron, one of another text may, the sooner the higher its
 * logit: so a small part of each neuron's loss is spread over all tokens by the chances that logits
 * stand for. It grades what nothing else does. */
static void spread_losses(const struct block *b, size_t tokens, size_t n, size_t j) {
    double lost = 0, chances = 0;
    for (size_t i = j; i < tokens * n; i += n) {
        lost += (double)b->losses[i];
        b->chances[i / n] = 1 / (1 + expf(-b->logits[i]));
        chances += (double)b->chances[i / n];
    }
    const float share = chances > 0 ? (float)(spread_share * lost / chances) : 0;
    for (size_t i = j; i < tokens * n; i += n)
        b->losses[i] += share * b->chances[i / n];
}

static wisp_status add_gains(const struct layer_sample *s, const struct block *b,
                             struct layer_fit *fit, wisp_error *error) {
    for (size_t first = 0; first < s->wide; first += b->neurons) {
        const size_t left = s->wide - first, n = left < b->neurons ? left : b->neurons;
        TRY(layer_some_activations(s, first, n, s->x, s->tokens, b->losses, error));
        contributions(fit, first, n, s->tokens, b->losses);
        for (size_t i = 0; i < s->tokens * n; i++)
            b->losses[i] *= b->losses[i] / (float)fit->variance;
        TRY(predictor_logits(s->kernels, &fit->predictor, first, n, b->h, s->tokens, b->logits,
                             error));
        for (size_t j = 0; j < n; j++)
            spread_losses(b, s->tokens, n, j);
        TRY(gains_add(&fit->gains, b->logits, b->losses, n, error));
    }
    return WISP_OK;
}

static wisp_status fit_gains(const struct layer_sample *s, struct layer_fit *fit,
                             wisp_error *error) {
    const size_t rank = fit->predictor.rank, fitting = BLOCK_VALUES / s->tokens;
    const size_t neurons = fitting < 1 ? 1 : fitting < s->wide ? fitting : s->wide;
    const struct block b = {.h = malloc(s->tokens * rank * sizeof *b.h),
                            .chances = malloc(s->tokens * sizeof *b.chances),
                            .logits = malloc(s->tokens * neurons * sizeof *b.logits),
                            .losses = malloc(s->tokens * neurons * sizeof *b.losses),
                            .neurons = neurons};
    wisp_status status = b.h && b.chances && b.logits && b.losses
                             ? output_variance(s, &fit->variance, error)
                             : fail_memory(error, s->tokens * neurons * sizeof *b.losses);
    if (status == WISP_OK)
        status = predictor_inner(s->kernels, &fit->predictor, layer_seen(s), s->tokens, b.h, error);
    if (status == WISP_OK)
        status = gains_open(s->tokens, s->wide, &fit->gains, error);
    if (status == WISP_OK)
        status = add_gains(s, &b, fit, error);
    free(b.h);
    free(b.chances);
    free(b.logits);
    free(b.losses);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

wisp_status layer_fit(struct layer_sample *s, size_t rank, float wanted, uint64_t seed,
                      struct layer_fit *fit, wisp_error *error) {
    *fit = (struct layer_fit){.wide = s->wide,
                              .order = malloc(s->wide * sizeof *fit->order),
                              .center = calloc(s->wide, sizeof *fit->center),
                              .lengths = calloc(s->wide, sizeof *fit->lengths),
                              .factors = malloc(s->hidden * sizeof *fit->factors),
                              .frequency = calloc(s->wide, sizeof *fit->frequency),
                              .magnitude = calloc(s->wide, sizeof *fit->magnitude)};
    wisp_status status = fit->order && fit->center && fit->lengths && fit->factors &&
                                 fit->frequency && fit->magnitude
                             ? WISP_OK
                             : fail_memory(error, s->wide * sizeof *fit->lengths);
    if (status == WISP_OK) {
        column_lengths(s, fit->lengths);
        find_factors(s, fit->factors);
        status = study_neurons(s, fit, error);
    }
    if (status == WISP_OK)
        status = put_in_order(s, fit, error);
    const struct sizes sizes = {s, fit};
    const struct fit_task task = task_of(s, &sizes, rank, wanted, FIT_STEPS, seed);
    if (status == WISP_OK)
        status = predictor_fit(&task, &fit->trained, error);
    if (status != WISP_OK)
        layer_fit_release(fit);
    return status;
}

wisp_status layer_fit_texts(const struct layer_sample *s, const struct layer_fit *neurons,
                            size_t rank, float wanted, struct layer_fit *fit, wisp_error *error) {
    const size_t bytes = s->wide * sizeof *fit->center;
    *fit = (struct layer_fit){.wide = s->wide, .center = malloc(bytes), .lengths = malloc(bytes)};
    if (!fit->center || !fit->lengths)
        return fail_memory(error, bytes);
    memcpy(fit->center, neurons->center, bytes);
    memcpy(fit->lengths, neurons->lengths, bytes);
    const struct sizes sizes = {s, fit};
    const struct fit_task task = task_of(s, &sizes, rank, wanted, 0, 0);
    return predictor_fit(&task, &fit->trained, error);
}

wisp_status layer_refit(const struct layer_sample *s, float wanted, uint64_t seed,
                        struct layer_fit *fit, wisp_error *error) {
    const struct sizes sizes = {s, fit};
    const struct fit_task task = task_of(s, &sizes, fit->trained.rank, wanted, FIT_STEPS, seed);
    return predictor_refit(&task, &fit->trained, error);
}

wisp_status layer_weigh(const struct layer_sample *s, const struct predictor_formats *formats,
                        struct layer_fit *fit, wisp_error *error) {
    TRY(predictor_round(&fit->trained, formats, &fit->predictor, error));
    return fit_gains(s, fit, error);
}

void layer_fit_release(struct layer_fit *fit) {
    free(fit->order);
    free(fit->center);
    free(fit->lengths);
    free(fit->factors);
    free(fit->frequency);
    free(fit->magnitude);
    predictor_release(&fit->trained);
    predictor_release(&fit->predictor);
    gains_release(&fit->gains);
    free(fit->compensation);
    *fit = (struct layer_fit){0};
}

/* ---- measuring ------------------------------------------------------------------------------ */

/* What one measurement works in, and what it counts. */
struct measure {
    float *sizes, *h, *logits;      /* [PART, wide], [PART, rank], [PART, wide] */
    float *y, *errors;              /* [PART, hidden] twice */
    float limit;                    /* the size above which a neuron is needed */
    double computed, needed, found; /* neurons; needed and computed */
    double off, squares, sum;       /* of the output's errors, and of the output */
};

static wisp_status measured_sizes(const struct layer_sample *s, const struct layer_fit *fit,
                                  const struct measure *m, size_t first, size_t n,
                                  wisp_error *error) {
    const struct sizes sizes = {s, fit};
    return find_sizes(&sizes, s->held_out + first * s->hidden, n, m->sizes, error);
}

/* What is among the largest fifth, from every so many sizes. */
static wisp_status find_limit(const struct layer_sample *s, const struct layer_fit *fit,
                              struct measure *m, wisp_error *error) {
    const size_t stride = stride_of(s->held_out_tokens * s->wide);
    const size_t most = s->held_out_tokens * (s->wide / stride + 1);
    float *sizes = malloc(most * sizeof *sizes);
    size_t used = 0;
    wisp_status status = sizes ? WISP_OK : fail_memory(error, most * sizeof *sizes);
    for (size_t first = 0; first < s->held_out_tokens && status == WISP_OK; first += PART) {
        const size_t left = s->held_out_tokens - first, n = left < PART ? left : PART;
        status = measured_sizes(s, fit, m, first, n, error);
        for (size_t i = 0; i < n * s->wide && status == WISP_OK; i += stride)
            sizes[used++] = m->sizes[i];
    }
    if (status == WISP_OK)
        m->limit = quantile_below(sizes, used, skipped_share);
    free(sizes);
    return status;
}

static void count_neurons(struct measure *m, const float *thresholds, size_t n, size_t wide) {
    for (size_t i = 0; i < n * wide; i++) {
        const bool is_computed = m->logits[i] > thresholds[i % wide];
        const bool is_needed = m->sizes[i] > m->limit;
        m->computed += is_computed;
        m->needed += is_needed;
        m->found += is_computed && is_needed;
    }
}

/* Squared differences of the sparse output from the dense, and of the dense from its mean, for n
 * held-out tokens. */
static wisp_status add_errors(const struct layer_sample *s, const struct layer_fit *fit,
                              const float *thresholds, size_t first, size_t n, struct measure *m,
                              wisp_error *error) {
    const float *x = s->held_out + first * s->hidden;
    const float *seen = layer_held_out_seen(s) + first * s->hidden;
    TRY(layer_activations(s, x, n, m->sizes, error));
    TRY(layer_outputs(s, m->sizes, n, m->y, error));
    TRY(layer_errors(s, fit, thresholds, x, seen, n, m->errors, error));
    for (size_t i = 0; i < n * s->hidden; i++) {
        const double y = (double)m->y[i] + (double)s->down_bias[i % s->hidden];
        m->off += (double)m->errors[i] * (double)m->errors[i];
        m->squares += y * y;
        m->sum += y;
    }
    return WISP_OK;
}

static wisp_status measure_all(const struct layer_sample *s, const struct layer_fit *fit,
                               const float *thresholds, struct measure *m,
                               wisp_calibrated_quality *quality, wisp_error *error) {
    const struct predictor *p = &fit->predictor;
    if (s->activation != ACTIVATION_RELU)
        TRY(find_limit(s, fit, m, error));
    for (size_t first = 0; first < s->held_out_tokens; first += PART) {
        const size_t left = s->held_out_tokens - first, n = left < PART ? left : PART;
        const float *seen = layer_held_out_seen(s) + first * s->hidden;
        TRY(measured_sizes(s, fit, m, first, n, error));
        TRY(predictor_inner(s->kernels, p, seen, n, m->h, error));
        TRY(predictor_logits(s->kernels, p, 0, s->wide, m->h, n, m->logits, error));
        count_neurons(m, thresholds, n, s->wide);
        TRY(add_errors(s, fit, thresholds, first, n, m, error));
    }
    const double neurons = (double)(s->held_out_tokens * s->wide);
    const double values = (double)(s->held_out_tokens * s->hidden);
    *quality = (wisp_calibrated_quality){
        .share = m->computed / neurons,
        .needed = m->needed / neurons,
        .recall = m->needed > 0 ? m->found / m->needed : 1,
        .precision = m->computed > 0 ? m->found / m->computed : 1,
        .error = m->off / fmax(m->squares - m->sum * m->sum / values, 1e-30)};
    return WISP_OK;
}

wisp_status layer_measure(const struct layer_sample *s, const struct layer_fit *fit,
                          const float *thresholds, wisp_calibrated_quality *quality,
                          wisp_error *error) {
    struct measure m = {.sizes = malloc(PART * s->wide * sizeof(float)),
                        .h = malloc(PART * fit->predictor.rank * sizeof(float)),
                        .logits = malloc(PART * s->wide * sizeof(float)),
                        .y = malloc(PART * s->hidden * sizeof(float)),
                        .errors = malloc(PART * s->hidden * sizeof(float))};
    *quality = (wisp_calibrated_quality){0};
    wisp_status status = m.sizes && m.h && m.logits && m.y && m.errors
                             ? WISP_OK
                             : fail_memory(error, PART * s->wide * sizeof(float));
    if (status == WISP_OK && s->held_out_tokens > 0)
        status = measure_all(s, fit, thresholds, &m, quality, error);
    free(m.sizes);
    free(m.h);
    free(m.logits);
    free(m.y);
    free(m.errors);
    return status;
}
