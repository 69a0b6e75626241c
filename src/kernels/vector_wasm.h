/* SPDX-License-Identifier: Apache-2.0
 * Vector operations of WebAssembly's 128-bit vectors. With VECTOR_RELAXED the multiply-add is a
 * relaxed instruction, and with VECTOR_RELAXED_DOT the dot product of bytes too. An engine may
 * choose the result of relaxed instructions within limits: select.c finds out whether its dot
 * product is one that wisp can use. With only VECTOR_RELAXED, dense products are narrow; sparse
 * layers without VECTOR_RELAXED_DOT, and all products without VECTOR_RELAXED, widen bytes to 16
 * bits. */
#include <wasm_simd128.h>

#include "kernels/vector.h"

typedef v128_t vf;
typedef v128_t vi;

enum { VF_LANES = 4 };

ALWAYS_INLINE vf vf_load(const float *p) {
    return wasm_v128_load(p);
}

ALWAYS_INLINE void vf_store(float *p, vf x) {
    wasm_v128_store(p, x);
}

ALWAYS_INLINE vf vf_load_n(const float *p, size_t n) {
    if (n == VF_LANES)
        return vf_load(p);
    if (n == 1)
        return wasm_v128_load32_zero(p);
    const vf two = wasm_v128_load64_zero(p);
    return n == 2 ? two : wasm_v128_load32_lane(p + 2, two, 2);
}

ALWAYS_INLINE void vf_store_n(float *p, vf x, size_t n) {
    if (n == VF_LANES)
        vf_store(p, x);
    else if (n == 1)
        wasm_v128_store32_lane(p, x, 0);
    else {
        wasm_v128_store64_lane(p, x, 0);
        if (n == 3)
            wasm_v128_store32_lane(p + 2, x, 2);
    }
}

ALWAYS_INLINE vf vf_load_int8(const int8_t *p) {
    const v128_t bytes = wasm_v128_load32_zero(p);
    return wasm_f32x4_convert_i32x4(
        wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(bytes)));
}

ALWAYS_INLINE vf vf_set1(float x) {
    return wasm_f32x4_splat(x);
}

ALWAYS_INLINE vf vf_add(vf a, vf b) {
    return wasm_f32x4_add(a, b);
}

ALWAYS_INLINE vf vf_sub(vf a, vf b) {
    return wasm_f32x4_sub(a, b);
}

ALWAYS_INLINE vf vf_mul(vf a, vf b) {
    return wasm_f32x4_mul(a, b);
}

ALWAYS_INLINE vf vf_div(vf a, vf b) {
    return wasm_f32x4_div(a, b);
}

ALWAYS_INLINE vf vf_fma(vf a, vf b, vf c) {
#ifdef VECTOR_RELAXED
    return wasm_f32x4_relaxed_madd(a, b, c);
#else
    return wasm_f32x4_add(wasm_f32x4_mul(a, b), c);
#endif
}

/* pmin and pmax take one instruction on x86, min and max take several. In this order of operands
 * zeros of either sign give b, as they do in other portable sets. */
ALWAYS_INLINE vf vf_min(vf a, vf b) {
    return wasm_f32x4_pmin(b, a);
}

ALWAYS_INLINE vf vf_max(vf a, vf b) {
    return wasm_f32x4_pmax(b, a);
}

ALWAYS_INLINE vf vf_abs(vf x) {
    return wasm_f32x4_abs(x);
}

ALWAYS_INLINE vf vf_first(vf x, size_t n, vf rest) {
    const v128_t lane = wasm_i32x4_const(0, 1, 2, 3);
    return wasm_v128_bitselect(x, rest, wasm_i32x4_lt(lane, wasm_i32x4_splat((int32_t)n)));
}

ALWAYS_INLINE void vf_zip(vf a, vf b, vf *low, vf *high) {
    *low = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5);
    *high = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
}

ALWAYS_INLINE vf swap_pairs(vf x) {
    return wasm_i32x4_shuffle(x, x, 2, 3, 0, 1);
}

ALWAYS_INLINE vf swap_neighbours(vf x) {
    return wasm_i32x4_shuffle(x, x, 1, 0, 3, 2);
}

ALWAYS_INLINE float vf_sum(vf x) {
    const vf pairs = wasm_f32x4_add(x, swap_pairs(x));
    return wasm_f32x4_extract_lane(wasm_f32x4_add(pairs, swap_neighbours(pairs)), 0);
}

