/* SPDX-License-Identifier: Apache-2.0
 * The kernels of kv_step.h over the vector operations of an instruction set. The including file
 * includes rows_template.h and defines a tile of KV_ROWS x KV_VECTORS sums, of which KV_VECTORS *
 * VF_LANES divides KV_STEP. */

#ifdef DECODER_KERNELS

/* With few vectors they stay in registers. */
#if defined(__AVX512F__)
#define KV_UNROLL UNROLL
#else
#define KV_UNROLL UNROLL_NOT
#endif

/* With a dot product of bytes a loop over the values of a block takes four fifths of the time if it
 * is unrolled; without one it takes a sixth more. */
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define KEYS_UNROLL UNROLL
#else
#define KEYS_UNROLL UNROLL_NOT
#endif

/* ---- products with keys ---------------------------------------------------------------------- */

/* Adds the products of `values` values of keys to a tile of sums. */
ALWAYS_INLINE void kv_dot_keys(const int8_t *q, size_t row_bytes, const int8_t *keys, size_t values,
                               vi *sum, const int rows) {
    KEYS_UNROLL
    for (size_t c = 0; c < values; c += 4, q += 4, keys += KV_STEP * 4) {
        vb_weights weights[KV_VECTORS];
        vb_four four = vb_load_four(q);
        UNROLL
        for (int v = 0; v < KV_VECTORS; v++)
            weights[v] = vb_load_keys(keys + v * VF_LANES * 4);
        UNROLL
        for (int t = 0; t < rows * KV_VECTORS; t++) {
            if (t % KV_VECTORS == 0)
                four = vb_load_four(q + (size_t)(t / KV_VECTORS) * row_bytes);
            sum[t] = vb_dot_keys(sum[t], weights[t % KV_VECTORS], four);
        }
    }
}

/* Computes KV_VECTORS vectors of scores, from key `first` on, for `rows` rows from row i on. */
ALWAYS_INLINE void kv_score_tile(const struct int8_queries *x, size_t i, const int8_t *keys,
                                 const float *scales, size_t ld_scales, size_t first, float *y,
                                 const int rows) {
    const size_t bytes = kv_key_bytes(x->head_size), blocks = kv_blocks(x->head_size);
    float *to = y + i * KV_STEP + first;
    for (size_t b = 0; b < blocks; b++) {
        const size_t start = b * KV_BLOCK, left = bytes - start;
        const int8_t *q = x->q + i * bytes + start;
        const int8_t *from = keys + (start * KV_STEP + first * 4);
        const float *scale = scales + b * ld_scales + first;
        vi sum[KV_ROWS * KV_VECTORS];
        UNROLL
        for (int t = 0; t < rows * KV_VECTORS; t++)
            sum[t] = vb_start(x->sums[(i + (size_t)(t / KV_VECTORS)) * blocks + b]);
        if (left >= KV_BLOCK)
            kv_dot_keys(q, bytes, from, KV_BLOCK, sum, rows);
        else
            for (size_t c = 0; c < left; c += 4)
                kv_dot_keys(q + c, bytes, from + c * KV_STEP, 4, sum, rows);
        if (b == 0) {
            UNROLL
            for (int t = 0; t < rows * KV_VECTORS; t++)
                vf_store(to + t / KV_VECTORS * KV_STEP + t % KV_VECTORS * VF_LANES,
                         vf_fma(vf_of_vi(sum[t]), vf_load(scale + t % KV_VECTORS * VF_LANES),
                                vf_set1(0)));
            continue;
        }
        UNROLL
        for (int t = 0; t < rows * KV_VECTORS; t++) {
            float *at = to + t / KV_VECTORS * KV_STEP + t % KV_VECTORS * VF_LANES;
            vf_store(at, vf_fma(vf_of_vi(sum[t]), vf_load(scale + t % KV_VECTORS * VF_LANES),
                                vf_load(at)));
        }
    }
}

