/* SPDX-License-Identifier: Apache-2.0
 * Each instruction of ptx.h against its emulation (lanes.h), on random registers. On a GPU this shows that the emulator
 * computes what the card does; in the emulator, that the wrappers hand over their operands right. */
#include <string.h>

#include "kernels/cuda/ptx_warpgroup.h"
#include "testing.h"

enum { LOAD, LOAD_TRANSPOSED, MMA_U8, MMA_S8, MMA_F16, ROUNDS = 200 };

struct lane_registers {
    uint32_t a[4], b[2], d[4];
    uint32_t row; /* of shared memory, in bytes */
};

__global__ void run_wrapper(int operation, const unsigned char *memory, lane_registers *lanes) {
    DYNAMIC_SHARED(shared);
    for (int i = threadIdx.x; i < 4096; i += WARP)
        shared[i] = memory[i];
    __syncthreads();
    lane_registers r = lanes[threadIdx.x];
    if (operation == LOAD)
        load_matrices(r.d, shared + r.row);
    else if (operation == LOAD_TRANSPOSED)
        load_matrices_transposed(r.d, shared + r.row);
    else if (operation == MMA_U8)
        mma_u8((int32_t *)r.d, r.a, r.b[0], r.b[1]);
    else if (operation == MMA_S8)
        mma_s8((int32_t *)r.d, r.a, r.b[0], r.b[1]);
    else
        mma_f16((float *)r.d, r.a, r.b[0], r.b[1]);
    lanes[threadIdx.x] = r;
}

/* Copies bytes and zeros, converts halves, computes powers of 2. */
__global__ void run_scalars(const unsigned char *memory, uint4 *copied, const float *x, uint32_t *halves, float *back,
                            float *powers, uint4 *arithmetic) {
    DYNAMIC_SHARED(shared);
    const int i = threadIdx.x;
    copy16_async(shared + 32 * i, memory + 16 * i, 4 * (i % 5));
    copy_commit();
    for (int word = 0; word < 4; word++)
        copy4_async(shared + 32 * i + 16 + 4 * word, memory + 16 * i + 4 * word, word < 4 - i % 5);
    copy_commit();
    copy_wait<1>();
    copied[2 * i] = *(const uint4 *)(shared + 32 * i);
    copy_wait<0>();
    copied[2 * i + 1] = *(const uint4 *)(shared + 32 * i + 16);
    halves[i] = halves_of(x[2 * i], x[2 * i + 1]);
    back[2 * i] = low_half(halves[i]);
    back[2 * i + 1] = high_half(halves[i]);
    powers[i] = exp2_near(x[2 * i]);
    const uint32_t a = halves[i], b = halves_of(x[2 * i + 1], 0.25f), c = halves_of(3, x[2 * i]);
    arithmetic[2 * i] = {halves_fma(a, b, c), halves_mul(a, b), halves_add(a, b), halves_max(a, b)};
    arithmetic[2 * i + 1] = {halves_tanh(a), __byte_perm(a, b, 0x6420), __byte_perm(a, b, 0x5173), 0};
}

static uint32_t random_operand(random_source &r, int operation) {
    if (operation != MMA_F16)
        return r.engine();
    return halves_of(r.normal(), r.normal());
}

static void test_lanes(random_source &r, int operation) {
    std::vector<unsigned char> memory(4096);
    std::vector<lane_registers> lanes(WARP);
    for (unsigned char &byte : memory)
        byte = (unsigned char)r.below(256);
    for (lane_registers &lane : lanes) {
        for (uint32_t &a : lane.a)
            a = random_operand(r, operation);
        for (uint32_t &b : lane.b)
            b = random_operand(r, operation);
        for (uint32_t &d : lane.d) {
            const float x = r.normal();
            memcpy(&d, &x, sizeof d);
        }
        lane.row = (uint32_t)(16 * r.below(4096 / 16));
    }
    const device_array<unsigned char> memory_array(memory);
    const device_array<lane_registers> lane_array(lanes);
    LAUNCH(run_wrapper, dim3(1), dim3(WARP), 4096, 0, operation, memory_array.p, lane_array.p);
    const std::vector<lane_registers> got = lane_array.get();

    std::vector<emulated_matrices> matrices(WARP);
    std::vector<emulated_mma> mma(WARP);
    void *operands[WARP];
    for (int i = 0; i < WARP; i++) {
        matrices[i] = {&memory[lanes[i].row], lanes[i].d};
        mma[i] = {lanes[i].d, lanes[i].a, {lanes[i].b[0], lanes[i].b[1]}};
        operands[i] = operation <= LOAD_TRANSPOSED ? (void *)&matrices[i] : (void *)&mma[i];
    }
    static void (*const run[])(unsigned, void **) = {emulated_run_load, emulated_run_load_transposed, emulated_run_mma_u8,
                                                      emulated_run_mma_s8, emulated_run_mma_f16};
    run[operation](ALL_LANES, operands);
    for (int i = 0; i < WARP; i++)
        for (int j = 0; j < 4; j++) {
            float x, y;
            memcpy(&x, &got[i].d[j], sizeof x);
            memcpy(&y, &lanes[i].d[j], sizeof y);
            /* Tensor cores add the products of halves in an order and with a rounding of their own. */
            CHECK(operation == MMA_F16 ? fabsf(x - y) < 1e-4f : got[i].d[j] == lanes[i].d[j],
                  "operation %d, lane %d, register %d: %08x, emulated %08x", operation, i, j, got[i].d[j], lanes[i].d[j]);
        }
}

