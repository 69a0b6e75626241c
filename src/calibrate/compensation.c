/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/compensation.h"

#include <math.h>
#include <stdlib.h>

#include "calibrate/matrix.h"
#include "sparse/ffn.h"

enum { PART = 256 }; /* tokens whose activations are held at a time */

static const double ridge = 1e-4; /* of the mean square of what is regressed on */

/* What PART tokens are worked on in. */
struct work {
    float *h, *logits, *a, *undone; /* [PART, rank + 1], [PART, wide] twice, [PART, hidden] */
};

static void close_work(struct work *w) {
    free(w->h);
    free(w->logits);
    free(w->a);
    free(w->undone);
    *w = (struct work){0};
}

static wisp_status open_work(const struct layer_sample *s, const struct predictor *p,
                             struct work *w, wisp_error *error) {
    *w = (struct work){.h = malloc(PART * (p->rank + 1) * sizeof(float)),
                       .logits = malloc(PART * p->wide * sizeof(float)),
                       .a = malloc(PART * s->wide * sizeof(float)),
                       .undone = malloc(PART * s->hidden * sizeof(float))};
    if (w->h && w->logits && w->a && w->undone)
        return WISP_OK;
    close_work(w);
    return fail_memory(error, PART * s->wide * sizeof(float));
}

/* Of one token's activations only what is lost where neurons are skipped; returns how many neurons
 * are not. */
static size_t keep_lost(const struct layer_fit *fit, const float *logits, const float *thresholds,
                        float *a) {
    size_t computed = 0;
    for (size_t i = 0; i < fit->wide; i++) {
        const bool is_computed = logits[i] > thresholds[i];
        a[i] = is_computed ? 0 : a[i] - fit->center[i];
        computed += is_computed;
    }
    return computed;
}

/* For n tokens, PART at most: errors [n, hidden] before compensation, and what they are regressed
 * on, scaled h and 1, in w->h [n, rank + 1]. */
static wisp_status lost_part(const struct layer_sample *s, const struct layer_fit *fit,
                             const float *thresholds, const float *x, const float *seen, size_t n,
                             const struct work *w, float *errors, wisp_error *error) {
    const struct predictor *p = &fit->predictor;
    const size_t rank = p->rank;
    TRY(predictor_inner(s->kernels, p, seen, n, w->h, error));
    TRY(predictor_logits(s->kernels, p, 0, p->wide, w->h, n, w->logits, error));
    TRY(layer_activations(s, x, n, w->a, error));
    for (size_t t = n; t-- > 0;) { /* from the last, as rows grow by one */
        const float *from = w->h + t * rank;
        float *to = w->h + t * (rank + 1);
        const size_t computed =
            keep_lost(fit, w->logits + t * s->wide, thresholds, w->a + t * s->wide);
        const float scale = sparse_ffn_scale(computed, s->wide);
        to[rank] = scale;
        for (size_t j = rank; j-- > 0;)
            to[j] = scale * from[j];
    }
    return layer_outputs(s, w->a, n, errors, error);
}

wisp_status layer_errors(const struct layer_sample *s, const struct layer_fit *fit,
                         const float *thresholds, const float *x, const float *seen, size_t n,
                         float *errors, wisp_error *error) {
    struct work w;
    TRY(open_work(s, &fit->predictor, &w, error));
    wisp_status status = WISP_OK;
    for (size_t first = 0; first < n && status == WISP_OK; first += PART) {
        const size_t rows = n - first < PART ? n - first : PART;
        const size_t at = first * s->hidden;
        float *part = errors + at;
        status = lost_part(s, fit, thresholds, x + at, seen + at, rows, &w, part, error);
        if (status != WISP_OK || !fit->compensation)
            continue;
        if (!matrix_multiply(s->kernels, w.h, fit->compensation, w.undone, rows, s->hidden,
                             fit->predictor.rank + 1))
            status = fail_memory(error, s->hidden * (fit->predictor.rank + 1) * sizeof(float));
        for (size_t i = 0; i < rows * s->hidden && status == WISP_OK; i++)
            part[i] -= w.undone[i];
    }
    close_work(&w);
    return status;
}

