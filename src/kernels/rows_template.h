/* SPDX-License-Identifier: Apache-2.0
 * The kernels that process rows of floats, written once over the vector operations of an
 * instruction set (vector_*.h), which the including file includes before.
 *
 * The tail of a row, if it is shorter than a vector, is loaded with zeros in the missing lanes.
 *
 * If VECTOR_PORTABLE is defined, results have the bits of kernels_scalar_portable, in any set:
 * no multiplication is fused with an addition, and sums are added up in one order. softmax,
 * rms_norm and dot, which int8 models that embed do not use, have bits of their own in each set. */
#include "kernels/polynomials.h"

/* Returns the number of values in the next vector of a row that has n values left. */
ALWAYS_INLINE size_t lanes_left(size_t n) {
    return n < VF_LANES ? n : VF_LANES;
}

/* Computes a b + c, rounded twice in portable sets. */
ALWAYS_INLINE vf vf_mul_add(vf a, vf b, vf c) {
#ifdef VECTOR_PORTABLE
    return vf_add(vf_mul(a, b), c);
#else
    return vf_fma(a, b, c);
#endif
}

/* So many vectors are computed side by side: each multiplication of a polynomial waits for an
 * addition, and each addition for a multiplication. */
#ifdef __wasm__
enum { GELU_VECTORS = 4 };
#else
enum { GELU_VECTORS = 2 };
#endif

/* Replaces `count` vectors by their GELU; they share the loads of the constants. */
ALWAYS_INLINE void gelu_of(vf *x, const int count, const float *terms) {
    vf t[GELU_VECTORS], h[GELU_VECTORS];
    UNROLL
    for (int v = 0; v < count; v++) {
        const vf u = vf_min(vf_abs(x[v]), vf_set1(terms[GELU_LIMIT]));
        t[v] = vf_mul_add(u, vf_set1(terms[GELU_SCALE]), vf_set1(-1));
        h[v] = vf_set1(terms[GELU_DEGREE]);
    }
    UNROLL_NATIVELY
    for (int i = GELU_DEGREE - 1; i >= 0; i--) {
        const vf term = vf_set1(terms[i]);
        UNROLL
        for (int v = 0; v < count; v++)
            h[v] = vf_mul_add(h[v], t[v], term);
    }
    UNROLL
    for (int v = 0; v < count; v++)
        x[v] = vf_sub(vf_max(x[v], vf_set1(0)), h[v]);
}

/* Computes 2^x for x <= 0 with a relative error of 2e-7. Below -126 the result is 2^-126, which is
 * small enough to stand for 0. x is split into a whole number and a rest r. */
ALWAYS_INLINE vf exp2_of(vf x, const float *terms) {
    const vf rounder = vf_set1(terms[EXP2_ROUNDER]);
    const vf clamped = vf_max(x, vf_set1(terms[EXP2_LEAST]));
    const vf whole = vf_add(clamped, rounder);
    const vf r = vf_sub(clamped, vf_sub(whole, rounder));
    vf p = vf_set1(terms[EXP2_DEGREE]);
    UNROLL
    for (int i = EXP2_DEGREE - 1; i >= 0; i--)
        p = vf_mul_add(p, r, vf_set1(terms[i]));
    return vf_scale2(p, vi_bits(whole));
}

/* Computes x / (1 + e^-x) from e^-|x|, which cannot overflow. The relative error is that of exp2_of
 * plus 1.2e-7 |x| for the rounding of x log2 e. */
ALWAYS_INLINE vf silu_of(vf x, const float *terms) {
    const vf zero = vf_set1(0), power = exp2_of(vf_mul(vf_abs(x), vf_set1(-LOG2_E)), terms);
    const vf numerator = vf_mul_add(vf_min(x, zero), power, vf_max(x, zero));
    return vf_div(numerator, vf_add(vf_set1(1), power));
}