static void kv_score_int8(const struct int8_queries *x, const int8_t *keys, const float *scales,
                          size_t ld_scales, float *y) {
    for (size_t i = 0, step; i < x->rows; i += step) {
        const size_t left = x->rows - i;
        step = left >= KV_ROWS ? KV_ROWS : left >= 3 && KV_ROWS > 3 ? 3 : 1;
        for (size_t first = 0; first < KV_STEP; first += KV_VECTORS * VF_LANES) {
            if (step == KV_ROWS)
                kv_score_tile(x, i, keys, scales, ld_scales, first, y, KV_ROWS);
            else if (step == 3)
                kv_score_tile(x, i, keys, scales, ld_scales, first, y, KV_ROWS > 3 ? 3 : 1);
            else
                kv_score_tile(x, i, keys, scales, ld_scales, first, y, 1);
        }
    }
}

/* ---- softmax --------------------------------------------------------------------------------- */

enum { KV_STEP_VECTORS = KV_STEP / VF_LANES };

/* Several rows side by side hide how long one takes to find its largest share. */
enum { SHARE_ROWS = KV_STEP_VECTORS > 4 ? 1 : 4 };

/* Raises the largest score to that of a step, whose scores have the largest lanes `most`. */
static void kv_raise(struct softmax_row *row, vf most, vf factors, const float *terms) {
    float powers[VF_LANES];
    const float top = vf_largest(most);
    vf_store(powers, softmax_power(vf_set1(row->top), vf_set1(top), factors, terms));
    row->keep = row->top > -INFINITY ? powers[0] : 0;
    row->top = top;
}

/* Gives keys that do not count the score of one that does, until all are powers. */
static void kv_fill(float *scores, size_t first, size_t end) {
    for (size_t j = 0; j < first; j++)
        scores[j] = scores[first];
    for (size_t j = end; j < KV_STEP; j++)
        scores[j] = scores[first];
}

static void kv_clear(float *scores, size_t first, size_t end) {
    memset(scores, 0, first * sizeof *scores);
    memset(scores + end, 0, (KV_STEP - end) * sizeof *scores);
}

/* Makes powers of the scores. */
ALWAYS_INLINE void kv_powers(float *scores, size_t first, size_t end, float factor,
                             struct softmax_row *row, vf *power) {
    const float *terms = vf_table(exp2_terms);
    const vf factors = vf_set1(factor * LOG2_E);
    const bool whole = first == 0 && end == KV_STEP;
    if (!whole)
        kv_fill(scores, first, end);
    vf most = vf_load(scores);
    KV_UNROLL
    for (size_t v = 1; v < KV_STEP_VECTORS; v++)
        most = vf_max(most, vf_load(scores + v * VF_LANES));
    row->keep = 1;
    if (vf_above(most, vf_set1(row->top)))
        kv_raise(row, most, factors, terms);
    const vf tops = vf_set1(row->top), keep = vf_set1(row->keep);
    KV_UNROLL
    for (size_t v = 0; v < KV_STEP_VECTORS; v++)
        power[v] = softmax_power(vf_load(scores + v * VF_LANES), tops, factors, terms);
    if (!whole) {
        for (size_t v = 0; v < KV_STEP_VECTORS; v++)
            vf_store(scores + v * VF_LANES, power[v]);
        kv_clear(scores, first, end);
        for (size_t v = 0; v < KV_STEP_VECTORS; v++)
            power[v] = vf_load(scores + v * VF_LANES);
    }
    enum { TOTALS = SOFTMAX_LANES / VF_LANES };
    KV_UNROLL
    for (size_t i = 0; i < TOTALS; i++) {
        vf total = power[i];
        KV_UNROLL
        for (size_t v = i + TOTALS; v < KV_STEP_VECTORS; v += TOTALS)
            total = vf_add(total, power[v]);
        vf_store(row->total + i * VF_LANES,
                 vf_fma(vf_load(row->total + i * VF_LANES), keep, total));
    }
}

static void kv_shares(float *scores, size_t first, size_t end, float factor,
                      struct softmax_row *row) {
    vf power[KV_STEP_VECTORS];
    kv_powers(scores, first, end, factor, row, power);
    KV_UNROLL
    for (size_t v = 0; v < KV_STEP_VECTORS; v++)
        vf_store(scores + v * VF_LANES, power[v]);
}

