/* SPDX-License-Identifier: Apache-2.0
 * Calls one matrix product of one kernel set a number of times:
 *
 *     calls SET gemm_f32|gemm_int8 M N K CALLS
 *
 * neon.py subtracts the instructions of 1 call from those of 2 to get those of a call. All values
 * are 0, because no product branches on values and zeros are quick to set up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

struct product {
    size_t m, n, k;
    float *x, *bias, *y;
    void *w;
    struct quantised_rows rows; /* inputs of gemm_int8 */
};

static void *zeros(size_t bytes) {
    void *block = calloc(bytes, 1);
    if (!block) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(EXIT_FAILURE);
    }
    return block;
}

static void add_f32(const struct kernels *set, struct product *p) {
    p->x = zeros(p->m * p->k * sizeof(float));
    p->w = zeros(packed_f32_floats(p->n, p->k, set->f32_panel) * sizeof(float));
}

static void add_int8(const struct kernels *set, struct product *p) {
    const size_t floats = p->m * int8_blocks(p->k) * sizeof(float);
    p->rows = (struct quantised_rows){
        .q = zeros(p->m * int8_row_bytes(p->k)), .scale = zeros(floats), .zero = zeros(floats)};
    p->w = zeros(packed_int8_bytes(p->n, p->k, set->int8_panel));
}

static void call(const struct kernels *set, const struct product *p) {
    if (p->rows.q)
        set->gemm_int8(p->rows, p->w, p->bias, p->y, p->n, p->m, p->n, p->k);
    else
        set->gemm_f32(p->x, p->k, p->w, p->bias, p->y, p->n, p->m, p->n, p->k);
}

static int usage(void) {
    fprintf(stderr, "usage: calls SET gemm_f32|gemm_int8 M N K CALLS, SET one that runs here\n");
    return EXIT_FAILURE;
}

int main(int argc, char **argv) {
    const struct kernels *set = argc == 7 ? kernels_find(argv[1]) : NULL;
    if (!set)
        return usage();
    size_t sizes[4];
    for (int i = 0; i < 4; i++)
        sizes[i] = strtoul(argv[3 + i], NULL, 10);
    struct product p = {.m = sizes[0], .n = sizes[1], .k = sizes[2]};
    p.bias = zeros(p.n * sizeof(float));
    p.y = zeros(p.m * p.n * sizeof(float));
    if (strcmp(argv[2], "gemm_int8") == 0)
        add_int8(set, &p);
    else if (strcmp(argv[2], "gemm_f32") == 0)
        add_f32(set, &p);
    else
        return usage();
    for (size_t calls = sizes[3]; calls > 0; calls--)
        call(set, &p);
    return EXIT_SUCCESS;
}
