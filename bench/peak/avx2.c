/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "peak.h"

/* The accumulators are factors too, because the compiler would move a product of constants out of
 * the loop. */
double peak_avx2_madd(uint64_t steps, volatile int32_t *sink) {
    const __m256i w = _mm256_set1_epi16((short)(*sink | 3));
#define START(i) __m256i c##i = _mm256_set1_epi32(i + 1);
#define STEP(i) c##i = _mm256_add_epi32(c##i, _mm256_madd_epi16(c##i, w));
#define KEEP(i) __asm__("" : "+x"(c##i));
#define FOLD(i) sum = _mm256_add_epi32(sum, c##i);
    EACH_CHAIN(START)
    for (uint64_t step = 0; step < steps; step++) {
        EACH_CHAIN(STEP)
        EACH_CHAIN(KEEP)
    }
    __m256i sum = c0;
    EACH_CHAIN(FOLD)
#undef START
#undef STEP
#undef KEEP
#undef FOLD
    *sink = _mm256_extract_epi32(sum, 0);
    return (double)(16 * CHAINS * steps);
}

double peak_avx2_maddubs(uint64_t steps, volatile int32_t *sink) {
    const __m256i w = _mm256_set1_epi8((char)(*sink | 3)), ones = _mm256_set1_epi16(1);
#define START(i) __m256i c##i = _mm256_set1_epi32(i + 1);
#define STEP(i)                                                                                    \
    c##i = _mm256_add_epi32(c##i, _mm256_madd_epi16(_mm256_maddubs_epi16(c##i, w), ones));
#define KEEP(i) __asm__("" : "+x"(c##i));
#define FOLD(i) sum = _mm256_add_epi32(sum, c##i);
    EACH_CHAIN(START)
    for (uint64_t step = 0; step < steps; step++) {
        EACH_CHAIN(STEP)
        EACH_CHAIN(KEEP)
    }
    __m256i sum = c0;
    EACH_CHAIN(FOLD)
#undef START
#undef STEP
#undef KEEP
#undef FOLD
    *sink = _mm256_extract_epi32(sum, 0);
    return (double)(32 * CHAINS * steps);
}

double peak_avx2_narrow(uint64_t steps, volatile int32_t *sink) {
    const __m256i w = _mm256_set1_epi8((char)(*sink | 3)), ones = _mm256_set1_epi16(1);
    const __m256i v = _mm256_set1_epi8((char)(*sink | 5));
#define START(i) __m256i c##i = _mm256_set1_epi32(i + 1);
#define STEP(i)                                                                                    \
    c##i =                                                                                         \
        _mm256_add_epi32(c##i, _mm256_madd_epi16(_mm256_add_epi16(_mm256_maddubs_epi16(c##i, w),   \
                                                                  _mm256_maddubs_epi16(c##i, v)),  \
                                                 ones));
#define KEEP(i) __asm__("" : "+x"(c##i));
#define FOLD(i) sum = _mm256_add_epi32(sum, c##i);
    EACH_CHAIN(START)
    for (uint64_t step = 0; step < steps; step++) {
        EACH_CHAIN(STEP)
        EACH_CHAIN(KEEP)
    }
    __m256i sum = c0;
    EACH_CHAIN(FOLD)
#undef START
#undef STEP
#undef KEEP
#undef FOLD
    *sink = _mm256_extract_epi32(sum, 0);
    return (double)(64 * CHAINS * steps);
}