/* Does what shares_int8 does for `count` rows. */
ALWAYS_INLINE void kv_share_rows(float *scores, size_t first, size_t end, const float *factors,
                                 const float *value_scales, struct softmax_row *row, uint8_t *bytes,
                                 const int count) {
    vf power[SHARE_ROWS * KV_STEP_VECTORS];
    float inverse[SHARE_ROWS];
    UNROLL
    for (int i = 0; i < count; i++)
        kv_powers(scores + i * KV_STEP, first, end, factors[i], &row[i],
                  power + i * KV_STEP_VECTORS);
    UNROLL
    for (int i = 0; i < count; i++) {
        vf *of = power + i * KV_STEP_VECTORS, most = vf_set1(0);
        KV_UNROLL
        for (size_t v = 0; v < KV_STEP_VECTORS; v++) {
            of[v] = vf_mul(of[v], vf_load(value_scales + v * VF_LANES));
            most = vf_max(most, of[v]);
        }
        const float largest = vf_largest(most);
        const bool counts = largest >= 0x1p-100f;
        inverse[i] = counts ? (float)SHARE_STEPS / largest : 0;
        row[i].scale = counts ? largest * (1.0f / (float)SHARE_STEPS) : 0;
    }
    UNROLL
    for (int i = 0; i < count; i++) {
        const vf *of = power + i * KV_STEP_VECTORS, factor = vf_set1(inverse[i]);
        KV_UNROLL
        for (size_t v = 0; v < KV_STEP_VECTORS; v += 4)
            vi_store((int32_t *)(void *)(bytes + i * KV_STEP + v * VF_LANES),
                     vi_narrow(vi_round(vf_mul(of[v], factor)), vi_round(vf_mul(of[v + 1], factor)),
                               vi_round(vf_mul(of[v + 2], factor)),
                               vi_round(vf_mul(of[v + 3], factor))));
    }
}

static void kv_shares_int8(float *scores, size_t rows, size_t first, size_t end,
                           const float *factors, const float *value_scales, struct softmax_row *row,
                           uint8_t *bytes) {
    size_t i = 0;
    for (; i + SHARE_ROWS <= rows; i += SHARE_ROWS)
        kv_share_rows(scores + i * KV_STEP, first, end, factors + i, value_scales, row + i,
                      bytes + i * KV_STEP, SHARE_ROWS);
    for (; SHARE_ROWS > 1 && i < rows; i++)
        kv_share_rows(scores + i * KV_STEP, first, end, factors + i, value_scales, row + i,
                      bytes + i * KV_STEP, 1);
}

/* 2^r is about 1 + r (MASS_1 + MASS_2 r) for r from -0.5 to 0.5. */
static const float MASS_1 = 0.7034f, MASS_2 = 0.2399f;

static float kv_mass(const float *scores, float factor) {
    enum { TOTALS = SOFTMAX_LANES / VF_LANES };
    const vf factors = vf_set1(factor * LOG2_E), rounder = vf_set1(exp2_terms[EXP2_ROUNDER]);
    const vf least = vf_set1(-KV_MASS_BITS), most = vf_set1(KV_MASS_BITS);
    vf total[TOTALS];
    KV_UNROLL
    for (size_t v = 0; v < KV_STEP_VECTORS; v++) {
        const vf exponent = vf_mul(vf_load(scores + v * VF_LANES), factors);
        const vf x = vf_min(vf_max(exponent, least), most), whole = vf_add(x, rounder);
        const vf r = vf_sub(x, vf_sub(whole, rounder));
        const vf part = vf_fma(vf_fma(r, vf_set1(MASS_2), vf_set1(MASS_1)), r, vf_set1(1));
        const vf power = vf_scale2(part, vi_bits(whole));
        total[v % TOTALS] = v < TOTALS ? power : vf_add(total[v % TOTALS], power);
    }
    KV_UNROLL
    for (size_t n = TOTALS / 2; n > 0; n /= 2)
        for (size_t i = 0; i < n; i++)
            total[i] = vf_add(total[i], total[i + n]);
    return vf_sum(total[0]);
}

/* ---- products with values -------------------------------------------------------------------- */