ALWAYS_INLINE float vf_largest(vf x) {
    const vf pairs = vf_max(x, swap_pairs(x));
    return wasm_f32x4_extract_lane(vf_max(pairs, swap_neighbours(pairs)), 0);
}

ALWAYS_INLINE float vf_least(vf x) {
    const vf pairs = vf_min(x, swap_pairs(x));
    return wasm_f32x4_extract_lane(vf_min(pairs, swap_neighbours(pairs)), 0);
}

/* Adding the rounder, 1.5 * 2^23, leaves the nearest whole number in the low bits of the sum. It is
 * hidden from the compiler for the reason that vf_table gives. */
ALWAYS_INLINE vi vi_round(vf x) {
    float rounder = 12582912.0f;
    __asm__("" : "+r"(rounder));
    const vf rounders = wasm_f32x4_splat(rounder);
    return wasm_i32x4_sub(wasm_f32x4_add(x, rounders), rounders);
}

ALWAYS_INLINE vf vf_of_vi(vi x) {
    return wasm_f32x4_convert_i32x4(x);
}

ALWAYS_INLINE vi vi_bits(vf x) {
    return x;
}

ALWAYS_INLINE vf vf_scale2(vf x, vi n) {
    return wasm_i32x4_add(x, wasm_i32x4_shl(n, 23));
}

ALWAYS_INLINE vi vi_set1(int32_t x) {
    return wasm_i32x4_splat(x);
}

ALWAYS_INLINE vi vi_max(vi a, vi b) {
    return wasm_i32x4_max(a, b);
}

ALWAYS_INLINE void vi_keep(vi *x) {
    (void)x; /* clang keeps sums in registers by itself */
}

ALWAYS_INLINE vi vi_add(vi a, vi b) {
    return wasm_i32x4_add(a, b);
}

ALWAYS_INLINE void vi_store_u8(uint8_t *p, vi x) {
    const v128_t words = wasm_i16x8_narrow_i32x4(x, x);
    wasm_v128_store32_lane(p, wasm_u8x16_narrow_i16x8(words, words), 0);
}

ALWAYS_INLINE void vi_store_u8_4(uint8_t *p, vi a, vi b, vi c, vi d) {
    const v128_t low = wasm_i16x8_narrow_i32x4(a, b), high = wasm_i16x8_narrow_i32x4(c, d);
    wasm_v128_store(p, wasm_u8x16_narrow_i16x8(low, high));
}

#ifdef VECTOR_RELAXED_DOT

typedef v128_t vi_weights;
typedef v128_t vi_activations;

ALWAYS_INLINE vi_weights vi_load_weights(const unsigned char *p) {
    return wasm_v128_load(p);
}

ALWAYS_INLINE vi_activations vi_load_activations(const uint8_t *p) {
    return wasm_v128_load32_splat(p);
}

ALWAYS_INLINE vi vi_dot(vi sum, vi_activations x, vi_weights w) {
    return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w, x, sum);
}

#elif !defined(VECTOR_RELAXED)

typedef struct vi_pairs {
    v128_t even, odd; /* bytes 0 and 2, and 1 and 3, of each lane, as 16-bit numbers */
} vi_pairs;

typedef vi_pairs vi_weights;
typedef vi_pairs vi_activations;

ALWAYS_INLINE vi_pairs widened(v128_t bytes) {
    return (vi_pairs){.even = wasm_i16x8_shr(wasm_i16x8_shl(bytes, 8), 8),
                      .odd = wasm_i16x8_shr(bytes, 8)};
}

ALWAYS_INLINE vi_weights vi_load_weights(const unsigned char *p) {
    return widened(wasm_v128_load(p));
}

ALWAYS_INLINE vi_activations vi_load_all_activations(const uint8_t *p) {
    const v128_t bytes = wasm_v128_load(p);
    return (vi_activations){.even = wasm_v128_and(bytes, wasm_i16x8_splat(0xff)),
                            .odd = wasm_u16x8_shr(bytes, 8)};
}

ALWAYS_INLINE vi vi_dot(vi sum, vi_activations x, vi_weights w) {
    const v128_t even = wasm_i32x4_dot_i16x8(x.even, w.even);
    const v128_t odd = wasm_i32x4_dot_i16x8(x.odd, w.odd);
    return wasm_i32x4_add(sum, wasm_i32x4_add(even, odd));
}

#endif

/* ---- bytes widened to 16 bits ---------------------------------------------------------------- */

#ifndef VECTOR_RELAXED

