/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#define VECTOR __m256i
#define SPLAT _mm256_set1_epi32
#define ADD _mm256_add_epi32
#define NUMBER(v) _mm256_extract_epi32(v, 0)
#define KEEP_IN "+x"

#define PROBE peak_avx2_madd
#define FACTORS const __m256i w = _mm256_set1_epi16((short)(*sink | 3));
#define PRODUCT(c) ADD(c, _mm256_madd_epi16(c, w))
#define PRODUCT_MACS 16
#include "probe.h"

#define PROBE peak_avx2_maddubs
#define FACTORS const __m256i w = _mm256_set1_epi8((char)(*sink | 3)), ones = _mm256_set1_epi16(1);
#define PRODUCT(c) ADD(c, _mm256_madd_epi16(_mm256_maddubs_epi16(c, w), ones))
#define PRODUCT_MACS 32
#include "probe.h"

#define PROBE peak_avx2_narrow
#define FACTORS                                                                                    \
    const __m256i w = _mm256_set1_epi8((char)(*sink | 3)), ones = _mm256_set1_epi16(1);            \
    const __m256i v = _mm256_set1_epi8((char)(*sink | 5));
#define PRODUCT(c)                                                                                 \
    ADD(c, _mm256_madd_epi16(                                                                      \
               _mm256_add_epi16(_mm256_maddubs_epi16(c, w), _mm256_maddubs_epi16(c, v)), ones))
#define PRODUCT_MACS 64
#include "probe.h"
