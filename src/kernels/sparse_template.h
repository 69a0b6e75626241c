/* SPDX-License-Identifier: Apache-2.0
 * The sparse kernels (sparse.h), written once over the vector operations of an instruction set. The
 * including file includes rows_template.h before, and defines DOWN_VECTORS, the number of vectors
 * of sums that `down` holds in registers, a multiple of 4. */
#include <stdlib.h>

#include "kernels/sparse.h"

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

/* The last one or two tokens are computed by code of their own, but not in WebAssembly, where code
 * is to be small. */
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
    if (gate_row)
        up_tokens(tile, row, gate_row, neuron, wanted);
    else
        up_tokens(tile, row, NULL, neuron, wanted);
}

/* ---- from sums to contributions ------------------------------------------------------------- */

/* Loads the four fields of the next VF_LANES neurons of a list, one vector for each field. Where
 * fewer than VF_LANES neurons are `left`, the other lanes repeat the first one. */
ALWAYS_INLINE void neuron_fields(const struct neuron *neurons, const uint16_t *list, size_t first,
                                 size_t left, vf *fields) {
    UNROLL
    for (size_t v = 0; v < 4; v++) {
        const float *groups[VF_LANES / 4];
        UNROLL
        for (size_t g = 0; g < VF_LANES / 4; g++) {
            const size_t i = 4 * g + v, at = first + (i < left ? i : 0);
            groups[g] = &neurons[list ? list[at] : at].bias;
        }
        fields[v] = vf_load_groups(groups);
    }
    vf_transpose4(fields);
}

ALWAYS_INLINE vf finished(vf sum, const vf *fields, const struct quantised_row *row) {
    const vf centred = vf_fma(vf_set1(-row->zero), fields[2], sum);
    return vf_fma(centred, vf_mul(vf_set1(row->scale), fields[1]), fields[0]);
}

ALWAYS_INLINE vf load_sums(const int32_t *sums, size_t left) {
    int32_t some[VF_LANES] = {0};
    if (left < VF_LANES)
        memcpy(some, sums, left * sizeof *some);
    return vf_of_vi(vi_load(left < VF_LANES ? some : sums));
}

ALWAYS_INLINE vf load_centers(const float *centers, const uint16_t *list, size_t first,
                              size_t left) {
    float some[VF_LANES] = {0};
    for (size_t i = 0; i < VF_LANES && i < left; i++)
        some[i] = centers[list ? list[first + i] : first + i];
    return vf_load(some);
}

ALWAYS_INLINE vf activated(vf y, vf gate, const enum activation kind) {
    vf active = y;
    if (kind == ACTIVATION_RELU)
        return vf_max(y, vf_set1(0));
    if (kind == ACTIVATION_GATED_SILU)
        return vf_mul(silu_of(gate, vf_table(exp2_terms)), y);
#ifdef DECODER_KERNELS
    const vf open = vf_max(activation_is_gated(kind) ? gate : y, vf_set1(0));
    if (kind == ACTIVATION_RELU_SQUARED)
        return vf_mul(open, open);
    if (kind == ACTIVATION_GATED_RELU)
        return vf_mul(open, y);
    if (kind == ACTIVATION_GATED_RELU_SQUARED)
        return vf_mul(vf_mul(open, open), y);
    if (kind == ACTIVATION_GELU_TANH)
        return gelu_tanh_of(y, vf_table(exp2_terms));
    if (kind == ACTIVATION_GATED_GELU_TANH)
        return vf_mul(gelu_tanh_of(gate, vf_table(exp2_terms)), y);
#endif
    gelu_of(&active, 1, vf_table(gelu_terms));
    return active;
}

/* Returns the largest lane of the bits of floats that are not negative, as a float. As integers the
 * bits have the order of the floats, and those of NaN are the largest. A maximum of floats would
 * lose NaN, or not, depending on the instruction set. */
ALWAYS_INLINE float largest_of_bits(vi bits) {
    int32_t lanes[VF_LANES], most = 0;
    float largest;
    vi_store(lanes, bits);
    for (size_t v = 0; v < VF_LANES; v++)
        most = lanes[v] > most ? lanes[v] : most;
    memcpy(&largest, &most, sizeof largest);
    return largest;
}

