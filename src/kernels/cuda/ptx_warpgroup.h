/* SPDX-License-Identifier: Apache-2.0
 * Instructions of compute capability 9.0a (wgmma): four neighbouring warps, a warpgroup, multiply
 * tiles that are in shared memory. Wrappers as in ptx.h; other architectures have none of them, and
 * kernels that use them are empty there. */
#ifndef WISP_KERNELS_CUDA_PTX_WARPGROUP_H
#define WISP_KERNELS_CUDA_PTX_WARPGROUP_H

#include "kernels/cuda/ptx.h"

enum { WARPGROUP = 4 * WARP, WARPGROUP_ROWS = 64, WARPGROUP_COLUMNS = 128 };

#if defined(__CUDACC__) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WARPGROUPS_EXIST 1

/* Waits for `threads` threads of the block at barrier `id`. 0 is that of __syncthreads. */
static __device__ __forceinline__ void barrier_wait(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Lets the tensor cores see what this thread wrote to shared memory. A barrier follows. */
static __device__ __forceinline__ void fence_for_tensor_cores(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Before the first product: sums in registers are written. */
static __device__ __forceinline__ void warpgroup_arrive(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ __forceinline__ void warpgroup_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most LEFT commits are not done. */
template <int LEFT = 0> static __device__ __forceinline__ void warpgroup_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

static __device__ __forceinline__ void hold_register(int32_t &x) {
    asm volatile("" : "+r"(x)::"memory");
}
static __device__ __forceinline__ void hold_register(float &x) {
    asm volatile("" : "+f"(x)::"memory");
}
/* The compiler may not move reads or writes of the sums past this. */
template <class T> static __device__ __forceinline__ void warpgroup_hold(T sums[64]) {
#pragma unroll
    for (int i = 0; i < 64; i++)
        hold_register(sums[i]);
}

/* Numbers and constraints of the 64 sums of an instruction. */
#define WARPGROUP_NUMBERS                                                                          \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                                       \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"                             \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                             \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define WARPGROUP_SUMS_8(c, d, i)                                                                  \
    c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3]), c(d[i + 4]), c(d[i + 5]), c(d[i + 6]),         \
        c(d[i + 7])
#define WARPGROUP_SUMS(c, d)                                                                       \
    WARPGROUP_SUMS_8(c, d, 0), WARPGROUP_SUMS_8(c, d, 8), WARPGROUP_SUMS_8(c, d, 16),              \
        WARPGROUP_SUMS_8(c, d, 24), WARPGROUP_SUMS_8(c, d, 32), WARPGROUP_SUMS_8(c, d, 40),        \
        WARPGROUP_SUMS_8(c, d, 48), WARPGROUP_SUMS_8(c, d, 56)

/* d [64, 128] = a [64, 32 bytes] b [128, 32 bytes]^T, plus d if `add`. Of d, warp w of the
 * warpgroup has rows [16 w, + 16), as of mma.sync: tile j of 8 columns is d[4 j] to d[4 j + 3]. */
static __device__ __forceinline__ void warpgroup_mma_u8(int32_t d[64], uint64_t a, uint64_t b,
                                                        int add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k32.s32.u8.s8 {" WARPGROUP_NUMBERS
                 "}, %64, %65, p; }"
                 : WARPGROUP_SUMS("+r", d)
                 : "l"(a), "l"(b), "r"(add));
}

/* warpgroup_mma_u8 of halves, 16 of each row, with sums in f32. */
static __device__ __forceinline__ void warpgroup_mma_f16(float d[64], uint64_t a, uint64_t b,
                                                         int add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" WARPGROUP_NUMBERS
                 "}, %64, %65, p, 1, 1, 0, 0; }"
                 : WARPGROUP_SUMS("+f", d)
                 : "l"(a), "l"(b), "r"(add));
}

/* Adds likewise, with a in registers: a warp has its 16 rows as mma_f16 wants them. They may not be
 * written before the product is done. */
static __device__ __forceinline__ void warpgroup_add_f16(float d[64], const uint32_t a[4],
                                                         uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" WARPGROUP_NUMBERS
                 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
                 : WARPGROUP_SUMS("+f", d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#elif !defined(__CUDACC__)
#define WARPGROUPS_EXIST 1
#include "warpgroup_emulated.h"
#endif

/* Where the tensor cores find a tile: rows of 128 bytes, permuted as tile.h has them, from a
 * multiple of 1,024 bytes on. Adding 2 goes on by 32 bytes of each row. */
static __device__ __forceinline__ uint64_t tile_place_of(const void *tile) {
    const uint64_t permuted = (uint64_t)1 << 62, rows_8 = (uint64_t)(1024 >> 4) << 32,
                   unused = (uint64_t)1 << 16;
    return permuted | rows_8 | unused | (shared_address(tile) & 0x3ffff) >> 4;
}

#endif
