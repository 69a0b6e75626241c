/* SPDX-License-Identifier: Apache-2.0
 * The kernels of i16.h over the vector operations of an instruction set. The including file
 * includes rows_template.h, gemm_template.h and pack_template.h before. */

static float i16_largest(const float *x, size_t ldx, size_t m, size_t k) {
    vf most[RANGE_VECTORS];
    UNROLL
    for (int v = 0; v < RANGE_VECTORS; v++)
        most[v] = vf_set1(0);
    for (size_t row = 0; row < m; row++, x += ldx) {
        size_t i = 0;
        for (; i + RANGE_VECTORS * VF_LANES <= k; i += RANGE_VECTORS * VF_LANES) {
            UNROLL
            for (int v = 0; v < RANGE_VECTORS; v++)
                most[v] = vf_max(most[v], vf_abs(vf_load(x + i + v * VF_LANES)));
        }
        for (; i < k; i += VF_LANES)
            most[0] = vf_max(most[0], vf_abs(vf_load_n(x + i, lanes_left(k - i))));
    }
    return largest_of(most);
}

static void i16_quantise(const float *x, size_t ldx, size_t m, size_t k, float factor,
                         int32_t *pairs, size_t ldp) {
    const vf factors = vf_set1(factor);
    for (size_t row = 0; row < m; row++, x += ldx, pairs += ldp) {
        int16_t *to = (int16_t *)(void *)pairs;
        size_t i = 0;
        for (; i + 2 * VF_LANES <= k; i += 2 * VF_LANES)
            vi_store_i16_2(to + i, vi_round(vf_mul(vf_load(x + i), factors)),
                           vi_round(vf_mul(vf_load(x + i + VF_LANES), factors)));
        for (; i < k; i += VF_LANES)
            vi_store_i16(to + i, vi_round(vf_mul(vf_load_n(x + i, lanes_left(k - i)), factors)));
    }
}

/* Quantises a and b, whose lanes are neighbours along k, to pairs. */
ALWAYS_INLINE vi i16_pair(vf a, vf b, vf factor) {
    return vi_pair(vi_round(vf_mul(a, factor)), vi_round(vf_mul(b, factor)));
}

/* Packs a square as pack_square does, in pairs. */
ALWAYS_INLINE void i16_pack_square(const float *w, size_t ldw, size_t rows, const size_t columns,
                                   vf factor, int32_t *packed) {
    vf square[VF_LANES];
    load_columns(w, ldw, rows, columns, square);
    UNROLL
    for (int i = 0; i < VF_LANES; i += 2)
        if ((size_t)i < columns)
            vi_store(packed + (size_t)i / 2 * F32_PANEL,
                     i16_pair(square[i], square[i + 1], factor));
}

static void i16_pack(const float *w, size_t ldw, size_t n, size_t k, float factor,
                     int32_t *packed) {
    const vf factors = vf_set1(factor);
    for (size_t first = 0; first < n; first += F32_PANEL, packed += F32_PANEL * i16_pairs(k))
        for (size_t v = 0; v < F32_PANEL; v += VF_LANES) {
            const size_t row = first + v, rows = row < n ? n - row : 0;
            const float *from = rows ? w + row * ldw : w;
            size_t c = 0;
            for (; c + VF_LANES <= k && rows >= VF_LANES; c += VF_LANES)
                i16_pack_square(from + c, ldw, VF_LANES, VF_LANES, factors,
                                packed + c / 2 * F32_PANEL + v);
            for (; c < k; c += VF_LANES)
                i16_pack_square(from + c, ldw, rows, lanes_left(k - c), factors,
                                packed + c / 2 * F32_PANEL + v);
        }
}

