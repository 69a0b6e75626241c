/* SPDX-License-Identifier: Apache-2.0
 * Vector operations of NEON with the dot product extension (ARMv8.2-A), which multiplies signed by
 * signed bytes. */
#include <arm_neon.h>

#include "kernels/vector.h"

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef int8x16_t vi_weights;
typedef int8x16_t vi_activations;

enum { VF_LANES = 4 };

ALWAYS_INLINE vf vf_load(const float *p) {
    return vld1q_f32(p);
}

ALWAYS_INLINE void vf_store(float *p, vf x) {
    vst1q_f32(p, x);
}

ALWAYS_INLINE vf vf_load_n(const float *p, size_t n) {
    if (n == VF_LANES)
        return vf_load(p);
    if (n == 1)
        return vld1q_lane_f32(p, vdupq_n_f32(0), 0);
    const float32x4_t two = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
    return n == 2 ? two : vld1q_lane_f32(p + 2, two, 2);
}

ALWAYS_INLINE void vf_store_n(float *p, vf x, size_t n) {
    if (n == VF_LANES)
        vf_store(p, x);
    else if (n == 1)
        vst1q_lane_f32(p, x, 0);
    else {
        vst1_f32(p, vget_low_f32(x));
        if (n == 3)
            vst1q_lane_f32(p + 2, x, 2);
    }
}

ALWAYS_INLINE vf vf_load_halves(const unsigned char *p) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

ALWAYS_INLINE vf vf_load_bfloats(const unsigned char *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

/* Expands signed bytes to floats. */
ALWAYS_INLINE vf vf_load_int8(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}

/* Expands unsigned bytes to floats. */
ALWAYS_INLINE vf vf_load_bytes(const unsigned char *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    const uint16x8_t wide = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide)));
}

ALWAYS_INLINE vf vf_set1(float x) {
    return vdupq_n_f32(x);
}

ALWAYS_INLINE vf vf_add(vf a, vf b) {
    return vaddq_f32(a, b);
}

ALWAYS_INLINE vf vf_sub(vf a, vf b) {
    return vsubq_f32(a, b);
}

ALWAYS_INLINE vf vf_mul(vf a, vf b) {
    return vmulq_f32(a, b);
}

ALWAYS_INLINE vf vf_div(vf a, vf b) {
    return vdivq_f32(a, b);
}

ALWAYS_INLINE vf vf_fma(vf a, vf b, vf c) {
    return vfmaq_f32(c, a, b);
}

/* In portable sets these return b if a and b are zeros of either sign, as on x86. */

ALWAYS_INLINE vf vf_min(vf a, vf b) {
#ifdef VECTOR_PORTABLE
    return vbslq_f32(vcltq_f32(a, b), a, b);
#else
    return vminq_f32(a, b);
#endif
}

ALWAYS_INLINE vf vf_max(vf a, vf b) {
#ifdef VECTOR_PORTABLE
    return vbslq_f32(vcgtq_f32(a, b), a, b);
#else
    return vmaxq_f32(a, b);
#endif
}

ALWAYS_INLINE vf vf_abs(vf x) {
    return vabsq_f32(x);
}

ALWAYS_INLINE vf vf_first(vf x, size_t n, vf rest) {
    static const int32_t lane[] = {0, 1, 2, 3};
    return vbslq_f32(vcltq_s32(vld1q_s32(lane), vdupq_n_s32((int32_t)n)), x, rest);
}

ALWAYS_INLINE void vf_zip(vf a, vf b, vf *low, vf *high) {
    *low = vzip1q_f32(a, b);
    *high = vzip2q_f32(a, b);
}

ALWAYS_INLINE float vf_sum(vf x) {
#ifdef VECTOR_PORTABLE
    const float32x2_t halves = vadd_f32(vget_low_f32(x), vget_high_f32(x));
    return vget_lane_f32(vpadd_f32(halves, halves), 0);
#else
    return vaddvq_f32(x);
#endif
}

ALWAYS_INLINE float vf_largest(vf x) {
    return vmaxvq_f32(x);
}

ALWAYS_INLINE float vf_least(vf x) {
    return vminvq_f32(x);
}

ALWAYS_INLINE vi vi_round(vf x) {
    return vcvtnq_s32_f32(x);
}

ALWAYS_INLINE vf vf_of_vi(vi x) {
    return vcvtq_f32_s32(x);
}

ALWAYS_INLINE vi vi_bits(vf x) {
    return vreinterpretq_s32_f32(x);
}

ALWAYS_INLINE vf vf_scale2(vf x, vi n) {
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(x), vshlq_n_s32(n, 23)));
}

ALWAYS_INLINE vi vi_set1(int32_t x) {
    return vdupq_n_s32(x);
}

ALWAYS_INLINE vi vi_max(vi a, vi b) {
    return vmaxq_s32(a, b);
}