static float half_of(uint32_t bits, int which) { return emulated_float((uint16_t)(bits >> 16 * which)); }

/* Arithmetic on pairs of halves, of x[2 i], x[2 i + 1] and what run_scalars made of them. */
static void check_arithmetic(const std::vector<float> &x, const std::vector<uint32_t> &halves, const std::vector<uint4> &got) {
    for (int i = 0; i < WARP; i++) {
        const uint32_t b_bits = emulated_half(x[2 * i + 1]) | (uint32_t)emulated_half(0.25f) << 16;
        const uint32_t c_bits = emulated_half(3) | (uint32_t)emulated_half(x[2 * i]) << 16;
        for (int which = 0; which < 2; which++) {
            const double a = half_of(halves[i], which), b = half_of(b_bits, which), c = half_of(c_bits, which);
            const float expected[] = {(float)(a * b + c), (float)(a * b), (float)(a + b), (float)fmax(a, b)};
            const uint32_t bits[] = {got[2 * i].x, got[2 * i].y, got[2 * i].z, got[2 * i].w};
            for (int k = 0; k < 4; k++)
                CHECK((uint16_t)(bits[k] >> 16 * which) == emulated_half(expected[k]), "arithmetic %d of %g, %g, %g: %g", k, a,
                      b, c, (double)half_of(bits[k], which));
            CHECK(fabs(half_of(got[2 * i + 1].x, which) - tanh(a)) < 1e-3, "tanh of %g: %g", a,
                  (double)half_of(got[2 * i + 1].x, which));
        }
        const uint32_t a = halves[i], b = b_bits;
        const uint32_t even = (a & 0xff) | (a >> 8 & 0xff00) | (b & 0xff) << 16 | (b & 0xff0000) << 8;
        const uint32_t mixed = a >> 24 | (b >> 24) << 8 | (a >> 8 & 0xff) << 16 | (b >> 8 & 0xff) << 24;
        CHECK(got[2 * i + 1].y == even && got[2 * i + 1].z == mixed, "bytes of %08x, %08x: %08x, %08x", a, b,
              got[2 * i + 1].y, got[2 * i + 1].z);
    }
}

static void test_scalars(random_source &r) {
    std::vector<unsigned char> memory(16 * WARP);
    std::vector<float> x(2 * WARP);
    for (unsigned char &byte : memory)
        byte = (unsigned char)(1 + r.below(255));
    for (float &v : x)
        v = r.uniform(-40, 15);
    x[0] = -INFINITY;
    const device_array<unsigned char> memory_array(memory);
    const device_array<float> x_array(x);
    const device_array<uint4> copied(2 * WARP);
    const device_array<uint32_t> halves(WARP);
    const device_array<float> back(2 * WARP), powers(WARP);
    const device_array<uint4> arithmetic(2 * WARP);
    LAUNCH(run_scalars, dim3(1), dim3(WARP), 32 * WARP, 0, memory_array.p, copied.p, x_array.p, halves.p, back.p, powers.p,
           arithmetic.p);
    check_arithmetic(x, halves.get(), arithmetic.get());
    const auto chunks = copied.get();
    const auto bits = halves.get();
    const auto floats = back.get(), power = powers.get();
    for (int i = 0; i < WARP; i++) {
        for (int j = 0; j < 2; j++) {
            const int bytes = j == 0 ? 4 * (i % 5) : 16 - 4 * (i % 5);
            unsigned char expected[16] = {0};
            memcpy(expected, &memory[16 * i], (size_t)bytes);
            CHECK(memcmp(&chunks[2 * i + j], expected, 16) == 0, "copy %d of lane %d", j, i);
        }
        CHECK(bits[i] == (emulated_half(x[2 * i]) | (uint32_t)emulated_half(x[2 * i + 1]) << 16), "halves of lane %d", i);
        CHECK(floats[2 * i] == emulated_float((uint16_t)bits[i]), "low half of lane %d", i);
        CHECK(floats[2 * i + 1] == emulated_float((uint16_t)(bits[i] >> 16)), "high half of lane %d", i);
        CHECK(fabsf(power[i] - exp2f(x[2 * i])) <= 3e-7f * exp2f(x[2 * i]), "2^%g: %g", (double)x[2 * i], (double)power[i]);
    }
}

enum { PRODUCT_A_BYTES = 64 * 128, PRODUCT_BYTES = PRODUCT_A_BYTES + 128 * 128 };