ALWAYS_INLINE float activate_all(struct neuron_sums sums, const float *centers,
                                 const uint16_t *list, size_t n, const struct quantised_row *row,
                                 float *values, const enum activation kind) {
    vi most = vi_set1(0);
    for (size_t i = 0; i < n; i += VF_LANES) {
        const size_t left = n - i, lanes = lanes_left(left);
        vf fields[4], gate[4];
        neuron_fields(sums.neurons, list, i, left, fields);
        const vf y = finished(load_sums(sums.up + i, left), fields, row);
        vf opened = y;
        if (activation_is_gated(kind)) {
            neuron_fields(sums.gates, list, i, left, gate);
            opened = finished(load_sums(sums.gate + i, left), gate, row);
        }
        vf active = activated(y, opened, kind);
        if (centers)
            active = vf_sub(active, load_centers(centers, list, i, left));
        const vf value = vf_mul(active, fields[3]);
        vf_store_n(values + i, value, lanes);
        most = vi_max(most, vi_bits(vf_first(vf_abs(value), lanes, vf_set1(0))));
    }
    return largest_of_bits(most);
}

static float sparse_activate(enum activation kind, struct neuron_sums sums, const float *centers,
                             const uint16_t *list, size_t n, const struct quantised_row *row,
                             float *values) {
    if (kind == ACTIVATION_RELU)
        return activate_all(sums, centers, list, n, row, values, ACTIVATION_RELU);
    if (kind == ACTIVATION_GATED_SILU)
        return activate_all(sums, centers, list, n, row, values, ACTIVATION_GATED_SILU);
#ifdef DECODER_KERNELS
    if (kind == ACTIVATION_RELU_SQUARED)
        return activate_all(sums, centers, list, n, row, values, ACTIVATION_RELU_SQUARED);
    if (kind == ACTIVATION_GELU_TANH)
        return activate_all(sums, centers, list, n, row, values, ACTIVATION_GELU_TANH);
    if (kind == ACTIVATION_GATED_RELU)
        return activate_all(sums, centers, list, n, row, values, ACTIVATION_GATED_RELU);
    if (kind == ACTIVATION_GATED_RELU_SQUARED)
        return activate_all(sums, centers, list, n, row, values, ACTIVATION_GATED_RELU_SQUARED);
    if (kind == ACTIVATION_GATED_GELU_TANH)
        return activate_all(sums, centers, list, n, row, values, ACTIVATION_GATED_GELU_TANH);
#endif
    return activate_all(sums, centers, list, n, row, values, ACTIVATION_GELU);
}

/* Computes the first `lanes` contributions of a vector. Returns the bits of their magnitudes. */
ALWAYS_INLINE vi contribute_vector(const float *y, const float *gate, const float *scales,
                                   float *values, size_t lanes, const enum activation kind) {
    const vf opened = activation_is_gated(kind) ? vf_load_n(gate, lanes) : vf_set1(0);
    const vf active = activated(vf_load_n(y, lanes), opened, kind);
    const vf value = vf_mul(active, vf_load_n(scales, lanes));
    vf_store_n(values, value, lanes);
    return vi_bits(vf_abs(value));
}

ALWAYS_INLINE float contribute_all(const float *y, const float *gate, const float *scales, size_t n,
                                   float *values, const enum activation kind) {
    /* Two maxima run side by side: with one, each would wait for the one before. */
    vi most = vi_set1(0), other = vi_set1(0);
    size_t i = 0;
    for (; i + 2 * VF_LANES <= n; i += 2 * VF_LANES) {
        const size_t next = i + VF_LANES;
        most = vi_max(most,
                      contribute_vector(y + i, gate + i, scales + i, values + i, VF_LANES, kind));
        other = vi_max(other, contribute_vector(y + next, gate + next, scales + next, values + next,
                                                VF_LANES, kind));
    }
    for (; i < n; i += VF_LANES)
        most = vi_max(most, contribute_vector(y + i, gate + i, scales + i, values + i,
                                              lanes_left(n - i), kind));
    return largest_of_bits(vi_max(most, other));
}

static float sparse_contribute(enum activation kind, const float *y, const float *gate,
                               const float *scales, size_t n, float *values) {
    if (kind == ACTIVATION_RELU)
        return contribute_all(y, y, scales, n, values, ACTIVATION_RELU);
    if (kind == ACTIVATION_GATED_SILU)
        return contribute_all(y, gate, scales, n, values, ACTIVATION_GATED_SILU);
#ifdef DECODER_KERNELS
    if (kind == ACTIVATION_RELU_SQUARED)
        return contribute_all(y, y, scales, n, values, ACTIVATION_RELU_SQUARED);
    if (kind == ACTIVATION_GELU_TANH)
        return contribute_all(y, y, scales, n, values, ACTIVATION_GELU_TANH);
    if (kind == ACTIVATION_GATED_RELU)
        return contribute_all(y, gate, scales, n, values, ACTIVATION_GATED_RELU);
    if (kind == ACTIVATION_GATED_RELU_SQUARED)
        return contribute_all(y, gate, scales, n, values, ACTIVATION_GATED_RELU_SQUARED);
    if (kind == ACTIVATION_GATED_GELU_TANH)
        return contribute_all(y, gate, scales, n, values, ACTIVATION_GATED_GELU_TANH);
#endif
    return contribute_all(y, y, scales, n, values, ACTIVATION_GELU);
}

