/* SPDX-License-Identifier: Apache-2.0
 * Checks that gemm_f16 and gemm_bf16 give the bits of gemm_f32 with the same weights. */
#include <string.h>

#include "base/half.h"
#include "kernel_case.h"

/* Fills weights with any finite numbers that 16 bits hold, subnormal ones included. */
static void fill_halves(uint16_t *stored, float *w, size_t n, bool bfloats) {
    for (size_t i = 0; i < n; i++) {
        do
            stored[i] = (uint16_t)rng_below(&kernel_rng, 0x10000);
        while ((stored[i] & (bfloats ? 0x7000 : 0x7c00)) == (bfloats ? 0x7000 : 0x7c00));
        w[i] = bfloats ? float_of_bfloat(stored[i]) : float_of_half(stored[i]);
    }
}

static void check_set(const struct kernels *set, struct product *p, const uint16_t *stored) {
    const struct where where = {
        p->bfloats ? GEMM_BF16 : GEMM_F16, set, p->m, p->n, p->k, FILL_UNIFORM};
    float *want = allocate(p->m * p->n * sizeof *want);
    p->stored = NULL;
    const struct gemm_call floats = place_gemm(set, p);
    call_gemm(set, &floats);
    for (size_t i = 0; i < p->m; i++)
        memcpy(want + i * p->n, floats.y + i * floats.ldy, p->n * sizeof *want);
    p->stored = stored;
    const struct gemm_call call = place_gemm(set, p);
    call_gemm(set, &call);
    expect_intact(&where);
    expect_padding(&where, call.y, p->m, p->n, call.ldy);
    for (size_t i = 0; i < p->m; i++)
        expect_same_bits(&where, "not the bits of gemm_f32", call.y + i * call.ldy, want + i * p->n,
                         p->n * sizeof *want);
    free(want);
}

void test_gemm_f16(void **state) {
    (void)state;
    for (int i = 0; i < 300; i++) {
        const size_t m = rng_range(&kernel_rng, 1, 30), n = rng_range(&kernel_rng, 1, 70);
        const size_t k = rng_range(&kernel_rng, 1, 100);
        float *x = new_floats(m * k, FILL_UNIFORM), *bias = new_floats(n, FILL_UNIFORM);
        float *w = allocate(n * k * sizeof *w);
        uint16_t *stored = allocate(n * k * sizeof *stored);
        struct product product = {.m = m, .n = n, .k = k, .x = x, .w = w, .bias = bias};
        product.bfloats = i % 2;
        fill_halves(stored, w, n * k, product.bfloats);
        for (size_t s = 0; kernels_at(s); s++)
            if (has_gemm(kernels_at(s), product.bfloats ? GEMM_BF16 : GEMM_F16))
                check_set(kernels_at(s), &product, stored);
        free(x);
        free(bias);
        free(w);
        free(stored);
    }
}