#ifdef DECODER_KERNELS
#define DECODER_ROWS                                                                               \
    .gelu_tanh = rows_gelu_tanh, .multiply = rows_multiply, .soft_cap = rows_soft_cap,

/* GELU with tanh is x / (1 + e^-2u), if 2u = x (GELU_TANH_1 + GELU_TANH_3 x^2), and is computed
 * from e^-|2u| as silu_of does it. Below -16 it is 0 in floats; x is bounded there so that no x is
 * large enough to be seen beside the least power, 2^-126. The error, measured against exact values
 * for x in [-12, 12], is at most 2.5 units in the last place above 0, 4 above -1, 15 above -3, and
 * for any x below 0 1.8e-7 (1 + |2u|) of the result. */
static const float GELU_TANH_1 = 1.59576912f, GELU_TANH_3 = 0.0713548163f;

ALWAYS_INLINE vf gelu_tanh_of(vf x, const float *terms) {
    const vf zero = vf_set1(0), bounded = vf_max(x, vf_set1(-16));
    const vf slope =
        vf_fma(vf_mul(x, x), vf_set1(-LOG2_E * GELU_TANH_3), vf_set1(-LOG2_E * GELU_TANH_1));
    const vf power = exp2_of(vf_mul(vf_abs(x), slope), terms);
    const vf numerator = vf_fma(vf_min(bounded, zero), power, vf_max(bounded, zero));
    return vf_div(numerator, vf_add(vf_set1(1), power));
}

static void rows_gelu_tanh(float *x, size_t n) {
    const float *terms = vf_table(exp2_terms);
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(x + i, gelu_tanh_of(vf_load(x + i), terms));
    if (i < n)
        vf_store_n(x + i, gelu_tanh_of(vf_load_n(x + i, n - i), terms), n - i);
}

static void rows_multiply(float *y, const float *x, size_t n) {
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(y + i, vf_mul(vf_load(y + i), vf_load(x + i)));
    if (i < n)
        vf_store_n(y + i, vf_mul(vf_load_n(y + i, n - i), vf_load_n(x + i, n - i)), n - i);
}

/* Computes cap tanh(x / cap) = cap (1 - p) / (1 + p) with p = e^(-2 |x| / cap). Its magnitude has
 * an error of 1.6e-7 cap; the sign comes from bounding x by it, which also gives x itself if
 * that is more exact. `factor` is -2 log2(e) / cap. */
ALWAYS_INLINE vf soft_cap_of(vf x, vf factor, vf cap, const float *terms) {
    const vf one = vf_set1(1), power = exp2_of(vf_mul(vf_abs(x), factor), terms);
    const vf most = vf_mul(cap, vf_div(vf_sub(one, power), vf_add(one, power)));
    return vf_min(vf_max(x, vf_sub(vf_set1(0), most)), most);
}

static void rows_soft_cap(float *x, size_t n, float scale, float cap) {
    const float *terms = vf_table(exp2_terms);
    const vf scales = vf_set1(scale), caps = vf_set1(cap), factor = vf_set1(-2 * LOG2_E / cap);
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(x + i, soft_cap_of(vf_mul(vf_load(x + i), scales), factor, caps, terms));
    if (i < n) {
        const vf scaled = vf_mul(vf_load_n(x + i, n - i), scales);
        vf_store_n(x + i, soft_cap_of(scaled, factor, caps, terms), n - i);
    }
}
#else
#define DECODER_ROWS
#endif

static void rows_gelu(float *x, size_t n) {
    const float *terms = vf_table(gelu_terms);
    size_t i = 0;
    for (; i + GELU_VECTORS * VF_LANES <= n; i += GELU_VECTORS * VF_LANES) {
        vf some[GELU_VECTORS];
        UNROLL
        for (int v = 0; v < GELU_VECTORS; v++)
            some[v] = vf_load(x + i + v * VF_LANES);
        gelu_of(some, GELU_VECTORS, terms);
        UNROLL
        for (int v = 0; v < GELU_VECTORS; v++)
            vf_store(x + i + v * VF_LANES, some[v]);
    }
    for (; i < n; i += VF_LANES) {
        const size_t lanes = lanes_left(n - i);
        vf some = vf_load_n(x + i, lanes);
        gelu_of(&some, 1, terms);
        vf_store_n(x + i, some, lanes);
    }
}

