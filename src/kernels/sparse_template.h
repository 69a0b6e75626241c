/* SPDX-License-Identifier: Apache-2.0
 * The sparse kernels (sparse.h), written once over the vector operations of an instruction set.
 * The including file has included rows_template.h and defined how much is held in registers:
 * DOWN_VECTORS vectors of sums in `down`, the sums of UP_TOKENS tokens in `up`. */
#include "kernels/sparse.h"

enum {
    QUAD_VECTORS = QUAD * QUAD_CHUNK / (4 * VF_LANES), /* in which a chunk of a quad stands */
    QUADS_PER_VECTOR = VF_LANES / QUAD
};

/* ---- a token's row -------------------------------------------------------------------------- */

ALWAYS_INLINE vf scaled_load(const float *x, const float *by, size_t c) {
    return by ? vf_mul(vf_load(x + c), vf_load(by + c)) : vf_load(x + c);
}

ALWAYS_INLINE vf scaled_load_n(const float *x, const float *by, size_t c, size_t n) {
    const vf value = vf_load_n(x + c, n);
    return by ? vf_mul(value, vf_load_n(by + c, n)) : value;
}

ALWAYS_INLINE void sparse_quantise(const float *x, const float *by, size_t k,
                                   struct quantised_row *row, const int signed_values) {
    vf least = vf_set1(0), most = vf_set1(0);
    size_t c = 0;
    for (; c + VF_LANES <= k; c += VF_LANES) {
        const vf value = scaled_load(x, by, c);
        least = vf_min(least, value);
        most = vf_max(most, value);
    }
    if (c < k) {
        const vf value = scaled_load_n(x, by, c, k - c);
        least = vf_min(least, value);
        most = vf_max(most, value);
    }
    const float low = vf_least(least), range = quantised_range(low, vf_largest(most));
    const float inverse = range > 0 ? 255 / range : 0;
    const vf factor = vf_set1(inverse);
    const vi shift = vi_round(vf_set1(-low * inverse));
    for (c = 0; c + VF_LANES <= k; c += VF_LANES)
        vi_store_u8(row->q + c, vi_add(vi_round(vf_mul(scaled_load(x, by, c), factor)), shift));
    if (c < k) {
        uint8_t tail[VF_LANES];
        const vf value = scaled_load_n(x, by, c, k - c);
        vi_store_u8(tail, vi_add(vi_round(vf_mul(value, factor)), shift));
        memcpy(row->q + c, tail, k - c);
    }
    for (c = 0; signed_values && c < k; c++)
        row->q[c] ^= 0x80;
    memset(row->q + k, 0, quad_row_bytes(k) - k);
    row->scale = range / 255;
    row->zero = rintf(-low * inverse) - (signed_values ? 128 : 0);
}

MAYBE_UNUSED void sparse_quantise_unsigned(const float *x, const float *by, size_t k,
                                           struct quantised_row *row) {
    sparse_quantise(x, by, k, row, 0);
}

MAYBE_UNUSED void sparse_quantise_signed(const float *x, const float *by, size_t k,
                                         struct quantised_row *row) {
    sparse_quantise(x, by, k, row, 1);
}

/* ---- up ------------------------------------------------------------------------------------- */

/* `uses` tokens at a time, so that weights are loaded, and where need be unpacked, once for all. */
ALWAYS_INLINE void up_some(const uint8_t *q, const int8_t *w, const struct quad_use *use,
                           size_t chunks, int32_t *sums, const int uses) {
    vi sum[UP_TOKENS * QUAD_VECTORS];
    const uint8_t *row[UP_TOKENS];
    const unsigned char *bytes = (const unsigned char *)w;
    UNROLL
    for (int i = 0; i < uses * QUAD_VECTORS; i++)
        sum[i] = vi_set1(0);
    UNROLL
    for (int i = 0; i < uses; i++)
        row[i] = q + use[i].token * chunks * QUAD_CHUNK;
    for (size_t c = 0; c < chunks; c++, bytes += QUAD * QUAD_CHUNK) {
        vi_weights weights[QUAD_VECTORS];
        vi_activations x = vi_load_activations16(row[0] + c * QUAD_CHUNK);
        UNROLL
        for (int v = 0; v < QUAD_VECTORS; v++)
            weights[v] = vi_load_weights(bytes + v * VF_LANES * 4);
        UNROLL
        for (int i = 0; i < uses * QUAD_VECTORS; i++) {
            if (i % QUAD_VECTORS == 0)
                x = vi_load_activations16(row[i / QUAD_VECTORS] + c * QUAD_CHUNK);
            sum[i] = vi_dot(sum[i], x, weights[i % QUAD_VECTORS]);
        }
    }
    UNROLL
    for (int i = 0; i < uses; i++)
        vi_store_quad(sums + (size_t)QUAD * use[i].place, sum + i * QUAD_VECTORS);
}