enum { COMPACT_PART = 64 };

/* Quantises COMPACT_PART values. Those that do not round to 0 go to `bytes`, and their neurons,
 * list[i] or first + i where list is NULL, to `kept`. Returns their number, and adds the bytes to
 * *sum. */
#ifdef VECTOR_COMPRESSES

ALWAYS_INLINE size_t compact_part(const float *values, vf factor, const uint16_t *list,
                                  size_t first, uint16_t *kept, int8_t *bytes, vi *sum) {
    size_t n = 0;
    UNROLL
    for (size_t i = 0; i < COMPACT_PART; i += VF_LANES) {
        const vi rounded = vi_round(vf_mul(vf_load(values + i), factor));
        *sum = vi_add(*sum, rounded);
        n += append_lanes(rounded, list ? list + i : NULL, first + i, bytes + n, kept + n);
    }
    return n;
}

#else

ALWAYS_INLINE size_t compact_part(const float *values, vf factor, const uint16_t *list,
                                  size_t first, uint16_t *kept, int8_t *bytes, vi *sum) {
    int8_t some[COMPACT_PART];
    uint64_t active = 0;
    size_t n = 0;
    UNROLL
    for (size_t i = 0; i < COMPACT_PART; i += 4 * VF_LANES) {
        vi rounded[4];
        UNROLL
        for (size_t v = 0; v < 4; v++) {
            rounded[v] = vi_round(vf_mul(vf_load(values + i + v * VF_LANES), factor));
            *sum = vi_add(*sum, rounded[v]);
        }
        const vi narrow = vi_narrow(rounded[0], rounded[1], rounded[2], rounded[3]);
        memcpy(some + i, &narrow, sizeof narrow);
        active |= vi_nonzero_bytes(narrow) << i;
    }
    for (; active; active &= active - 1) {
        const size_t at = (size_t)__builtin_ctzll(active);
        bytes[n] = some[at];
        kept[n++] = (uint16_t)(list ? list[at] : first + at);
    }
    return n;
}

#endif

/* Quantises the last n values of a list, fewer than COMPACT_PART, as compact_part does. */
ALWAYS_INLINE size_t compact_rest(const float *values, vf factor, const uint16_t *list,
                                  size_t first, size_t n, uint16_t *kept, int8_t *bytes, vi *sum) {
    float padded[COMPACT_PART] = {0};
    uint16_t neurons[COMPACT_PART];
    memcpy(padded, values, n * sizeof *values);
    for (size_t i = 0; i < COMPACT_PART; i++)
        neurons[i] = (uint16_t)(i >= n ? 0 : list ? list[i] : first + i);
    return compact_part(padded, factor, neurons, 0, kept, bytes, sum);
}

static size_t sparse_compact(const float *values, float largest, const uint16_t *list, size_t n,
                             uint16_t *kept, int8_t *bytes, int32_t *total) {
    *total = 0;
    if (!isfinite(largest))
        return 0;
    const vf factor = vf_set1(largest > 0x1p-120f ? 127 / largest : 0);
    vi sum = vi_set1(0);
    size_t count = 0, i = 0;
    for (; i + COMPACT_PART <= n; i += COMPACT_PART)
        count += compact_part(values + i, factor, list ? list + i : NULL, i, kept + count,
                              bytes + count, &sum);
    if (i < n)
        count += compact_rest(values + i, factor, list ? list + i : NULL, i, n - i, kept + count,
                              bytes + count, &sum);
    for (size_t j = count; j % DOWN_NEURONS != 0; j++) {
        bytes[j] = 0;
        kept[j] = 0;
    }
    /* The total fits: it is at most 127 for each of 2^16 neurons. */
    int32_t lanes[VF_LANES];
    vi_store(lanes, sum);
    for (size_t v = 0; v < VF_LANES; v++)
        *total += lanes[v];
    return count;
}

/* ---- down ----------------------------------------------------------------------------------- */

#ifdef VECTOR_COLUMNS_IN_16_BITS

