/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/losses.h"

#include <math.h>

#include "base/checked.h"
#include "base/statistics.h"
#include "calibrate/matrix.h"
#include "calibrate/neurons.h"
#include "sparse/ffn.h"

enum { BLOCK_VALUES = 1 << 22 /* logits of all tokens for some neurons, held at a time */ };

/* ---- gains ---------------------------------------------------------------------------------- */

/* A token of another text may need a neuron that no token of the sample needs, the sooner the
 * higher its logit. So this fraction of a neuron's loss is spread over all tokens, in proportion to
 * the probabilities that the logits stand for: it ranks neurons that have no loss to rank them. */
static const double spread_fraction = 0.01;

static wisp_status find_variance(const struct layer *l, struct arena *scratch, double *variance,
                                 wisp_error *error) {
    const size_t n = smaller(l->tokens, LOSS_TOKENS), hidden_size = l->hidden_size;
    float *a, *y;
    ARENA_TAKE(scratch, a, n * l->intermediate_size, error);
    ARENA_TAKE(scratch, y, n * hidden_size, error);
    TRY(layer_activations(l, 0, l->intermediate_size, l->x, n, a, error));
    TRY(layer_outputs(l, a, n, y, error));
    *variance = 1e-30;
    for (size_t t = 0; t < n; t++) {
        double sum = 0, squares = 0;
        for (size_t c = 0; c < hidden_size; c++) {
            const double value = (double)y[t * hidden_size + c] + (double)l->down_bias[c] +
                                 (double)l->x[t * hidden_size + c];
            sum += value;
            squares += value * value;
        }
        *variance += (squares - sum * sum / (double)hidden_size) / (double)n;
    }
    return WISP_OK;
}

wisp_status layer_find_gains(const struct layer *l, const struct predictor_formats *formats,
                             struct layer_fit *fit, struct gains *gains, struct arena *scratch,
                             wisp_error *error) {
    const size_t width = l->intermediate_size, tokens = l->tokens;
    const size_t fitting = BLOCK_VALUES / tokens;
    const size_t neurons = fitting < 1 ? 1 : smaller(fitting, width);
    float *h, *probability, *logits, *losses;
    TRY(predictor_round(&fit->trained, formats, l->arena, &fit->stored, error));
    ARENA_TAKE(scratch, h, tokens * fit->stored.rank, error);
    ARENA_TAKE(scratch, probability, tokens, error);
    ARENA_TAKE(scratch, logits, tokens * neurons, error);
    ARENA_TAKE(scratch, losses, tokens * neurons, error);
    TRY(find_variance(l, scratch, &fit->variance, error));
    TRY(predictor_inner(l->kernels, &fit->stored, l->predictor_x, tokens, h, error));
    TRY(gains_open(tokens, width, l->arena, scratch, gains, error));
    for (size_t first = 0; first < width; first += neurons) {
        const size_t n = smaller(width - first, neurons);
        TRY(layer_contributions(l, first, n, l->x, tokens, losses, error));
        TRY(predictor_logits(l->kernels, &fit->stored, first, n, h, tokens, logits, error));
        for (size_t i = 0; i < tokens * n; i++)
            losses[i] *= losses[i] / (float)fit->variance;
        for (size_t j = 0; j < n; j++) {
            double lost = 0, sum = 0;
            for (size_t t = 0; t < tokens; t++) {
                lost += (double)losses[t * n + j];
                probability[t] = 1 / (1 + expf(-logits[t * n + j]));
                sum += (double)probability[t];
            }
            const float spread = sum > 0 ? (float)(spread_fraction * lost / sum) : 0;
            for (size_t t = 0; t < tokens; t++)
                losses[t * n + j] += spread * probability[t];
        }
        TRY(gains_add(gains, logits, losses, n, error));
    }
    return WISP_OK;
}

/* ---- losses --------------------------------------------------------------------------------- */

wisp_status loss_work_open(const struct layer *l, const struct layer_fit *fit,
                           struct arena *scratch, struct loss_work *w, wisp_error *error) {
    ARENA_TAKE(scratch, w->logits, LOSS_TOKENS * l->intermediate_size, error);
    ARENA_TAKE(scratch, w->h, LOSS_TOKENS * (fit->stored.rank + 1), error);
    ARENA_TAKE(scratch, w->a, LOSS_TOKENS * l->intermediate_size, error);
    ARENA_TAKE(scratch, w->compensated, LOSS_TOKENS * l->hidden_size, error);
    return WISP_OK;
}