ALWAYS_INLINE vi vi_add(vi a, vi b) {
    return vaddq_s32(a, b);
}

ALWAYS_INLINE void vi_store_u8(uint8_t *p, vi x) {
    const uint16x4_t words = vqmovun_s32(x);
    const uint8x8_t bytes = vqmovn_u16(vcombine_u16(words, words));
    const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
    memcpy(p, &four, sizeof four);
}

ALWAYS_INLINE void vi_store_u8_4(uint8_t *p, vi a, vi b, vi c, vi d) {
    vi_store_u8(p, a);
    vi_store_u8(p + VF_LANES, b);
    vi_store_u8(p + 2 * VF_LANES, c);
    vi_store_u8(p + 3 * VF_LANES, d);
}

ALWAYS_INLINE vi_weights vi_load_weights(const unsigned char *p) {
    return vld1q_s8((const int8_t *)p);
}

ALWAYS_INLINE vi_activations vi_load_activations(const uint8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

ALWAYS_INLINE vi vi_dot(vi sum, vi_activations x, vi_weights w) {
    return vdotq_s32(sum, x, w);
}

/* ---- pairs of 16-bit numbers ---------------------------------------------------------------- */

ALWAYS_INLINE vi vi_load(const int32_t *p) {
    return vld1q_s32(p);
}

ALWAYS_INLINE void vi_store(int32_t *p, vi x) {
    vst1q_s32(p, x);
}

#ifdef VECTOR_PORTABLE
#define VECTOR_I16

ALWAYS_INLINE vi vi_dot_i16(vi sum, vi x, vi w) {
    const int16x8_t a = vreinterpretq_s16_s32(x), b = vreinterpretq_s16_s32(w);
    const int32x4_t low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
    return vaddq_s32(sum, vpaddq_s32(low, vmull_high_s16(a, b)));
}

ALWAYS_INLINE vi vi_pair(vi low, vi high) {
    return vsliq_n_s32(low, high, 16);
}

ALWAYS_INLINE void vi_store_i16(int16_t *p, vi x) {
    vst1_s16(p, vqmovn_s32(x));
}

ALWAYS_INLINE void vi_store_i16_2(int16_t *p, vi a, vi b) {
    vst1q_s16(p, vcombine_s16(vqmovn_s32(a), vqmovn_s32(b)));
}

#endif

/* ---- for the sparse kernels ----------------------------------------------------------------- */

ALWAYS_INLINE vi_activations vi_load_all_activations(const uint8_t *p) {
    return vreinterpretq_s8_u8(vld1q_u8(p));
}

ALWAYS_INLINE void vi_store_sums(int32_t *p, const vi *sums) {
    vst1q_s32(p, vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3])));
}

/* ---- bytes of a key-value cache -------------------------------------------------------------- */

typedef int8x16_t vb_weights;
typedef int8x16_t vb_four;

ALWAYS_INLINE vb_four vb_load_four(const int8_t *p) {
    return vi_load_activations((const uint8_t *)p);
}

ALWAYS_INLINE vi vb_start(int32_t sum) {
    (void)sum;
    return vi_set1(0);
}

ALWAYS_INLINE vb_weights vb_load_keys(const int8_t *p) {
    return vld1q_s8(p);
}

ALWAYS_INLINE vb_weights vb_load_values(const int8_t *p) {
    return vld1q_s8(p);
}

ALWAYS_INLINE vi vb_dot_keys(vi sum, vb_weights keys, vb_four four) {
    return vdotq_s32(sum, keys, four);
}

ALWAYS_INLINE vi vb_dot_values(vi sum, vb_weights values, vb_four four) {
    return vdotq_s32(sum, values, four);
}

/* ---- 4-bit weights -------------------------------------------------------------------------- */

#define VECTOR_Q4

typedef vi vq;
typedef vi_weights vq_weights;
typedef vi_activations vq_activations;

enum { Q4_FACTOR = 16 }; /* because nibbles are used in the upper halves of bytes */

ALWAYS_INLINE vq_activations vq_load_activations(const uint8_t *p) {
    return vi_load_activations(p);
}

ALWAYS_INLINE void vq_load_nibbles(const unsigned char *p, vq_weights *low, vq_weights *high) {
    const int8x16_t bytes = vi_load_weights(p);
    *low = vshlq_n_s8(bytes, 4);
    *high = vandq_s8(bytes, vdupq_n_s8((int8_t)0xf0));
}

ALWAYS_INLINE vq vq_dot(vq sum, vq_activations x, vq_weights w) {
    return vi_dot(sum, x, w);
}

ALWAYS_INLINE vi vq_sum(vq sum) {
    return sum;
}

/* ---- weights that name levels ---------------------------------------------------------------- */

typedef int8x16_t vl_table;

enum { LEVEL_FACTOR = 1 };

