// SPDX-License-Identifier: Apache-2.0
#include "emulator.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

unsigned emulated_order_seed;
int emulated_barrier_to_skip = EMULATED_BARRIER_SKIPPED_NEVER;
dim3 blockIdx, blockDim, gridDim;
unsigned char *emulated_shared;

extern "C" void emulated_switch(void **from, void *to);
#if defined(__x86_64__)
asm(R"(.text
.globl emulated_switch
.hidden emulated_switch
.type emulated_switch,@function
emulated_switch:
 pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
 movq %rsp,(%rdi)
 movq %rsi,%rsp
 popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
 ret
.size emulated_switch,.-emulated_switch
)");
enum { SAVED_WORDS = 6 };
#else
#error "the emulator switches stacks on x86-64 only"
#endif

enum { STACK_BYTES = 65536, MOST_THREADS = 1024 };

struct copy {
    void *to;
    const void *from;
    size_t bytes, valid;
    unsigned group;
};

struct fiber {
    void *context;
    std::vector<char> stack;
    std::vector<copy> copies;
    unsigned group; // of the copies that come next
    int barriers;
    bool done;
};

static std::vector<fiber> fibers;
static std::vector<emulated_warp> warps;
static const std::function<void()> *body;
static void *scheduler;
static unsigned current, alive, at_barrier;
static int barrier_phase;
static bool progress;

void emulated_give_way() { emulated_switch(&fibers[current].context, scheduler); }

void emulated_went_on() { progress = true; }

