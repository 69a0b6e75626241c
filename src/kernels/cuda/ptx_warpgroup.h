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
/* Waits until all products are done. */
static __device__ __forceinline__ void warpgroup_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
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

/* d [64, 128] = a [64, 32 bytes] b [128, 32 bytes]^T, plus d if `add`. Of d, warp w of the
 * warpgroup has rows [16 w, + 16), as of mma.sync: tile j of 8 columns is d[4 j] to d[4 j + 3]. */
static __device__ __forceinline__ void warpgroup_mma_u8(int32_t d[64], uint64_t a, uint64_t b,
                                                        int add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k32.s32.u8.s8 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p; }"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]),
                   "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]),
                   "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]),
                   "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]),
                   "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]),
                   "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]),
                   "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]),
                   "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]),
                   "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]),
                   "+r"(d[54]), "+r"(d[55]), "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]),
                   "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63])
                 : "l"(a), "l"(b), "r"(add));
}

/* warpgroup_mma_u8 of halves, 16 of each row, with sums in f32. */
static __device__ __forceinline__ void warpgroup_mma_f16(float d[64], uint64_t a, uint64_t b,
                                                         int add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, "
                 "1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "l"(a), "l"(b), "r"(add));
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
