/* SPDX-License-Identifier: Apache-2.0
 * Products of bfloats by AVX512-BF16, whose dot product adds two products to a float. It is a file
 * of its own because CPUs run the AVX-512 set that do not have it. */
#include "kernels/vector_avx512.h"

#include "kernels/bf16.h"
#include "kernels/x86_64/bf16_rows.h"

enum { ROWS = 12, VECTORS = BF16_PANEL / VF_LANES, STEP_VECTORS = BF16_STEP / VF_LANES };

/* Rounds two vectors to BF16_STEP bfloats. */
ALWAYS_INLINE void store_rounded(uint16_t *out, vf low, vf high) {
    _mm512_storeu_si512(out, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

void bf16_round_avx512(const float *x, size_t m, size_t k, uint16_t *out) {
    for (size_t i = 0; i < m; i++, x += k) {
        size_t c = 0;
        for (; c + BF16_STEP <= k; c += BF16_STEP, out += BF16_STEP)
            store_rounded(out, vf_load(x + c), vf_load(x + c + VF_LANES));
        if (c < k) {
            const size_t left = k - c, high = left > VF_LANES ? left - VF_LANES : 0;
            store_rounded(out, vf_load_n(x + c, high ? VF_LANES : left),
                          high ? vf_load_n(x + c + VF_LANES, high) : vf_set1(0));
            out += BF16_STEP;
        }
    }
}

struct tile {
    const uint16_t *x; /* the tile's first row */
    const uint16_t *w; /* the panel */
    const float *bias;
    float *y;
    size_t ldx, ldy;
    size_t columns; /* outputs, at most BF16_PANEL */
};

/* Returns the number of outputs in vector v, which may be 0. */
ALWAYS_INLINE size_t lanes_of(int v, size_t columns) {
    const size_t before = (size_t)v * VF_LANES;
    return columns < before ? 0 : columns - before < VF_LANES ? columns - before : VF_LANES;
}

ALWAYS_INLINE __m512bh load_pair(const uint16_t *x) {
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

ALWAYS_INLINE void compute_tile(const struct tile *t, const int rows) {
    vf sum[ROWS * VECTORS], bias[VECTORS];
    UNROLL
    for (int v = 0; v < VECTORS; v++)
        bias[v] = vf_load_n(t->bias + v * VF_LANES, lanes_of(v, t->columns));
    UNROLL
    for (int i = 0; i < rows * VECTORS; i++)
        sum[i] = bias[i % VECTORS];
    const uint16_t *w = t->w;
    for (size_t c = 0; c < t->ldx; c += 2, w += 2 * BF16_PANEL) {
        __m512bh weights[VECTORS], x = (__m512bh)_mm512_setzero_si512();
        if (rows <= 2)
            prefetch_stream((const unsigned char *)w, 2 * BF16_PANEL * sizeof *w);
        UNROLL
        for (int v = 0; v < VECTORS; v++)
            weights[v] = (__m512bh)_mm512_loadu_si512(w + 2 * v * VF_LANES);
        UNROLL
        for (int i = 0; i < rows * VECTORS; i++) {
            if (i % VECTORS == 0)
                x = load_pair(t->x + (size_t)(i / VECTORS) * t->ldx + c);
            sum[i] = _mm512_dpbf16_ps(sum[i], x, weights[i % VECTORS]);
        }
    }
    UNROLL
    for (int i = 0; i < rows * VECTORS; i++)
        vf_store_n(t->y + (size_t)(i / VECTORS) * t->ldy + i % VECTORS * VF_LANES, sum[i],
                   lanes_of(i % VECTORS, t->columns));
}

/* Multiplies all m rows by a panel. */
static void compute_strip(struct tile t, size_t m) {
    while (m > 0) {
        const size_t step = m >= ROWS ? ROWS : m >= 4 ? 4 : m >= 2 ? 2 : 1;
        if (step == ROWS)
            compute_tile(&t, ROWS);
        else if (step == 4)
            compute_tile(&t, 4);
        else if (step == 2)
            compute_tile(&t, 2);
        else
            compute_tile(&t, 1);
        t.x += step * t.ldx;
        t.y += step * t.ldy;
        m -= step;
    }
}

static void gemm(const uint16_t *x, const uint16_t *w, const float *bias, float *y, size_t ldy,
                 size_t m, size_t n, size_t k) {
    struct tile t = {.x = x, .ldx = bf16_row(k), .ldy = ldy};
    for (size_t j = 0; j < n; j += BF16_PANEL) {
        t.w = w + j * t.ldx;
        t.bias = bias + j;
        t.y = y + j;
        t.columns = n - j < BF16_PANEL ? n - j : BF16_PANEL;
        compute_strip(t, m);
    }
}

const struct bf16_kernels bf16_avx512 = {
    .runs = cpu_has_avx512_bf16, .round = bf16_round_avx512, .gemm = gemm};
