/* SPDX-License-Identifier: Apache-2.0
 * Checks of the sparse kernels with numbers whose results are known: packed weights, and sums of
 * the largest bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_case.h"
#include "kernels/sparse.h"
#include "kernels/weights.h"

static void expect_up(const struct kernels *set, size_t k, uint8_t q, int8_t weight) {
    enum { LENGTH = SPARSE_SLACK, TOKENS = SPARSE_TOKENS + 1 };
    uint8_t *rows = memset(allocate(TOKENS * k), q, TOKENS * k);
    int8_t *w = memset(allocate(k), (unsigned char)weight, k);
    int32_t sums[TOKENS * LENGTH];
    uint16_t lists[TOKENS * LENGTH];
    struct neuron_tile tile = {.q = rows, .k = k, .length = LENGTH, .sums = sums, .lists = lists};
    set->sparse->up(&tile, w, NULL, 0, (UINT64_C(1) << SPARSE_TOKENS) - 1);
    for (size_t i = 0; i < SPARSE_TOKENS; i++)
        assert_int_equal(sums[i * LENGTH],
                         (set->signed_activations ? (int8_t)q : q) * weight * (int)k);
    free(rows);
    free(w);
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

/* Adds the largest bytes, whose sums 16 bits would not hold. */
void test_sparse_never_saturates(void **state) {
    static const int8_t most[] = {-127, 127};
    (void)state;
    for (size_t s = 0; kernels_at(s); s++)
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) {
                const struct kernels *set = kernels_at(s);
                const uint8_t unsigned_end = i ? 255 : 0;
                const int offset = set->sparse->signed_columns ? 0 : 128;
                expect_up(set, 1024, unsigned_end ^ (set->signed_activations ? 0x80 : 0), most[j]);
                expect_down(set, 512, (uint8_t)(most[i] + offset), most[j]);
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
        pack_neuron_row(rows[j], 3, packed, &neuron);
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
