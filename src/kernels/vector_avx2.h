/* SPDX-License-Identifier: Apache-2.0
 * Vector operations of AVX2 and FMA, and of AVX-VNNI if VECTOR_VNNI is defined. Without AVX-VNNI
 * the product of bytes saturates, but not with the numbers of narrow products. */
#include <immintrin.h>

#include "kernels/vector.h"

typedef __m256 vf;
typedef __m256i vi;

enum { VF_LANES = 8 };

ALWAYS_INLINE vf vf_load(const float *p) {
    return _mm256_loadu_ps(p);
}

ALWAYS_INLINE void vf_store(float *p, vf x) {
    _mm256_storeu_ps(p, x);
}

ALWAYS_INLINE __m256i first_lanes(size_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

ALWAYS_INLINE vf vf_load_n(const float *p, size_t n) {
    return n == VF_LANES ? vf_load(p) : _mm256_maskload_ps(p, first_lanes(n));
}

ALWAYS_INLINE void vf_store_n(float *p, vf x, size_t n) {
    if (n == VF_LANES)
        vf_store(p, x);
    else
        _mm256_maskstore_ps(p, first_lanes(n), x);
}

#define VECTOR_HALVES

ALWAYS_INLINE vf vf_load_halves(const unsigned char *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

ALWAYS_INLINE vf vf_load_bfloats(const unsigned char *p) {
    const __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

/* Expands signed bytes to floats. */
ALWAYS_INLINE vf vf_load_int8(const int8_t *p) {
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

/* Expands unsigned bytes to floats. */
ALWAYS_INLINE vf vf_load_bytes(const unsigned char *p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

ALWAYS_INLINE vf vf_set1(float x) {
    return _mm256_set1_ps(x);
}

ALWAYS_INLINE vf vf_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}

ALWAYS_INLINE vf vf_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}

ALWAYS_INLINE vf vf_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}

ALWAYS_INLINE vf vf_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}

ALWAYS_INLINE vf vf_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}

ALWAYS_INLINE vf vf_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}

ALWAYS_INLINE vf vf_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}

ALWAYS_INLINE vf vf_abs(vf x) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

ALWAYS_INLINE vf vf_first(vf x, size_t n, vf rest) {
    return _mm256_blendv_ps(rest, x, _mm256_castsi256_ps(first_lanes(n)));
}

ALWAYS_INLINE void vf_zip(vf a, vf b, vf *low, vf *high) {
    /* The unpack instructions interleave each 128-bit half by itself. */
    const __m256 even = _mm256_unpacklo_ps(a, b), odd = _mm256_unpackhi_ps(a, b);
    *low = _mm256_permute2f128_ps(even, odd, 0x20);
    *high = _mm256_permute2f128_ps(even, odd, 0x31);
}

ALWAYS_INLINE float vf_sum(vf x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

ALWAYS_INLINE float vf_largest(vf x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

ALWAYS_INLINE float vf_least(vf x) {
    __m128 s = _mm_min_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_min_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_min_ss(s, _mm_movehdup_ps(s)));
}

ALWAYS_INLINE vi vi_round(vf x) {
    return _mm256_cvtps_epi32(x);
}

ALWAYS_INLINE vf vf_of_vi(vi x) {
    return _mm256_cvtepi32_ps(x);
}

ALWAYS_INLINE vi vi_bits(vf x) {
    return _mm256_castps_si256(x);
}

ALWAYS_INLINE vf vf_scale2(vf x, vi n) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(n, 23)));
}

ALWAYS_INLINE vi vi_set1(int32_t x) {
    return _mm256_set1_epi32(x);
}

ALWAYS_INLINE vi vi_max(vi a, vi b) {
    return _mm256_max_epi32(a, b);
}

ALWAYS_INLINE void vi_keep(vi *x) {
    __asm__("" : "+x"(*x));
}

ALWAYS_INLINE vi vi_add(vi a, vi b) {
    return _mm256_add_epi32(a, b);
}

ALWAYS_INLINE void vi_store_u8(uint8_t *p, vi x) {
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packus_epi16(words, words));
}

ALWAYS_INLINE void vi_store_u8_4(uint8_t *p, vi a, vi b, vi c, vi d) {
    /* The pack instructions process each 128-bit half by itself: groups of 4 bytes are in the order
     * a b c d a b c d. */
    const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permutevar8x32_epi32(bytes, order));
}

/* ---- products of bytes ----------------------------------------------------------------------- */

