/* SPDX-License-Identifier: Apache-2.0
 * Vector operations of NEON with the int8 matrix multiply extension (FEAT_I8MM), which multiplies
 * two rows of 8 bytes by two others. */
#include "kernels/vector_neon.h"

/* Loads 8 bytes of each of two rows. */
ALWAYS_INLINE vi_activations vi_load_activation_pair(const uint8_t *first, const uint8_t *second) {
    return vreinterpretq_s8_u8(vcombine_u8(vld1_u8(first), vld1_u8(second)));
}

/* Loads 8 weights of each of 4 outputs, two outputs to a vector. The second four weights lie
 * `stride` bytes after the first four. */
ALWAYS_INLINE void vi_load_weight_pairs(const unsigned char *p, size_t stride,
                                        vi_weights *weights) {
    const int32x4_t low = vreinterpretq_s32_s8(vi_load_weights(p));
    const int32x4_t high = vreinterpretq_s32_s8(vi_load_weights(p + stride));
    weights[0] = vreinterpretq_s8_s32(vzip1q_s32(low, high));
    weights[1] = vreinterpretq_s8_s32(vzip2q_s32(low, high));
}

/* Adds the dot products of row 0 of x with both rows of w, then those of row 1 of x. */
ALWAYS_INLINE vi vi_dot_pairs(vi sum, vi_activations x, vi_weights w) {
    return vmmlaq_s32(sum, x, w);
}

/* Return the sums of one row of x, if a has two outputs and b the next two. */
ALWAYS_INLINE vi vi_first_row(vi a, vi b) {
    return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

ALWAYS_INLINE vi vi_second_row(vi a, vi b) {
    return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
