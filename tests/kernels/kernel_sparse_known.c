/* SPDX-License-Identifier: Apache-2.0
 * Checks of the sparse kernels with numbers whose results are known: packed weights, and sums of
 * the largest bytes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_case.h"
#include "kernels/sparse.h"
#include "kernels/weights.h"

/* Multiplies the byte q by rows whose weights are w[i], for each place i of a group of four. */
static void expect_up(const struct kernels *set, size_t k, uint8_t q, const int8_t w[4]) {
    enum { N = 5 };
    static const uint16_t list[N] = {0};
    uint8_t *bytes = memset(allocate(k), q, k);
    int8_t *row = allocate(k);
    int32_t sums[N], wanted = 0;
    for (size_t c = 0; c < k; c++) {
        const size_t lanes = set->sparse->lanes;
        row[c] = w[c % 2 + c % (8 * lanes) / (4 * lanes) * 2];
        wanted += (set->signed_activations ? (int8_t)q : q) * row[c];
    }
    set->sparse->up(bytes, row, list, N, k, sums);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(sums[i], wanted);
    free(bytes);
    free(row);
}

static void expect_down(const struct kernels *set, size_t size, uint8_t weight, int8_t byte) {
    enum { N = 1536 };
    uint8_t *columns = memset(allocate(N * size), weight, N * size);
    int32_t *sums = allocate(size * sizeof *sums);
    uint16_t list[N];
    int8_t bytes[N];
    memset(bytes, (unsigned char)byte, sizeof bytes);
    for (size_t i = 0; i < N; i++)
        list[i] = (uint16_t)i;
    set->sparse->down(bytes, columns, list, N, size, sums);
    for (size_t c = 0; c < size; c++)
        assert_int_equal(sums[c],
                         (set->sparse->signed_columns ? (int8_t)weight : weight) * byte * N);
    free(columns);
    free(sums);
}

/* Adds the largest bytes, whose sums 16 bits would not hold, or hardly. */
void test_sparse_never_saturates(void **state) {
    static const int8_t most[] = {-127, 127};
    static const int8_t all[][4] = {{-127, -127, -127, -127}, {127, 127, 127, 127}};
    static const int8_t narrow[][4] = {
        {-127, -54, 0, 0}, {127, 54, -127, -54}, {45, 45, 46, 45}, {-45, -45, -45, -46}};
    (void)state;
    for (size_t s = 0; kernels_at(s); s++) {
        const struct kernels *set = kernels_at(s);
        const uint8_t sign = set->signed_activations ? 0x80 : 0;
        const int offset = set->sparse->signed_columns ? 0 : 128;
        for (int i = 0; set->sparse->narrow && i < 4; i++)
            expect_up(set, 1024, NARROW_STEPS + 1, narrow[i]);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) {
                if (!set->sparse->narrow)
                    expect_up(set, 1024, (i ? 255 : 0) ^ sign, all[j]);
                expect_down(set, 512, (uint8_t)(most[i] + offset), most[j]);
            }
    }
}

/* Reads packed weights back. */
void test_pack_neurons(void **state) {
    static const float rows[][3] = {{1, -2, 0.5f}, {0, 0, 0}, {127, 1, -127}, {-1, 0, 0}};
    static const int8_t wanted[][3] = {{64, -127, 32}, {0, 0, 0}, {127, 1, -127}, {-127, 0, 0}};
    static const float scales[] = {2.0f / 127, 0, 1, 1.0f / 127}, sums[] = {-31, 0, 1, -127};
    (void)state;
    for (size_t j = 0; j < 4; j++) {
        struct neuron neuron;
        int8_t packed[SPARSE_CHUNK];
        pack_neuron_row(&sparse_scalar, rows[j], 3, packed, &neuron);
        for (size_t c = 0; c < SPARSE_CHUNK; c++)
            assert_int_equal(packed[c], c < 3 ? wanted[j][c] : 0);
        assert_true(neuron.scale == scales[j] && neuron.sum == sums[j]);
    }
    /* The order of the bytes of columns is a permutation within each chunk. */
    for (size_t lanes = 4; lanes <= 16; lanes *= 2) {
        enum { BYTES = 3 * SPARSE_CHUNK };
        bool taken[BYTES] = {false};
        for (size_t c = 0; c < BYTES; c++) {
            const size_t at = column_place(c, lanes);
            assert_true(at / SPARSE_CHUNK == c / SPARSE_CHUNK && !taken[at]);
            taken[at] = true;
        }
    }
}

#if !defined(__wasm__) || defined(__wasm_relaxed_simd__)
#define NARROW_ROWS

/* Packs a row for a set of so many lanes and checks it: weights of one sign in a group of four add
 * up to at most NARROW_WEIGHTS, and each weight is the nearest multiple of the scale, which is no
 * larger than it must be. */
static void expect_narrow_row(const float *row, size_t k, enum fill fill, size_t lanes) {
    const struct where where = {SPARSE, kernels_at(0), 0, 0, k, fill};
    const struct sparse_kernels set = {.lanes = lanes, .narrow = 1};
    const size_t bytes = sparse_row_bytes(k), vector = 4 * lanes;
    int8_t *packed = memset(place_anywhere(SLOT_W, bytes), 0x55, bytes);
    struct neuron neuron;
    int32_t sum = 0, largest_group = 0, largest = 0;
    pack_neuron_row(&set, row, k, packed, &neuron);
    expect_intact(&where);
    for (size_t c = 0; c < bytes; c += 2) {
        int32_t above = 0, below = 0;
        for (size_t i = 0; c % (2 * vector) < vector && i < 4; i++) {
            const int8_t w = packed[c + i % 2 + i / 2 * vector];
            above += w > 0 ? w : 0;
            below -= w < 0 ? w : 0;
        }
        largest_group = above > largest_group ? above : largest_group;
        largest_group = below > largest_group ? below : largest_group;
    }
    for (size_t c = 0; c < bytes; c++) {
        const int8_t w = packed[c];
        sum += w;
        largest = abs(w) > largest ? abs(w) : largest;
    }
    for (size_t c = 0; c < k; c++) {
        const double w = packed[row_place(c, lanes)], scale = (double)neuron.scale;
        if (scale > 0x1p-120)
            assert_true(fabs((double)row[c] / scale - w) <= 0.5001);
    }
    assert_true(neuron.sum == (float)sum);
    assert_true(largest_group <= NARROW_WEIGHTS);
    assert_true(largest == 0 || largest == 127 || largest_group >= NARROW_WEIGHTS - 4);
}

#endif

/* simd128 has no narrow sparse layers. */
void test_pack_narrow_rows(void **state) {
    (void)state;
#ifdef NARROW_ROWS
    for (int i = 0; i < 600; i++) {
        const size_t k = rng_range(&kernel_rng, 1, 300);
        const enum fill fill = (enum fill)(i % FILL_FINITE);
        float *row = new_floats(k, fill);
        for (size_t lanes = 4; lanes <= 8; lanes *= 2)
            expect_narrow_row(row, k, fill, lanes);
        free(row);
    }
#endif
}
