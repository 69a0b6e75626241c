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

/* The last one or two tokens are computed by code of their own, and so are layers without gates,
 * but not in WebAssembly, where code is to be small. */
#ifdef __wasm__
enum { UP_TOKENS = 4, UP_FEW = 0 };
#else
enum { UP_TOKENS = 4, UP_FEW = 2 };
#endif

/* Computes the sums of some tokens, up to UP_TOKENS, with one row, which is loaded once for all of
 * them. */
ALWAYS_INLINE void row_sums(const uint8_t *const *q, const int8_t *row, size_t row_bytes,
                            int32_t *sums, const int tokens) {
    const unsigned char *w = (const unsigned char *)row;
    vi sum[UP_TOKENS];
    UNROLL
    for (int i = 0; i < UP_TOKENS; i++)
        sum[i] = vi_set1(0);
    for (size_t c = 0; c < row_bytes; c += SPARSE_CHUNK) {
#ifdef VECTOR_NARROW_SPARSE
        enum { BYTES = 4 * VF_LANES };
        UNROLL
        for (size_t v = 0; v < SPARSE_CHUNK; v += 2 * BYTES) {
            const vi first = vi16_load_weights(w + c + v);
            const vi second = vi16_load_weights(w + c + v + BYTES);
            UNROLL
            for (int i = 0; i < tokens; i++) {
                const uint8_t *x = q[i] + c + v;
                const vi products = vi16_add(vi16_dot(vi_load_all_activations(x), first),
                                             vi16_dot(vi_load_all_activations(x + BYTES), second));
                sum[i] = vi_add(sum[i], vi16_widen(products));
            }
        }
#else
        UNROLL
        for (size_t v = 0; v < SPARSE_CHUNK; v += 4 * VF_LANES) {
            const vi_weights weights = vi_load_weights(w + c + v);
            UNROLL
            for (int i = 0; i < tokens; i++)
                sum[i] = vi_dot(sum[i], vi_load_all_activations(q[i] + c + v), weights);
        }
#endif
    }
    vi_store_sums(sums, sum);
}

/* Removes the first token from the set and returns it, or SPARSE_TOKENS where the set is empty. */
ALWAYS_INLINE size_t next_token(uint64_t *wanted) {
    const size_t token = (size_t)__builtin_ctzll(*wanted | UINT64_C(1) << SPARSE_TOKENS);
    *wanted &= *wanted - 1;
    return token;
}

/* Computes the next tokens of the set, and removes them. */
ALWAYS_INLINE void up_some(struct neuron_tile *tile, const int8_t *row, const int8_t *gate_row,
                           size_t row_bytes, size_t neuron, uint64_t *wanted, const int tokens) {
    size_t token[UP_TOKENS];
    const uint8_t *q[UP_TOKENS];
    int32_t sums[UP_TOKENS], gate_sums[UP_TOKENS];
    UNROLL
    for (int i = 0; i < tokens; i++) {
        token[i] = next_token(wanted);
        q[i] = tile->q + token[i] * row_bytes;
    }
    row_sums(q, row, row_bytes, sums, tokens);
    if (gate_row)
        row_sums(q, gate_row, row_bytes, gate_sums, tokens);
    UNROLL
    for (int i = 0; i < tokens; i++) {
        const size_t at = token[i] * tile->length + tile->n[token[i]]++;
        tile->sums[at] = sums[i];
        if (gate_row)
            tile->gate_sums[at] = gate_sums[i];
        tile->lists[at] = (uint16_t)neuron;
    }
}

ALWAYS_INLINE void up_tokens(struct neuron_tile *tile, const int8_t *row, const int8_t *gate_row,
                             size_t neuron, uint64_t wanted) {
    const size_t row_bytes = sparse_row_bytes(tile->k);
    tile->n[SPARSE_TOKENS] = 0;
    for (size_t c = 0; c < row_bytes; c += CACHE_LINE)
        __builtin_prefetch(row + row_bytes + c); /* most likely the next neuron's row is next */
    while (UP_FEW > 0 ? __builtin_popcountll(wanted) > UP_FEW : wanted > 0)
        up_some(tile, row, gate_row, row_bytes, neuron, &wanted, UP_TOKENS);
    if (UP_FEW > 0 && wanted)
        up_some(tile, row, gate_row, row_bytes, neuron, &wanted, UP_FEW);
}

static void sparse_up(struct neuron_tile *tile, const int8_t *row, const int8_t *gate_row,
                      size_t neuron, uint64_t wanted) {
#ifndef __wasm__
    if (!gate_row) {
        up_tokens(tile, row, NULL, neuron, wanted);
        return;
    }
#endif
    up_tokens(tile, row, gate_row, neuron, wanted);
}
