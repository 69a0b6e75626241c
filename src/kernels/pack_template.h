/* SPDX-License-Identifier: Apache-2.0
 * Packs f32 matrices over the vector operations of an instruction set. Attention packs the keys and
 * values of each text this way. */

/* Transposes VF_LANES vectors by perfect shuffles: each interleaves the first half of the vectors
 * with the second half. */
ALWAYS_INLINE void transpose(vf *rows) {
    UNROLL
    for (int lanes = VF_LANES; lanes > 1; lanes /= 2) {
        vf mixed[VF_LANES];
        UNROLL
        for (int i = 0; i < VF_LANES / 2; i++)
            vf_zip(rows[i], rows[i + VF_LANES / 2], &mixed[2 * i], &mixed[2 * i + 1]);
        UNROLL
        for (int i = 0; i < VF_LANES; i++)
            rows[i] = mixed[i];
    }
}

/* Loads a square of `columns` columns of up to VF_LANES rows, transposed. Missing rows are 0. */
ALWAYS_INLINE void load_columns(const float *w, size_t ldw, size_t rows, const size_t columns,
                                vf *square) {
    UNROLL
    for (int i = 0; i < VF_LANES; i++)
        square[i] = (size_t)i < rows ? vf_load_n(w + (size_t)i * ldw, columns) : vf_set1(0);
    transpose(square);
}

/* Packs a square of `columns` columns of up to VF_LANES rows. */
ALWAYS_INLINE void pack_square(const float *w, size_t ldw, size_t rows, const size_t columns,
                               float *packed) {
    vf square[VF_LANES];
    load_columns(w, ldw, rows, columns, square);
    UNROLL
    for (int i = 0; i < VF_LANES; i++)
        if ((size_t)i < columns)
            vf_store(packed + (size_t)i * F32_PANEL, square[i]);
}

static void pack_rows(const float *w, size_t ldw, size_t n, size_t k, float *packed) {
    for (size_t first = 0; first < n; first += F32_PANEL, packed += F32_PANEL * k)
        for (size_t v = 0; v < F32_PANEL; v += VF_LANES) {
            const size_t row = first + v, rows = row < n ? n - row : 0;
            const float *from = rows ? w + row * ldw : w;
            size_t c = 0;
            for (; c + VF_LANES <= k && rows >= VF_LANES; c += VF_LANES)
                pack_square(from + c, ldw, VF_LANES, VF_LANES, packed + c * F32_PANEL + v);
            for (; c < k; c += VF_LANES)
                pack_square(from + c, ldw, rows, lanes_left(k - c), packed + c * F32_PANEL + v);
        }
}

static void pack_columns(const float *wt, size_t ldw, size_t n, size_t k, float *packed) {
    for (size_t first = 0; first < n; first += F32_PANEL)
        for (size_t c = 0; c < k; c++, packed += F32_PANEL) {
            const float *from = wt + c * ldw + first;
            UNROLL
            for (size_t v = 0; v < F32_PANEL; v += VF_LANES) {
                const size_t left = n - first > v ? n - first - v : 0;
                vf_store(packed + v, left >= VF_LANES ? vf_load(from + v)
                                     : left > 0       ? vf_load_n(from + v, left)
                                                      : vf_set1(0));
            }
        }
}
