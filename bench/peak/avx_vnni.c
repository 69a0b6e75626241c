/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "peak.h"

double peak_avx_vnni(uint64_t steps, volatile int32_t *sink) {
    const __m256i x = _mm256_set1_epi8((char)(*sink | 3)), w = _mm256_set1_epi8(5);
#define START(i) __m256i c##i = _mm256_set1_epi32(i + 1);
#define STEP(i) c##i = _mm256_dpbusd_avx_epi32(c##i, x, w);
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
