/* SPDX-License-Identifier: Apache-2.0
 * The operations of gather_template.h, of 256-bit vectors. With AVX-512 they have no longer ones:
 * products wait for memory, and a neuron's strip of 32 bytes fills one of these. */
#include <immintrin.h>

#include "kernels/vector.h"

typedef __m256i gb;
typedef __m256i gi;
typedef __m256 gf;

enum { GB_BYTES = 32 };

ALWAYS_INLINE gb gb_load(const unsigned char *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

ALWAYS_INLINE gb gb_load_parts(const unsigned char *p) {
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p)),
        _mm_loadu_si128((const __m128i *)(const void *)(p + GATHER_BLOCK)), 1);
}

ALWAYS_INLINE gb gb_low(gb x) {
    return _mm256_and_si256(x, _mm256_set1_epi8(15));
}

ALWAYS_INLINE gb gb_high(gb x) {
    return _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15));
}

ALWAYS_INLINE gi gi_zero(void) {
    return _mm256_setzero_si256();
}

ALWAYS_INLINE gi gi_set1(int32_t x) {
    return _mm256_set1_epi32(x);
}

ALWAYS_INLINE gi gi_load(const int32_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

ALWAYS_INLINE gi gi_add(gi a, gi b) {
    return _mm256_add_epi32(a, b);
}

ALWAYS_INLINE gf gf_zero(void) {
    return _mm256_setzero_ps();
}

ALWAYS_INLINE gf gf_set1(float x) {
    return _mm256_set1_ps(x);
}

ALWAYS_INLINE gf gf_load(const float *p) {
    return _mm256_loadu_ps(p);
}

ALWAYS_INLINE void gf_store(float *p, gf x) {
    _mm256_storeu_ps(p, x);
}

ALWAYS_INLINE gf gf_of(gi x) {
    return _mm256_cvtepi32_ps(x);
}

ALWAYS_INLINE gf gf_mul(gf a, gf b) {
    return _mm256_mul_ps(a, b);
}

ALWAYS_INLINE gf gf_fma(gf a, gf b, gf c) {
    return _mm256_fmadd_ps(a, b, c);
}

ALWAYS_INLINE float gf_sum(gf x) {
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

ALWAYS_INLINE gf gf_load_halves(const unsigned char *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

ALWAYS_INLINE gf gf_repeat(const unsigned char *p) {
    int32_t two;
    memcpy(&two, p, sizeof two);
    const __m128i pairs = _mm_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3);
    return _mm256_cvtph_ps(_mm_shuffle_epi8(_mm_cvtsi32_si128(two), pairs));
}

/* A sum of four products is at most 4 * 15 * 127, one of two bytes 2 * 128 * 127: below 2^15. */
ALWAYS_INLINE gi gi_dot_codes(gi sum, gb a, gb x, gb b, gb y) {
    const __m256i products =
        _mm256_add_epi16(_mm256_maddubs_epi16(a, x), _mm256_maddubs_epi16(b, y));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
}

ALWAYS_INLINE gi gi_dot_bytes(gi sum, gb a, gb x, gb b, gb y) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i first = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(x, a));
    const __m256i second = _mm256_maddubs_epi16(_mm256_abs_epi8(b), _mm256_sign_epi8(y, b));
    return _mm256_add_epi32(
        sum, _mm256_add_epi32(_mm256_madd_epi16(first, ones), _mm256_madd_epi16(second, ones)));
}

/* Vector 2 i has outputs 0..7 and 16..23 of the low (i = 0) or high nibbles, vector 2 i + 1 their
 * others. Sixteen neurons add up to at most 16 * 15 * 127, which is below 2^15. */
typedef struct gs {
    __m256i narrow[4];
    __m256i wide[8]; /* of GF_LANES outputs each */
} gs;

ALWAYS_INLINE gs gs_zero(void) {
    gs s;
    UNROLL
    for (int i = 0; i < 4; i++)
        s.narrow[i] = _mm256_setzero_si256();
    UNROLL
    for (int i = 0; i < 8; i++)
        s.wide[i] = _mm256_setzero_si256();
    return s;
}

ALWAYS_INLINE void gs_add_codes(gs *s, gb a, gb b, int8_t value_a, int8_t value_b) {
    const __m256i values =
        _mm256_set1_epi16((short)((uint8_t)value_a | (unsigned)(uint8_t)value_b << 8));
    const gb low_a = gb_low(a), low_b = gb_low(b), high_a = gb_high(a), high_b = gb_high(b);
    const __m256i pairs[4] = {
        _mm256_unpacklo_epi8(low_a, low_b), _mm256_unpackhi_epi8(low_a, low_b),
        _mm256_unpacklo_epi8(high_a, high_b), _mm256_unpackhi_epi8(high_a, high_b)};
    UNROLL
    for (int i = 0; i < 4; i++)
        s->narrow[i] = _mm256_add_epi16(s->narrow[i], _mm256_maddubs_epi16(pairs[i], values));
}

ALWAYS_INLINE void gs_widen(gs *s) {
    UNROLL
    for (int i = 0; i < 4; i++) {
        /* Outputs 0..7 and 16..23 of the half of a strip, or 8..15 and 24..31. */
        const int at = i / 2 * 4 + i % 2;
        s->wide[at] = _mm256_add_epi32(s->wide[at],
                                       _mm256_cvtepi16_epi32(_mm256_castsi256_si128(s->narrow[i])));
        s->wide[at + 2] = _mm256_add_epi32(
            s->wide[at + 2], _mm256_cvtepi16_epi32(_mm256_extracti128_si256(s->narrow[i], 1)));
        s->narrow[i] = _mm256_setzero_si256();
    }
}

ALWAYS_INLINE gi gs_get(const gs *s, size_t i) {
    return s->wide[i];
}

ALWAYS_INLINE void gs_add_bytes(gi *sums, gb a, gb b, int8_t value_a, int8_t value_b) {
    const __m256i values =
        _mm256_set1_epi32((int32_t)((uint32_t)(uint16_t)value_a | (uint32_t)value_b << 16));
    const __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
    const __m128i parts[4] = {_mm256_castsi256_si128(low), _mm256_castsi256_si128(high),
                              _mm256_extracti128_si256(low, 1), _mm256_extracti128_si256(high, 1)};
    UNROLL
    for (int i = 0; i < 4; i++)
        sums[i] =
            _mm256_add_epi32(sums[i], _mm256_madd_epi16(_mm256_cvtepi8_epi16(parts[i]), values));
}