ALWAYS_INLINE __m256i repeat_4_bytes(const void *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

#ifdef VECTOR_VNNI

typedef __m256i vi_weights;
typedef __m256i vi_activations;

ALWAYS_INLINE vi_weights vi_load_weights(const unsigned char *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

ALWAYS_INLINE vi_activations vi_load_activations(const uint8_t *p) {
    return repeat_4_bytes(p);
}

ALWAYS_INLINE vi vi_dot(vi sum, vi_activations x, vi_weights w) {
    return _mm256_dpbusd_avx_epi32(sum, x, w);
}

ALWAYS_INLINE vi_activations vi_load_all_activations(const uint8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

#else

#define VECTOR_NARROW
#define VECTOR_NARROW_SPARSE

ALWAYS_INLINE vi vi16_load_weights(const unsigned char *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

ALWAYS_INLINE vi vi16_load_activations(const uint8_t *p) {
    return repeat_4_bytes(p);
}

ALWAYS_INLINE vi vi_load_all_activations(const uint8_t *p) {
    return vi16_load_weights(p);
}

ALWAYS_INLINE vi vi16_dot(vi x, vi w) {
    return _mm256_maddubs_epi16(x, w);
}

ALWAYS_INLINE vi vi16_add(vi a, vi b) {
    return _mm256_add_epi16(a, b);
}

ALWAYS_INLINE vi vi16_widen(vi x) {
    return _mm256_madd_epi16(x, _mm256_set1_epi16(1));
}

ALWAYS_INLINE vi vi16_widen_by_ones(vi x) {
    return vi16_widen(x);
}

#endif

/* ---- bytes of a key-value cache -------------------------------------------------------------- */

#ifdef VECTOR_VNNI

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
    return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)p),
                            _mm256_set1_epi8((char)0x80));
}

ALWAYS_INLINE vb_weights vb_load_values(const int8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

ALWAYS_INLINE vi vb_dot_keys(vi sum, vb_weights keys, vb_four four) {
    return vi_dot(sum, keys, four);
}

ALWAYS_INLINE vi vb_dot_values(vi sum, vb_weights values, vb_four four) {
    return vi_dot(sum, four, values);
}

#else

/* Bytes 0 and 2, and 1 and 3, of each lane, as 16-bit numbers. */
typedef struct vb_pairs {
    __m256i even, odd;
} vb_pairs;

typedef vb_pairs vb_weights;
typedef vb_pairs vb_four;

ALWAYS_INLINE vb_pairs vb_widened(__m256i bytes) {
    return (vb_pairs){.even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8),
                      .odd = _mm256_srai_epi16(bytes, 8)};
}

ALWAYS_INLINE vb_four vb_load_four(const int8_t *p) {
    return vb_widened(repeat_4_bytes(p));
}

ALWAYS_INLINE vi vb_start(int32_t sum) {
    (void)sum;
    return vi_set1(0);
}

ALWAYS_INLINE vb_weights vb_load_keys(const int8_t *p) {
    return vb_widened(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

ALWAYS_INLINE vb_weights vb_load_values(const int8_t *p) {
    return vb_load_keys(p);
}

ALWAYS_INLINE vi vb_dot_keys(vi sum, vb_weights w, vb_four x) {
    return vi_add(sum, vi_add(_mm256_madd_epi16(w.even, x.even), _mm256_madd_epi16(w.odd, x.odd)));
}

ALWAYS_INLINE vi vb_dot_values(vi sum, vb_weights w, vb_four x) {
    return vb_dot_keys(sum, w, x);
}

#endif

/* ---- 4-bit weights -------------------------------------------------------------------------- */

#define VECTOR_Q4

typedef __m256i vl_table;

enum { LEVEL_FACTOR = 1 };

ALWAYS_INLINE vl_table vl_load_table(const signed char *levels) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)levels));
}

ALWAYS_INLINE void vl_load_levels(const unsigned char *p, vl_table table, __m256i *low,
                                  __m256i *high) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i mask = _mm256_set1_epi8(15), upper = _mm256_srli_epi16(bytes, 4);
    *low = _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, mask));
    *high = _mm256_shuffle_epi8(table, _mm256_and_si256(upper, mask));
}

#ifdef VECTOR_VNNI

typedef vi vq;
typedef vi_weights vq_weights;
typedef vi_activations vq_activations;

enum { Q4_FACTOR = 16 }; /* because nibbles are used in the upper halves of bytes */

ALWAYS_INLINE vq_activations vq_load_activations(const uint8_t *p) {
    return vi_load_activations(p);
}

ALWAYS_INLINE void vq_load_nibbles(const unsigned char *p, vq_weights *low, vq_weights *high) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i mask = _mm256_set1_epi8((char)0xf0);
    *low = _mm256_and_si256(_mm256_slli_epi16(bytes, 4), mask);
    *high = _mm256_and_si256(bytes, mask);
}

ALWAYS_INLINE vq vq_dot(vq sum, vq_activations x, vq_weights w) {
    return vi_dot(sum, x, w);
}

ALWAYS_INLINE vi vq_sum(vq sum) {
    return sum;
}

#else

