/* SPDX-License-Identifier: Apache-2.0
 * The functions of src/kernels/cuda/ptx.h as scalar arithmetic, from the PTX manual's description
 * of each. */
#ifndef WISP_TESTS_CUDA_PTX_EMULATED_H
#define WISP_TESTS_CUDA_PTX_EMULATED_H

#include <cmath>
#include <cstdint>

#include "emulator.h"
#include "lanes.h"

static inline void copy16_async(void *to, const void *from, int bytes) {
    emulated_copy(to, from, 16, static_cast<size_t>(bytes));
}
static inline void copy16_of_line_async(void *to, const void *from) {
    emulated_copy(to, from, 16, 16);
}
static inline void copy8_async(void *to, const void *from, bool valid) {
    emulated_copy(to, from, 8, valid ? 8 : 0);
}
static inline void copy4_async(void *to, const void *from, bool valid) {
    emulated_copy(to, from, 4, valid ? 4 : 0);
}
static inline void copy_commit() {
    emulated_copy_commit();
}
template <int LEFT> static inline void copy_wait() {
    emulated_copy_wait(LEFT);
}

static inline void load_matrices(uint32_t r[4], const void *row) {
    emulated_matrices operand = {row, r};
    emulated_meet(~0u, &operand, emulated_run_load);
}
static inline void load_matrices_transposed(uint32_t r[4], const void *row) {
    emulated_matrices operand = {row, r};
    emulated_meet(~0u, &operand, emulated_run_load_transposed);
}
static inline void mma_u8(int32_t d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    emulated_mma operand = {d, a, {b0, b1}};
    emulated_meet(~0u, &operand, emulated_run_mma_u8);
}
static inline void mma_s8(int32_t d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    emulated_mma operand = {d, a, {b0, b1}};
    emulated_meet(~0u, &operand, emulated_run_mma_s8);
}
static inline void mma_f16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    emulated_mma operand = {d, a, {b0, b1}};
    emulated_meet(~0u, &operand, emulated_run_mma_f16);
}

static inline void start_next_kernel() {}
static inline void wait_for_kernel() {}
static inline int dot_4(uint32_t a, uint32_t b, int c) {
    for (int i = 0; i < 32; i += 8)
        c += static_cast<int8_t>(a >> i & 0xff) * static_cast<int8_t>(b >> i & 0xff);
    return c;
}

static inline float exp2_near(float x) {
    return exp2f(x);
}
static inline float reciprocal_near(float x) {
    return 1 / x;
}
static inline uint32_t halves_of(float low, float high) {
    return emulated_half(low) | static_cast<uint32_t>(emulated_half(high)) << 16;
}
static inline float low_half(uint32_t bits) {
    return emulated_float(static_cast<uint16_t>(bits));
}
static inline float high_half(uint32_t bits) {
    return emulated_float(static_cast<uint16_t>(bits >> 16));
}

template <class F> static inline uint32_t emulated_halves(F f) {
    return emulated_half(f(false)) | static_cast<uint32_t>(emulated_half(f(true))) << 16;
}
static inline float emulated_part(uint32_t halves, bool high) {
    return high ? high_half(halves) : low_half(halves);
}
static inline uint32_t halves_fma(uint32_t a, uint32_t b, uint32_t c) {
    return emulated_halves([&](bool high) { /* the product is exact in f32 */
                                            return fmaf(emulated_part(a, high),
                                                        emulated_part(b, high),
                                                        emulated_part(c, high));
    });
}
static inline uint32_t halves_mul(uint32_t a, uint32_t b) {
    return emulated_halves(
        [&](bool high) { return emulated_part(a, high) * emulated_part(b, high); });
}
static inline uint32_t halves_add(uint32_t a, uint32_t b) {
    return emulated_halves(
        [&](bool high) { return emulated_part(a, high) + emulated_part(b, high); });
}
static inline uint32_t halves_max(uint32_t a, uint32_t b) {
    return emulated_halves([&](bool high) {
        const float x = emulated_part(a, high), y = emulated_part(b, high);
        return x > y || std::isnan(x) ? x : y;
    });
}
static inline uint32_t halves_tanh(uint32_t a) {
    return emulated_halves([&](bool high) { return tanhf(emulated_part(a, high)); });
}
/* Byte i of the result is the byte of b:a that digit i of the selector names. */
static inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    uint32_t bytes = 0;
    for (unsigned i = 0; i < 4; i++)
        bytes |= static_cast<uint32_t>(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return bytes;
}

static inline float __int_as_float(int bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline int __float_as_int(float x) {
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline int min(int a, int b) {
    return a < b ? a : b;
}
static inline int max(int a, int b) {
    return a > b ? a : b;
}
static inline float rsqrtf(float x) {
    return 1 / sqrtf(x);
}

#endif
