/* SPDX-License-Identifier: Apache-2.0
 * Measures the speed of sparse layers in each set. */
#include <stdio.h>

#include "kernel_bench.h"
#include "kernels/sparse.h"

enum { SPARSE_NEURONS = 128 };

/* Both halves of a sparse layer for SPARSE_TOKENS tokens, with neurons chosen by chance. As with
 * ReLU, contributions are positive, and most of them small. */
struct sparse_bench {
    const struct kernels *set;
    size_t neurons, chosen, k; /* `chosen` of each token */
    uint16_t *lists;           /* [SPARSE_TOKENS, chosen] */
    uint8_t *q, *columns;      /* of the tokens, of W_down */
    int8_t *rows, *bytes;      /* of W_up, of the activations */
    int32_t *sums;
};

/* Fills the list of each token. */
static void choose_neurons(struct sparse_bench *b) {
    for (size_t t = 0; t < SPARSE_TOKENS; t++)
        for (size_t i = 0, n = 0; i < b->neurons; i++)
            if (rng_below(&kernel_rng, b->neurons - i) < b->chosen - n)
                b->lists[t * b->chosen + n++] = (uint16_t)i;
}

/* Times the first half. All tokens take their part of SPARSE_NEURONS neurons before the next ones,
 * as in a layer. */
static void sparse_up(const struct sparse_bench *b) {
    size_t done[SPARSE_TOKENS] = {0};
    for (size_t end = SPARSE_NEURONS; end < b->neurons + SPARSE_NEURONS; end += SPARSE_NEURONS)
        for (size_t t = 0; t < SPARSE_TOKENS; t++) {
            const uint16_t *list = b->lists + t * b->chosen;
            const size_t first = done[t];
            while (done[t] < b->chosen && list[done[t]] < end)
                done[t]++;
            if (end < b->neurons)
                done[t] -= (done[t] - first) % UP_NEURONS;
            b->set->sparse->up(b->q + t * sparse_row_bytes(b->k), b->rows, list + first,
                               done[t] - first, b->k, b->sums);
        }
}

static void sparse_down(const struct sparse_bench *b) {
    for (size_t t = 0; t < SPARSE_TOKENS; t++)
        b->set->sparse->down(b->bytes + t * b->chosen, b->columns, b->lists + t * b->chosen,
                             b->chosen, b->k, b->sums);
}

void time_sparse(bool up, size_t neurons, size_t k, size_t percent) {
    const size_t weights = neurons * sparse_row_bytes(k);
    struct sparse_bench b = {.neurons = neurons,
                             .chosen = neurons * percent / 100 / DOWN_NEURONS * DOWN_NEURONS,
                             .k = k,
                             .q = random_bytes(SPARSE_TOKENS * sparse_row_bytes(k)),
                             .columns = random_bytes(weights),
                             .rows = random_bytes(weights),
                             .sums = allocate((neurons + sparse_row_bytes(k)) * sizeof *b.sums)};
    b.lists = allocate(SPARSE_TOKENS * b.chosen * sizeof *b.lists);
    b.bytes = allocate(SPARSE_TOKENS * b.chosen);
    for (size_t i = 0; i < SPARSE_TOKENS * b.chosen; i++)
        b.bytes[i] = (int8_t)fminf(127, 1 - 24 * logf(rng_between(&kernel_rng, 0.001f, 1)));
    choose_neurons(&b);
    printf("%-11s%3zu %% %4zu x %4zu   %s", up ? "sparse up" : "sparse down", percent, neurons, k,
           speed_unit("GMAC/s"));
    for (size_t s = 0; kernels_at(s); s++) {
        b.set = kernels_at(s);
        const struct timed t = {
            .set = b.set, .kernel = SPARSE, .half = up ? sparse_up : sparse_down, .sparse = &b};
        print_speed(&t, (double)(SPARSE_TOKENS * b.chosen * k) * 1e-9);
        fflush(stdout);
    }
    printf("\n");
    free(b.q);
    free(b.lists);
    free(b.columns);
    free(b.rows);
    free(b.bytes);
    free(b.sums);
}