/* The products of four neurons are added up in 16 bits. Their sum P fits if the magnitudes of the
 * neurons' bytes add up to at most DOWN_MOST, since weights have magnitudes of up to 127; for two
 * neurons it always does. Sums of P are kept as two 16-bit numbers for each output: `low`, the sum
 * of all P modulo 2^16, and `high`, the sum of all P / 256, rounded down. The sum of all remainders
 * P - 256 (P / 256) is low - 256 high modulo 2^16, and below 2^16 if there are at most 255 of them.
 */
enum { DOWN_MOST = 258, DOWN_PART = 127 * DOWN_NEURONS, DOWN_SUMS = SPARSE_CHUNK / VF_LANES };

/* Four neurons whose products are added up together. */
struct down_group {
    size_t column[DOWN_NEURONS]; /* where their columns begin */
    uint16_t two[2];             /* the bytes of the first and of the last two of them */
};

struct down_sums {
    vi low[DOWN_SUMS / 2], high[DOWN_SUMS / 2];
};

/* Divides up to DOWN_PART neurons into groups, at most 254. Neurons whose sums would not fit make
 * two groups, in each of which two have zeros in the place of their bytes. Sets *signs to a
 * negative number if a byte is negative. */
static size_t down_groups(const int8_t *bytes, const uint16_t *list, size_t n, size_t column,
                          struct down_group *groups, int *signs) {
    size_t count = 0;
    *signs = 0;
    for (size_t i = 0; i < n; i += DOWN_NEURONS) {
        struct down_group *group = &groups[count++];
        int most = 0;
        UNROLL
        for (size_t j = 0; j < DOWN_NEURONS; j++) {
            group->column[j] = list[i + j] * column;
            most += abs(bytes[i + j]);
            *signs |= bytes[i + j];
        }
        memcpy(group->two, bytes + i, DOWN_NEURONS);
        if (most > DOWN_MOST) {
            groups[count] = *group;
            groups[count++].two[0] = 0;
            group->two[1] = 0;
        }
    }
    return count;
}

/* Adds the products of a group to the sums of SPARSE_CHUNK outputs. `w` points to their first
 * weight in the first neuron's column. */
ALWAYS_INLINE void down_group(const struct down_group *g, const uint8_t *w, struct down_sums *s,
                              const int positive) {
    const vi_two ab = vi_repeat_two(g->two[0], positive), cd = vi_repeat_two(g->two[1], positive);
    UNROLL
    for (int v = 0; v < DOWN_SUMS / 2; v += 2) {
        vi row[DOWN_NEURONS];
        UNROLL
        for (int j = 0; j < DOWN_NEURONS; j++)
            row[j] = vi_load((const int32_t *)(const void *)(w + g->column[j] + v * 2 * VF_LANES));
        const vi first = vi16_add(vi16_dot_columns(vi8_zip_low(row[0], row[1]), ab, positive),
                                  vi16_dot_columns(vi8_zip_low(row[2], row[3]), cd, positive));
        const vi second = vi16_add(vi16_dot_columns(vi8_zip_high(row[0], row[1]), ab, positive),
                                   vi16_dot_columns(vi8_zip_high(row[2], row[3]), cd, positive));
        s->low[v] = vi16_add(s->low[v], first);
        s->high[v] = vi16_add(s->high[v], vi16_upper_bytes(first));
        s->low[v + 1] = vi16_add(s->low[v + 1], second);
        s->high[v + 1] = vi16_add(s->high[v + 1], vi16_upper_bytes(second));
    }
}

/* Adds the products of all groups to the sums of SPARSE_CHUNK outputs. */
ALWAYS_INLINE void down_chunk(const struct down_group *groups, size_t n, const uint8_t *w,
                              int32_t *sums, const int positive) {
    struct down_sums s;
    UNROLL
    for (int v = 0; v < DOWN_SUMS / 2; v++)
        s.low[v] = s.high[v] = vi_set1(0);
    for (size_t i = 0; i < n; i++)
        down_group(&groups[i], w, &s, positive);
    UNROLL
    for (int v = 0; v < DOWN_SUMS / 2; v++) {
        vi both[2];
        vi16_join(vi16_sub(s.low[v], vi16_to_upper_bytes(s.high[v])), s.high[v], both);
        UNROLL
        for (int i = 0; i < 2; i++) {
            int32_t *to = sums + (2 * v + i) * VF_LANES;
            vi_store(to, vi_add(vi_load(to), both[i]));
        }
    }
}