/* One product of a warpgroup, of bytes [32 step, + 32) of each row. d has 64 values of each thread. If a is in
 * `registers`, its rows are as they are in memory. */
__global__ void run_product(const unsigned char *memory, int halves, int registers, int step, int add, uint32_t *d) {
#ifdef WARPGROUPS_EXIST
    DYNAMIC_SHARED(shared);
    uint32_t own[64], fragment[4];
    const unsigned char *row = memory + (16 * (threadIdx.x / WARP) + threadIdx.x % WARP / 4) * 128 + 32 * step;
    for (int i = 0; i < 4; i++)
        fragment[i] = *(const uint32_t *)(row + i % 2 * 8 * 128 + i / 2 * 16 + threadIdx.x % 4 * 4);
    for (int i = threadIdx.x; i < PRODUCT_BYTES; i += WARPGROUP)
        shared[i] = memory[i];
    fence_for_tensor_cores();
    barrier_wait(1, WARPGROUP);
    for (int i = 0; i < 64; i++)
        own[i] = d[64 * threadIdx.x + i];
    const uint64_t a = tile_place_of(shared) + 2 * step, b = tile_place_of(shared + PRODUCT_A_BYTES) + 2 * step;
    if (halves) {
        float sums[64];
        for (int i = 0; i < 64; i++)
            sums[i] = __int_as_float((int)own[i]);
        warpgroup_hold(sums);
        warpgroup_arrive();
        if (registers)
            warpgroup_add_f16(sums, fragment, b);
        else
            warpgroup_mma_f16(sums, a, b, add);
        warpgroup_commit();
        warpgroup_wait();
        warpgroup_hold(sums);
        for (int i = 0; i < 64; i++)
            own[i] = (uint32_t)__float_as_int(sums[i]);
    } else {
        int32_t sums[64];
        for (int i = 0; i < 64; i++)
            sums[i] = (int32_t)own[i];
        warpgroup_hold(sums);
        warpgroup_arrive();
        warpgroup_mma_u8(sums, a, b, add);
        warpgroup_commit();
        warpgroup_wait();
        warpgroup_hold(sums);
        for (int i = 0; i < 64; i++)
            own[i] = (uint32_t)sums[i];
    }
    for (int i = 0; i < 64; i++)
        d[64 * threadIdx.x + i] = own[i];
#else
    (void)memory, (void)halves, (void)registers, (void)step, (void)add, (void)d;
#endif
}

static void test_product(random_source &r) {
    const bool halves = r.below(3) > 0, registers = halves && r.below(2);
    const int step = r.below(4), add = registers || r.below(2);
    std::vector<unsigned char> memory(PRODUCT_BYTES);
    for (size_t i = 0; i < memory.size(); i++) /* halves: less than 2 */
        memory[i] = (unsigned char)(halves && i % 2 ? r.below(256) & 0xbf : r.below(256));
    std::vector<uint32_t> d((size_t)64 * WARPGROUP);
    for (uint32_t &value : d) {
        const float x = r.normal();
        memcpy(&value, &x, sizeof x);
    }
    const device_array<unsigned char> memory_array(memory);
    const device_array<uint32_t> d_array(d);
    LAUNCH(run_product, dim3(1), dim3(WARPGROUP), PRODUCT_BYTES, 0, memory_array.p, halves, registers, step, add, d_array.p);
    const std::vector<uint32_t> got = d_array.get();
    /* The descriptors of the kernel, whose shared memory begins at 0 here. */
    const uint64_t rows = (uint64_t)1 << 62 | (uint64_t)64 << 32;
    for (unsigned thread = 0; thread < WARPGROUP; thread++) {
        emulated_product product = {&d[64 * thread], rows + 2 * (uint64_t)step, rows + PRODUCT_A_BYTES / 16 + 2 * (uint64_t)step,
                                    halves, add != 0, registers ? &d[0] : nullptr, {}};
        for (int i = 0; i < 2; i++)
            memcpy(product.rows.bytes[i], &memory[(thread / WARP * 16 + thread % WARP / 4 + 8 * i) * 128 + 32 * step], 32);
        emulated_run_product(product, memory.data(), thread);
    }
    for (size_t i = 0; i < d.size(); i++) {
        float x, y;
        memcpy(&x, &got[i], sizeof x);
        memcpy(&y, &d[i], sizeof y);
        CHECK(halves ? fabsf(x - y) < 1e-3f : got[i] == d[i], "product of a warpgroup, value %zu: %08x, emulated %08x", i,
              got[i], d[i]);
    }
}

int main(int argc, char **argv) {
    random_source r(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
    cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    const bool warpgroups = properties.major == 9;
    for (int i = 0; i < ROUNDS; i++) {
        for (int operation = LOAD; operation <= MMA_F16; operation++)
            test_lanes(r, operation);
        test_scalars(r);
        if (warpgroups && i % 10 == 0)
            test_product(r);
    }
    printf("wrappers: %d rounds\n", (int)ROUNDS);
    return 0;
}
