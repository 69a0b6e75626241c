/* SPDX-License-Identifier: Apache-2.0
 * Vector operations of AVX-512 F, BW, DQ, VL and VNNI. */
#include <immintrin.h>

#include "kernels/vector.h"

typedef __m512 vf;
typedef __m512i vi;
typedef __m512i vi_weights;
typedef __m512i vi_activations;

enum { VF_LANES = 16 };

ALWAYS_INLINE __mmask16 first_lanes(size_t n) {
    return (__mmask16)_bzhi_u32(0xffff, (unsigned)n);
}

ALWAYS_INLINE vf vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}

ALWAYS_INLINE void vf_store(float *p, vf x) {
    _mm512_storeu_ps(p, x);
}

ALWAYS_INLINE vf vf_load_n(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(first_lanes(n), p);
}

ALWAYS_INLINE void vf_store_n(float *p, vf x, size_t n) {
    _mm512_mask_storeu_ps(p, first_lanes(n), x);
}

#define VECTOR_HALVES

ALWAYS_INLINE vf vf_load_halves(const unsigned char *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

ALWAYS_INLINE vf vf_load_bfloats(const unsigned char *p) {
    const __m256i halves = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* Expands signed bytes to floats. */
ALWAYS_INLINE vf vf_load_int8(const int8_t *p) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

/* Expands unsigned bytes to floats. */
ALWAYS_INLINE vf vf_load_bytes(const unsigned char *p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

ALWAYS_INLINE vf vf_set1(float x) {
    return _mm512_set1_ps(x);
}

ALWAYS_INLINE vf vf_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}

ALWAYS_INLINE vf vf_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}

ALWAYS_INLINE vf vf_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}

ALWAYS_INLINE vf vf_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}

ALWAYS_INLINE vf vf_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}

ALWAYS_INLINE vf vf_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}

ALWAYS_INLINE vf vf_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}

ALWAYS_INLINE vf vf_abs(vf x) {
    return _mm512_abs_ps(x);
}

ALWAYS_INLINE vf vf_first(vf x, size_t n, vf rest) {
    return _mm512_mask_mov_ps(rest, first_lanes(n), x);
}

ALWAYS_INLINE void vf_zip(vf a, vf b, vf *low, vf *high) {
    const vi first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const vi last = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    *low = _mm512_permutex2var_ps(a, first, b);
    *high = _mm512_permutex2var_ps(a, last, b);
}

ALWAYS_INLINE float vf_sum(vf x) {
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
    const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(x), high);
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

ALWAYS_INLINE float vf_largest(vf x) {
    return _mm512_reduce_max_ps(x);
}

ALWAYS_INLINE float vf_least(vf x) {
    return _mm512_reduce_min_ps(x);
}

ALWAYS_INLINE vi vi_round(vf x) {
    return _mm512_cvtps_epi32(x);
}

ALWAYS_INLINE vf vf_of_vi(vi x) {
    return _mm512_cvtepi32_ps(x);
}

ALWAYS_INLINE vi vi_bits(vf x) {
    return _mm512_castps_si512(x);
}

ALWAYS_INLINE vf vf_scale2(vf x, vi n) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(n, 23)));
}

ALWAYS_INLINE vi vi_set1(int32_t x) {
    return _mm512_set1_epi32(x);
}

ALWAYS_INLINE vi vi_max(vi a, vi b) {
    return _mm512_max_epi32(a, b);
}

ALWAYS_INLINE vi vi_add(vi a, vi b) {
    return _mm512_add_epi32(a, b);
}

ALWAYS_INLINE void vi_store_u8(uint8_t *p, vi x) {
    const vi positive = _mm512_max_epi32(x, _mm512_setzero_si512());
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtusepi32_epi8(positive));
}

ALWAYS_INLINE void vi_store_u8_4(uint8_t *p, vi a, vi b, vi c, vi d) {
    vi_store_u8(p, a);
    vi_store_u8(p + VF_LANES, b);
    vi_store_u8(p + 2 * VF_LANES, c);
    vi_store_u8(p + 3 * VF_LANES, d);
}

ALWAYS_INLINE vi_weights vi_load_weights(const unsigned char *p) {
    return _mm512_loadu_si512(p);
}

ALWAYS_INLINE vi_activations vi_load_activations(const uint8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

ALWAYS_INLINE vi vi_dot(vi sum, vi_activations x, vi_weights w) {
    return _mm512_dpbusd_epi32(sum, x, w);
}

/* ---- bytes of a key-value cache -------------------------------------------------------------- */

typedef vi vb_weights;
typedef vi vb_four;

ALWAYS_INLINE vb_four vb_load_four(const int8_t *p) {
    return vi_load_activations((const uint8_t *)p);
}

/* The product of bytes takes unsigned ones first: keys are raised by 128. */
ALWAYS_INLINE vi vb_start(int32_t sum) {
    return vi_set1(-128 * sum);
}

ALWAYS_INLINE vb_weights vb_load_keys(const int8_t *p) {
    return _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8((char)0x80));
}