static void sparse_up(const uint8_t *q, const int8_t *w, const struct quad_use *uses, size_t n,
                      size_t k, int32_t *sums) {
    const size_t chunks = quad_row_bytes(k) / QUAD_CHUNK;
    size_t i = 0;
    for (; i + UP_TOKENS <= n; i += UP_TOKENS)
        up_some(q, w, uses + i, chunks, sums, UP_TOKENS);
    for (; i + 4 <= n && UP_TOKENS > 4; i += 4)
        up_some(q, w, uses + i, chunks, sums, UP_TOKENS < 4 ? UP_TOKENS : 4);
    for (; i + 2 <= n && UP_TOKENS > 2; i += 2)
        up_some(q, w, uses + i, chunks, sums, UP_TOKENS < 2 ? UP_TOKENS : 2);
    for (; i < n; i++)
        up_some(q, w, uses + i, chunks, sums, 1);
}

static void sparse_to_integers(const float *values, size_t n, int32_t *integers) {
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vi_store(integers + i, vi_round(vf_load(values + i)));
    for (; i < n; i++)
        integers[i] = (int32_t)values[i];
}

/* ---- from sums to contributions ------------------------------------------------------------- */

/* Four floats of each of the next QUADS_PER_VECTOR quads of a list, `left` of which are; those of
 * quad i stand `stride` i bytes after the first. */
ALWAYS_INLINE vf quad_floats(const void *first, size_t stride, const size_t *at, size_t left) {
    const float *groups[QUADS_PER_VECTOR];
    UNROLL
    for (size_t g = 0; g < QUADS_PER_VECTOR; g++)
        groups[g] =
            (const float *)(const void *)((const char *)first + stride * at[g < left ? g : 0]);
    return vf_load_groups(groups);
}

#define QUAD_FIELD(field)                                                                          \
    quad_floats((const char *)parameters + offsetof(struct quad_parameters, field),                \
                sizeof *parameters, at, left)

/* The same of arrays [quads, 4]. */
ALWAYS_INLINE vf quad_column_floats(const float *values, const size_t *at, size_t left) {
    return quad_floats(values, QUAD * sizeof *values, at, left);
}

ALWAYS_INLINE void quads_at(const uint16_t *quads, size_t i, size_t left, size_t *at) {
    UNROLL
    for (size_t g = 0; g < QUADS_PER_VECTOR; g++)
        at[g] = g >= left ? 0 : quads ? quads[i + g] : i + g;
}

ALWAYS_INLINE vf finished(const int32_t *sums, const struct quad_parameters *parameters,
                          const size_t *at, size_t left, const struct quantised_row *row) {
    int32_t some[VF_LANES] = {0};
    if (left < QUADS_PER_VECTOR)
        memcpy(some, sums, left * QUAD * sizeof *some);
    const vf sum = vf_of_vi(vi_load(left < QUADS_PER_VECTOR ? some : sums));
    const vf centred = vf_fma(vf_set1(-row->zero), QUAD_FIELD(sum), sum);
    const vf scale = vf_mul(vf_set1(row->scale), QUAD_FIELD(scale));
    return vf_fma(centred, scale, QUAD_FIELD(bias));
}