static void rows_relu(float *x, size_t n) {
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(x + i, vf_max(vf_load(x + i), vf_set1(0)));
    if (i < n)
        vf_store_n(x + i, vf_max(vf_load_n(x + i, n - i), vf_set1(0)), n - i);
}

static void rows_silu_mul(float *gate, const float *up, size_t n) {
    const float *terms = vf_table(exp2_terms);
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(gate + i, vf_mul(silu_of(vf_load(gate + i), terms), vf_load(up + i)));
    if (i < n) {
        const vf silu = silu_of(vf_load_n(gate + i, n - i), terms);
        vf_store_n(gate + i, vf_mul(silu, vf_load_n(up + i, n - i)), n - i);
    }
}

static void rows_add(float *y, const float *x, size_t n) {
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(y + i, vf_add(vf_load(y + i), vf_load(x + i)));
    if (i < n)
        vf_store_n(y + i, vf_add(vf_load_n(y + i, n - i), vf_load_n(x + i, n - i)), n - i);
}

static float rows_dot(const float *a, const float *b, size_t n) {
    vf sum = vf_set1(0);
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        sum = vf_fma(vf_load(a + i), vf_load(b + i), sum);
    if (i < n)
        sum = vf_fma(vf_load_n(a + i, n - i), vf_load_n(b + i, n - i), sum);
    return vf_sum(sum);
}

/* ---- layer norm ----------------------------------------------------------------------------- */

#ifdef VECTOR_PORTABLE

/* Portable sums have 16 lanes, whatever the length of a vector: value i is added to lane i % 16.
 * Then the upper half of the lanes is added to the lower half, until one is left. */
enum { SUM_LANES = 16, SUM_VECTORS = SUM_LANES / VF_LANES };

ALWAYS_INLINE float sum_of_lanes(vf *sum) {
    UNROLL
    for (int half = SUM_VECTORS / 2; half > 0; half /= 2) {
        UNROLL
        for (int v = 0; v < half; v++)
            sum[v] = vf_add(sum[v], sum[v + half]);
    }
    return vf_sum(sum[0]);
}

/* Adds the residual to SUM_LANES values of x, and these to the lanes of `sum`. */
ALWAYS_INLINE void add_lanes(float *x, const float *residual, vf *sum) {
    UNROLL
    for (int v = 0; v < SUM_VECTORS; v++) {
        const vf value = vf_add(vf_load(x + v * VF_LANES), vf_load(residual + v * VF_LANES));
        vf_store(x + v * VF_LANES, value);
        sum[v] = vf_add(sum[v], value);
    }
}

/* Adds the residual to x. Returns the sum of x. The last values, if they do not fill the lanes,
 * are added in memory of their own, with zeros after them. */
static float add_and_sum(float *x, const float *residual, size_t n) {
    vf sum[SUM_VECTORS];
    size_t i = 0;
    UNROLL
    for (int v = 0; v < SUM_VECTORS; v++)
        sum[v] = vf_set1(0);
    for (; i + SUM_LANES <= n; i += SUM_LANES)
        add_lanes(x + i, residual + i, sum);
    if (i < n) {
        float last[SUM_LANES] = {0}, last_residual[SUM_LANES] = {0};
        memcpy(last, x + i, (n - i) * sizeof *x);
        memcpy(last_residual, residual + i, (n - i) * sizeof *x);
        add_lanes(last, last_residual, sum);
        memcpy(x + i, last, (n - i) * sizeof *x);
    }
    return sum_of_lanes(sum);
}