static void sparse_down(const int8_t *bytes, const uint8_t *w, const uint16_t *list, size_t n,
                        size_t size, int32_t *sums) {
    const size_t column = sparse_row_bytes(size);
    memset(sums, 0, column * sizeof *sums);
    for (size_t first = 0; first < n; first += DOWN_PART) {
        struct down_group groups[2 * DOWN_PART / DOWN_NEURONS];
        const size_t part = n - first < DOWN_PART ? n - first : DOWN_PART;
        int signs;
        const size_t count = down_groups(bytes + first, list + first, part, column, groups, &signs);
        for (size_t c = 0; c < column; c += SPARSE_CHUNK)
            if (signs < 0)
                down_chunk(groups, count, w + c, sums + c, 0);
            else
                down_chunk(groups, count, w + c, sums + c, 1);
    }
}

#else

/* Computes `vectors` vectors of sums. `w` points to their first weight in the first neuron's
 * column, and columns are `column` bytes long. */
ALWAYS_INLINE void down_strip(const int8_t *bytes, const uint8_t *w, const uint16_t *list, size_t n,
                              size_t column, int32_t *sums, const int vectors) {
    vi sum[DOWN_VECTORS];
    UNROLL
    for (int v = 0; v < vectors; v++)
        sum[v] = vi_set1(0);
    for (size_t i = 0; i < n; i += DOWN_NEURONS) {
        const vi_four four = vi_load_four(bytes + i);
        const uint8_t *a = w + list[i] * column, *b = w + list[i + 1] * column;
        const uint8_t *c = w + list[i + 2] * column, *d = w + list[i + 3] * column;
        UNROLL
        for (int v = 0; v < vectors; v += 4) {
            vi_add_columns(sum + v, a, b, c, d, four);
            a += 4 * VF_LANES;
            b += 4 * VF_LANES;
            c += 4 * VF_LANES;
            d += 4 * VF_LANES;
        }
    }
    UNROLL
    for (int v = 0; v < vectors; v++)
        vi_store(sums + v * VF_LANES, sum[v]);
}

static void sparse_down(const int8_t *bytes, const uint8_t *w, const uint16_t *list, size_t n,
                        size_t size, int32_t *sums) {
    const size_t column = sparse_row_bytes(size);
    size_t c = 0;
    for (; c + DOWN_VECTORS * VF_LANES <= column; c += DOWN_VECTORS * VF_LANES)
        down_strip(bytes, w + c, list, n, column, sums + c, DOWN_VECTORS);
    for (; c < column; c += 4 * VF_LANES)
        down_strip(bytes, w + c, list, n, column, sums + c, 4);
}

#endif

/* Computes `lanes` outputs. A whole vector of sums can be loaded, since sums are padded. */
ALWAYS_INLINE void add_base_vector(const int32_t *sums, vi minus, vf scale, const float *scales,
                                   const float *base, float *y, size_t lanes) {
    const vf sum = vf_of_vi(vi_add(vi_load(sums), minus));
    const vf factor = vf_mul(scale, vf_load_n(scales, lanes));
    vf_store_n(y, vf_fma(sum, factor, vf_load_n(base, lanes)), lanes);
}

static void sparse_add_base(const int32_t *sums, int32_t shift, float scale, const float *scales,
                            const float *base, size_t size, float *y) {
    const vi minus = vi_set1(-shift);
    const vf factor = vf_set1(scale);
    size_t c = 0;
    for (; c + VF_LANES <= size; c += VF_LANES)
        add_base_vector(sums + c, minus, factor, scales + c, base + c, y + c, VF_LANES);
    if (c < size)
        add_base_vector(sums + c, minus, factor, scales + c, base + c, y + c, size - c);
}

#define SPARSE_TABLE(quantiser, columns)                                                           \
    {.lanes = VF_LANES,                                                                            \
     .narrow = SPARSE_NARROW,                                                                      \
     .signed_columns = columns,                                                                    \
     .quantise = quantiser,                                                                        \
     .choose = sparse_choose,                                                                      \
     .up = sparse_up,                                                                              \
     .activate = sparse_activate,                                                                  \
     .contribute = sparse_contribute,                                                              \
     .compact = sparse_compact,                                                                    \
     .down = sparse_down,                                                                          \
     .add_base = sparse_add_base}

MAYBE_UNUSED const struct sparse_kernels sparse_unsigned =
    SPARSE_TABLE(sparse_quantise_unsigned, VECTOR_SIGNED_COLUMNS);
MAYBE_UNUSED const struct sparse_kernels sparse_signed = SPARSE_TABLE(sparse_quantise_signed, 1);

#define SPARSE_UNSIGNED &sparse_unsigned
