/* SPDX-License-Identifier: Apache-2.0
 * The emulator finds what it is there to find. With a mode as its argument the program runs a faulty kernel, and must end
 * with a complaint; without one it compares a kernel with all its barriers and with one left out. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/products.h"
#include "testing.h"

/* Sums of 256 values by two stages: of warps by shuffles, then through shared memory. */
static __global__ void sum_rows(const float *x, float *sums) {
    __shared__ float parts[8];
    const float sum = lanes_sum<WARP>(x[blockIdx.x * 256 + threadIdx.x]);
    if (threadIdx.x % WARP == 0)
        parts[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float all = 0;
        for (int i = 0; i < 8; i++)
            all += parts[i];
        sums[blockIdx.x] = all;
    }
    __syncthreads(); /* the next block writes parts again */
}

static std::vector<float> run_sums(unsigned order, int barrier_to_skip) {
    std::vector<float> x;
    for (int i = 0; i < 4 * 256; i++)
        x.push_back((float)(i % 97));
    const device_array<float> values(x);
    device_array<float> sums(4);
    emulated_order_seed = order;
    emulated_barrier_to_skip = barrier_to_skip;
    LAUNCH(sum_rows, dim3(4), dim3(256), 0, 0, values.p, sums.p);
    emulated_barrier_to_skip = EMULATED_BARRIER_SKIPPED_NEVER;
    return sums.get();
}

static void test_missing_barrier() {
    const std::vector<float> right = run_sums(0, EMULATED_BARRIER_SKIPPED_NEVER);
    int found = 0;
    for (unsigned order = 0; order < 4; order++) {
        CHECK(run_sums(order, EMULATED_BARRIER_SKIPPED_NEVER) == right, "the order %u of threads changes sums", order);
        found += run_sums(order, 0) != right;
    }
    CHECK(found > 0, "no order of threads shows that a barrier is missing");
}

/* The same of a real kernel: without the barrier that waits for a stage's copies, other threads' copies are missing. */
static std::vector<uint16_t> run_tiles(unsigned order, int barrier_to_skip) {
    random_source r(1);
    const int rows = 128, columns = 128, k = 256;
    std::vector<unsigned char> a((size_t)rows * k), b((size_t)columns * k);
    for (unsigned char &x : a)
        x = (unsigned char)r.below(256);
    for (unsigned char &x : b)
        x = (unsigned char)r.below(256);
    const device_array<unsigned char> a_array(a), b_array(b);
    const device_array<float2> a_scale(std::vector<float2>((size_t)rows * 2, {0.01f, -1}));
    const device_array<float> b_sums(std::vector<float>((size_t)columns * 2, 1));
    const device_array<float> b_scale(std::vector<float>((size_t)columns, 0.01f)), bias(std::vector<float>((size_t)columns, 1));
    const device_array<uint16_t> halves((size_t)rows * columns);
    product_arguments p = {};
    p.a = a_array.p;
    p.b = b_array.p;
    p.a_scale = a_scale.p;
    p.b_scale = b_scale.p;
    p.b_sums = b_sums.p;
    p.bias = bias.p;
    p.rows = rows;
    p.columns = columns;
    p.k_bytes = k;
    p.halves = halves.p;
    emulated_order_seed = order;
    emulated_barrier_to_skip = barrier_to_skip;
    run_kernel<product_tiles<operand_s8, RESULT_HALVES, DEVICE_RELU, true>>(dim3(1), TILE_WARPS * WARP, TILE_SHARED_BYTES, 0,
                                                                            nullptr, p);
    emulated_barrier_to_skip = EMULATED_BARRIER_SKIPPED_NEVER;
    return halves.get();
}

static void test_missing_barrier_of_tiles() {
    const std::vector<uint16_t> right = run_tiles(0, EMULATED_BARRIER_SKIPPED_NEVER);
    int found = 0;
    for (unsigned order = 0; order < 4; order++) {
        CHECK(run_tiles(order, EMULATED_BARRIER_SKIPPED_NEVER) == right, "the order %u of threads changes products", order);
        found += run_tiles(order, 0) != right;
    }
    CHECK(found > 0, "no order of threads shows that a barrier is missing");
}

/* ---- faults ------------------------------------------------------------------------------------- */

static __global__ void shuffle_in_half_a_warp(float *x) {
    if (threadIdx.x < 16)
        x[threadIdx.x] = __shfl_xor_sync(ALL_LANES, 1.0f, 1);
}

static __global__ void shuffle_past_its_mask(float *x) {
    if (threadIdx.x < 16)
        x[threadIdx.x] = __shfl_sync(0xffff, 1.0f, 20);
}

static __global__ void read_past_shared_memory(float *x) {
    DYNAMIC_SHARED(shared);
    x[threadIdx.x] = ((const float *)shared)[threadIdx.x + 1];
}

static __global__ void read_before_copies_arrive(float *x) {
    DYNAMIC_SHARED(shared);
    copy16_async(shared + 16 * threadIdx.x, x + 4 * threadIdx.x, 16);
    copy_commit();
    x[threadIdx.x] = ((const float *)shared)[4 * threadIdx.x]; /* and ends without waiting */
}

static void run_fault(const char *name) {
    device_array<float> x(128);
    if (strcmp(name, "half a warp") == 0)
        LAUNCH(shuffle_in_half_a_warp, dim3(1), dim3(32), 0, 0, x.p);
    else if (strcmp(name, "mask") == 0)
        LAUNCH(shuffle_past_its_mask, dim3(1), dim3(32), 0, 0, x.p);
    else if (strcmp(name, "index") == 0)
        LAUNCH(read_past_shared_memory, dim3(1), dim3(32), 128, 0, x.p);
    else if (strcmp(name, "copies") == 0)
        LAUNCH(read_before_copies_arrive, dim3(1), dim3(32), 512, 0, x.p);
    printf("the emulator does not notice: %s\n", name);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        run_fault(argv[1]);
        return 0;
    }
    test_missing_barrier();
    test_missing_barrier_of_tiles();
    static const char *const faults[] = {"half a warp", "mask", "index", "copies"};
    for (const char *fault : faults) {
        char command[4096];
        snprintf(command, sizeof command, "'%s' '%s' > /dev/null 2>&1", argv[0], fault);
        CHECK(system(command) != 0, "a fault goes unnoticed: %s", fault);
    }
    puts("emulator: missing barriers and 4 faults are found");
    return 0;
}
