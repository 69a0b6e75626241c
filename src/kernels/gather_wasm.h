/* SPDX-License-Identifier: Apache-2.0
 * The operations of gather_template.h, of WebAssembly's vectors. */
#include <wasm_simd128.h>

#include "kernels/vector.h"

typedef v128_t gb;
typedef v128_t gi;
typedef v128_t gf;

enum { GB_BYTES = 16 };

ALWAYS_INLINE gb gb_load(const unsigned char *p) {
    return wasm_v128_load(p);
}

ALWAYS_INLINE gb gb_load_parts(const unsigned char *p) {
    return wasm_v128_load(p);
}

ALWAYS_INLINE gb gb_low(gb x) {
    return wasm_v128_and(x, wasm_i8x16_splat(15));
}

ALWAYS_INLINE gb gb_high(gb x) {
    return wasm_v128_and(wasm_u16x8_shr(x, 4), wasm_i8x16_splat(15));
}

ALWAYS_INLINE gi gi_zero(void) {
    return wasm_i32x4_splat(0);
}

ALWAYS_INLINE gi gi_set1(int32_t x) {
    return wasm_i32x4_splat(x);
}

ALWAYS_INLINE gi gi_load(const int32_t *p) {
    return wasm_v128_load(p);
}

ALWAYS_INLINE gi gi_add(gi a, gi b) {
    return wasm_i32x4_add(a, b);
}

ALWAYS_INLINE gf gf_zero(void) {
    return wasm_f32x4_splat(0);
}

ALWAYS_INLINE gf gf_set1(float x) {
    return wasm_f32x4_splat(x);
}

ALWAYS_INLINE gf gf_load(const float *p) {
    return wasm_v128_load(p);
}

ALWAYS_INLINE void gf_store(float *p, gf x) {
    wasm_v128_store(p, x);
}

ALWAYS_INLINE gf gf_of(gi x) {
    return wasm_f32x4_convert_i32x4(x);
}

ALWAYS_INLINE gf gf_mul(gf a, gf b) {
    return wasm_f32x4_mul(a, b);
}

ALWAYS_INLINE gf gf_fma(gf a, gf b, gf c) {
    return vf_fma(a, b, c);
}

ALWAYS_INLINE float gf_sum(gf x) {
    return vf_sum(x);
}

ALWAYS_INLINE gf gf_load_halves(const unsigned char *p) {
    return vf_load_halves(p);
}

ALWAYS_INLINE gf gf_repeat(const unsigned char *p) {
    const v128_t half = wasm_i32x4_shr(wasm_i32x4_shl(wasm_v128_load16_splat(p), 16), 16);
    const v128_t size = wasm_v128_and(wasm_i32x4_shl(half, 13), wasm_u32x4_splat(0x0fffe000));
    const v128_t sign = wasm_v128_and(half, wasm_u32x4_splat(0x80000000));
    return wasm_v128_or(wasm_f32x4_mul(size, wasm_f32x4_splat(0x1p112f)), sign);
}

/* A sum of two products is at most 2 * 128 * 127, which is below 2^15, but one of four is not. */
ALWAYS_INLINE v128_t gi_products(gb a, gb x) {
    const v128_t low =
        wasm_i32x4_dot_i16x8(wasm_i16x8_extend_low_i8x16(a), wasm_i16x8_extend_low_i8x16(x));
    const v128_t high =
        wasm_i32x4_dot_i16x8(wasm_i16x8_extend_high_i8x16(a), wasm_i16x8_extend_high_i8x16(x));
    return wasm_i32x4_add(low, high);
}

ALWAYS_INLINE gi gi_dot_bytes(gi sum, gb a, gb x, gb b, gb y) {
    return wasm_i32x4_add(sum, wasm_i32x4_add(gi_products(a, x), gi_products(b, y)));
}

/* The nibbles are second, which engines take for unsigned or signed alike. */
ALWAYS_INLINE gi gi_dot_codes(gi sum, gb a, gb x, gb b, gb y) {
#ifdef VECTOR_RELAXED
    const v128_t products = wasm_i16x8_add(wasm_i16x8_relaxed_dot_i8x16_i7x16(x, a),
                                           wasm_i16x8_relaxed_dot_i8x16_i7x16(y, b));
    return wasm_i32x4_add(sum, wasm_i32x4_extadd_pairwise_i16x8(products));
#else
    return gi_dot_bytes(sum, a, x, b, y);
#endif
}

/* Sixteen neurons add up to at most 16 * 15 * 127, which is below 2^15. */
typedef struct gs {
    v128_t narrow[4]; /* of 8 outputs each: two of the low nibbles, then two of the high ones */
    v128_t wide[8];
} gs;

ALWAYS_INLINE gs gs_zero(void) {
    gs s;
    UNROLL
    for (int i = 0; i < 4; i++)
        s.narrow[i] = wasm_i32x4_splat(0);
    UNROLL
    for (int i = 0; i < 8; i++)
        s.wide[i] = wasm_i32x4_splat(0);
    return s;
}

ALWAYS_INLINE void gs_add_column(gs *s, gb codes, int8_t value) {
    const v128_t factor = wasm_i8x16_splat(value);
    const v128_t nibbles[2] = {gb_low(codes), gb_high(codes)};
    UNROLL
    for (int i = 0; i < 2; i++) {
        s->narrow[2 * i] =
            wasm_i16x8_add(s->narrow[2 * i], wasm_i16x8_extmul_low_i8x16(nibbles[i], factor));
        s->narrow[2 * i + 1] =
            wasm_i16x8_add(s->narrow[2 * i + 1], wasm_i16x8_extmul_high_i8x16(nibbles[i], factor));
    }
}

ALWAYS_INLINE void gs_add_codes(gs *s, gb a, gb b, int8_t value_a, int8_t value_b) {
    gs_add_column(s, a, value_a);
    gs_add_column(s, b, value_b);
}

ALWAYS_INLINE void gs_widen(gs *s) {
    UNROLL
    for (int i = 0; i < 4; i++) {
        s->wide[2 * i] = wasm_i32x4_add(s->wide[2 * i], wasm_i32x4_extend_low_i16x8(s->narrow[i]));
        s->wide[2 * i + 1] =
            wasm_i32x4_add(s->wide[2 * i + 1], wasm_i32x4_extend_high_i16x8(s->narrow[i]));
        s->narrow[i] = wasm_i32x4_splat(0);
    }
}

ALWAYS_INLINE gi gs_get(const gs *s, size_t i) {
    return s->wide[i];
}

ALWAYS_INLINE void gs_add_bytes(gi *sums, gb a, gb b, int8_t value_a, int8_t value_b) {
    const v128_t factor_a = wasm_i8x16_splat(value_a), factor_b = wasm_i8x16_splat(value_b);
    const v128_t low = wasm_i16x8_add(wasm_i16x8_extmul_low_i8x16(a, factor_a),
                                      wasm_i16x8_extmul_low_i8x16(b, factor_b));
    const v128_t high = wasm_i16x8_add(wasm_i16x8_extmul_high_i8x16(a, factor_a),
                                       wasm_i16x8_extmul_high_i8x16(b, factor_b));
    sums[0] = wasm_i32x4_add(sums[0], wasm_i32x4_extend_low_i16x8(low));
    sums[1] = wasm_i32x4_add(sums[1], wasm_i32x4_extend_high_i16x8(low));
    sums[2] = wasm_i32x4_add(sums[2], wasm_i32x4_extend_low_i16x8(high));
    sums[3] = wasm_i32x4_add(sums[3], wasm_i32x4_extend_high_i16x8(high));
}