/* Adds the squares of x - mean, for SUM_LANES values of x, to the lanes of `sum`. */
ALWAYS_INLINE void square_lanes(const float *x, vf mean, vf *sum) {
    UNROLL
    for (int v = 0; v < SUM_VECTORS; v++) {
        const vf d = vf_sub(vf_load(x + v * VF_LANES), mean);
        sum[v] = vf_mul_add(d, d, sum[v]);
    }
}

static float squares_about(const float *x, float mean, size_t n) {
    vf sum[SUM_VECTORS];
    size_t i = 0;
    UNROLL
    for (int v = 0; v < SUM_VECTORS; v++)
        sum[v] = vf_set1(0);
    for (; i + SUM_LANES <= n; i += SUM_LANES)
        square_lanes(x + i, vf_set1(mean), sum);
    if (i < n) {
        float last[SUM_LANES];
        for (int v = 0; v < SUM_VECTORS; v++)
            vf_store(last + v * VF_LANES, vf_set1(mean));
        memcpy(last, x + i, (n - i) * sizeof *x);
        square_lanes(last, vf_set1(mean), sum);
    }
    return sum_of_lanes(sum);
}

#else

static float add_and_sum(float *x, const float *residual, size_t n) {
    vf sum = vf_set1(0);
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) {
        const vf value = vf_add(vf_load(x + i), vf_load(residual + i));
        vf_store(x + i, value);
        sum = vf_add(sum, value);
    }
    if (i < n) {
        const vf value = vf_add(vf_load_n(x + i, n - i), vf_load_n(residual + i, n - i));
        vf_store_n(x + i, value, n - i);
        sum = vf_add(sum, value);
    }
    return vf_sum(sum);
}

static float squares_about(const float *x, float mean, size_t n) {
    vf sum = vf_set1(0);
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) {
        const vf d = vf_sub(vf_load(x + i), vf_set1(mean));
        sum = vf_fma(d, d, sum);
    }
    float squares = vf_sum(sum);
    for (; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return squares;
}

#endif

static void rows_layer_norm(float *x, const float *residual, const float *weight, const float *bias,
                            float epsilon, size_t m, size_t n) {
    for (size_t row = 0; row < m; row++, x += n, residual += n) {
        const float mean = add_and_sum(x, residual, n) / (float)n;
        const float inverse = 1 / sqrtf(squares_about(x, mean, n) / (float)n + epsilon);
        const vf shift = vf_set1(-mean * inverse), scale = vf_set1(inverse);
        size_t i = 0;
        for (; i + VF_LANES <= n; i += VF_LANES) {
            const vf normal = vf_mul_add(vf_load(x + i), scale, shift);
            vf_store(x + i, vf_mul_add(normal, vf_load(weight + i), vf_load(bias + i)));
        }
        if (i < n) {
            const size_t left = n - i;
            const vf normal = vf_mul_add(vf_load_n(x + i, left), scale, shift);
            const vf y = vf_mul_add(normal, vf_load_n(weight + i, left), vf_load_n(bias + i, left));
            vf_store_n(x + i, y, left);
        }
    }
}

static void rows_rms_norm(const float *x, const float *weight, float epsilon, size_t m, size_t n,
                          float *y) {
    for (size_t row = 0; row < m; row++, x += n, y += n) {
        const vf scale = vf_set1(1 / sqrtf(squares_about(x, 0, n) / (float)n + epsilon));
        size_t i = 0;
        for (; i + VF_LANES <= n; i += VF_LANES)
            vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), scale), vf_load(weight + i)));
        if (i < n) {
            const vf normal = vf_mul(vf_load_n(x + i, n - i), scale);
            vf_store_n(y + i, vf_mul(normal, vf_load_n(weight + i, n - i)), n - i);
        }
    }
}

/* ---- softmax -------------------------------------------------------------------------------- */