void emulated_complain(const char *what) {
    fprintf(stderr, "emulator: block %u,%u,%u thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z, current, what);
    abort();
}

dim3 emulated_thread() {
    return dim3(current % blockDim.x, current / blockDim.x % blockDim.y, current / (blockDim.x * blockDim.y));
}

unsigned emulated_lane() { return current % 32; }

void __syncthreads() {
    progress = true;
    if (fibers[current].barriers++ == emulated_barrier_to_skip)
        return;
    const int phase = barrier_phase;
    if (++at_barrier == alive) {
        at_barrier = 0;
        barrier_phase++;
        return;
    }
    while (barrier_phase == phase)
        emulated_give_way();
}

void emulated_meet(unsigned mask, void *operand, void (*operation)(unsigned mask, void **operands)) {
    emulated_warp &warp = warps[current / 32];
    const unsigned lane = emulated_lane();
    if (!(mask >> lane & 1))
        emulated_complain("a lane is not in the mask of its warp operation");
    if (warp.arrived && warp.mask != mask)
        emulated_complain("the lanes of a warp operation have different masks");
    if (warp.arrived && warp.operation != reinterpret_cast<const void *>(operation))
        emulated_complain("the lanes of a warp are at different operations");
    warp.mask = mask;
    warp.operation = reinterpret_cast<const void *>(operation);
    warp.operand[lane] = operand;
    warp.arrived |= 1u << lane;
    progress = true;
    if (warp.arrived == mask) {
        if (operation)
            operation(mask, warp.operand);
        warp.arrived = 0;
        warp.phase++;
        return;
    }
    const int phase = warp.phase;
    while (warp.phase == phase)
        emulated_give_way();
}

void emulated_run_shuffle(unsigned mask, void **operands) {
    for (unsigned lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) {
            auto *own = static_cast<emulated_shuffle *>(operands[lane]);
            if (own->from >= 32 || !(mask >> own->from & 1))
                emulated_complain("a shuffle reads a lane outside its mask");
            memcpy(own->result, static_cast<emulated_shuffle *>(operands[own->from])->value, sizeof own->result);
        }
}

struct ballot {
    bool value;
    unsigned result;
};

static void run_ballot(unsigned mask, void **operands) {
    unsigned all = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        if (mask >> lane & 1 && static_cast<ballot *>(operands[lane])->value)
            all |= 1u << lane;
    for (unsigned lane = 0; lane < 32; lane++)
        if (mask >> lane & 1)
            static_cast<ballot *>(operands[lane])->result = all;
}

unsigned __ballot_sync(unsigned mask, bool value) {
    ballot operand = {value, 0};
    emulated_meet(mask, &operand, run_ballot);
    return operand.result;
}

void __syncwarp(unsigned mask) { emulated_meet(mask, nullptr, nullptr); }

void emulated_copy(void *to, const void *from, size_t bytes, size_t valid) {
    fiber &own = fibers[current];
    memset(to, 0xee, bytes); // nobody may read the bytes before they have arrived
    own.copies.push_back({to, from, bytes, valid, own.group});
}

void emulated_copy_commit() { fibers[current].group++; }

void emulated_copy_wait(unsigned groups_left) {
    fiber &own = fibers[current];
    size_t kept = 0;
    for (const copy &c : own.copies) {
        if (c.group + groups_left >= own.group) {
            own.copies[kept++] = c;
            continue;
        }
        memcpy(c.to, c.from, c.valid);
        memset(static_cast<char *>(c.to) + c.valid, 0, c.bytes - c.valid);
    }
    own.copies.resize(kept);
}

static void enter() {
    (*body)();
    if (!fibers[current].copies.empty() && fibers[current].copies[0].group < fibers[current].group)
        emulated_complain("the thread ends with a group of copies that it has not waited for");
    fibers[current].done = true;
    progress = true;
    if (--alive > 0 && at_barrier == alive)
        emulated_complain("a thread ends while the others wait at a barrier");
    emulated_give_way();
}

static void start_fiber(fiber &f) {
    f.done = false;
    f.barriers = 0;
    f.group = 0;
    f.copies.clear();
    f.stack.resize(STACK_BYTES);
    auto **top = reinterpret_cast<void **>((reinterpret_cast<uintptr_t>(f.stack.data()) + STACK_BYTES) & ~uintptr_t{15});
    *--top = nullptr;
    *--top = reinterpret_cast<void *>(enter);
    for (int i = 0; i < SAVED_WORDS; i++)
        *--top = nullptr;
    f.context = top;
}

static void run_block(unsigned threads, std::vector<unsigned> &turn, std::mt19937 &random) {
    alive = threads;
    at_barrier = 0;
    warps.assign((threads + 31) / 32, emulated_warp());
    for (unsigned i = 0; i < threads; i++)
        start_fiber(fibers[i]);
    while (alive > 0) {
        if (emulated_order_seed > 1)
            std::shuffle(turn.begin(), turn.end(), random);
        progress = false;
        for (unsigned i : turn)
            if (!fibers[i].done) {
                current = i;
                emulated_switch(&scheduler, fibers[i].context);
            }
        if (!progress)
            emulated_complain("threads wait forever");
    }
}

void emulated_launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &kernel) {
    const unsigned threads = block.x * block.y * block.z;
    if (threads > MOST_THREADS || shared_bytes > 227 * 1024)
        emulated_complain("the launch asks for more than a multiprocessor has");
    std::mt19937 random(emulated_order_seed);
    std::vector<unsigned> turn(threads);
    for (unsigned i = 0; i < threads; i++)
        turn[i] = emulated_order_seed == 1 ? threads - 1 - i : i;
    if (fibers.size() < threads)
        fibers.resize(threads);
    gridDim = grid;
    blockDim = block;
    body = &kernel;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = dim3(x, y, z);
                void *shared;
                if (posix_memalign(&shared, 1024, shared_bytes > 0 ? shared_bytes : 1) != 0)
                    emulated_complain("no memory");
                emulated_shared = static_cast<unsigned char *>(shared);
                if (shared_bytes > 0)
                    memset(emulated_shared, 0xee, shared_bytes); // NaN, and no block sees what the one before left
                run_block(threads, turn, random);
                free(emulated_shared);
            }
}
