/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/grouping.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sparse.h"
#include "sparse/matrix.h"

struct grouping {
    size_t n;
    const double *together; /* [n, n]: sums of products of contributions */
    double *length;         /* [n]: roots of its diagonal */
    bool *taken;
    double *score; /* [n] */
};

/* The neuron not taken with the largest value, the first of equals. */
static size_t best_left(const struct grouping *g, const double *values) {
    size_t best = g->n;
    for (size_t i = 0; i < g->n; i++)
        if (!g->taken[i] && (best == g->n || values[i] > values[best]))
            best = i;
    return best;
}

static void take(struct grouping *g, size_t neuron) {
    const double *row = g->together + neuron * g->n;
    g->taken[neuron] = true;
    for (size_t i = 0; i < g->n; i++) {
        const double lengths = g->length[neuron] * g->length[i];
        g->score[i] += lengths > 0 ? row[i] / lengths : 0;
    }
}

static void group(struct grouping *g, int32_t *order) {
    for (size_t i = 0; i < g->n; i++)
        g->length[i] = sqrt(g->together[i * g->n + i]);
    for (size_t i = 0; i < g->n; i++) {
        if (i % QUAD == 0)
            memset(g->score, 0, g->n * sizeof *g->score);
        const size_t neuron = best_left(g, i % QUAD == 0 ? g->length : g->score);
        take(g, neuron);
        order[i] = (int32_t)neuron;
    }
}

wisp_status group_neurons(const struct kernels *kernels, const float *contributions, size_t tokens,
                          size_t neurons, int32_t *order, wisp_error *error) {
    double *together = malloc(neurons * neurons * sizeof *together);
    struct grouping g = {.n = neurons,
                         .together = together,
                         .length = malloc(neurons * sizeof *g.length),
                         .taken = calloc(neurons, sizeof *g.taken),
                         .score = malloc(neurons * sizeof *g.score)};
    const bool good =
        together && g.length && g.taken && g.score &&
        matrix_gram(kernels, contributions, contributions, together, neurons, neurons, tokens);
    if (good)
        group(&g, order);
    free(together);
    free(g.length);
    free(g.taken);
    free(g.score);
    return good ? WISP_OK : fail_memory(error, neurons * neurons * sizeof *together);
}
