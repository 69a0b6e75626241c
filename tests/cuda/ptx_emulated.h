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
static inline int atomicAdd(int *p, int x) {
    const int before = *p;
    *p += x;
    return before;
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