ALWAYS_INLINE void store_values(float *to, vf value, size_t left) {
    if (left < QUADS_PER_VECTOR)
        vf_store_n(to, value, left * QUAD);
    else
        vf_store(to, value);
}

static void sparse_finish(const int32_t *sums, const struct quad_parameters *parameters,
                          const uint16_t *quads, size_t n, const struct quantised_row *row,
                          float *y) {
    size_t at[QUADS_PER_VECTOR];
    for (size_t i = 0; i < n; i += QUADS_PER_VECTOR) {
        const size_t left = n - i;
        quads_at(quads, i, left, at);
        store_values(y + QUAD * i, finished(sums + QUAD * i, parameters, at, left, row), left);
    }
}

static size_t sparse_choose(const float *logits, const float *thresholds, size_t n,
                            uint16_t *quads) {
    size_t chosen = 0, i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        chosen += append_above(vf_load(logits + i), vf_load(thresholds + i), i, quads + chosen);
    for (; i < n; i++) {
        quads[chosen] = (uint16_t)i;
        chosen += logits[i] > thresholds[i];
    }
    return chosen;
}

ALWAYS_INLINE vf activated(vf y, vf gate, const enum activation kind) {
    vf active = y;
    if (kind == ACTIVATION_RELU)
        return vf_max(y, vf_set1(0));
    if (kind == ACTIVATION_GATED_SILU)
        return vf_mul(silu_of(gate, vf_table(exp2_terms)), y);
    gelu_of(&active, 1, vf_table(gelu_terms));
    return active;
}

ALWAYS_INLINE float activate_all(struct quad_sums up, struct quad_sums gate,
                                 const struct quad_columns *columns, const uint16_t *quads,
                                 size_t n, const struct quantised_row *row, float *values,
                                 const enum activation kind) {
    vf most = vf_set1(0);
    size_t at[QUADS_PER_VECTOR];
    for (size_t i = 0; i < n; i += QUADS_PER_VECTOR) {
        const size_t left = n - i;
        quads_at(quads, i, left, at);
        const vf y = finished(up.sums + QUAD * i, up.parameters, at, left, row);
        vf opened = y;
        if (kind == ACTIVATION_GATED_SILU)
            opened = finished(gate.sums + QUAD * i, gate.parameters, at, left, row);
        const vf center = quad_column_floats(columns->center, at, left);
        const vf above = vf_sub(activated(y, opened, kind), center);
        const vf value = vf_mul(above, quad_column_floats(columns->scale, at, left));
        store_values(values + QUAD * i, value, left);
        if (left >= QUADS_PER_VECTOR)
            most = vf_max(most, vf_abs(value));
        else
            most = vf_max(most, vf_abs(vf_load_n(values + QUAD * i, left * QUAD)));
    }
    return vf_largest(most);
}

static float sparse_activate(enum activation kind, struct quad_sums up, struct quad_sums gate,
                             const struct quad_columns *columns, const uint16_t *quads, size_t n,
                             const struct quantised_row *row, float *values) {
    if (kind == ACTIVATION_RELU)
        return activate_all(up, up, columns, quads, n, row, values, ACTIVATION_RELU);
    if (kind == ACTIVATION_GATED_SILU)
        return activate_all(up, gate, columns, quads, n, row, values, ACTIVATION_GATED_SILU);
    return activate_all(up, up, columns, quads, n, row, values, ACTIVATION_GELU);
}

/* The first `lanes` contributions of a vector; returns their magnitudes. */
ALWAYS_INLINE vf contribute_vector(const float *y, const float *gate, const float *scales,
                                   float *values, size_t lanes, const enum activation kind) {
    const vf opened = kind == ACTIVATION_GATED_SILU ? vf_load_n(gate, lanes) : vf_set1(0);
    const vf active = activated(vf_load_n(y, lanes), opened, kind);
    const vf value = vf_mul(active, vf_load_n(scales, lanes));
    vf_store_n(values, value, lanes);
    return vf_abs(value);
}