ALWAYS_INLINE vl_table vl_load_table(const signed char *levels) {
    return vld1q_s8(levels);
}

ALWAYS_INLINE void vl_load_levels(const unsigned char *p, vl_table table, vq_weights *low,
                                  vq_weights *high) {
    const uint8x16_t bytes = vld1q_u8(p);
    *low = vqtbl1q_s8(table, vandq_u8(bytes, vdupq_n_u8(15)));
    *high = vqtbl1q_s8(table, vshrq_n_u8(bytes, 4));
}

/* ---- weights of K-quants --------------------------------------------------------------------- */

typedef uint8x16_t vk_codes;
typedef vi_weights vk_weights;

ALWAYS_INLINE vk_codes vk_bits(const unsigned char *p, const int shift, const int mask) {
    return vandq_u8(vshlq_u8(vld1q_u8(p), vdupq_n_s8((int8_t)-shift)), vdupq_n_u8((uint8_t)mask));
}

ALWAYS_INLINE vk_codes vk_or(vk_codes a, vk_codes b) {
    return vorrq_u8(a, b);
}

ALWAYS_INLINE vk_weights vk_centred(vk_codes codes, const int centre) {
    return vsubq_s8(vreinterpretq_s8_u8(codes), vdupq_n_s8((int8_t)centre));
}

/* ---- ternary weights ------------------------------------------------------------------------ */

/* Two pairs of bits at a time are looked up in a table of the weights of their 16 values. */
ALWAYS_INLINE vq_weights v2_load(const unsigned char *p, const int position) {
    static const int8_t low[] = {-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2};
    static const int8_t high[] = {-1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
    const uint8x16_t bytes = vld1q_u8(p);
    const uint8x16_t pairs = position < 2 ? vandq_u8(bytes, vdupq_n_u8(15)) : vshrq_n_u8(bytes, 4);
    return vqtbl1q_s8(vld1q_s8(position % 2 ? high : low), pairs);
}

/* ---- for the sparse kernels ----------------------------------------------------------------- */

ALWAYS_INLINE vf vf_load_groups(const float *const *groups) {
    return vld1q_f32(groups[0]);
}

ALWAYS_INLINE void vf_transpose4(vf *x) {
    const float32x4x2_t ab = vzipq_f32(x[0], x[1]), cd = vzipq_f32(x[2], x[3]);
    x[0] = vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(cd.val[0]));
    x[1] = vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(cd.val[0]));
    x[2] = vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(cd.val[1]));
    x[3] = vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(cd.val[1]));
}

ALWAYS_INLINE unsigned vf_above(vf a, vf b) {
    static const uint32_t bits[] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgtq_f32(a, b), vld1q_u32(bits)));
}

ALWAYS_INLINE vi vi_narrow(vi a, vi b, vi c, vi d) {
    const int16x8_t low = vcombine_s16(vqmovn_s32(a), vqmovn_s32(b));
    const int16x8_t high = vcombine_s16(vqmovn_s32(c), vqmovn_s32(d));
    return vreinterpretq_s32_s8(vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}

ALWAYS_INLINE uint64_t vi_nonzero_bytes(vi x) {
    static const uint8_t bits[] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bytes = vreinterpretq_u8_s32(x);
    const uint8x16_t set = vandq_u8(vtstq_u8(bytes, bytes), vld1q_u8(bits));
    return (uint64_t)vaddv_u8(vget_low_u8(set)) | (uint64_t)vaddv_u8(vget_high_u8(set)) << 8;
}

#define VECTOR_SIGNED_COLUMNS 1

typedef vi_weights vi_four;

ALWAYS_INLINE vi_four vi_load_four(const int8_t *p) {
    return vi_load_activations((const uint8_t *)p);
}

ALWAYS_INLINE vi vi_dot_column(vi sum, int16x8_t columns, vi_four four) {
    return vdotq_s32(sum, vreinterpretq_s8_s16(columns), four);
}

ALWAYS_INLINE void vi_add_columns(vi *sums, const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                  const uint8_t *d, vi_four four) {
    const uint8x16x2_t ab = vzipq_u8(vld1q_u8(a), vld1q_u8(b));
    const uint8x16x2_t cd = vzipq_u8(vld1q_u8(c), vld1q_u8(d));
    const int16x8x2_t low =
        vzipq_s16(vreinterpretq_s16_u8(ab.val[0]), vreinterpretq_s16_u8(cd.val[0]));
    const int16x8x2_t high =
        vzipq_s16(vreinterpretq_s16_u8(ab.val[1]), vreinterpretq_s16_u8(cd.val[1]));
    sums[0] = vi_dot_column(sums[0], low.val[0], four);
    sums[1] = vi_dot_column(sums[1], low.val[1], four);
    sums[2] = vi_dot_column(sums[2], high.val[0], four);
    sums[3] = vi_dot_column(sums[3], high.val[1], four);
}
