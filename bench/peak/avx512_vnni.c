/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "peak.h"

double peak_avx512_vnni(uint64_t steps, volatile int32_t *sink) {
    const __m512i x = _mm512_set1_epi8((char)(*sink | 3)), w = _mm512_set1_epi8(5);
#define START(i) __m512i c##i = _mm512_set1_epi32(i + 1);
#define STEP(i) c##i = _mm512_dpbusd_epi32(c##i, x, w);
#define KEEP(i) __asm__("" : "+v"(c##i));
#define FOLD(i) sum = _mm512_add_epi32(sum, c##i);
    EACH_CHAIN(START)
    for (uint64_t step = 0; step < steps; step++) {
        EACH_CHAIN(STEP)
        EACH_CHAIN(KEEP)
    }
    __m512i sum = c0;
    EACH_CHAIN(FOLD)
#undef START
#undef STEP
#undef KEEP
#undef FOLD
    *sink = _mm512_reduce_add_epi32(sum);
    return (double)(64 * CHAINS * steps);
}