ALWAYS_INLINE float contribute_all(const float *y, const float *gate, const float *scales, size_t n,
                                   float *values, const enum activation kind) {
    /* Side by side, as one maximum after the other would wait for the one before. */
    vf most = vf_set1(0), other = vf_set1(0);
    size_t i = 0;
    for (; i + 2 * VF_LANES <= n; i += 2 * VF_LANES) {
        const size_t next = i + VF_LANES;
        most = vf_max(most,
                      contribute_vector(y + i, gate + i, scales + i, values + i, VF_LANES, kind));
        other = vf_max(other, contribute_vector(y + next, gate + next, scales + next, values + next,
                                                VF_LANES, kind));
    }
    for (; i < n; i += VF_LANES)
        most = vf_max(most, contribute_vector(y + i, gate + i, scales + i, values + i,
                                              lanes_left(n - i), kind));
    return vf_largest(vf_max(most, other));
}

static float sparse_contribute(enum activation kind, const float *y, const float *gate,
                               const float *scales, size_t n, float *values) {
    if (kind == ACTIVATION_RELU)
        return contribute_all(y, y, scales, n, values, ACTIVATION_RELU);
    if (kind == ACTIVATION_GATED_SILU)
        return contribute_all(y, gate, scales, n, values, ACTIVATION_GATED_SILU);
    return contribute_all(y, y, scales, n, values, ACTIVATION_GELU);
}

#ifndef VECTOR_COMPRESSES

ALWAYS_INLINE size_t append_lanes(vi x, const uint16_t *from, size_t first, int8_t *to,
                                  uint16_t *list) {
    int32_t lanes[VF_LANES];
    size_t n = 0;
    vi_store(lanes, x);
    UNROLL
    for (size_t i = 0; i < VF_LANES; i++) {
        memcpy(to + QUAD * n, &lanes[i], sizeof *lanes);
        list[n] = (uint16_t)(from ? from[first + i] : first + i);
        n += lanes[i] != 0;
    }
    return n;
}

#endif

/* VF_LANES quads' values, rounded; adds them to *sum. */
ALWAYS_INLINE vi quad_bytes_of(const float *values, vf by, vi *sum) {
    vi rounded[QUAD];
    UNROLL
    for (size_t v = 0; v < QUAD; v++) {
        rounded[v] = vi_round(vf_mul(vf_load(values + v * VF_LANES), by));
        *sum = vi_add(*sum, rounded[v]);
    }
    return vi_narrow(rounded[0], rounded[1], rounded[2], rounded[3]);
}

/* What is left of a list's last quads, fewer than VF_LANES. */
ALWAYS_INLINE size_t compact_rest(const float *values, vf by, const uint16_t *quads, size_t first,
                                  size_t n, uint16_t *kept, int8_t *bytes, vi *sum) {
    float padded[QUAD * VF_LANES] = {0};
    uint16_t list[VF_LANES], left[VF_LANES];
    int8_t some[QUAD * VF_LANES];
    memcpy(padded, values, QUAD * n * sizeof *values);
    for (size_t i = 0; i < VF_LANES; i++)
        list[i] = (uint16_t)(i >= n ? 0 : quads ? quads[first + i] : first + i);
    const size_t count = append_lanes(quad_bytes_of(padded, by, sum), list, 0, some, left);
    memcpy(kept, left, count * sizeof *kept);
    memcpy(bytes, some, count * QUAD);
    return count;
}

static size_t sparse_compact(const float *values, float largest, const uint16_t *quads, size_t n,
                             uint16_t *kept, int8_t *bytes, int32_t *total) {
    const vf by = vf_set1(largest > 0x1p-120f ? 127 / largest : 0);
    vi sum = vi_set1(0);
    size_t left = 0, i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        left += append_lanes(quad_bytes_of(values + QUAD * i, by, &sum), quads, i,
                             bytes + QUAD * left, kept + left);
    if (i < n)
        left += compact_rest(values + QUAD * i, by, quads, i, n - i, kept + left,
                             bytes + QUAD * left, &sum);
    /* At most 127 for each of 2^18 neurons: 32 bits hold it, and where it is below 2^24, as it is
     * for 132,000 neurons, so does a float, lane by lane even for more. */
    int32_t lanes[VF_LANES];
    vi_store(lanes, sum);
    *total = 0;
    for (size_t v = 0; v < VF_LANES; v++)
        *total += lanes[v];
    return left;
}

