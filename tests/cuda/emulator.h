/* SPDX-License-Identifier: Apache-2.0
 * CUDA kernels as C++ on the processor. Each thread of a block is a fiber, and blocks run one after
 * the other. A fiber runs until it waits at a barrier or for its warp, so the order of threads is
 * chosen here: a kernel that lacks a barrier gives other results in another order.
 *
 * What is checked: shuffles and warp operations with a mask that the lane is not in or on which
 * lanes disagree, threads that wait forever, asynchronous copies that are read before they were
 * waited for (their bytes arrive at the wait), and with ASan any index outside memory, dynamic
 * shared memory included. What is not: races between two barriers, and speed. */
#ifndef WISP_TESTS_CUDA_EMULATOR_H
#define WISP_TESTS_CUDA_EMULATOR_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __shared__ static

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};

enum { EMULATED_BARRIER_SKIPPED_NEVER = -1 };

/* What the lanes of a warp bring to an operation, and where they get its results. */
struct emulated_warp {
    void *operand[32];
    unsigned arrived, mask;
    const void *operation;
    int phase;
};

/* The order in which the fibers of a block take their turns. */
extern unsigned emulated_order_seed; /* 0 forward, 1 backward, more: random with that seed */

/* The n-th __syncthreads of each thread is left out, so that a test can show that it would be
 * missed. */
extern int emulated_barrier_to_skip;

extern dim3 blockIdx, blockDim, gridDim;
dim3 emulated_thread();
#define threadIdx (emulated_thread())
unsigned emulated_lane();

void __syncthreads();

/* For instructions that are emulated elsewhere: lets other threads run, says that something
 * happened, reports a fault of the kernel. */
void emulated_give_way();
void emulated_went_on();
[[noreturn]] void emulated_complain(const char *what);

/* Lanes of `mask` meet. The last to arrive runs `operation` on the operands of all. */
void emulated_meet(unsigned mask, void *operand, void (*operation)(unsigned mask, void **operands));

/* Dynamic shared memory of the block that runs. */
extern unsigned char *emulated_shared;
void emulated_launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &body);

/* Launches, unless a list of launches is being recorded. */
struct emulated_graph;
extern emulated_graph *emulated_recording;
void emulated_submit(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &body);

/* Asynchronous copies of the thread that runs: the bytes arrive when it waits for their group. */
void emulated_copy(void *to, const void *from, size_t bytes, size_t valid);
void emulated_copy_commit();
void emulated_copy_wait(unsigned groups_left);

struct emulated_shuffle {
    unsigned char value[8];
    unsigned from;
    unsigned char result[8];
};
void emulated_run_shuffle(unsigned mask, void **operands);

template <class T> T emulated_shuffle_from(unsigned mask, T value, unsigned from) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    emulated_shuffle operand = {};
    memcpy(operand.value, &value, sizeof value);
    operand.from = from;
    emulated_meet(mask, &operand, emulated_run_shuffle);
    T result;
    memcpy(&result, operand.result, sizeof result);
    return result;
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, unsigned x) {
    return emulated_shuffle_from(mask, value, emulated_lane() ^ x);
}
template <class T> T __shfl_sync(unsigned mask, T value, unsigned from) {
    return emulated_shuffle_from(mask, value, from & 31);
}
void __syncwarp(unsigned mask = ~0u);
unsigned __ballot_sync(unsigned mask, bool value);

/* Blocks run one after the other, and a fiber keeps its turn here. */
template <class T> T atomicAdd(T *to, T value) {
    const T before = *to;
    *to += value;
    return before;
}
static inline void __threadfence() {}
template <class T> T __ldcg(const T *from) {
    return *from;
}
static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}

#define DYNAMIC_SHARED(name) unsigned char *name = emulated_shared
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                     \
    ((void)(stream), emulated_launch(grid, block, shared_bytes, [&] { kernel(__VA_ARGS__); }))

#endif
