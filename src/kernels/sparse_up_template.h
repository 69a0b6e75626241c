/* SPDX-License-Identifier: Apache-2.0
 * The first half of a sparse layer (sparse.h): a token's row in bytes, the choice of neurons, and
 * the sums of their rows. */

/* ---- a token's row -------------------------------------------------------------------------- */

#ifdef VECTOR_NARROW_SPARSE
enum { SPARSE_NARROW = 1 };
static const float ROW_STEPS = NARROW_STEPS;
#else
enum { SPARSE_NARROW = 0 };
static const float ROW_STEPS = 255;
#endif

ALWAYS_INLINE size_t place_in_row(size_t c) {
    return SPARSE_NARROW ? row_place(c, VF_LANES) : c;
}

/* Clamps the VF_LANES values from value c on to bytes, and stores them where they belong. */
ALWAYS_INLINE void store_row_bytes(uint8_t *q, size_t c, vi values) {
    uint8_t bytes[VF_LANES];
    if (!SPARSE_NARROW) {
        vi_store_u8(q + c, values);
        return;
    }
    vi_store_u8(bytes, values);
    UNROLL
    for (size_t i = 0; i < VF_LANES; i += 4)
        memcpy(q + place_in_row(c + i), bytes + i, 4);
}

ALWAYS_INLINE vf scaled_load(const float *x, const float *input_scale, size_t c) {
    return vf_mul(vf_load(x + c), vf_load(input_scale + c));
}

ALWAYS_INLINE vf scaled_load_n(const float *x, const float *input_scale, size_t c, size_t n) {
    return vf_mul(vf_load_n(x + c, n), vf_load_n(input_scale + c, n));
}

ALWAYS_INLINE void sparse_quantise(const float *x, const float *input_scale, size_t k,
                                   struct quantised_row *row, const int signed_values) {
    vf least = vf_set1(0), most = vf_set1(0);
    size_t c = 0;
    for (; c + VF_LANES <= k; c += VF_LANES) {
        const vf value = scaled_load(x, input_scale, c);
        least = vf_min(least, value);
        most = vf_max(most, value);
    }
    if (c < k) {
        const vf value = scaled_load_n(x, input_scale, c, k - c);
        least = vf_min(least, value);
        most = vf_max(most, value);
    }
    const float low = vf_least(least), range = quantised_range(low, vf_largest(most));
    const float inverse = range > 0 ? ROW_STEPS / range : 0;
    const vf factor = vf_set1(inverse);
    const vi shift = vi_round(vf_set1(-low * inverse));
    const size_t row_bytes = sparse_row_bytes(k);
    memset(row->q + row_bytes - SPARSE_CHUNK, 0, SPARSE_CHUNK);
    for (c = 0; c + VF_LANES <= k; c += VF_LANES)
        store_row_bytes(row->q, c,
                        vi_add(vi_round(vf_mul(scaled_load(x, input_scale, c), factor)), shift));
    if (c < k) {
        uint8_t tail[VF_LANES];
        const vf value = scaled_load_n(x, input_scale, c, k - c);
        vi_store_u8(tail, vi_add(vi_round(vf_mul(value, factor)), shift));
        if (!SPARSE_NARROW)
            memcpy(row->q + c, tail, k - c);
        for (size_t i = 0; SPARSE_NARROW && c + i < k; i++)
            row->q[place_in_row(c + i)] = tail[i];
    }
    for (c = 0; signed_values && c < k; c++)
        row->q[c] ^= 0x80;
    row->scale = range / ROW_STEPS;
    row->zero = rintf(-low * inverse) - (signed_values ? 128 : 0);
}

MAYBE_UNUSED void sparse_quantise_unsigned(const float *x, const float *input_scale, size_t k,
                                           struct quantised_row *row) {
    sparse_quantise(x, input_scale, k, row, 0);
}

MAYBE_UNUSED void sparse_quantise_signed(const float *x, const float *input_scale, size_t k,
                                         struct quantised_row *row) {
    sparse_quantise(x, input_scale, k, row, 1);
}

/* ---- up ------------------------------------------------------------------------------------- */

static void sparse_choose(const float *logits, const float *thresholds, size_t n, uint64_t *mask) {
    memset(mask, 0, (n + 63) / 64 * sizeof *mask);
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        mask[i / 64] |= (uint64_t)vf_above(vf_load(logits + i), vf_load(thresholds + i)) << i % 64;
    for (; i < n; i++)
        mask[i / 64] |= (uint64_t)(logits[i] > thresholds[i]) << i % 64;
}

/* Computes the sums of UP_NEURONS rows with a token's bytes, which are loaded once for all of them.
 */
ALWAYS_INLINE void row_sums(const uint8_t *q, const int8_t *const *rows, size_t row_bytes,
                            int32_t *sums) {
    vi sum[UP_NEURONS];
    UNROLL
    for (int i = 0; i < UP_NEURONS; i++)
        sum[i] = vi_set1(0);
    for (size_t c = 0; c < row_bytes; c += SPARSE_CHUNK) {
#ifdef VECTOR_NARROW_SPARSE
        enum { BYTES = 4 * VF_LANES };
        UNROLL
        for (size_t v = 0; v < SPARSE_CHUNK; v += 2 * BYTES) {
            const vi first = vi_load_all_activations(q + c + v);
            const vi second = vi_load_all_activations(q + c + v + BYTES);
            UNROLL
            for (int i = 0; i < UP_NEURONS; i++) {
                const unsigned char *w = (const unsigned char *)rows[i] + c + v;
                const vi products = vi16_add(vi16_dot(first, vi16_load_weights(w)),
                                             vi16_dot(second, vi16_load_weights(w + BYTES)));
                sum[i] = vi_add(sum[i], vi16_widen(products));
            }
        }
#else
        UNROLL
        for (size_t v = 0; v < SPARSE_CHUNK; v += 4 * VF_LANES) {
            const vi_activations x = vi_load_all_activations(q + c + v);
            UNROLL
            for (int i = 0; i < UP_NEURONS; i++)
                sum[i] = vi_dot(sum[i], x, vi_load_weights((const unsigned char *)rows[i] + c + v));
        }
#endif
    }
    vi_store_sums(sums, sum);
}

static void sparse_up(const uint8_t *q, const int8_t *rows, const uint16_t *list, size_t n,
                      size_t k, int32_t *sums) {
    const size_t row_bytes = sparse_row_bytes(k);
    for (size_t i = 0; i < n; i += UP_NEURONS) {
        const size_t left = n - i;
        const int8_t *from[UP_NEURONS];
        int32_t some[UP_NEURONS];
        UNROLL
        for (size_t j = 0; j < UP_NEURONS; j++)
            from[j] = rows + list[i + (j < left ? j : 0)] * row_bytes;
        row_sums(q, from, row_bytes, left < UP_NEURONS ? some : sums + i);
        if (left < UP_NEURONS)
            memcpy(sums + i, some, left * sizeof *some);
    }
}
