/* SPDX-License-Identifier: Apache-2.0
 * The int8 product for instruction sets that multiply 16-bit numbers and add up two products in
 * each lane. Activations are widened once for all outputs, weights when they are loaded. A vector
 * of weights, 4 for each output, fills two vectors when it is widened. So each vector of outputs
 * has two vectors of sums, which vi_join adds up at the end of a block. */

_Static_assert(INT8_VECTORS == 1,
               "a panel is one vector of outputs, to which vi_join adds up two sums");

/* A strip of rows walks through the panels once for each chunk of blocks. The fewer rows, the
 * longer are the chunks: one row is multiplied at the speed at which weights come from memory, and
 * memory is read fastest in long runs. */
enum { WIDE_NUMBERS = 2048 * INT8_ROWS };

/* Adds the products of one block, of `groups` groups of 4 values, to a vector of outputs of each of
 * `rows` rows. x are the widened activations of the block; rows of it lie ldx numbers apart. */
ALWAYS_INLINE void wide_block(const struct int8_tile *t, size_t b, const unsigned char *block,
                              size_t groups, const int16_t *x, const size_t ldx, const int rows) {
    vi sum[2 * INT8_ROWS];
    const float *scales = (const float *)(const void *)block;
    const unsigned char *w = block + INT8_PANEL * 2 * sizeof(float);
    UNROLL
    for (int i = 0; i < 2 * rows; i++)
        sum[i] = vi_set1(0);
    for (size_t g = 0; g < groups; g++, x += 4, w += INT8_PANEL * 4) {
        const vi weights[2] = {vi_widen_weights(w), vi_widen_weights(w + INT8_PANEL * 2)};
        vi four = vi_set1(0);
        UNROLL
        for (int i = 0; i < 2 * rows; i++) {
            if (i % 2 == 0)
                four = vi_repeat4(x + (size_t)(i / 2) * ldx);
            sum[i] = vi_dot_i16(sum[i], four, weights[i % 2]);
        }
    }
    vi dots[2 * INT8_ROWS];
    UNROLL
    for (int i = 0; i < 2 * rows; i++)
        dots[i] = sum[i];
    const struct int8_weights weights = int8_weights_of(scales, 1);
    UNROLL_IN_CLANG
    for (int i = 0; i < rows; i++) {
        const struct int8_row row = int8_row_of(t, b, i);
        int8_collect(&row, &weights, vi_join(dots[2 * i], dots[2 * i + 1]), 0, t->columns);
    }
}

/* Multiplies `rows` rows by all n outputs, chunk after chunk of blocks of `most` values. */
ALWAYS_INLINE void wide_strip(struct int8_tile t, const unsigned char *w, const float *bias,
                              float *y, size_t n, size_t most, const int rows) {
    int16_t x[WIDE_NUMBERS];
    const size_t ldx = (size_t)(WIDE_NUMBERS / rows), chunk = ldx / most;
    const size_t panel_bytes = INT8_PANEL * (t.blocks * 2 * sizeof(float) + t.row_bytes);
    for (size_t first = 0; first < t.blocks; first += chunk) {
        const size_t start = first * most, left = t.row_bytes - start;
        const size_t length = left < ldx ? left : ldx;
        for (size_t i = 0; i < (size_t)rows; i++)
            vi_widen_row(t.q + i * t.row_bytes + start, x + i * ldx, length);
        const unsigned char *panel = w + first * INT8_PANEL * (2 * sizeof(float) + most);
        for (size_t j = 0; j < n; j += INT8_PANEL, panel += panel_bytes) {
            const unsigned char *block = panel;
            t.bias = bias + j;
            t.y = y + j;
            t.columns = n - j < INT8_PANEL ? n - j : INT8_PANEL;
            for (size_t c = 0, b = first; c < length; c += most, b++) {
                const size_t here = length - c < most ? length - c : most;
                wide_block(&t, b, block, here / 4, x + c, ldx, rows);
                block += INT8_PANEL * (2 * sizeof(float) + here);
            }
        }
    }
}

/* Multiplies in blocks of `most` values. */
static void wide_product(struct quantised_rows x, const void *w, const float *bias, float *y,
                         size_t ldy, size_t m, size_t n, size_t k, size_t most) {
    struct int8_tile t = {.q = x.q,
                          .row_bytes = int8_row_bytes(k),
                          .scale = x.scale,
                          .zero = x.zero,
                          .blocks = (k + most - 1) / most,
                          .ldy = ldy};
    while (m > 0) {
        const size_t step = m >= INT8_ROWS ? INT8_ROWS : m >= 4 ? 4 : m >= 2 ? 2 : 1;
        if (step == INT8_ROWS)
            wide_strip(t, w, bias, y, n, most, INT8_ROWS);
        else if (step == 4)
            wide_strip(t, w, bias, y, n, most, 4);
        else if (step == 2)
            wide_strip(t, w, bias, y, n, most, 2);
        else
            wide_strip(t, w, bias, y, n, most, 1);
        t.q += step * t.row_bytes;
        t.scale += step * t.blocks;
        t.zero += step * t.blocks;
        y += step * ldy;
        m -= step;
    }
}

static void gemm_int8(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    wide_product(x, w, bias, y, ldy, m, n, k, INT8_BLOCK);
}

static void gemm_narrow(struct quantised_rows x, const void *w, const float *bias, float *y,
                        size_t ldy, size_t m, size_t n, size_t k) {
    wide_product(x, w, bias, y, ldy, m, n, k, NARROW_BLOCK);
}
