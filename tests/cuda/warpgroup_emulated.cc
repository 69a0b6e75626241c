// SPDX-License-Identifier: Apache-2.0
#include "warpgroup_emulated.h"

#include <cstddef>
#include <cstring>
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

static void begin(const emulated_product &product) {
    __syncwarp(); // all lanes of a warp take part
    if ((!product.registers && product.a >> 62 != 1) || product.b >> 62 != 1)
        emulated_complain("a descriptor without the permutation of 128 bytes");
    products[thread_index()].push_back(product);
}
void warpgroup_mma_u8(int32_t d[64], uint64_t a, uint64_t b, int add) { begin({d, a, b, false, add != 0, nullptr, {}}); }
void warpgroup_mma_f16(float d[64], uint64_t a, uint64_t b, int add) { begin({d, a, b, true, add != 0, nullptr, {}}); }
void warpgroup_add_f16(float d[64], const uint32_t a[4], uint64_t b) {
    emulated_fragment own = {a, {}};
    emulated_meet(~0u, &own, emulated_run_collect);
    begin({d, 0, b, true, true, a, own.rows});
}

// A commit is a mark among the products.
void warpgroup_commit() {
    __syncwarp();
    products[thread_index()].push_back({});
}

void emulated_wait_products(unsigned commits_left) {
    const unsigned thread = thread_index();
    std::vector<emulated_product> &own = products[thread];
    unsigned commits = 0;
    for (const emulated_product &p : own)
        commits += !p.d;
    __syncwarp(); // the other lanes' registers are as they are before the wait
    size_t done = 0;
    for (; commits > commits_left; done++) {
        const emulated_product &p = own[done];
        commits -= !p.d;
        if (!p.d)
            continue;
        emulated_fragment now = {p.registers, {}};
        if (p.registers)
            emulated_meet(~0u, &now, emulated_run_collect);
        if (memcmp(&now.rows, &p.rows, sizeof now.rows) != 0)
            emulated_complain("registers were written before a product of them was done");
        emulated_run_product(p, emulated_shared, thread);
    }
    own.erase(own.begin(), own.begin() + static_cast<ptrdiff_t>(done));
    __syncwarp();
}
