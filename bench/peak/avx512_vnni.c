/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#define VECTOR __m512i
#define SPLAT _mm512_set1_epi32
#define ADD _mm512_add_epi32
#define NUMBER _mm512_reduce_add_epi32
#define KEEP_IN "+v"

#define PROBE peak_avx512_vnni
#define FACTORS const __m512i x = _mm512_set1_epi8((char)(*sink | 3)), w = _mm512_set1_epi8(5);
#define PRODUCT(c) _mm512_dpbusd_epi32(c, x, w)
#define PRODUCT_MACS 64
#include "probe.h"