wisp_status layer_losses(const struct layer *l, const struct layer_fit *fit,
                         const float *thresholds, const float *x, const float *predictor_x,
                         size_t n, const struct loss_work *w, float *losses, wisp_error *error) {
    const struct predictor *p = &fit->stored;
    const size_t width = l->intermediate_size, rank = p->rank;
    TRY(predictor_inner(l->kernels, p, predictor_x, n, w->h, error));
    TRY(predictor_logits(l->kernels, p, 0, width, w->h, n, w->logits, error));
    TRY(layer_activations(l, 0, width, x, n, w->a, error));
    for (size_t t = n; t-- > 0;) { /* from the last on, as the rows of h grow by one */
        size_t computed = 0;
        for (size_t i = 0; i < width; i++) {
            float *a = &w->a[t * width + i];
            const bool is_computed = w->logits[t * width + i] > thresholds[i];
            *a = is_computed ? 0 : *a - l->center[i];
            computed += is_computed;
        }
        const float scale = sparse_ffn_scale(computed, width);
        w->h[t * (rank + 1) + rank] = scale;
        for (size_t j = rank; j-- > 0;)
            w->h[t * (rank + 1) + j] = scale * w->h[t * rank + j];
    }
    return layer_outputs(l, w->a, n, losses, error);
}

wisp_status layer_errors(const struct layer *l, const struct layer_fit *fit,
                         const float *thresholds, const float *x, const float *predictor_x,
                         size_t n, const struct loss_work *w, float *errors, wisp_error *error) {
    TRY(layer_losses(l, fit, thresholds, x, predictor_x, n, w, errors, error));
    if (!fit->compensation)
        return WISP_OK;
    TRY(matrix_multiply(l->kernels, w->h, fit->compensation, l->hidden_size, w->compensated, n,
                        l->hidden_size, fit->stored.rank + 1, error));
    for (size_t i = 0; i < n * l->hidden_size; i++)
        errors[i] -= w->compensated[i];
    return WISP_OK;
}

/* ---- measuring ------------------------------------------------------------------------------ */

/* Finds the contribution above which a held-out token needs a neuron. */
static wisp_status find_limit(const struct layer *l, const struct loss_work *w,
                              struct arena *scratch, float *limit, wisp_error *error) {
    const size_t width = l->intermediate_size;
    const size_t stride = neurons_sorting_stride(l->held_out_tokens * width);
    float *sizes;
    size_t used = 0;
    *limit = 0;
    if (activation_has_zeros(l->activation))
        return WISP_OK;
    ARENA_TAKE(scratch, sizes, l->held_out_tokens * (width / stride + 1), error);
    for (size_t first = 0; first < l->held_out_tokens; first += LOSS_TOKENS) {
        const size_t n = smaller(l->held_out_tokens - first, LOSS_TOKENS);
        const float *x = l->held_out + first * l->hidden_size;
        TRY(layer_contributions(l, 0, width, x, n, w->a, error));
        for (size_t i = 0; i < n * width; i += stride)
            sizes[used++] = w->a[i];
    }
    *limit = quantile_below(sizes, used, unneeded_fraction);
    return WISP_OK;
}

wisp_status layer_measure(const struct layer *l, const struct layer_fit *fit,
                          const float *thresholds, struct arena *scratch,
                          wisp_calibrated_quality *quality, wisp_error *error) {
    const size_t width = l->intermediate_size, hidden_size = l->hidden_size;
    double computed = 0, needed = 0, found = 0; /* neurons for tokens; needed and computed */
    double off = 0, squares = 0, sum = 0;       /* of the output's errors, and of the output */
    struct loss_work w;
    float limit, *y, *errors;
    *quality = (wisp_calibrated_quality){0};
    if (l->held_out_tokens == 0)
        return WISP_OK;
    TRY(loss_work_open(l, fit, scratch, &w, error));
    ARENA_TAKE(scratch, y, LOSS_TOKENS * hidden_size, error);
    ARENA_TAKE(scratch, errors, LOSS_TOKENS * hidden_size, error);
    TRY(find_limit(l, &w, scratch, &limit, error));
    for (size_t first = 0; first < l->held_out_tokens; first += LOSS_TOKENS) {
        const size_t n = smaller(l->held_out_tokens - first, LOSS_TOKENS);
        const float *x = l->held_out + first * hidden_size;
        TRY(layer_errors(l, fit, thresholds, x, l->predictor_held_out + first * hidden_size, n, &w,
                         errors, error));
        TRY(layer_activations(l, 0, width, x, n, w.a, error));
        TRY(layer_outputs(l, w.a, n, y, error));
        for (size_t i = 0; i < n * width; i++) {
            const size_t j = i % width;
            const bool is_computed = w.logits[i] > thresholds[j];
            const bool is_needed = fabsf(w.a[i] - l->center[j]) * l->length[j] > limit;
            computed += is_computed;
            needed += is_needed;
            found += is_computed && is_needed;
        }
        for (size_t i = 0; i < n * hidden_size; i++) {
            const double value = (double)y[i] + (double)l->down_bias[i % hidden_size];
            off += (double)errors[i] * (double)errors[i];
            squares += value * value;
            sum += value;
        }
    }
    const double pairs = (double)(l->held_out_tokens * width);
    const double values = (double)(l->held_out_tokens * hidden_size);
    *quality = (wisp_calibrated_quality){.share = computed / pairs,
                                         .needed = needed / pairs,
                                         .recall = needed > 0 ? found / needed : 1,
                                         .precision = computed > 0 ? found / computed : 1,
                                         .error = off / fmax(squares - sum * sum / values, 1e-30)};
    return WISP_OK;
}
