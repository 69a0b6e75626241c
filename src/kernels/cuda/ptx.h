/* SPDX-License-Identifier: Apache-2.0
 * Instructions of PTX that the kernels use, a function for each. Under nvcc they are the
 * instructions; in tests on the processor (tests/cuda/emulator.h) they are the same arithmetic,
 * scalar. tests/cuda/test_wrappers.cu compares both on a GPU. */
#ifndef WISP_KERNELS_CUDA_PTX_H
#define WISP_KERNELS_CUDA_PTX_H

#include <stdint.h>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                     \
    kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)
#else
#include "emulator.h"
#include "ptx_emulated.h"
#endif

enum { WARP = 32 };
#define ALL_LANES 0xffffffffu

#ifdef __CUDACC__

static __device__ __forceinline__ unsigned shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

/* Copies `bytes` bytes, at most 16, to shared memory, asynchronously, and zeros behind them, so
 * that it writes 16. */
static __device__ __forceinline__ void copy16_async(void *to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes));
}

/* Copies 16 bytes of what is read from end to end: L2 gets 128 bytes around them. */
static __device__ __forceinline__ void copy16_of_line_async(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(to)),
                 "l"(from));
}

/* Copies 8 bytes likewise, or writes zeros if not `valid`. */
static __device__ __forceinline__ void copy8_async(void *to, const void *from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(valid ? 8 : 0));
}

/* Copies 4 bytes likewise, or writes zeros if not `valid`. */
static __device__ __forceinline__ void copy4_async(void *to, const void *from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(valid ? 4 : 0));
}

/* Ends a group of copies. */
static __device__ __forceinline__ void copy_commit(void) {
    asm volatile("cp.async.commit_group;");
}

/* Waits until at most LEFT groups of this thread's copies are under way. */
template <int LEFT> static __device__ __forceinline__ void copy_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
}

/* Reads four matrices of 8 rows of 16 bytes. Lane i gives the address of row i % 8 of matrix i / 8.
 * r[m] of lane i becomes bytes [4 (i % 4), + 4) of row i / 4 of matrix m. */
static __device__ __forceinline__ void load_matrices(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)));
}

/* Reads the same, and transposes each matrix of 8 x 8 halves: lane i gets column i / 4 of rows 2 (i
 * % 4) and the next. */
static __device__ __forceinline__ void load_matrices_transposed(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)));
}

/* d [16, 8] += a [16, 32] b [8, 32]^T, unsigned bytes of a times signed ones of b. Lane 4 g + t has
 * rows g and g + 8 of a and d, row g of b: bytes 4 t and 16 + 4 t on of a and b, columns 2 t and 2
 * t + 1 of d. */
static __device__ __forceinline__ void mma_u8(int32_t d[4], const uint32_t a[4], uint32_t b0,
                                              uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* mma_u8 with signed bytes of a. */
static __device__ __forceinline__ void mma_s8(int32_t d[4], const uint32_t a[4], uint32_t b0,
                                              uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* d [16, 8] += a [16, 16] b [8, 16]^T of halves, with sums in f32, in the lanes of mma_u8. */
static __device__ __forceinline__ void mma_f16(float d[4], const uint32_t a[4], uint32_t b0,
                                               uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Lets the next kernel of the stream start while this one runs, as far as its own wait_for_kernel.
 */
static __device__ __forceinline__ void start_next_kernel(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* Waits until the kernel before has ended, and its writes can be read. */
static __device__ __forceinline__ void wait_for_kernel(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* c + the sum of the products of four signed bytes of a and b. */
static __device__ __forceinline__ int dot_4(uint32_t a, uint32_t b, int c) {
    return __dp4a((int)a, (int)b, c);
}

/* 2^x, within 2 units in the last place. */
static __device__ __forceinline__ float exp2_near(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / x, within 1 unit in the last place. */
static __device__ __forceinline__ float reciprocal_near(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Arithmetic on two halves at a time, each result rounded to the nearest. A maximum of which one is
 * NaN is NaN; the tanh is within 2^-10. */
static __device__ __forceinline__ uint32_t halves_fma(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
static __device__ __forceinline__ uint32_t halves_mul(uint32_t a, uint32_t b) {
    uint32_t d;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}
static __device__ __forceinline__ uint32_t halves_add(uint32_t a, uint32_t b) {
    uint32_t d;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}
static __device__ __forceinline__ uint32_t halves_max(uint32_t a, uint32_t b) {
    uint32_t d;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}
static __device__ __forceinline__ uint32_t halves_tanh(uint32_t a) {
    uint32_t d;
    asm("tanh.approx.f16x2 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

/* Two halves in a word, `low` in the low bits, each rounded to the nearest. */
static __host__ __device__ __forceinline__ uint32_t halves_of(float low, float high) {
    const __half2 h = __floats2half2_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &h, sizeof bits);
    return bits;
}

static __device__ __forceinline__ float low_half(uint32_t bits) {
    return __half2float(__ushort_as_half((unsigned short)bits));
}
static __device__ __forceinline__ float high_half(uint32_t bits) {
    return __half2float(__ushort_as_half((unsigned short)(bits >> 16)));
}

#endif

/* Sums over all lanes of N values; all lanes get them. */
template <int N> static __device__ __forceinline__ void lanes_sums(float x[N]) {
#pragma unroll
    for (int step = WARP / 2; step > 0; step >>= 1)
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] += __shfl_xor_sync(ALL_LANES, x[i], step);
}

/* Maxima over all lanes of N values; all lanes get them. */
template <int N> static __device__ __forceinline__ void lanes_maxima(float x[N]) {
#pragma unroll
    for (int step = WARP / 2; step > 0; step >>= 1)
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = fmaxf(x[i], __shfl_xor_sync(ALL_LANES, x[i], step));
}

/* Sums and maxima over groups of WIDTH neighbouring lanes; all lanes get them. */
template <int WIDTH> static __device__ __forceinline__ float lanes_sum(float x) {
    for (int step = WIDTH / 2; step > 0; step >>= 1)
        x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}
template <int WIDTH> static __device__ __forceinline__ float lanes_max(float x) {
    for (int step = WIDTH / 2; step > 0; step >>= 1)
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

#endif
