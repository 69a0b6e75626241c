/* SPDX-License-Identifier: Apache-2.0
 * The functions of src/kernels/cuda/ptx_warpgroup.h as scalar arithmetic. Products are computed
 * when the thread waits for them, so that a stage which is overwritten too early is found. */
#ifndef WISP_TESTS_CUDA_WARPGROUP_EMULATED_H
#define WISP_TESTS_CUDA_WARPGROUP_EMULATED_H

#include <cstdint>

#include "emulator.h"

void barrier_wait(int id, int threads);
void warpgroup_mma_u8(int32_t d[64], uint64_t a, uint64_t b, int add);
void warpgroup_mma_f16(float d[64], uint64_t a, uint64_t b, int add);
void warpgroup_add_f16(float d[64], const uint32_t a[4], uint64_t b);
void warpgroup_commit();
void emulated_wait_products(unsigned commits_left);
template <int LEFT = 0> static inline void warpgroup_wait() {
    emulated_wait_products(LEFT);
}

static inline void fence_for_tensor_cores() {}
static inline void warpgroup_arrive() {}
template <class T> static inline void warpgroup_hold(T[64]) {}
static inline unsigned shared_address(const void *p) {
    return static_cast<unsigned>(static_cast<const unsigned char *>(p) - emulated_shared);
}

#endif
