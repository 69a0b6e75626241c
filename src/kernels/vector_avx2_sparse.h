/* SPDX-License-Identifier: Apache-2.0
 * Vector operations of AVX2 for the sparse kernels: a part of vector_avx2.h. */

ALWAYS_INLINE void vi_store_sums(int32_t *p, const vi *sums) {
    /* hadd computes, in each 128-bit half, the four sums of the half's lanes. The halves are added.
     */
    const __m256i ab = _mm256_hadd_epi32(sums[0], sums[1]);
    const __m256i cd = _mm256_hadd_epi32(sums[2], sums[3]);
    const __m256i halves = _mm256_hadd_epi32(ab, cd);
    const __m128i all =
        _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    _mm_storeu_si128((__m128i *)(void *)p, all);
}

ALWAYS_INLINE vf vf_load_groups(const float *const *groups) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(groups[0])),
                                _mm_loadu_ps(groups[1]), 1);
}

ALWAYS_INLINE void vf_transpose4(vf *x) {
    const vf ab = _mm256_unpacklo_ps(x[0], x[1]), cd = _mm256_unpacklo_ps(x[2], x[3]);
    const vf ef = _mm256_unpackhi_ps(x[0], x[1]), gh = _mm256_unpackhi_ps(x[2], x[3]);
    x[0] = _mm256_shuffle_ps(ab, cd, 0x44);
    x[1] = _mm256_shuffle_ps(ab, cd, 0xee);
    x[2] = _mm256_shuffle_ps(ef, gh, 0x44);
    x[3] = _mm256_shuffle_ps(ef, gh, 0xee);
}

ALWAYS_INLINE unsigned vf_above(vf a, vf b) {
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

ALWAYS_INLINE vi vi_narrow(vi a, vi b, vi c, vi d) {
    /* The pack instructions process each 128-bit half by itself: lane 4 i + j of the result is half
     * i of vector j. */
    const vi order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
    const vi bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    return _mm256_permutevar8x32_epi32(bytes, order);
}

ALWAYS_INLINE uint64_t vi_nonzero_bytes(vi x) {
    const __m256i zeros = _mm256_cmpeq_epi8(x, _mm256_setzero_si256());
    return ~(uint32_t)_mm256_movemask_epi8(zeros);
}

#ifdef VECTOR_VNNI

#define VECTOR_SIGNED_COLUMNS 0

typedef vi vi_four;

ALWAYS_INLINE vi_four vi_load_four(const int8_t *p) {
    return repeat_4_bytes(p);
}

ALWAYS_INLINE vi vi_dot_column(vi sum, vi weights, vi_four four) {
    return _mm256_dpbusd_avx_epi32(sum, weights, four);
}

#else

#define VECTOR_COLUMNS_IN_16_BITS
#define VECTOR_SIGNED_COLUMNS 1

typedef uint8_t column_value;
typedef __m256i vi_two;

ALWAYS_INLINE vi_two vi_load_two(const column_value *values) {
    int16_t two;
    memcpy(&two, values, sizeof two);
    return _mm256_set1_epi16(two);
}

ALWAYS_INLINE void vi16_columns(const uint8_t *a, const uint8_t *b, vi_two two, vi *products) {
    const vi row_a = vi_load((const int32_t *)(const void *)a);
    const vi row_b = vi_load((const int32_t *)(const void *)b);
    products[0] = _mm256_maddubs_epi16(two, _mm256_unpacklo_epi8(row_a, row_b));
    products[1] = _mm256_maddubs_epi16(two, _mm256_unpackhi_epi8(row_a, row_b));
}

ALWAYS_INLINE vi vi16_sub(vi a, vi b) {
    return _mm256_sub_epi16(a, b);
}

ALWAYS_INLINE vi vi16_upper_bytes(vi x) {
    return _mm256_srai_epi16(x, 8);
}

ALWAYS_INLINE vi vi16_to_upper_bytes(vi x) {
    return _mm256_slli_epi16(x, 8);
}

ALWAYS_INLINE void vi16_join(vi low, vi high, vi *sums) {
    const __m256i factors = _mm256_set1_epi32(256 << 16 | 1), offset = _mm256_set1_epi32(1 << 15);
    const __m256i signed_low = _mm256_xor_si256(low, _mm256_set1_epi16(-0x8000));
    const __m256i first = _mm256_unpacklo_epi16(signed_low, high);
    const __m256i second = _mm256_unpackhi_epi16(signed_low, high);
    sums[0] = _mm256_add_epi32(_mm256_madd_epi16(first, factors), offset);
    sums[1] = _mm256_add_epi32(_mm256_madd_epi16(second, factors), offset);
}

#endif

#ifdef VECTOR_VNNI

ALWAYS_INLINE void vi_add_columns(vi *sums, const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                  const uint8_t *d, vi_four four) {
    const vi row_a = vi_load((const int32_t *)(const void *)a);
    const vi row_b = vi_load((const int32_t *)(const void *)b);
    const vi row_c = vi_load((const int32_t *)(const void *)c);
    const vi row_d = vi_load((const int32_t *)(const void *)d);
    const vi ab = _mm256_unpacklo_epi8(row_a, row_b), cd = _mm256_unpacklo_epi8(row_c, row_d);
    const vi ef = _mm256_unpackhi_epi8(row_a, row_b), gh = _mm256_unpackhi_epi8(row_c, row_d);
    sums[0] = vi_dot_column(sums[0], _mm256_unpacklo_epi16(ab, cd), four);
    sums[1] = vi_dot_column(sums[1], _mm256_unpackhi_epi16(ab, cd), four);
    sums[2] = vi_dot_column(sums[2], _mm256_unpacklo_epi16(ef, gh), four);
    sums[3] = vi_dot_column(sums[3], _mm256_unpackhi_epi16(ef, gh), four);
}

#endif