/* Adds to `vectors` vectors of sums, from channel c on, for `rows` rows from row i on. */
ALWAYS_INLINE void kv_add_up_tile(const uint8_t *shares, const struct softmax_row *row,
                                  const int8_t *values, size_t i, size_t c, size_t channels,
                                  float *sum, const int rows, const int vectors) {
    vi sums[KV_ROWS * KV_VECTORS], dots[KV_ROWS * KV_VECTORS];
    const int8_t *share = (const int8_t *)shares + i * KV_STEP;
    const int8_t *from = values + c * 4;
    UNROLL
    for (int t = 0; t < rows * vectors; t++)
        sums[t] = vi_set1(0);
    /* gcc would compute a part of the next round ahead, if it knew how many there are. */
    size_t groups = KV_STEP / 4;
    __asm__("" : "+r"(groups));
    for (size_t j = 0; j < groups; j++, share += 4, from += channels * 4) {
        vb_weights weights[KV_VECTORS];
        vb_four four = vb_load_four(share);
        UNROLL
        for (int v = 0; v < vectors; v++)
            weights[v] = vb_load_values(from + v * VF_LANES * 4);
        UNROLL
        for (int t = 0; t < rows * vectors; t++) {
            if (t % vectors == 0)
                four = vb_load_four(share + (size_t)(t / vectors) * KV_STEP);
            sums[t] = vb_dot_values(sums[t], weights[t % vectors], four);
        }
    }
    UNROLL
    for (int t = 0; t < rows * vectors; t++)
        dots[t] = sums[t];
    UNROLL_IN_CLANG
    for (int r = 0; r < rows; r++) {
        const vf keep = vf_set1(row[i + (size_t)r].keep), scale = vf_set1(row[i + (size_t)r].scale);
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *at = sum + (i + (size_t)r) * channels + c + v * VF_LANES;
            const vf product = vf_mul(vf_of_vi(dots[r * vectors + v]), scale);
            vf_store(at, vf_fma(vf_load(at), keep, product));
        }
    }
}

ALWAYS_INLINE void kv_add_up_strip(const uint8_t *shares, const struct softmax_row *row,
                                   const int8_t *values, size_t rows, size_t c, size_t channels,
                                   float *sum, const int vectors) {
    for (size_t i = 0, step; i < rows; i += step) {
        const size_t left = rows - i;
        step = left >= KV_ROWS ? KV_ROWS : left >= 3 && KV_ROWS > 3 ? 3 : 1;
        if (step == KV_ROWS)
            kv_add_up_tile(shares, row, values, i, c, channels, sum, KV_ROWS, vectors);
        else if (step == 3)
            kv_add_up_tile(shares, row, values, i, c, channels, sum, KV_ROWS > 3 ? 3 : 1, vectors);
        else
            kv_add_up_tile(shares, row, values, i, c, channels, sum, 1, vectors);
    }
}

static void kv_add_up_int8(const uint8_t *shares, const struct softmax_row *row,
                           const int8_t *values, size_t rows, size_t head_size, float *sum) {
    const size_t channels = kv_channels(head_size);
    size_t c = 0;
    for (; c + KV_VECTORS * VF_LANES <= channels; c += KV_VECTORS * VF_LANES)
        kv_add_up_strip(shares, row, values, rows, c, channels, sum, KV_VECTORS);
    for (; KV_VECTORS > 2 && c + 2 * VF_LANES <= channels; c += 2 * VF_LANES)
        kv_add_up_strip(shares, row, values, rows, c, channels, sum, 2);
    for (; c < channels; c += VF_LANES)
        kv_add_up_strip(shares, row, values, rows, c, channels, sum, 1);
}

static void kv_add_up(const float *y, const struct softmax_row *row, size_t rows, size_t n,
                      float *sum) {
    for (size_t i = 0; i < rows; i++, y += n, sum += n) {
        const vf keep = vf_set1(row[i].keep);
        size_t c = 0;
        for (; c + VF_LANES <= n; c += VF_LANES)
            vf_store(sum + c, vf_fma(vf_load(sum + c), keep, vf_load(y + c)));
        if (c < n)
            vf_store_n(sum + c, vf_fma(vf_load_n(sum + c, n - c), keep, vf_load_n(y + c, n - c)),
                       n - c);
    }
}

static const struct kv_kernels kv_of_set = {.score_int8 = kv_score_int8,
                                            .shares = kv_shares,
                                            .shares_int8 = kv_shares_int8,
                                            .mass = kv_mass,
                                            .add_up_int8 = kv_add_up_int8,
                                            .add_up = kv_add_up};

#define KV_KERNELS .kv = &kv_of_set,
#else
#define KV_KERNELS
#endif