/* The number of vectors of maxima and minima that run side by side: with one, each comparison would
 * wait for the one before. */
enum { RANGE_VECTORS = 16 / VF_LANES };

ALWAYS_INLINE float largest_of(const vf *x) {
    vf largest = x[0];
    UNROLL
    for (int v = 1; v < RANGE_VECTORS; v++)
        largest = vf_max(largest, x[v]);
    return vf_largest(largest);
}

ALWAYS_INLINE float least_of(const vf *x) {
    vf least = x[0];
    UNROLL
    for (int v = 1; v < RANGE_VECTORS; v++)
        least = vf_min(least, x[v]);
    return vf_least(least);
}

static float row_max(const float *x, size_t n) {
    vf largest[RANGE_VECTORS];
    size_t i = 0;
    UNROLL
    for (int v = 0; v < RANGE_VECTORS; v++)
        largest[v] = vf_set1(x[0]);
    for (; i + RANGE_VECTORS * VF_LANES <= n; i += RANGE_VECTORS * VF_LANES) {
        UNROLL
        for (int v = 0; v < RANGE_VECTORS; v++)
            largest[v] = vf_max(largest[v], vf_load(x + i + v * VF_LANES));
    }
    for (; i + VF_LANES <= n; i += VF_LANES)
        largest[0] = vf_max(largest[0], vf_load(x + i));
    if (i < n)
        largest[0] = vf_max(largest[0], vf_first(vf_load_n(x + i, n - i), n - i, largest[0]));
    return largest_of(largest);
}

/* Computes 2^((x - top) factor). The subtraction comes first, so that the exponent is at most 0
 * however large the scores are. */
ALWAYS_INLINE vf softmax_power(vf x, vf top, vf factor, const float *terms) {
    return exp2_of(vf_mul(vf_sub(x, top), factor), terms);
}

static void softmax_row(float *x, size_t n, float scale) {
    const float *terms = vf_table(exp2_terms);
    const vf factor = vf_set1(scale * LOG2_E), top = vf_set1(row_max(x, n));
    vf sum = vf_set1(0), tail = sum;
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) {
        const vf power = softmax_power(vf_load(x + i), top, factor, terms);
        vf_store(x + i, power);
        sum = vf_add(sum, power);
    }
    const size_t whole = i;
    if (whole < n) {
        tail = softmax_power(vf_load_n(x + whole, n - whole), top, factor, terms);
        sum = vf_add(sum, vf_first(tail, n - whole, vf_set1(0)));
    }
    const vf inverse = vf_set1(1 / vf_sum(sum));
    for (i = 0; i < whole; i += VF_LANES)
        vf_store(x + i, vf_mul(vf_load(x + i), inverse));
    if (whole < n)
        vf_store_n(x + whole, vf_mul(tail, inverse), n - whole);
}

static void rows_softmax(float *x, size_t ld, size_t m, size_t n, float scale) {
    for (size_t row = 0; row < m; row++)
        softmax_row(x + row * ld, n, scale);
}

/* ---- quantisation --------------------------------------------------------------------------- */

/* Finds the least and the largest of n values and 0. */
static void block_range(const float *x, size_t n, float *low, float *high) {
    vf least[RANGE_VECTORS], most[RANGE_VECTORS];
    size_t i = 0;
    UNROLL
    for (int v = 0; v < RANGE_VECTORS; v++)
        least[v] = most[v] = vf_set1(0);
    for (; i + RANGE_VECTORS * VF_LANES <= n; i += RANGE_VECTORS * VF_LANES) {
        UNROLL
        for (int v = 0; v < RANGE_VECTORS; v++) {
            const vf value = vf_load(x + i + v * VF_LANES);
            least[v] = vf_min(least[v], value);
            most[v] = vf_max(most[v], value);
        }
    }
    for (; i < n; i += VF_LANES) {
        const vf value = vf_load_n(x + i, lanes_left(n - i));
        least[0] = vf_min(least[0], value);
        most[0] = vf_max(most[0], value);
    }
    *low = least_of(least);
    *high = largest_of(most);
}

