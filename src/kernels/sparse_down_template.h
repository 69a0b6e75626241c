/* SPDX-License-Identifier: Apache-2.0
 * The second half of a sparse layer (sparse.h): the columns of active neurons are added up. */

#ifdef VECTOR_COLUMNS_IN_16_BITS

/* The products of four neurons are added up in 16 bits. Their sum P fits if the magnitudes of the
 * neurons' bytes add up to at most DOWN_MOST, since weights have magnitudes of up to 127; for two
 * neurons it always does. Sums of P are kept as two 16-bit numbers for each output: `low`, the sum
 * of all P modulo 2^16, and `high`, the sum of all P / 256, rounded down. The sum of all remainders
 * P - 256 (P / 256) is low - 256 high modulo 2^16, and below 2^16 if there are at most 255 of them.
 */
enum {
    DOWN_MOST = 258,
    DOWN_PART = 127 * DOWN_NEURONS,
    DOWN_WORDS = 4,                          /* vectors of 16-bit sums that registers hold */
    DOWN_OUTPUTS = 2 * VF_LANES * DOWN_WORDS /* outputs whose sums these are */
};

/* Four neurons whose products are added up together. */
struct down_group {
    size_t column[DOWN_NEURONS];       /* where their columns begin */
    column_value values[DOWN_NEURONS]; /* their bytes, which are not negative */
};

/* Divides up to DOWN_PART neurons, whose bytes are not negative, into groups, at most 254. Neurons
 * whose sums would not fit make two groups, in each of which two have zeros in the place of their
 * bytes. */
static size_t down_groups(const int8_t *bytes, const uint16_t *list, size_t n, size_t column,
                          struct down_group *groups) {
    size_t count = 0;
    for (size_t i = 0; i < n; i += DOWN_NEURONS) {
        struct down_group *group = &groups[count++];
        int most = 0;
        UNROLL
        for (size_t j = 0; j < DOWN_NEURONS; j++) {
            group->column[j] = list[i + j] * column;
            group->values[j] = (column_value)bytes[i + j];
            most += bytes[i + j];
        }
        if (most > DOWN_MOST) {
            groups[count] = *group;
            groups[count].values[0] = groups[count].values[1] = 0;
            group->values[2] = group->values[3] = 0;
            count++;
        }
    }
    return count;
}

/* Fetches the weights of a neuron's next outputs: the columns of a token's neurons are anywhere,
 * and do not all stay in the first-level cache until their turn. In WebAssembly a load would cost
 * more than it saves. */
ALWAYS_INLINE void fetch_column(const uint8_t *w) {
#ifndef __wasm__
    __builtin_prefetch(w);
#else
    (void)w;
#endif
}

/* Adds the products of all groups to the sums of DOWN_OUTPUTS outputs. `w` points to their first
 * weight in the first neuron's column. */
ALWAYS_INLINE void down_chunk(const struct down_group *groups, size_t n, const uint8_t *w,
                              int32_t *sums) {
    vi low[DOWN_WORDS], high[DOWN_WORDS];
    UNROLL
    for (int v = 0; v < DOWN_WORDS; v++)
        low[v] = high[v] = vi_set1(0);
    for (const struct down_group *g = groups; g < groups + n; g++) {
        const vi_two ab = vi_load_two(g->values), cd = vi_load_two(g->values + 2);
        UNROLL
        for (int v = 0; v < DOWN_WORDS; v += 2) {
            const uint8_t *from = w + (size_t)v * 2 * VF_LANES;
            vi first[2], last[2];
            vi16_columns(from + g->column[0], from + g->column[1], ab, first);
            vi16_columns(from + g->column[2], from + g->column[3], cd, last);
            const vi even = vi16_add(first[0], last[0]), odd = vi16_add(first[1], last[1]);
            low[v] = vi16_add(low[v], even);
            high[v] = vi16_add(high[v], vi16_upper_bytes(even));
            low[v + 1] = vi16_add(low[v + 1], odd);
            high[v + 1] = vi16_add(high[v + 1], vi16_upper_bytes(odd));
        }
        UNROLL
        for (int j = 0; j < DOWN_NEURONS; j++)
            fetch_column(w + g->column[j] + DOWN_OUTPUTS);
        UNROLL
        for (int v = 0; v < DOWN_WORDS; v++) {
            vi_keep(&low[v]);
            vi_keep(&high[v]);
        }
    }
    UNROLL
    for (int v = 0; v < DOWN_WORDS; v++) {
        vi both[2];
        vi16_join(vi16_sub(low[v], vi16_to_upper_bytes(high[v])), high[v], both);
        UNROLL
        for (int i = 0; i < 2; i++) {
            int32_t *to = sums + (2 * v + i) * VF_LANES;
            vi_store(to, vi_add(vi_load(to), both[i]));
        }
    }
}

/* Adds up neurons, whose bytes are not negative, at most DOWN_PART. */
static void down_part(const int8_t *bytes, const uint8_t *w, const uint16_t *list, size_t n,
                      size_t column, int32_t *sums) {
    struct down_group groups[2 * DOWN_PART / DOWN_NEURONS];
    const size_t count = down_groups(bytes, list, n, column, groups);
    for (size_t c = 0; c < column; c += DOWN_OUTPUTS)
        down_chunk(groups, count, w + c, sums + c);
}

/* Adds up the magnitudes of those neurons that have the sign. */
static void down_sign(const int8_t *bytes, const uint8_t *w, const uint16_t *list, size_t n,
                      size_t column, int32_t *sums, int sign) {
    int8_t magnitudes[DOWN_PART];
    uint16_t some[DOWN_PART];
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const int magnitude = sign * bytes[i];
        magnitudes[count] = (int8_t)magnitude;
        some[count] = list[i];
        count += magnitude > 0;
        if (count == DOWN_PART || i + 1 == n) {
            for (; count % DOWN_NEURONS != 0; count++)
                magnitudes[count] = 0, some[count] = 0;
            down_part(magnitudes, w, some, count, column, sums);
            count = 0;
        }
    }
}

static void sparse_down(const int8_t *bytes, const uint8_t *w, const uint16_t *list, size_t n,
                        size_t size, int32_t *sums) {
    const size_t column = sparse_row_bytes(size);
    int signs = 0;
    memset(sums, 0, column * sizeof *sums);
    for (size_t i = 0; i < n; i++)
        signs |= bytes[i];
    if (signs < 0) {
        down_sign(bytes, w, list, n, column, sums, -1);
        for (size_t c = 0; c < column; c++)
            sums[c] = -sums[c];
        down_sign(bytes, w, list, n, column, sums, 1);
        return;
    }
    for (size_t first = 0; first < n; first += DOWN_PART) {
        const size_t part = n - first < DOWN_PART ? n - first : DOWN_PART;
        down_part(bytes + first, w, list + first, part, column, sums);
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
