/* SPDX-License-Identifier: Apache-2.0
 * The operations of gather_template.h, of NEON with the dot product extension. */
#include <arm_neon.h>

#include "kernels/vector.h"

typedef uint8x16_t gb;
typedef int32x4_t gi;
typedef float32x4_t gf;

enum { GB_BYTES = 16 };

ALWAYS_INLINE gb gb_load(const unsigned char *p) {
    return vld1q_u8(p);
}

ALWAYS_INLINE gb gb_load_parts(const unsigned char *p) {
    return vld1q_u8(p);
}

ALWAYS_INLINE gb gb_low(gb x) {
    return vandq_u8(x, vdupq_n_u8(15));
}

ALWAYS_INLINE gb gb_high(gb x) {
    return vshrq_n_u8(x, 4);
}

ALWAYS_INLINE gi gi_zero(void) {
    return vdupq_n_s32(0);
}

ALWAYS_INLINE gi gi_set1(int32_t x) {
    return vdupq_n_s32(x);
}

ALWAYS_INLINE gi gi_load(const int32_t *p) {
    return vld1q_s32(p);
}

ALWAYS_INLINE gi gi_add(gi a, gi b) {
    return vaddq_s32(a, b);
}

ALWAYS_INLINE gf gf_zero(void) {
    return vdupq_n_f32(0);
}

ALWAYS_INLINE gf gf_set1(float x) {
    return vdupq_n_f32(x);
}

ALWAYS_INLINE gf gf_load(const float *p) {
    return vld1q_f32(p);
}

ALWAYS_INLINE void gf_store(float *p, gf x) {
    vst1q_f32(p, x);
}

ALWAYS_INLINE gf gf_of(gi x) {
    return vcvtq_f32_s32(x);
}

ALWAYS_INLINE gf gf_mul(gf a, gf b) {
    return vmulq_f32(a, b);
}

ALWAYS_INLINE gf gf_fma(gf a, gf b, gf c) {
    return vfmaq_f32(c, a, b);
}

ALWAYS_INLINE float gf_sum(gf x) {
    return vaddvq_f32(x);
}

ALWAYS_INLINE gf gf_load_halves(const unsigned char *p) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

ALWAYS_INLINE gf gf_repeat(const unsigned char *p) {
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half)));
}

ALWAYS_INLINE gi gi_dot_bytes(gi sum, gb a, gb x, gb b, gb y) {
    sum = vdotq_s32(sum, vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(x));
    return vdotq_s32(sum, vreinterpretq_s8_u8(b), vreinterpretq_s8_u8(y));
}

ALWAYS_INLINE gi gi_dot_codes(gi sum, gb a, gb x, gb b, gb y) {
    return gi_dot_bytes(sum, a, x, b, y);
}

/* Sixteen neurons add up to at most 16 * 15 * 127, which is below 2^15. */
typedef struct gs {
    int16x8_t narrow[4]; /* of 8 outputs each: two of the low nibbles, then two of the high ones */
    int32x4_t wide[8];
} gs;

ALWAYS_INLINE gs gs_zero(void) {
    gs s;
    UNROLL
    for (int i = 0; i < 4; i++)
        s.narrow[i] = vdupq_n_s16(0);
    UNROLL
    for (int i = 0; i < 8; i++)
        s.wide[i] = vdupq_n_s32(0);
    return s;
}

ALWAYS_INLINE void gs_add_column(gs *s, gb codes, int8_t value) {
    const int8x16_t low = vreinterpretq_s8_u8(gb_low(codes));
    const int8x16_t high = vreinterpretq_s8_u8(gb_high(codes));
    const int8x8_t factor = vdup_n_s8(value);
    s->narrow[0] = vmlal_s8(s->narrow[0], vget_low_s8(low), factor);
    s->narrow[1] = vmlal_s8(s->narrow[1], vget_high_s8(low), factor);
    s->narrow[2] = vmlal_s8(s->narrow[2], vget_low_s8(high), factor);
    s->narrow[3] = vmlal_s8(s->narrow[3], vget_high_s8(high), factor);
}

ALWAYS_INLINE void gs_add_codes(gs *s, gb a, gb b, int8_t value_a, int8_t value_b) {
    gs_add_column(s, a, value_a);
    gs_add_column(s, b, value_b);
}

ALWAYS_INLINE void gs_widen(gs *s) {
    UNROLL
    for (int i = 0; i < 4; i++) {
        s->wide[2 * i] = vaddw_s16(s->wide[2 * i], vget_low_s16(s->narrow[i]));
        s->wide[2 * i + 1] = vaddw_s16(s->wide[2 * i + 1], vget_high_s16(s->narrow[i]));
        s->narrow[i] = vdupq_n_s16(0);
    }
}

ALWAYS_INLINE gi gs_get(const gs *s, size_t i) {
    return s->wide[i];
}

/* A sum of two products is at most 2 * 128 * 127, which is below 2^15. */
ALWAYS_INLINE void gs_add_bytes(gi *sums, gb a, gb b, int8_t value_a, int8_t value_b) {
    const int8x16_t first = vreinterpretq_s8_u8(a), second = vreinterpretq_s8_u8(b);
    const int8x8_t factor_a = vdup_n_s8(value_a), factor_b = vdup_n_s8(value_b);
    const int16x8_t low =
        vmlal_s8(vmull_s8(vget_low_s8(first), factor_a), vget_low_s8(second), factor_b);
    const int16x8_t high =
        vmlal_s8(vmull_s8(vget_high_s8(first), factor_a), vget_high_s8(second), factor_b);
    sums[0] = vaddw_s16(sums[0], vget_low_s16(low));
    sums[1] = vaddw_s16(sums[1], vget_high_s16(low));
    sums[2] = vaddw_s16(sums[2], vget_low_s16(high));
    sums[3] = vaddw_s16(sums[3], vget_high_s16(high));
}
