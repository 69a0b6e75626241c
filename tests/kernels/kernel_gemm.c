/* SPDX-License-Identifier: Apache-2.0
 * Checks that both matrix products, f32 and int8, must pass. */
#include <string.h>

#include "kernel_case.h"

struct exact new_exact(size_t m, size_t n) {
    return (struct exact){.y = allocate(m * n * sizeof(double)),
                          .tolerance = allocate(m * n * sizeof(double))};
}

void free_exact(struct exact exact) {
    free(exact.y);
    free(exact.tolerance);
}

struct quantised_rows new_quantised(size_t m, size_t k, bool narrow) {
    const size_t floats = m * blocks_of(k, narrow) * sizeof(float);
    return (struct quantised_rows){
        .q = allocate(m * int8_row_bytes(k)), .scale = allocate(floats), .zero = allocate(floats)};
}

void free_quantised(struct quantised_rows rows) {
    free(rows.q);
    free(rows.scale);
    free(rows.zero);
}

/* ---- other batches -------------------------------------------------------------------------- */

static void copy_f32_row(const struct product *from, size_t row, float *to, size_t i) {
    memcpy(to + i * from->k, from->x + row * from->k, from->k * sizeof *to);
}

static void copy_int8_row(const struct product *from, size_t row, struct quantised_rows to,
                          size_t i) {
    const size_t bytes = int8_row_bytes(from->k), blocks = blocks_of(from->k, from->narrow);
    memcpy(to.q + i * bytes, from->rows.q + row * bytes, bytes);
    memcpy(to.scale + i * blocks, from->rows.scale + row * blocks, blocks * sizeof(float));
    memcpy(to.zero + i * blocks, from->rows.zero + row * blocks, blocks * sizeof(float));
}

/* Computes m of the rows again, in any order and number. Each must have the bits that it had in y.
 */
static void check_other_batch(const struct where *where, const struct product *p, const float *y,
                              size_t m) {
    float *x = allocate(m * p->k * sizeof *x);
    const struct quantised_rows rows = new_quantised(m, p->k, p->narrow);
    size_t *from = allocate(m * sizeof *from);
    struct product some = *p;
    some.m = m;
    for (size_t i = 0; i < m; i++) {
        from[i] = rng_below(&kernel_rng, p->m);
        if (p->rows.q)
            copy_int8_row(p, from[i], some.rows = rows, i);
        else
            copy_f32_row(p, from[i], x, i);
    }
    some.x = x;
    const struct gemm_call call = place_gemm(where->set, &some);
    call_gemm(where->set, &call);
    for (size_t i = 0; i < m; i++)
        expect_same_bits(where, "another batch gives a row other bits", call.y + i * call.ldy,
                         y + from[i] * p->n, p->n * sizeof *y);
    expect_intact(where);
    free(x);
    free_quantised(rows);
    free(from);
}

/* ---- one set -------------------------------------------------------------------------------- */

/* Returns the result, dense: [m, n]. The caller frees it. */
static float *check_set(const struct where *where, const struct product *p,
                        const struct exact *exact) {
    const struct gemm_call call = place_gemm(where->set, p);
    call_gemm(where->set, &call);
    expect_intact(where);
    expect_padding(where, call.y, p->m, p->n, call.ldy);
    float *y = allocate(p->m * p->n * sizeof *y);
    for (size_t i = 0; i < p->m; i++) {
        memcpy(y + i * p->n, call.y + i * call.ldy, p->n * sizeof *y);
        for (size_t j = 0; j < p->n; j++)
            expect_near(where, i, j, y[i * p->n + j], exact->y[i * p->n + j],
                        exact->tolerance[i * p->n + j]);
    }
    check_other_batch(where, p, y, 1);
    check_other_batch(where, p, y, rng_range(&kernel_rng, 2, 25));
    return y;
}

/* ---- sets that differ in speed alone -------------------------------------------------------- */

/* Returns whether two neighbouring sets compute each output by the same operations in the same
 * order. */
static bool same_operations(const struct kernels *first, const struct kernels *second) {
    static const char *const twins[][2] = {{"amx", "avx512"}, {"neon-i8mm", "neon"}};
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        if (strcmp(first->name, twins[i][0]) == 0 && strcmp(second->name, twins[i][1]) == 0)
            return true;
    return false;
}

void check_product(const struct product *p, const struct exact *exact, enum fill kind) {
    struct where where = {product_kernel(p), NULL, p->m, p->n, p->k, kind};
    float *before = NULL;
    for (size_t s = 0; kernels_at(s); s++) {
        where.set = kernels_at(s);
        if (!has_gemm(where.set, where.kernel))
            continue;
        float *y = check_set(&where, p, exact);
        if (before && same_operations(kernels_at(s - 1), where.set))
            expect_same_bits(&where, "not the bits of the set before it", y, before,
                             p->m * p->n * sizeof *y);
        free(before);
        before = y;
    }
    free(before);
}