ALWAYS_INLINE vi quantised(const float *x, vf inverse_scale, vi zero) {
    return vi_add(vi_round(vf_mul(vf_load(x), inverse_scale)), zero);
}

ALWAYS_INLINE void quantise_block(const float *x, size_t n, const float steps, uint8_t *q,
                                  float *scale, float *zero) {
    float low, high;
    block_range(x, n, &low, &high);
    const float range = quantised_range(low, high);
    const float inverse = range > 0 ? steps / range : 0;
    const vf factor = vf_set1(inverse);
    const vi shift = vi_round(vf_set1(-low * inverse));
    size_t i = 0;
    for (; i + 4 * VF_LANES <= n; i += 4 * VF_LANES)
        vi_store_u8_4(q + i, quantised(x + i, factor, shift),
                      quantised(x + i + VF_LANES, factor, shift),
                      quantised(x + i + 2 * VF_LANES, factor, shift),
                      quantised(x + i + 3 * VF_LANES, factor, shift));
    for (; i + VF_LANES <= n; i += VF_LANES)
        vi_store_u8(q + i, quantised(x + i, factor, shift));
    if (i < n) {
        uint8_t tail[VF_LANES];
        vi_store_u8(tail, vi_add(vi_round(vf_mul(vf_load_n(x + i, n - i), factor)), shift));
        memcpy(q + i, tail, int8_row_bytes(n) - i);
    }
    *scale = range / steps;
    *zero = rintf(-low * inverse);
}

ALWAYS_INLINE void quantise_rows(const float *x, size_t m, size_t k, struct quantised_rows out,
                                 const size_t most, const float steps, const int signed_values) {
    const size_t blocks = (k + most - 1) / most, row_bytes = int8_row_bytes(k);
    for (size_t i = 0; i < m; i++) {
        uint8_t *q = out.q + i * row_bytes;
        for (size_t b = 0; b < blocks; b++) {
            const size_t start = b * most;
            const size_t length = k - start < most ? k - start : most;
            float *zero = &out.zero[i * blocks + b];
            quantise_block(x + i * k + start, length, steps, q + start, &out.scale[i * blocks + b],
                           zero);
            *zero -= signed_values ? 128 : 0;
        }
        for (size_t c = 0; signed_values && c < row_bytes; c++)
            q[c] ^= 0x80;
    }
}

/* Quantises for dot product instructions that multiply unsigned by signed bytes. */
MAYBE_UNUSED void rows_quantise_unsigned(const float *x, size_t m, size_t k,
                                         struct quantised_rows out) {
    quantise_rows(x, m, k, out, INT8_BLOCK, 255, 0);
}

/* Quantises for narrow products (kernels.h). */
MAYBE_UNUSED void rows_quantise_narrow(const float *x, size_t m, size_t k,
                                       struct quantised_rows out) {
    quantise_rows(x, m, k, out, NARROW_BLOCK, NARROW_STEPS, 0);
}

/* Quantises for dot product instructions that multiply signed by signed bytes. */
MAYBE_UNUSED void rows_quantise_signed(const float *x, size_t m, size_t k,
                                       struct quantised_rows out) {
    quantise_rows(x, m, k, out, INT8_BLOCK, 255, 1);
}

/* Does what rows_quantise_narrow does, for instructions that multiply signed by signed bytes. */
MAYBE_UNUSED void rows_quantise_narrow_signed(const float *x, size_t m, size_t k,
                                              struct quantised_rows out) {
    rows_quantise_narrow(x, m, k, out);
    for (size_t i = 0; i < m * int8_row_bytes(k); i++)
        out.q[i] ^= 0x80;
    for (size_t i = 0; i < m * narrow_blocks(k); i++)
        out.zero[i] -= 128;
}
