/* SPDX-License-Identifier: Apache-2.0
 * Runs cases in several orders of threads. */
#ifndef WISP_TESTS_CUDA_ORDERS_H
#define WISP_TESTS_CUDA_ORDERS_H

#include "testing.h"

#ifdef __CUDACC__
enum { ORDERS = 1 };
static inline void set_order(int, unsigned) {}
static inline void finish() {
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaGetLastError());
}
#else
enum { ORDERS = 4 };
static inline void set_order(int order, unsigned seed) {
    emulated_order_seed = static_cast<unsigned>(order) + (order > 1 ? seed : 0);
}
static inline void finish() {}
#endif

/* Runs a case in all orders; `run` returns what it wrote. */
template <class F> static auto in_all_orders(unsigned seed, F run) {
    set_order(0, seed);
    const auto first = run();
    for (int order = 1; order < ORDERS; order++) {
        set_order(order, seed);
        CHECK(run() == first, "another order of threads gives other bits (order %d)", order);
    }
    return first;
}

#endif
