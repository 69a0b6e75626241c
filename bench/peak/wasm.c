/* SPDX-License-Identifier: Apache-2.0 */
#include <wasm_simd128.h>

#include "peak.h"

/* The accumulators are factors too, because the compiler would move a product of constants out of
 * the loop. */
double peak_wasm_i16(uint64_t steps, volatile int32_t *sink) {
    const v128_t w = wasm_i16x8_splat((int16_t)(*sink | 3));
#define START(i) v128_t c##i = wasm_i32x4_splat(i + 1);
#define STEP(i) c##i = wasm_i32x4_add(c##i, wasm_i32x4_dot_i16x8(c##i, w));
#define FOLD(i) sum = wasm_i32x4_add(sum, c##i);
    EACH_CHAIN(START)
    for (uint64_t step = 0; step < steps; step++) {
        EACH_CHAIN(STEP)
    }
    v128_t sum = c0;
    EACH_CHAIN(FOLD)
#undef START
#undef STEP
#undef FOLD
    *sink = wasm_i32x4_extract_lane(sum, 0);
    return (double)(8 * CHAINS * steps);
}

#if defined(__wasm_relaxed_simd__)
double peak_wasm_relaxed(uint64_t steps, volatile int32_t *sink) {
    const v128_t x = wasm_i8x16_splat((int8_t)(*sink | 3)), w = wasm_i8x16_splat(5);
#define START(i) v128_t c##i = wasm_i32x4_splat(i + 1);
#define STEP(i) c##i = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w, x, c##i);
#define FOLD(i) sum = wasm_i32x4_add(sum, c##i);
    EACH_CHAIN(START)
    for (uint64_t step = 0; step < steps; step++) {
        EACH_CHAIN(STEP)
    }
    v128_t sum = c0;
    EACH_CHAIN(FOLD)
#undef START
#undef STEP
#undef FOLD
    *sink = wasm_i32x4_extract_lane(sum, 0);
    return (double)(16 * CHAINS * steps);
}

double peak_wasm_narrow(uint64_t steps, volatile int32_t *sink) {
    const v128_t x = wasm_i8x16_splat((int8_t)(*sink | 3)), w = wasm_i8x16_splat(5);
#define START(i) v128_t c##i = wasm_i32x4_splat(i + 1);
#define STEP(i)                                                                                    \
    c##i = wasm_i32x4_add(c##i, wasm_i32x4_extadd_pairwise_i16x8(                                  \
                                    wasm_i16x8_add(wasm_i16x8_relaxed_dot_i8x16_i7x16(c##i, w),    \
                                                   wasm_i16x8_relaxed_dot_i8x16_i7x16(c##i, x))));
#define FOLD(i) sum = wasm_i32x4_add(sum, c##i);
    EACH_CHAIN(START)
    for (uint64_t step = 0; step < steps; step++) {
        EACH_CHAIN(STEP)
    }
    v128_t sum = c0;
    EACH_CHAIN(FOLD)
#undef START
#undef STEP
#undef FOLD
    *sink = wasm_i32x4_extract_lane(sum, 0);
    return (double)(32 * CHAINS * steps);
}
#endif