ALWAYS_INLINE vi vi_widen_weights(const unsigned char *p) {
    return wasm_i16x8_load8x8(p);
}

ALWAYS_INLINE void vi_widen_row(const uint8_t *from, int16_t *to, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        wasm_v128_store(to + i, wasm_u16x8_load8x8(from + i));
    for (; i < n; i++)
        to[i] = from[i];
}

ALWAYS_INLINE vi vi_repeat4(const int16_t *p) {
    return wasm_v128_load64_splat(p);
}

ALWAYS_INLINE vi vi_join(vi low, vi high) {
    return wasm_i32x4_add(wasm_i32x4_shuffle(low, high, 0, 2, 4, 6),
                          wasm_i32x4_shuffle(low, high, 1, 3, 5, 7));
}

#endif

/* ---- narrow products ------------------------------------------------------------------------- */

ALWAYS_INLINE vi vi16_add(vi a, vi b) {
    return wasm_i16x8_add(a, b);
}

#if defined(VECTOR_RELAXED) && !defined(VECTOR_RELAXED_DOT)
#define VECTOR_NARROW
#define VECTOR_NARROW_SPARSE

ALWAYS_INLINE vi vi16_load_weights(const unsigned char *p) {
    return wasm_v128_load(p);
}

ALWAYS_INLINE vi vi16_load_activations(const uint8_t *p) {
    return wasm_v128_load32_splat(p);
}

ALWAYS_INLINE vi vi16_dot(vi x, vi w) {
    return wasm_i16x8_relaxed_dot_i8x16_i7x16(w, x);
}

ALWAYS_INLINE vi vi16_widen(vi x) {
    return wasm_i32x4_extadd_pairwise_i16x8(x);
}

/* V8 on x86 multiplies by ones for an extadd_pairwise too, but for each it loads the address of the
 * ones and then the ones. Here they stay in a register: 32 multiplications and additions take 5
 * instructions instead of 6 and a load. They come from memory for the reason that vf_table gives.
 */
ALWAYS_INLINE vi vi16_widen_by_ones(vi x) {
    static const int32_t pair_of_ones = 0x00010001;
    const int32_t *ones = &pair_of_ones;
    __asm__("" : "+r"(ones));
    return wasm_i32x4_dot_i16x8(x, wasm_v128_load32_splat(ones));
}

#endif

/* ---- bytes of a key-value cache -------------------------------------------------------------- */

#ifdef DECODER_KERNELS

/* Bytes 0 and 2, and 1 and 3, of each lane, as 16-bit numbers. */
typedef struct vb_pairs {
    v128_t even, odd;
} vb_pairs;

typedef vb_pairs vb_weights;
typedef vb_pairs vb_four;

ALWAYS_INLINE vb_pairs vb_widened(v128_t bytes) {
    return (vb_pairs){.even = wasm_i16x8_shr(wasm_i16x8_shl(bytes, 8), 8),
                      .odd = wasm_i16x8_shr(bytes, 8)};
}

ALWAYS_INLINE vb_four vb_load_four(const int8_t *p) {
    return vb_widened(wasm_v128_load32_splat(p));
}

ALWAYS_INLINE vi vb_start(int32_t sum) {
    (void)sum;
    return vi_set1(0);
}

ALWAYS_INLINE vb_weights vb_load_keys(const int8_t *p) {
    return vb_widened(wasm_v128_load(p));
}

ALWAYS_INLINE vb_weights vb_load_values(const int8_t *p) {
    return vb_load_keys(p);
}

ALWAYS_INLINE vi vb_dot_keys(vi sum, vb_weights w, vb_four x) {
    return vi_add(sum,
                  vi_add(wasm_i32x4_dot_i16x8(w.even, x.even), wasm_i32x4_dot_i16x8(w.odd, x.odd)));
}

ALWAYS_INLINE vi vb_dot_values(vi sum, vb_weights w, vb_four x) {
    return vb_dot_keys(sum, w, x);
}

#endif

/* ---- weights in blocks ----------------------------------------------------------------------- */

#ifdef DECODER_KERNELS
#define VECTOR_Q4

ALWAYS_INLINE vf vf_load_halves(const unsigned char *p) {
    const v128_t halves = wasm_i32x4_load16x4(p);
    const v128_t size = wasm_v128_and(wasm_i32x4_shl(halves, 13), wasm_u32x4_splat(0x0fffe000));
    const v128_t sign = wasm_v128_and(halves, wasm_u32x4_splat(0x80000000));
    return wasm_v128_or(wasm_f32x4_mul(size, wasm_f32x4_splat(0x1p112f)), sign);
}

