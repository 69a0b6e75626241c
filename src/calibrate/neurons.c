/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/neurons.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/statistics.h"
#include "convert/hot.h"

enum { SUBSAMPLE = 4096 /* tokens that are looked at */, CENTER_ROUNDS = 4 };

static const double hot_share = 0.9; /* of the needed (token, neuron) pairs */

/* Finds the factors, which even out the channels' ranges, half by x and half by the weights: then
 * quantising x and W_up loses least. Source: Xiao et al., SmoothQuant (2023). */
static void find_factors(struct layer *l) {
    for (size_t c = 0; c < l->hidden_size; c++) {
        float x = 0, w = 0;
        for (size_t t = 0; t < l->tokens; t++)
            x = fmaxf(x, fabsf(l->x[t * l->hidden_size + c]));
        for (size_t j = 0; j < l->intermediate_size; j++) {
            w = fmaxf(w, fabsf(l->up[j * l->hidden_size + c]));
            w = fmaxf(w, l->gate ? fabsf(l->gate[j * l->hidden_size + c]) : 0);
        }
        const float factor = x > 0 && w > 0 ? sqrtf(w / x) : 1;
        l->factors[c] = fminf(fmaxf(factor, 0x1p-20f), 0x1p20f);
    }
}

/* Finds the size below which `unneeded_fraction` of all contributions are, for activations a [n,
 * intermediate_size]. */
static wisp_status find_limit(const struct layer *l, const float *a, size_t n,
                              struct arena *scratch, float *limit, wisp_error *error) {
    const size_t count = n * l->intermediate_size, stride = neurons_sorting_stride(count);
    float *sizes;
    size_t used = 0;
    ARENA_TAKE(scratch, sizes, count / stride + 1, error);
    for (size_t i = 0; i < count; i += stride) {
        const size_t j = i % l->intermediate_size;
        sizes[used++] = fabsf(a[i] - l->center[j]) * l->length[j];
    }
    *limit = quantile_below(sizes, used, unneeded_fraction);
    return WISP_OK;
}

/* Finds the centers. A neuron's center is the mean of its activations if its contribution about
 * the center is small, that is where it will be skipped. Starting from the mean of all of them, a
 * few rounds find it. */
static wisp_status find_centers(struct layer *l, const float *a, size_t n, struct arena *scratch,
                                wisp_error *error) {
    const size_t width = l->intermediate_size;
    float limit = INFINITY;
    double *sums, *counts;
    ARENA_TAKE(scratch, sums, width, error);
    ARENA_TAKE(scratch, counts, width, error);
    for (int round = 0; round < CENTER_ROUNDS; round++) {
        if (round > 0)
            TRY(find_limit(l, a, n, scratch, &limit, error));
        memset(sums, 0, width * sizeof *sums);
        memset(counts, 0, width * sizeof *counts);
        for (size_t i = 0; i < n * width; i++) {
            const size_t j = i % width;
            const bool is_small = round == 0 || fabsf(a[i] - l->center[j]) * l->length[j] <= limit;
            sums[j] += is_small ? (double)a[i] : 0;
            counts[j] += is_small;
        }
        for (size_t j = 0; j < width; j++)
            l->center[j] = counts[j] > 0 ? (float)(sums[j] / counts[j]) : l->center[j];
    }
    return WISP_OK;
}

/* Permutes the rows of w [n, k]: row i becomes the former row order[i]. `copy` has room for w. */
static void permute_rows(float *w, size_t n, size_t k, const int32_t *order, float *copy) {
    memcpy(copy, w, n * k * sizeof *w);
    for (size_t i = 0; i < n; i++)
        memcpy(w + i * k, copy + (size_t)order[i] * k, k * sizeof *w);
}

wisp_status layer_study_neurons(struct layer *l, struct arena *scratch, wisp_error *error) {
    const size_t hidden_size = l->hidden_size, width = l->intermediate_size;
    const size_t n = smaller(l->tokens, SUBSAMPLE);
    float *x, *a, *copy;
    ARENA_TAKE(l->arena, l->order, width, error);
    ARENA_TAKE(l->arena, l->center, width, error);
    ARENA_TAKE(l->arena, l->length, width, error);
    ARENA_TAKE(l->arena, l->factors, hidden_size, error);
    ARENA_TAKE(l->arena, l->frequency, width, error);
    ARENA_TAKE(l->arena, l->magnitude, width, error);
    ARENA_TAKE(scratch, x, n * hidden_size, error);
    ARENA_TAKE(scratch, a, n * width, error);
    ARENA_TAKE(scratch, copy, width * hidden_size, error);

    find_factors(l);
    for (size_t j = 0; j < width; j++) {
        double squares = 0;
        for (size_t c = 0; c < hidden_size; c++)
            squares += (double)l->down[c * width + j] * (double)l->down[c * width + j];
        l->length[j] = (float)sqrt(squares);
    }

    /* Activations of n tokens that are evenly spread over all. */
    for (size_t i = 0; i < n; i++)
        memcpy(x + i * hidden_size, l->x + i * l->tokens / n * hidden_size,
               hidden_size * sizeof *x);
    TRY(layer_activations(l, 0, width, x, n, a, error));
    if (l->activation == ACTIVATION_GELU) /* what is gated is small about 0, as with ReLU */
        TRY(find_centers(l, a, n, scratch, error));
    float limit = 0;
    if (!activation_has_zeros(l->activation))
        TRY(find_limit(l, a, n, scratch, &limit, error));
    for (size_t i = 0; i < n * width; i++) {
        const size_t j = i % width;
        const float size = fabsf(a[i] - l->center[j]) * l->length[j];
        l->frequency[j] += size > limit ? 1 / (float)n : 0;
        l->magnitude[j] += size / (float)n;
    }

    TRY(neurons_order(l->frequency, l->magnitude, width, scratch, l->order, error));
    for (size_t i = 0; i < width && l->in_order; i++)
        l->order[i] = (int32_t)i;
    l->hot = hot_for_share(l->frequency, l->order, width, hot_share);
    permute_rows(l->up, width, hidden_size, l->order, copy);
    permute_rows(l->up_bias, width, 1, l->order, copy);
    if (l->gate)
        permute_rows(l->gate, width, hidden_size, l->order, copy);
    for (size_t c = 0; c < hidden_size; c++)
        permute_rows(l->down + c * width, width, 1, l->order, copy);
    permute_rows(l->center, width, 1, l->order, copy);
    permute_rows(l->length, width, 1, l->order, copy);
    return WISP_OK;
}

/* ---- order ---------------------------------------------------------------------------------- */

struct usage {
    float frequency, magnitude;
    int32_t neuron;
};

static int compare_usage(const void *a, const void *b) {
    const struct usage *x = a, *y = b;
    if (x->frequency > y->frequency || x->frequency < y->frequency)
        return x->frequency > y->frequency ? -1 : 1;
    if (x->magnitude > y->magnitude || x->magnitude < y->magnitude)
        return x->magnitude > y->magnitude ? -1 : 1;
    return (x->neuron > y->neuron) - (x->neuron < y->neuron);
}

wisp_status neurons_order(const float *frequency, const float *magnitude, size_t n,
                          struct arena *scratch, int32_t *order, wisp_error *error) {
    struct usage *usage;
    ARENA_TAKE(scratch, usage, n, error);
    for (size_t i = 0; i < n; i++)
        usage[i] = (struct usage){frequency[i], magnitude[i], (int32_t)i};
    qsort(usage, n, sizeof *usage, compare_usage);
    for (size_t i = 0; i < n; i++)
        order[i] = usage[i].neuron;
    return WISP_OK;
}