/* The product of bytes adds two products in 16 bits. With weights of magnitude up to 8 the sum of
 * two is at most 4080. A part adds up eight such sums, which is below 2^15, and so are 32 sums of
 * two products with ternary weights: 32 * 1020. */
typedef __m256i vq;
typedef __m256i vq_weights;
typedef __m256i vq_activations;

enum { Q4_FACTOR = 1 };

ALWAYS_INLINE vq_activations vq_load_activations(const uint8_t *p) {
    return repeat_4_bytes(p);
}

ALWAYS_INLINE void vq_load_nibbles(const unsigned char *p, vq_weights *low, vq_weights *high) {
    vl_load_levels(p,
                   _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2,
                                    3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1),
                   low, high);
}

ALWAYS_INLINE vq vq_dot(vq sum, vq_activations x, vq_weights w) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(x, w));
}

ALWAYS_INLINE vi vq_sum(vq sum) {
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

ALWAYS_INLINE vi vl_sum(vq upper, vq lower) {
    return _mm256_add_epi32(_mm256_madd_epi16(upper, _mm256_set1_epi16(16)), vq_sum(lower));
}

#endif

/* ---- weights of K-quants --------------------------------------------------------------------- */

typedef __m256i vk_codes;
typedef __m256i vk_weights;

ALWAYS_INLINE vk_codes vk_bits(const unsigned char *p, const int shift, const int mask) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm256_and_si256(shift < 0 ? _mm256_slli_epi16(bytes, -shift)
                                      : _mm256_srli_epi16(bytes, shift),
                            _mm256_set1_epi8((char)mask));
}

ALWAYS_INLINE vk_codes vk_or(vk_codes a, vk_codes b) {
    return _mm256_or_si256(a, b);
}

ALWAYS_INLINE vk_weights vk_centred(vk_codes codes, const int centre) {
    return _mm256_sub_epi8(codes, _mm256_set1_epi8((char)centre));
}

/* ---- ternary weights ------------------------------------------------------------------------ */

/* Two pairs of bits at a time are looked up in a table of the weights of their 16 values. */
ALWAYS_INLINE vq_weights v2_load(const unsigned char *p, const int position) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i pairs =
        _mm256_and_si256(position < 2 ? bytes : _mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
    const __m256i low = _mm256_setr_epi8(-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0,
                                         1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2);
    const __m256i high = _mm256_setr_epi8(-1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, -1,
                                          -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2);
    return _mm256_shuffle_epi8(position % 2 ? high : low, pairs);
}

#define VECTOR_CODES

ALWAYS_INLINE vk_codes v2_load_codes(const unsigned char *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

ALWAYS_INLINE vk_codes v2_upper_codes(vk_codes codes) {
    return _mm256_srli_epi16(codes, 4);
}

ALWAYS_INLINE vq_weights v2_codes(vk_codes codes, const int pair) {
    return _mm256_and_si256(codes, _mm256_set1_epi8(pair == 0 ? 3 : 12));
}

ALWAYS_INLINE vi v2_sum(const vq *sum) {
#ifdef VECTOR_VNNI
    return vi_add(vi_add(sum[0], sum[2]), _mm256_srai_epi32(vi_add(sum[1], sum[3]), 2));
#else
    /* A sum is of 16 products of at most 255 * 3, times 4 in two of the sums: below 2^16. Without
     * this factor two sums together are below 2^15. */
    const __m256i odd =
        _mm256_add_epi16(_mm256_srli_epi16(sum[1], 2), _mm256_srli_epi16(sum[3], 2));
    return vi_add(vq_sum(_mm256_add_epi16(sum[0], sum[2])), vq_sum(odd));
#endif
}

/* ---- pairs of 16-bit numbers ---------------------------------------------------------------- */

ALWAYS_INLINE vi vi_load(const int32_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

ALWAYS_INLINE void vi_store(int32_t *p, vi x) {
    _mm256_storeu_si256((__m256i *)(void *)p, x);
}

#ifdef VECTOR_PORTABLE
#define VECTOR_I16

ALWAYS_INLINE vi vi_dot_i16(vi sum, vi x, vi w) {
#ifdef VECTOR_VNNI
    return _mm256_dpwssd_avx_epi32(sum, x, w);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
#endif
}

ALWAYS_INLINE vi vi_pair(vi low, vi high) {
    return _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xaa);
}

ALWAYS_INLINE void vi_store_i16(int16_t *p, vi x) {
    const __m128i numbers =
        _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storeu_si128((__m128i *)(void *)p, numbers);
}

ALWAYS_INLINE void vi_store_i16_2(int16_t *p, vi a, vi b) {
    vi_store_i16(p, a);
    vi_store_i16(p + VF_LANES, b);
}

#endif

#include "kernels/vector_avx2_sparse.h"
