/* SPDX-License-Identifier: Apache-2.0
 * From the sums of a sparse layer's first half to contributions, and from those to bytes
 * (sparse.h). */

/* Loads the four fields of the next VF_LANES neurons of a list, one vector for each field. If
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
    if (kind == ACTIVATION_GATED_GELU) {
        gelu_of(&gate, 1, vf_table(gelu_terms));
        return vf_mul(gate, y);
    }
#endif
#ifndef __wasm__
    if (kind == ACTIVATION_QUICK_GELU)
        return vf_mul(silu_of(vf_mul(y, vf_set1(1.702f)), vf_table(exp2_terms)),
                      vf_set1(1 / 1.702f));
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
    if (kind == ACTIVATION_GATED_GELU)
        return activate_all(sums, centers, list, n, row, values, ACTIVATION_GATED_GELU);
#endif
#ifndef __wasm__
    if (kind == ACTIVATION_QUICK_GELU)
        return activate_all(sums, centers, list, n, row, values, ACTIVATION_QUICK_GELU);
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
    if (kind == ACTIVATION_GATED_GELU)
        return contribute_all(y, gate, scales, n, values, ACTIVATION_GATED_GELU);
#endif
#ifndef __wasm__
    if (kind == ACTIVATION_QUICK_GELU)
        return contribute_all(y, y, scales, n, values, ACTIVATION_QUICK_GELU);
#endif
    return contribute_all(y, y, scales, n, values, ACTIVATION_GELU);
}

enum { COMPACT_PART = 64 };

/* Quantises COMPACT_PART values. Those that do not round to 0 go to `bytes`, and their neurons,
 * list[i] or first + i if list is NULL, to `kept`. Returns their number, and adds the bytes to
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
