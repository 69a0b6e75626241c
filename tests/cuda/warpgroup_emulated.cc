// SPDX-License-Identifier: Apache-2.0
#include "warpgroup_emulated.h"

#include <vector>

#include "lanes.h"

struct product {
    void *d;
    uint64_t a, b;
    bool halves, add;
};

enum { MOST_BARRIERS = 16, MOST_THREADS = 1024 };
static struct {
    int arrived, phase;
} barriers[MOST_BARRIERS];
static std::vector<product> products[MOST_THREADS];

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
    products[thread_index()].push_back({d, a, b, halves, add});
}
void warpgroup_mma_u8(int32_t d[64], uint64_t a, uint64_t b, int add) { begin(d, a, b, false, add != 0); }
void warpgroup_mma_f16(float d[64], uint64_t a, uint64_t b, int add) { begin(d, a, b, true, add != 0); }
void warpgroup_commit() { __syncwarp(); }

// Copies bytes [0, 32) of a row from where the descriptor says, after the PTX manual: rows of 128 bytes in groups of 8,
// which are so many bytes apart, with bits 4 to 6 of the address xor bits 7 to 9.
static void read_row(uint64_t descriptor, int row, unsigned char bytes[32]) {
    if (descriptor >> 62 != 1)
        emulated_complain("a descriptor without the permutation of 128 bytes");
    const unsigned start = static_cast<unsigned>(descriptor & 0x3fff) << 4;
    const unsigned groups_apart = static_cast<unsigned>(descriptor >> 32 & 0x3fff) << 4;
    for (unsigned i = 0; i < 32; i++) {
        unsigned address = start + static_cast<unsigned>(row / 8) * groups_apart + static_cast<unsigned>(row % 8) * 128 + i;
        address ^= (address >> 7 & 7) << 4;
        bytes[i] = emulated_shared[address];
    }
}

static float half_at(const unsigned char *bytes, int i) {
    return emulated_float(static_cast<uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8));
}

static void run(const product &p, unsigned thread) {
    const int lane = static_cast<int>(thread % 32), row0 = static_cast<int>(thread / 32 % 4) * 16 + lane / 4;
    unsigned char a[2][32];
    read_row(p.a, row0, a[0]);
    read_row(p.a, row0 + 8, a[1]);
    for (int j = 0; j < 16; j++)
        for (int e = 0; e < 4; e++) {
            unsigned char b[32];
            const unsigned char *row = a[e / 2];
            read_row(p.b, 8 * j + 2 * (lane % 4) + e % 2, b);
            if (p.halves) {
                float &d = static_cast<float *>(p.d)[4 * j + e];
                d = p.add ? d : 0;
                for (int k = 0; k < 16; k++)
                    d += half_at(row, k) * half_at(b, k);
            } else {
                int32_t &d = static_cast<int32_t *>(p.d)[4 * j + e];
                d = p.add ? d : 0;
                for (int k = 0; k < 32; k++)
                    d += row[k] * static_cast<int8_t>(b[k]);
            }
        }
}

void warpgroup_wait() {
    const unsigned thread = thread_index();
    std::vector<product> &own = products[thread];
    for (const product &p : own)
        run(p, thread);
    own.clear();
    __syncwarp();
}
