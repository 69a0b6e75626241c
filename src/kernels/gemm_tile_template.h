/* SPDX-License-Identifier: Apache-2.0
 * The int8 product in tiles of INT8_ROWS x INT8_VECTORS. The including file defines int8_dots. */

/* Adds the products of one block, of `groups` groups of 4 values, to a tile of y. */
ALWAYS_INLINE void int8_block(const struct int8_tile *t, size_t b, const unsigned char *block,
                              size_t groups, const int rows, const int vectors) {
    /* The dot products go through memory: gcc keeps an array in registers only if nothing but small
     * loops uses it, as in int8_dots. */
    vi dots[INT8_ROWS * INT8_VECTORS];
    const float *scales = (const float *)(const void *)block + t->vector * VF_LANES;
    const unsigned char *w = block + INT8_PANEL * 2 * sizeof(float) + t->vector * VF_LANES * 4;
    if (rows <= FEW_ROWS)
        prefetch_header(block, INT8_PANEL * 2 * sizeof(float), INT8_PANEL * TILE_BLOCK);
    int8_dots(t->q + b * TILE_BLOCK, t->row_bytes, w, groups, dots, rows, vectors);
    const struct int8_weights weights = int8_weights_of(scales, vectors);
    UNROLL_IN_CLANG
    for (int i = 0; i < rows; i++) {
        const struct int8_row row = int8_row_of(t, b, i);
        UNROLL
        for (int v = 0; v < vectors; v++)
            int8_collect(&row, &weights, dots[i * vectors + v], v,
                         lanes_of(v, vectors, t->columns));
    }
}

/* A product of few rows prefetches if it has at least so many weights: those of models with smaller
 * layers stay in the third-level cache, from where they come without it. Modules leave it out for
 * their size. */
ALWAYS_INLINE bool prefetches_few(size_t n, size_t k) {
#ifdef __wasm__
    (void)n, (void)k;
    return false;
#else
    return n * k >= (size_t)1 << 20;
#endif
}

/* Prefetches a part of the next panel, because a layer's weights come from beyond the second-level
 * cache once for each batch. */
ALWAYS_INLINE void fetch_ahead(struct int8_tile *t) {
    for (size_t i = 0; i < t->fetched; i += CACHE_LINE)
        prefetch(t->next + i);
    t->next += t->fetched;
}

/* Computes a tile of y, block after block. */
ALWAYS_INLINE void int8_tile(struct int8_tile *t, const int rows, const int vectors) {
    const unsigned char *block = t->w;
    for (size_t b = 0; b < t->blocks; b++) {
        const size_t left = t->row_bytes - b * TILE_BLOCK;
        const size_t length = left < TILE_BLOCK ? left : TILE_BLOCK;
        fetch_ahead(t);
        int8_block(t, b, block, length / 4, rows, vectors);
        block += INT8_PANEL * (2 * sizeof(float) + length);
    }
}

/* Multiplies all m rows by `vectors` vectors of a panel. */
ALWAYS_INLINE void int8_strip(struct int8_tile t, size_t m, const int vectors) {
    while (m > 0) {
        const size_t step = m >= INT8_ROWS ? INT8_ROWS : m >= 4 ? 4 : m >= 2 ? 2 : 1;
        if (step == INT8_ROWS)
            int8_tile(&t, INT8_ROWS, vectors);
        else if (step == 4)
            int8_tile(&t, INT8_ROWS < 4 ? INT8_ROWS : 4, vectors);
        else if (step == 2)
            int8_tile(&t, 2, vectors);
        else
            int8_tile(&t, 1, vectors);
        t.q += step * t.row_bytes;
        t.scale += step * t.blocks;
        t.zero += step * t.blocks;
        t.y += step * t.ldy;
        m -= step;
    }
}

static void gemm_int8(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    struct int8_tile t = {.q = x.q,
                          .row_bytes = int8_row_bytes(k),
                          .scale = x.scale,
                          .zero = x.zero,
                          .blocks = (k + TILE_BLOCK - 1) / TILE_BLOCK,
                          .w = w,
                          .next = w,
                          .ldy = ldy,
                          .columns = VF_LANES};
    const size_t panel_bytes = INT8_PANEL * (t.blocks * 2 * sizeof(float) + t.row_bytes);
    size_t j = 0;
    const size_t tiles = (m + INT8_ROWS - 1) / INT8_ROWS;
    const bool fetches = tiles >= 4 || (m > FEW_ROWS && prefetches_few(n, k));
    for (; j + INT8_PANEL <= n; j += INT8_PANEL, t.w += panel_bytes) {
        t.next = t.w + panel_bytes;
        t.fetched = fetches && j + 2 * INT8_PANEL <= n ? panel_bytes / (tiles * t.blocks) : 0;
        t.bias = bias + j;
        t.y = y + j;
        int8_strip(t, m, INT8_VECTORS);
    }
    t.fetched = 0;
    for (; j < n; j += VF_LANES, t.vector++) {
        t.bias = bias + j;
        t.y = y + j;
        t.columns = n - j < VF_LANES ? n - j : VF_LANES;
        int8_strip(t, m, 1);
    }
}