ALWAYS_INLINE vb_weights vb_load_values(const int8_t *p) {
    return _mm512_loadu_si512(p);
}

ALWAYS_INLINE vi vb_dot_keys(vi sum, vb_weights keys, vb_four four) {
    return vi_dot(sum, keys, four);
}

ALWAYS_INLINE vi vb_dot_values(vi sum, vb_weights values, vb_four four) {
    return vi_dot(sum, four, values);
}

/* ---- 4-bit weights -------------------------------------------------------------------------- */

#define VECTOR_Q4

typedef vi vq;
typedef vi_weights vq_weights;
typedef vi_activations vq_activations;

enum { Q4_FACTOR = 16 }; /* because nibbles are used in the upper halves of bytes */

ALWAYS_INLINE vq_activations vq_load_activations(const uint8_t *p) {
    return vi_load_activations(p);
}

ALWAYS_INLINE void vq_load_nibbles(const unsigned char *p, vq_weights *low, vq_weights *high) {
    const vi bytes = _mm512_loadu_si512(p), mask = _mm512_set1_epi8((char)0xf0);
    *low = _mm512_and_si512(_mm512_slli_epi16(bytes, 4), mask);
    *high = _mm512_and_si512(bytes, mask);
}

ALWAYS_INLINE vq vq_dot(vq sum, vq_activations x, vq_weights w) {
    return vi_dot(sum, x, w);
}

ALWAYS_INLINE vi vq_sum(vq sum) {
    return sum;
}

/* ---- weights that name levels ---------------------------------------------------------------- */

typedef vi vl_table;

enum { LEVEL_FACTOR = 1 };

ALWAYS_INLINE vl_table vl_load_table(const signed char *levels) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)levels));
}

ALWAYS_INLINE void vl_load_levels(const unsigned char *p, vl_table table, vq_weights *low,
                                  vq_weights *high) {
    const vi bytes = _mm512_loadu_si512(p), mask = _mm512_set1_epi8(15);
    const vi upper = _mm512_srli_epi16(bytes, 4);
    *low = _mm512_shuffle_epi8(table, _mm512_and_si512(bytes, mask));
    *high = _mm512_shuffle_epi8(table, _mm512_and_si512(upper, mask));
}

/* ---- weights of K-quants --------------------------------------------------------------------- */

/* The type of a shift's length, on which the compilers' headers differ. */
#ifdef __clang__
typedef unsigned shift_length;
#else
typedef int shift_length;
#endif

typedef vi vk_codes;
typedef vi_weights vk_weights;

ALWAYS_INLINE vk_codes vk_bits(const unsigned char *p, const int shift, const int mask) {
    const vi bytes = _mm512_loadu_si512(p);
    return _mm512_and_si512(shift < 0 ? _mm512_slli_epi16(bytes, (shift_length)-shift)
                                      : _mm512_srli_epi16(bytes, (shift_length)shift),
                            _mm512_set1_epi8((char)mask));
}

ALWAYS_INLINE vk_codes vk_or(vk_codes a, vk_codes b) {
    return _mm512_or_si512(a, b);
}

ALWAYS_INLINE vk_weights vk_centred(vk_codes codes, const int centre) {
    return _mm512_sub_epi8(codes, _mm512_set1_epi8((char)centre));
}

/* ---- ternary weights ------------------------------------------------------------------------ */

/* Two pairs of bits at a time are looked up in a table of the weights of their 16 values. */
ALWAYS_INLINE vq_weights v2_load(const unsigned char *p, const int position) {
    const vi bytes = _mm512_loadu_si512(p);
    const vi pairs =
        _mm512_and_si512(position < 2 ? bytes : _mm512_srli_epi16(bytes, 4), _mm512_set1_epi8(15));
    const __m128i low = _mm_setr_epi8(-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2);
    const __m128i high = _mm_setr_epi8(-1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(position % 2 ? high : low), pairs);
}

/* ---- pairs of 16-bit numbers ---------------------------------------------------------------- */

ALWAYS_INLINE vi vi_load(const int32_t *p) {
    return _mm512_loadu_si512(p);
}

ALWAYS_INLINE void vi_store(int32_t *p, vi x) {
    _mm512_storeu_si512(p, x);
}

#ifdef VECTOR_PORTABLE
#define VECTOR_I16

ALWAYS_INLINE vi vi_dot_i16(vi sum, vi x, vi w) {
    return _mm512_dpwssd_epi32(sum, x, w);
}

ALWAYS_INLINE vi vi_pair(vi low, vi high) {
    return _mm512_mask_blend_epi16(0xaaaaaaaa, low, _mm512_slli_epi32(high, 16));
}

