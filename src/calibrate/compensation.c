/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/compensation.h"

#include "base/checked.h"
#include "calibrate/matrix.h"

static const double ridge = 1e-4; /* of the mean square of what is regressed on */

/* Computes the sum of squared errors on held-out tokens, in units of fit->variance. */
static wisp_status held_out_loss(const struct layer *l, const struct layer_fit *fit,
                                 const float *thresholds, const struct loss_work *w, float *errors,
                                 double *loss, wisp_error *error) {
    *loss = 0;
    for (size_t first = 0; first < l->held_out_tokens; first += LOSS_TOKENS) {
        const size_t n = smaller(l->held_out_tokens - first, LOSS_TOKENS);
        const size_t at = first * l->hidden_size;
        TRY(layer_errors(l, fit, thresholds, l->held_out + at, l->predictor_held_out + at, n, w,
                         errors, error));
        for (size_t i = 0; i < n * l->hidden_size; i++)
            *loss += (double)errors[i] * (double)errors[i] / fit->variance;
    }
    return WISP_OK;
}

wisp_status compensation_fit(const struct layer *l, const float *thresholds, float price,
                             struct layer_fit *fit, struct arena *scratch, wisp_error *error) {
    const size_t n = fit->stored.rank + 1, hidden_size = l->hidden_size;
    double *hh, *he, *part; /* sums of products: h^T h [n, n], h^T losses [n, hidden_size] */
    double before, after, trace = 0;
    float *errors, *map;
    struct loss_work w;
    if (l->held_out_tokens == 0)
        return WISP_OK;
    TRY(loss_work_open(l, fit, scratch, &w, error));
    ARENA_TAKE(scratch, errors, LOSS_TOKENS * hidden_size, error);
    ARENA_TAKE(scratch, hh, n * n, error);
    ARENA_TAKE(scratch, he, n * hidden_size, error);
    ARENA_TAKE(scratch, part, n * larger(n, hidden_size), error);
    ARENA_TAKE(l->arena, map, n * hidden_size, error);

    TRY(held_out_loss(l, fit, thresholds, &w, errors, &before, error));
    for (size_t first = 0; first < l->tokens; first += LOSS_TOKENS) {
        const size_t rows = smaller(l->tokens - first, LOSS_TOKENS), at = first * hidden_size;
        TRY(layer_losses(l, fit, thresholds, l->x + at, l->predictor_x + at, rows, &w, errors,
                         error));
        TRY(matrix_gram(l->kernels, w.h, w.h, part, n, n, rows, error));
        for (size_t i = 0; i < n * n; i++)
            hh[i] += part[i];
        TRY(matrix_gram(l->kernels, w.h, errors, part, n, hidden_size, rows, error));
        for (size_t i = 0; i < n * hidden_size; i++)
            he[i] += part[i];
    }
    for (size_t i = 0; i < n; i++)
        trace += hh[i * n + i];
    for (size_t i = 0; i < n; i++)
        hh[i * n + i] += ridge * trace / (double)n + 1e-9;
    matrix_solve(hh, he, n, hidden_size);
    for (size_t i = 0; i < n * hidden_size; i++)
        map[i] = (float)he[i];

    fit->compensation = map;
    TRY(held_out_loss(l, fit, thresholds, &w, errors, &after, error));
    /* For each value of the output B takes `rank` products; a neuron takes one there, in its column
     * of W_down, and one for each value of x in its rows of W_up and W_gate. */
    const double neurons = (double)fit->stored.rank / (l->gate ? 3 : 2);
    if (!(before - after > (double)price * neurons * (double)l->held_out_tokens))
        fit->compensation = NULL;
    return WISP_OK;
}
