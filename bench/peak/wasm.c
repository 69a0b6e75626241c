/* SPDX-License-Identifier: Apache-2.0 */
#include <wasm_simd128.h>

#define VECTOR v128_t
#define SPLAT wasm_i32x4_splat
#define ADD wasm_i32x4_add
#define NUMBER(v) wasm_i32x4_extract_lane(v, 0)

#define PROBE peak_wasm_i16
#define FACTORS const v128_t w = wasm_i16x8_splat((int16_t)(*sink | 3));
#define PRODUCT(c) ADD(c, wasm_i32x4_dot_i16x8(c, w))
#define PRODUCT_MACS 8
#include "probe.h"

#if defined(__wasm_relaxed_simd__)
#define PROBE peak_wasm_relaxed
#define FACTORS const v128_t x = wasm_i8x16_splat((int8_t)(*sink | 3)), w = wasm_i8x16_splat(5);
#define PRODUCT(c) wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w, x, c)
#define PRODUCT_MACS 16
#include "probe.h"

#define PROBE peak_wasm_narrow
#define FACTORS const v128_t x = wasm_i8x16_splat((int8_t)(*sink | 3)), w = wasm_i8x16_splat(5);
#define PRODUCT(c)                                                                                 \
    ADD(c,                                                                                         \
        wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_add(                                           \
            wasm_i16x8_relaxed_dot_i8x16_i7x16(c, w), wasm_i16x8_relaxed_dot_i8x16_i7x16(c, x))))
#define PRODUCT_MACS 32
#include "probe.h"
#endif
