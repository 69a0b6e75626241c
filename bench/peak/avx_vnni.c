/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#define VECTOR __m256i
#define SPLAT _mm256_set1_epi32
#define ADD _mm256_add_epi32
#define NUMBER(v) _mm256_extract_epi32(v, 0)
#define KEEP_IN "+x"

#define PROBE peak_avx_vnni
#define FACTORS const __m256i x = _mm256_set1_epi8((char)(*sink | 3)), w = _mm256_set1_epi8(5);
#define PRODUCT(c) _mm256_dpbusd_avx_epi32(c, x, w)
#define PRODUCT_MACS 32
#include "probe.h"
