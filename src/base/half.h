/* SPDX-License-Identifier: Apache-2.0
 * Conversions between 16-bit and 32-bit floats. They are plain C, so that every target computes the
 * same bits. */
#ifndef WISP_BASE_HALF_H
#define WISP_BASE_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Reads two bytes, the low one first. */
static inline uint16_t load_u16(const unsigned char *bytes) {
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

/* Reads four bytes, the lowest one first. */
static inline uint32_t load_u32(const unsigned char *bytes) {
    return (uint32_t)load_u16(bytes) | (uint32_t)load_u16(bytes + 2) << 16;
}

/* Expands an IEEE binary16 number, exactly. Shifting it left by 13 bits puts the exponent into its
 * place with a bias that is 112 too low. A multiplication by 2^112 corrects the bias, for
 * subnormals too. Infinities and NaNs keep the largest exponent. */
static inline float float_of_half(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    if (magnitude >= 0x7c00u << 13)
        return float_of_bits(sign | magnitude | 0x7f800000);
    return float_of_bits(sign | bits_of_float(float_of_bits(magnitude) * 0x1p112f));
}

/* The largest finite binary16 number. */
#define HALF_LARGEST 65504.0f

/* Rounds to IEEE binary16, to the nearest number and ties to even. A value beyond its range becomes
 * infinity. */
static inline uint16_t half_of_float(float value) {
    const uint32_t bits = bits_of_float(value);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x47800000) /* 2^16 */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) {
        /* The result is a subnormal, a multiple of 2^-24. Adding 0.5 rounds the value to such a
         * multiple and leaves it in the low bits. */
        const float shifted = float_of_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of_float(shifted) - 0x3f000000));
    }
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded - (112u << 23)) >> 13);
}

/* Rounds to the nearest bfloat16 number, ties to even. NaN stays NaN. */
static inline uint16_t bfloat_of_float(float value) {
    const uint32_t bits = bits_of_float(value);
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return (uint16_t)((is_nan ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Expands a bfloat16 number, which is the upper half of a float, exactly. */
static inline float float_of_bfloat(uint16_t value) {
    return float_of_bits((uint32_t)value << 16);
}

#endif
