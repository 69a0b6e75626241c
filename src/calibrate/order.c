/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/matrix.h"

enum { BAND = 64 }; /* neurons whose frequencies count as equal */

static const double hot_share = 0.9; /* of the needed activations */

struct rank {
    float frequency, magnitude;
    int32_t neuron;
};

static int by_use(const void *a, const void *b) {
    const struct rank *x = a, *y = b;
    if (x->frequency > y->frequency || x->frequency < y->frequency)
        return x->frequency > y->frequency ? -1 : 1;
    if (x->magnitude > y->magnitude || x->magnitude < y->magnitude)
        return x->magnitude > y->magnitude ? -1 : 1;
    return (x->neuron > y->neuron) - (x->neuron < y->neuron);
}

static bool sort_by_use(const struct neurons *neurons, int32_t *order) {
    struct rank *ranks = malloc(neurons->n * sizeof *ranks);
    if (!ranks)
        return false;
    for (size_t i = 0; i < neurons->n; i++)
        ranks[i] = (struct rank){neurons->frequency[i], neurons->magnitude[i], (int32_t)i};
    qsort(ranks, neurons->n, sizeof *ranks, by_use);
    for (size_t i = 0; i < neurons->n; i++)
        order[i] = ranks[i].neuron;
    free(ranks);
    return true;
}

/* What one band is laid out in. */
struct band {
    float *contributions; /* [tokens, BAND] */
    double *together;     /* [BAND, BAND]: sums of their products */
};

static double cosine_in(const double *together, size_t n, size_t i, size_t j) {
    const double lengths = together[i * n + i] * together[j * n + j];
    return lengths > 0 ? together[i * n + j] / sqrt(lengths) : 0;
}

/* order [n] is put in the order of the chain from its first neuron on. */
static void chain(const double *together, size_t n, int32_t *order) {
    size_t places[BAND];
    int32_t sorted[BAND] = {0};
    for (size_t i = 0; i < n; i++)
        places[i] = i;
    for (size_t i = 1; i < n; i++) {
        size_t best = i;
        for (size_t j = i + 1; j < n; j++)
            if (cosine_in(together, n, places[i - 1], places[j]) >
                cosine_in(together, n, places[i - 1], places[best]))
                best = j;
        const size_t next = places[best];
        memmove(places + i + 1, places + i, (best - i) * sizeof *places);
        places[i] = next;
    }
    for (size_t i = 0; i < n; i++)
        sorted[i] = order[places[i]];
    memcpy(order, sorted, n * sizeof *order);
}

static bool chain_bands(const struct kernels *kernels, const struct neurons *neurons,
                        const struct band *band, int32_t *order) {
    for (size_t first = 0; first < neurons->n; first += BAND) {
        const size_t left = neurons->n - first, n = left < BAND ? left : BAND;
        for (size_t t = 0; t < neurons->tokens; t++)
            for (size_t i = 0; i < n; i++)
                band->contributions[t * n + i] =
                    neurons->contributions[t * neurons->n + (size_t)order[first + i]];
        if (!matrix_gram(kernels, band->contributions, band->contributions, band->together, n, n,
                         neurons->tokens))
            return false;
        chain(band->together, n, order + first);
    }
    return true;
}

wisp_status order_neurons(const struct kernels *kernels, const struct neurons *neurons,
                          int32_t *order, wisp_error *error) {
    struct band band = {.contributions =
                            malloc(neurons->tokens * BAND * sizeof *band.contributions),
                        .together = malloc(BAND * BAND * sizeof *band.together)};
    const bool good = band.contributions && band.together && sort_by_use(neurons, order) &&
                      chain_bands(kernels, neurons, &band, order);
    free(band.contributions);
    free(band.together);
    return good ? WISP_OK : fail_memory(error, neurons->tokens * BAND * sizeof(float));
}

size_t hot_neurons(const float *frequency, const int32_t *order, size_t n) {
    double all = 0, sum = 0;
    size_t hot = 0;
    for (size_t i = 0; i < n; i++)
        all += (double)frequency[i];
    while (hot < n && sum < hot_share * all)
        sum += (double)frequency[order[hot++]];
    return hot;
}