/* ---- down ----------------------------------------------------------------------------------- */

/* `vectors` vectors of sums, from the first weight of which `w` points. */
ALWAYS_INLINE void down_strip(const int8_t *bytes, const uint8_t *w, const uint16_t *quads,
                              size_t n, size_t quad_bytes, int32_t *sums, const int vectors) {
    vi sum[DOWN_VECTORS];
    UNROLL
    for (int v = 0; v < vectors; v++)
        sum[v] = vi_set1(0);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = w + quads[i] * quad_bytes;
        /* gcc would keep w + v * ... for each v in a register of its own, and run out of them. */
        __asm__("" : "+r"(at));
        const vi_weights four = vi_broadcast_weights(bytes + QUAD * i);
        UNROLL
        for (int v = 0; v < vectors; v++)
            sum[v] = vi_dot(sum[v], vi_load_all_activations(at + v * VF_LANES * 4), four);
    }
    UNROLL
    for (int v = 0; v < vectors; v++)
        vi_store(sums + v * VF_LANES, sum[v]);
}

static void sparse_down(const int8_t *bytes, const uint8_t *w, const uint16_t *quads, size_t n,
                        size_t size, int32_t *sums) {
    const size_t columns = quad_row_bytes(size), quad_bytes = QUAD * columns;
    size_t c = 0;
    for (; c + DOWN_VECTORS * VF_LANES <= columns; c += DOWN_VECTORS * VF_LANES)
        down_strip(bytes, w + QUAD * c, quads, n, quad_bytes, sums + c, DOWN_VECTORS);
    for (; c + DOWN_VECTORS / 4 * VF_LANES <= columns; c += DOWN_VECTORS / 4 * VF_LANES)
        down_strip(bytes, w + QUAD * c, quads, n, quad_bytes, sums + c, DOWN_VECTORS / 4);
    for (; c < columns; c += VF_LANES)
        down_strip(bytes, w + QUAD * c, quads, n, quad_bytes, sums + c, 1);
}

/* The sums are padded to whole vectors. */
ALWAYS_INLINE void add_base_vector(const int32_t *sums, vi minus, vf scale, const float *scales,
                                   const float *base, float *y, size_t lanes) {
    const vf sum = vf_of_vi(vi_add(vi_load(sums), minus));
    const vf by = vf_mul(scale, vf_load_n(scales, lanes));
    vf_store_n(y, vf_fma(sum, by, vf_load_n(base, lanes)), lanes);
}

static void sparse_add_base(const int32_t *sums, int32_t shift, float scale, const float *scales,
                            const float *base, size_t size, float *y) {
    const vi minus = vi_set1(-shift);
    const vf by = vf_set1(scale);
    size_t c = 0;
    for (; c + VF_LANES <= size; c += VF_LANES)
        add_base_vector(sums + c, minus, by, scales + c, base + c, y + c, VF_LANES);
    if (c < size)
        add_base_vector(sums + c, minus, by, scales + c, base + c, y + c, size - c);
}

#define SPARSE_KERNELS(quantiser)                                                                  \
    {.quantise = quantiser,                                                                        \
     .up = sparse_up,                                                                              \
     .to_integers = sparse_to_integers,                                                            \
     .finish = sparse_finish,                                                                      \
     .choose = sparse_choose,                                                                      \
     .activate = sparse_activate,                                                                  \
     .contribute = sparse_contribute,                                                              \
     .compact = sparse_compact,                                                                    \
     .down = sparse_down,                                                                          \
     .add_base = sparse_add_base}

MAYBE_UNUSED const struct sparse_kernels sparse_unsigned = SPARSE_KERNELS(sparse_quantise_unsigned);
MAYBE_UNUSED const struct sparse_kernels sparse_signed = SPARSE_KERNELS(sparse_quantise_signed);