ALWAYS_INLINE vf vf_load_bfloats(const unsigned char *p) {
    return wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16);
}

ALWAYS_INLINE vf vf_load_bytes(const unsigned char *p) {
    const v128_t bytes = wasm_v128_load32_zero(p);
    return wasm_f32x4_convert_i32x4(
        wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(bytes)));
}

/* Returns a byte 16 times. The masks and the centre that only Q6_K has are hidden from the compiler
 * for the reason that vf_table gives. More of them would leave the loops no registers. */
ALWAYS_INLINE v128_t vk_byte(const int byte) {
    int32_t four = (int32_t)((uint32_t)byte * 0x01010101);
    if (byte == 12 || byte == 32 || byte == 48 || byte == 63)
        __asm__("" : "+r"(four));
    return wasm_i32x4_splat(four);
}

typedef v128_t vk_codes;

ALWAYS_INLINE vk_codes vk_bits(const unsigned char *p, const int shift, const int mask) {
    const v128_t bytes = wasm_v128_load(p);
    return wasm_v128_and(shift < 0 ? wasm_i16x8_shl(bytes, (uint32_t)-shift)
                                   : wasm_u16x8_shr(bytes, (uint32_t)shift),
                         vk_byte(mask));
}

ALWAYS_INLINE vk_codes vk_or(vk_codes a, vk_codes b) {
    return wasm_v128_or(a, b);
}

#ifdef VECTOR_RELAXED

typedef v128_t vk_weights;

ALWAYS_INLINE vk_weights vk_centred(vk_codes codes, const int centre) {
    return wasm_i8x16_sub(codes, vk_byte(centre));
}

#else

typedef vi_pairs vk_weights;

ALWAYS_INLINE vk_weights vk_centred(vk_codes codes, const int centre) {
    return widened(wasm_i8x16_sub(codes, vk_byte(centre)));
}

#endif

typedef vk_weights vq_weights;
typedef v128_t vl_table;

ALWAYS_INLINE vl_table vl_load_table(const signed char *levels) {
    return wasm_v128_load(levels);
}

#ifdef VECTOR_RELAXED

enum { LEVEL_FACTOR = 1 };

ALWAYS_INLINE void vl_load_levels(const unsigned char *p, vl_table table, vq_weights *low,
                                  vq_weights *high) {
    *low = wasm_i8x16_relaxed_swizzle(table, vk_bits(p, 0, 15));
    *high = wasm_i8x16_relaxed_swizzle(table, vk_bits(p, 4, 15));
}

#else

enum { LEVEL_FACTOR = 256 }; /* because levels are used in the upper halves of 16 bits */

ALWAYS_INLINE vq_weights vl_level_pairs(vl_table table, vk_codes codes) {
    const v128_t levels = wasm_i8x16_swizzle(table, codes);
    return (vi_pairs){.even = wasm_i16x8_shl(levels, 8),
                      .odd = wasm_v128_and(levels, wasm_u16x8_splat(0xff00))};
}

ALWAYS_INLINE void vl_load_levels(const unsigned char *p, vl_table table, vq_weights *low,
                                  vq_weights *high) {
    *low = vl_level_pairs(table, vk_bits(p, 0, 15));
    *high = vl_level_pairs(table, vk_bits(p, 4, 15));
}

#endif

ALWAYS_INLINE vq_weights v2_load(const unsigned char *p, const int position) {
    return vk_centred(vk_bits(p, 2 * position, 3), 1);
}

#ifdef VECTOR_NARROW

/* Sums have 16 bits, which vector_avx2.h shows to be enough. */
typedef v128_t vq;
typedef v128_t vq_activations;

enum { Q4_FACTOR = 1 };

ALWAYS_INLINE vq_activations vq_load_activations(const uint8_t *p) {
    return vi16_load_activations(p);
}

ALWAYS_INLINE void vq_load_nibbles(const unsigned char *p, vq_weights *low, vq_weights *high) {
    vl_load_levels(p, wasm_i8x16_const(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1), low,
                   high);
}

ALWAYS_INLINE vq vq_dot(vq sum, vq_activations x, vq_weights w) {
    return vi16_add(sum, vi16_dot(x, w));
}

ALWAYS_INLINE vi vq_sum(vq sum) {
    return vi16_widen(sum);
}

ALWAYS_INLINE vi vl_sum(vq upper, vq lower) {
    return vi_add(wasm_i32x4_shl(vq_sum(upper), 4), vq_sum(lower));
}

