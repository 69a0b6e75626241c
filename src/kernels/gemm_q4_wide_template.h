/* SPDX-License-Identifier: Apache-2.0
 * The product with 4-bit weights for instruction sets that multiply 16-bit numbers: as
 * gemm_wide_template.h, which comes first, widens weights and activations. What is added up, in
 * which order, is said in gemm_q4_template.h. */

enum { Q4_PANEL = VF_LANES };

/* One block of a vector of outputs. x: [INT8_ROWS, INT8_BLOCK], of which `rows` are wanted: the
 * others cost less than code without them. */
static void q4_block(const struct int8_tile *t, size_t b, const unsigned char *block, size_t length,
                     const int16_t *x, size_t rows) {
    const float *sums = (const float *)(const void *)block;
    const unsigned char *w = block + Q4_PANEL * sizeof(float);
    vf total[INT8_ROWS];
    UNROLL
    for (int i = 0; i < INT8_ROWS; i++)
        total[i] = vf_set1(0);
    for (size_t c = 0; c < length; c += Q4_BLOCK, x += Q4_BLOCK / 2) {
        const vf scale = vf_load_halves(w);
        vi sum[2 * INT8_ROWS];
        UNROLL
        for (int i = 0; i < 2 * INT8_ROWS; i++)
            sum[i] = vi_set1(0);
        w += Q4_PANEL * 2;
        UNROLL_NOT
        for (int g = 0; g < Q4_BLOCK / 8; g++, x += 4, w += Q4_PANEL * 4) {
            vi low[2], high[2];
            vi_widen_nibbles(w, &low[0], &high[0]);
            vi_widen_nibbles(w + Q4_PANEL * 2, &low[1], &high[1]);
            UNROLL
            for (int i = 0; i < 2 * INT8_ROWS; i++)
                sum[i] = vi_dot_wide(sum[i], vi_repeat4(x + i / 2 * INT8_BLOCK), low[i % 2]);
            UNROLL
            for (int i = 0; i < 2 * INT8_ROWS; i++)
                sum[i] = vi_dot_wide(sum[i], vi_repeat4(x + i / 2 * INT8_BLOCK + Q4_BLOCK / 2),
                                     high[i % 2]);
        }
        UNROLL
        for (int i = 0; i < INT8_ROWS; i++)
            total[i] = vf_fma(vf_of_vi(vi_join(sum[2 * i], sum[2 * i + 1])), scale, total[i]);
    }
    UNROLL
    for (size_t i = 0; i < INT8_ROWS; i++)
        if (i < rows)
            q4_collect(t, b, i, 0, total[i], sums);
}

static void gemm_q4(struct quantised_rows x, const void *w, const float *bias, float *y, size_t ldy,
                    size_t m, size_t n, size_t k) {
    const size_t panel_bytes = packed_q4_bytes(Q4_PANEL, k, Q4_PANEL);
    int16_t wide[INT8_ROWS * INT8_BLOCK] = {0};
    struct int8_tile t = {.q = x.q,
                          .row_bytes = k,
                          .scale = x.scale,
                          .zero = x.zero,
                          .blocks = int8_blocks(k),
                          .ldy = ldy};
    for (size_t i = 0; i < m; i += INT8_ROWS) {
        const size_t rows = m - i < INT8_ROWS ? m - i : INT8_ROWS;
        const unsigned char *first = w;
        for (size_t b = 0; b < t.blocks; b++) {
            const size_t length = widen_rows(&t, b, wide, rows);
            const unsigned char *block = first;
            for (size_t j = 0; j < n; j += Q4_PANEL, block += panel_bytes) {
                t.bias = bias + j;
                t.y = y + i * ldy + j;
                t.columns = n - j;
                q4_block(&t, b, block, length, wide, rows);
            }
            first += packed_q4_bytes(Q4_PANEL, length, Q4_PANEL);
        }
        t.q += INT8_ROWS * t.row_bytes;
        t.scale += INT8_ROWS * t.blocks;
        t.zero += INT8_ROWS * t.blocks;
    }
}
