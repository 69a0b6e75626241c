/* SPDX-License-Identifier: Apache-2.0
 * Defines the probe of one NEON product of bytes. The including file defines PROBE, the probe's
 * name; PRODUCT, the intrinsic; and PRODUCT_MACS, the multiply-adds of one product. */
#include <arm_neon.h>

#include "peak.h"

double PROBE(uint64_t steps, volatile int32_t *sink) {
    const int8x16_t x = vdupq_n_s8((int8_t)(*sink | 3)), w = vdupq_n_s8(5);
#define START(i) int32x4_t c##i = vdupq_n_s32(i + 1);
#define STEP(i) c##i = PRODUCT(c##i, x, w);
#define KEEP(i) __asm__("" : "+w"(c##i));
#define FOLD(i) sum = vaddq_s32(sum, c##i);
    EACH_CHAIN(START)
    for (uint64_t step = 0; step < steps; step++) {
        EACH_CHAIN(STEP)
        EACH_CHAIN(KEEP)
    }
    int32x4_t sum = c0;
    EACH_CHAIN(FOLD)
#undef START
#undef STEP
#undef KEEP
#undef FOLD
    *sink = vaddvq_s32(sum);
    return (double)(PRODUCT_MACS * CHAINS * steps);
}
