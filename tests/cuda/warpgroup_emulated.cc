// SPDX-License-Identifier: Apache-2.0
#include "warpgroup_emulated.h"

#include <vector>

#include "lanes.h"

enum { MOST_BARRIERS = 16, MOST_THREADS = 1024 };
static struct {
    int arrived, phase;
} barriers[MOST_BARRIERS];
static std::vector<emulated_product> products[MOST_THREADS];

static unsigned thread_index() { return threadIdx.x; } // blocks with wgmma have one dimension

void barrier_wait(int id, int threads) {
    auto &barrier = barriers[id];
    const int phase = barrier.phase;
    emulated_went_on();
    if (++barrier.arrived == threads) {
        barrier.arrived = 0;
        barrier.phase++;
        return;
    }
    while (barrier.phase == phase)
        emulated_give_way();
}

static void begin(void *d, uint64_t a, uint64_t b, bool halves, bool add) {
    __syncwarp(); // all lanes of a warp take part
    if (a >> 62 != 1 || b >> 62 != 1)
        emulated_complain("a descriptor without the permutation of 128 bytes");
    products[thread_index()].push_back({d, a, b, halves, add});
}
void warpgroup_mma_u8(int32_t d[64], uint64_t a, uint64_t b, int add) { begin(d, a, b, false, add != 0); }
void warpgroup_mma_f16(float d[64], uint64_t a, uint64_t b, int add) { begin(d, a, b, true, add != 0); }
void warpgroup_commit() { __syncwarp(); }

void warpgroup_wait() {
    const unsigned thread = thread_index();
    std::vector<emulated_product> &own = products[thread];
    for (const emulated_product &p : own)
        emulated_run_product(p, emulated_shared, thread);
    own.clear();
    __syncwarp();
}