#else

typedef vi vq;
typedef vi_activations vq_activations;

#ifdef VECTOR_RELAXED

enum { Q4_FACTOR = 16 }; /* because nibbles are used in the upper halves of bytes */

ALWAYS_INLINE vq_activations vq_load_activations(const uint8_t *p) {
    return vi_load_activations(p);
}

ALWAYS_INLINE void vq_load_nibbles(const unsigned char *p, vq_weights *low, vq_weights *high) {
    *low = vk_bits(p, -4, 0xf0);
    *high = vk_bits(p, 0, 0xf0);
}

#else

enum { Q4_FACTOR = 4096 }; /* because nibbles are used in the upper quarters of 16 bits */

ALWAYS_INLINE vq_activations vq_load_activations(const uint8_t *p) {
    const v128_t bytes = wasm_v128_load32_splat(p);
    return (vi_pairs){.even = wasm_v128_and(bytes, wasm_i16x8_splat(255)),
                      .odd = wasm_u16x8_shr(bytes, 8)};
}

ALWAYS_INLINE void vq_load_nibbles(const unsigned char *p, vq_weights *low, vq_weights *high) {
    const v128_t bytes = wasm_v128_load(p), mask = wasm_u16x8_splat(0xf000);
    *low = (vi_pairs){.even = wasm_i16x8_shl(bytes, 12),
                      .odd = wasm_v128_and(wasm_i16x8_shl(bytes, 4), mask)};
    *high = (vi_pairs){.even = wasm_v128_and(wasm_i16x8_shl(bytes, 8), mask),
                       .odd = wasm_v128_and(bytes, mask)};
}

#endif

ALWAYS_INLINE vq vq_dot(vq sum, vq_activations x, vq_weights w) {
    return vi_dot(sum, x, w);
}

ALWAYS_INLINE vi vq_sum(vq sum) {
    return sum;
}

#endif

#define VECTOR_CODES

ALWAYS_INLINE vk_codes v2_load_codes(const unsigned char *p) {
    return wasm_v128_load(p);
}

ALWAYS_INLINE vk_codes v2_upper_codes(vk_codes codes) {
    return wasm_u16x8_shr(codes, 4);
}

/* Masks come from memory for the reason that vf_table gives. */
ALWAYS_INLINE vq_weights v2_codes(vk_codes codes, const int pair) {
#ifdef VECTOR_RELAXED
    static const uint32_t masks[] = {0x03030303, 0x0c0c0c0c};
#else
    static const uint32_t masks[] = {0x00030003, 0x000c000c};
#endif
    const uint32_t *mask = masks;
    __asm__("" : "+r"(mask));
    const v128_t masked = wasm_v128_load32_splat(mask + pair);
#ifdef VECTOR_RELAXED
    return wasm_v128_and(codes, masked);
#else
    return (vi_pairs){.even = wasm_v128_and(codes, masked),
                      .odd = wasm_v128_and(wasm_u16x8_shr(codes, 8), masked)};
#endif
}

ALWAYS_INLINE vi v2_sum(const vq *sum) {
#ifdef VECTOR_NARROW
    const v128_t odd = wasm_i16x8_add(wasm_u16x8_shr(sum[1], 2), wasm_u16x8_shr(sum[3], 2));
    return vi_add(vq_sum(wasm_i16x8_add(sum[0], sum[2])), vq_sum(odd));
#else
    return vi_add(vi_add(sum[0], sum[2]), wasm_i32x4_shr(vi_add(sum[1], sum[3]), 2));
#endif
}

#endif

/* ---- pairs of 16-bit numbers ----------------------------------------------------------------- */

#define VECTOR_I16

ALWAYS_INLINE vi vi_dot_i16(vi sum, vi x, vi w) {
    return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(x, w));
}

ALWAYS_INLINE vi vi_pair(vi low, vi high) {
    return wasm_v128_or(wasm_v128_and(low, wasm_i32x4_splat(0xffff)), wasm_i32x4_shl(high, 16));
}

ALWAYS_INLINE void vi_store_i16(int16_t *p, vi x) {
    wasm_v128_store64_lane(p, wasm_i16x8_narrow_i32x4(x, x), 0);
}

ALWAYS_INLINE void vi_store_i16_2(int16_t *p, vi a, vi b) {
    wasm_v128_store(p, wasm_i16x8_narrow_i32x4(a, b));
}

#include "kernels/vector_wasm_sparse.h"