/* Sums of products over the sample: hh [n, n] and he [n, hidden], with n = rank + 1. */
static wisp_status sum_products(const struct layer_sample *s, const struct layer_fit *fit,
                                const float *thresholds, double *hh, double *he,
                                wisp_error *error) {
    const size_t n = fit->predictor.rank + 1, hidden = s->hidden;
    double *part = malloc(n * (n > hidden ? n : hidden) * sizeof *part);
    float *errors = malloc(PART * hidden * sizeof *errors);
    struct work w = {0};
    wisp_status status = part && errors ? open_work(s, &fit->predictor, &w, error)
                                        : fail_memory(error, n * hidden * sizeof *part);
    for (size_t first = 0; first < s->tokens && status == WISP_OK; first += PART) {
        const size_t rows = s->tokens - first < PART ? s->tokens - first : PART;
        status = lost_part(s, fit, thresholds, s->x + first * hidden,
                           layer_seen(s) + first * hidden, rows, &w, errors, error);
        bool good = status == WISP_OK && matrix_gram(s->kernels, w.h, w.h, part, n, n, rows);
        for (size_t i = 0; i < n * n && good; i++)
            hh[i] += part[i];
        good = good && matrix_gram(s->kernels, w.h, errors, part, n, hidden, rows);
        for (size_t i = 0; i < n * hidden && good; i++)
            he[i] += part[i];
        if (status == WISP_OK && !good)
            status = fail_memory(error, n * PART * sizeof(float));
    }
    free(part);
    free(errors);
    close_work(&w);
    return status;
}

static wisp_status regress(const struct layer_sample *s, const float *thresholds,
                           struct layer_fit *fit, wisp_error *error) {
    const size_t n = fit->predictor.rank + 1, hidden = s->hidden;
    double *hh = calloc(n * n, sizeof *hh), *he = calloc(n * hidden, sizeof *he);
    float *map = malloc(n * hidden * sizeof *map);
    wisp_status status = hh && he && map ? sum_products(s, fit, thresholds, hh, he, error)
                                         : fail_memory(error, n * hidden * sizeof *he);
    if (status == WISP_OK) {
        double trace = 0;
        for (size_t i = 0; i < n; i++)
            trace += hh[i * n + i];
        for (size_t i = 0; i < n; i++)
            hh[i * n + i] += ridge * trace / (double)n + 1e-9;
        matrix_solve(hh, he, n, hidden);
        for (size_t i = 0; i < n * hidden; i++)
            map[i] = (float)he[i];
        fit->compensation = map;
        map = NULL;
    }
    free(hh);
    free(he);
    free(map);
    return status;
}

/* The sum of squared errors on held-out tokens, in units of fit->variance. */
static wisp_status held_out_loss(const struct layer_sample *s, const struct layer_fit *fit,
                                 const float *thresholds, float *errors, double *loss,
                                 wisp_error *error) {
    TRY(layer_errors(s, fit, thresholds, s->held_out, layer_held_out_seen(s), s->held_out_tokens,
                     errors, error));
    *loss = 0;
    for (size_t i = 0; i < s->held_out_tokens * s->hidden; i++)
        *loss += (double)errors[i] * (double)errors[i] / fit->variance;
    return WISP_OK;
}

wisp_status compensation_fit(const struct layer_sample *s, const float *thresholds, float price,
                             struct layer_fit *fit, wisp_error *error) {
    const size_t n = s->held_out_tokens * s->hidden;
    double before = 0, after = 0;
    if (n == 0)
        return WISP_OK;
    float *errors = malloc(n * sizeof *errors);
    wisp_status status = errors ? held_out_loss(s, fit, thresholds, errors, &before, error)
                                : fail_memory(error, n * sizeof *errors);
    if (status == WISP_OK)
        status = regress(s, thresholds, fit, error);
    if (status == WISP_OK)
        status = held_out_loss(s, fit, thresholds, errors, &after, error);
    /* For each of `hidden` values B takes `rank` products; a neuron one in each of its rows of W_up
     * and W_gate, and one in its column of W_down. */
    const double neurons = (double)fit->predictor.rank / (s->gate ? 3 : 2);
    if (!(before - after > (double)price * neurons * (double)s->held_out_tokens)) {
        free(fit->compensation);
        fit->compensation = NULL;
    }
    free(errors);
    return status;
}