/* Packs as pack_columns does, two rows of wt at a time. */
static void i16_pack_transposed(const float *wt, size_t ldw, size_t n, size_t k, float factor,
                                int32_t *packed) {
    const vf factors = vf_set1(factor), nothing = vf_set1(0);
    for (size_t first = 0; first < n; first += F32_PANEL)
        for (size_t c = 0; c < k; c += 2, packed += F32_PANEL) {
            const float *from = wt + c * ldw + first;
            UNROLL
            for (size_t v = 0; v < F32_PANEL; v += VF_LANES) {
                const size_t lanes = n - first > v ? lanes_left(n - first - v) : 0;
                const vf a = lanes ? vf_load_n(from + v, lanes) : nothing;
                const vf b = lanes && c + 1 < k ? vf_load_n(from + ldw + v, lanes) : nothing;
                vi_store(packed + v, i16_pair(a, b, factors));
            }
        }
}

static void i16_gemm(const int32_t *x, size_t ldx, const int32_t *w, const float *scale, float *y,
                     size_t ldy, size_t m, size_t n, size_t k) {
    word_product((struct word_tile){.x = (const float *)(const void *)x,
                                    .ldx = ldx,
                                    .w = (const unsigned char *)w,
                                    .row_scale = scale,
                                    .y = y,
                                    .ldy = ldy,
                                    .k = i16_pairs(k)},
                 m, n, WORD_PAIR);
}

#ifdef VECTOR_PORTABLE

static float i16_scale_of_powers(float most) {
    return most;
}

/* Computes most 2^((x - top) factor). */
ALWAYS_INLINE vf i16_power(vf x, vf top, vf factor, vf most, const float *terms) {
    return vf_mul(softmax_power(x, top, factor, terms), most);
}

#else

/* Scales powers by adding to their exponents, which may be fused. */
static float i16_scale_of_powers(float most) {
    return log2f(most);
}

/* Computes 2^((x - top) factor + shift), for a shift of up to 15. */
ALWAYS_INLINE vf i16_power(vf x, vf top, vf factor, vf shift, const float *terms) {
    return exp2_of(vf_fma(vf_sub(x, top), factor, shift), terms);
}

#endif

/* Returns the sum of the row's numbers. It is exact, in any order, for rows of less than 2^17
 * numbers: with the largest number that i16_most allows, their sum is below 2^24. */
static float i16_softmax_row(float *x, size_t n, float scale, vf powers) {
    const float *terms = vf_table(exp2_terms);
    const vf factor = vf_set1(scale * LOG2_E), top = vf_set1(row_max(x, n));
    int16_t *to = (int16_t *)(void *)x; /* writing stays behind reading, as numbers are smaller */
    vi sum = vi_set1(0);
    size_t i = 0;
    for (; i + 2 * VF_LANES <= n; i += 2 * VF_LANES) {
        const vi a = vi_round(i16_power(vf_load(x + i), top, factor, powers, terms));
        const vi b = vi_round(i16_power(vf_load(x + i + VF_LANES), top, factor, powers, terms));
        vi_store_i16_2(to + i, a, b);
        sum = vi_add(sum, vi_add(a, b));
    }
    for (; i < n; i += VF_LANES) {
        const size_t lanes = lanes_left(n - i);
        const vf power = i16_power(vf_load_n(x + i, lanes), top, factor, powers, terms);
        const vi rounded = vi_round(vf_first(power, lanes, vf_set1(0)));
        vi_store_i16(to + i, rounded);
        sum = vi_add(sum, rounded);
    }
    return vf_sum(vf_of_vi(sum));
}

static void i16_softmax(float *x, size_t ld, size_t m, size_t n, float scale, float most,
                        float *sums) {
    const vf powers = vf_set1(i16_scale_of_powers(most));
    for (size_t row = 0; row < m; row++)
        sums[row] = i16_softmax_row(x + row * ld, n, scale, powers);
}

static const struct i16_kernels i16 = {.largest = i16_largest,
                                       .quantise = i16_quantise,
                                       .pack = i16_pack,
                                       .pack_transposed = i16_pack_transposed,
                                       .gemm = i16_gemm,
                                       .softmax = i16_softmax};