ALWAYS_INLINE void vi_store_i16(int16_t *p, vi x) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtsepi32_epi16(x));
}

ALWAYS_INLINE void vi_store_i16_2(int16_t *p, vi a, vi b) {
    vi_store_i16(p, a);
    vi_store_i16(p + VF_LANES, b);
}

#endif

/* ---- for the sparse kernels ----------------------------------------------------------------- */

ALWAYS_INLINE vi_activations vi_load_all_activations(const uint8_t *p) {
    return _mm512_loadu_si512(p);
}

ALWAYS_INLINE void vi_store_sums(int32_t *p, const vi *sums) {
    /* Each 128-bit quarter gets the four sums of its lanes. Then the quarters are added. */
    const vi ab = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0], sums[1]),
                                   _mm512_unpackhi_epi32(sums[0], sums[1]));
    const vi cd = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[2], sums[3]),
                                   _mm512_unpackhi_epi32(sums[2], sums[3]));
    const vi quarters =
        _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i halves =
        _mm256_add_epi32(_mm512_castsi512_si256(quarters), _mm512_extracti64x4_epi64(quarters, 1));
    const __m128i all =
        _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    _mm_storeu_si128((__m128i *)(void *)p, all);
}

ALWAYS_INLINE vf vf_load_groups(const float *const *groups) {
    const __m512 a = _mm512_castps128_ps512(_mm_loadu_ps(groups[0]));
    const __m512 ab = _mm512_insertf32x4(a, _mm_loadu_ps(groups[1]), 1);
    const __m512 abc = _mm512_insertf32x4(ab, _mm_loadu_ps(groups[2]), 2);
    return _mm512_insertf32x4(abc, _mm_loadu_ps(groups[3]), 3);
}

ALWAYS_INLINE void vf_transpose4(vf *x) {
    const vf ab = _mm512_unpacklo_ps(x[0], x[1]), cd = _mm512_unpacklo_ps(x[2], x[3]);
    const vf ef = _mm512_unpackhi_ps(x[0], x[1]), gh = _mm512_unpackhi_ps(x[2], x[3]);
    x[0] = _mm512_shuffle_ps(ab, cd, 0x44);
    x[1] = _mm512_shuffle_ps(ab, cd, 0xee);
    x[2] = _mm512_shuffle_ps(ef, gh, 0x44);
    x[3] = _mm512_shuffle_ps(ef, gh, 0xee);
}

ALWAYS_INLINE unsigned vf_above(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

ALWAYS_INLINE vi vi_narrow(vi a, vi b, vi c, vi d) {
    /* The pack instructions process each 128-bit quarter by itself: lane 4 i + j of the result is
     * quarter i of vector j. */
    const vi order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const vi bytes = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
    return _mm512_permutexvar_epi32(order, bytes);
}

#define VECTOR_COMPRESSES

ALWAYS_INLINE vi lane_numbers(void) {
    return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}

ALWAYS_INLINE size_t append_lanes(vi x, const uint16_t *list, size_t first, int8_t *bytes,
                                  uint16_t *kept) {
    const __mmask16 some = _mm512_test_epi32_mask(x, x);
    const vi neurons =
        list ? _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)list))
             : _mm512_add_epi32(lane_numbers(), _mm512_set1_epi32((int)first));
    _mm_storeu_si128((__m128i *)(void *)bytes,
                     _mm512_cvtepi32_epi8(_mm512_maskz_compress_epi32(some, x)));
    _mm256_storeu_si256((__m256i *)(void *)kept,
                        _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(some, neurons)));
    return (size_t)__builtin_popcount(some);
}

#define VECTOR_SIGNED_COLUMNS 0

typedef vi vi_four;

ALWAYS_INLINE vi_four vi_load_four(const int8_t *p) {
    return vi_load_activations((const uint8_t *)p);
}

ALWAYS_INLINE void vi_add_columns(vi *sums, const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                  const uint8_t *d, vi_four four) {
    const vi row_a = _mm512_loadu_si512(a), row_b = _mm512_loadu_si512(b);
    const vi row_c = _mm512_loadu_si512(c), row_d = _mm512_loadu_si512(d);
    const vi ab = _mm512_unpacklo_epi8(row_a, row_b), cd = _mm512_unpacklo_epi8(row_c, row_d);
    const vi ef = _mm512_unpackhi_epi8(row_a, row_b), gh = _mm512_unpackhi_epi8(row_c, row_d);
    sums[0] = vi_dot(sums[0], _mm512_unpacklo_epi16(ab, cd), four);
    sums[1] = vi_dot(sums[1], _mm512_unpackhi_epi16(ab, cd), four);
    sums[2] = vi_dot(sums[2], _mm512_unpacklo_epi16(ef, gh), four);
    sums[3] = vi_dot(sums[3], _mm512_unpackhi_epi16(ef, gh), four);
}
