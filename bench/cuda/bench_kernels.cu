/* SPDX-License-Identifier: Apache-2.0
 * Times kernels one by one, and variants of them, on random operands: microseconds of one layer of MiniLM's shape.
 *
 *     bench_kernels [TOKENS] */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/warpgroups.h"

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        exit(1);
    }
}

/* Memory of random bytes, whose halves are at most 2 in size if `halves`. */
static void *random_bytes(size_t bytes, bool halves) {
    static uint64_t state = 1;
    std::vector<uint64_t> words(bytes / 8 + 1);
    for (uint64_t &word : words) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        word = state ^ state >> 29;
        if (halves)
            word &= 0xbfffbfffbfffbfff;
    }
    void *p;
    check(cudaMalloc(&p, bytes + 8));
    check(cudaMemcpy(p, words.data(), bytes, cudaMemcpyHostToDevice));
    return p;
}

static float *uniform_floats(size_t n, float value) {
    const std::vector<float> values(n, value);
    float *p;
    check(cudaMalloc(&p, n * sizeof *p));
    check(cudaMemcpy(p, values.data(), n * sizeof *p, cudaMemcpyHostToDevice));
    return p;
}

static cudaStream_t stream;
static unsigned multiprocessors;
static size_t most_shared;

/* Prints the median time of what `run` starts, and the rate of so many operations and bytes. */
template <class RUN> static void measure(const char *name, double operations, double bytes, RUN run) {
    enum { WARM = 3, RUNS = 20 };
    cudaEvent_t start, end;
    std::vector<float> times;
    check(cudaEventCreate(&start));
    check(cudaEventCreate(&end));
    for (int i = 0; i < WARM + RUNS; i++) {
        float ms;
        check(cudaEventRecord(start, stream));
        run();
        check(cudaEventRecord(end, stream));
        check(cudaEventSynchronize(end));
        check(cudaGetLastError());
        check(cudaEventElapsedTime(&ms, start, end));
        if (i >= WARM)
            times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    const double us = 1e3 * (double)times[RUNS / 2];
    printf("%-44s %8.1f us (least %6.1f) %6.0f TOPS %5.2f TB/s\n", name, us, 1e3 * (double)times[0], operations / us / 1e6,
           bytes / us / 1e6);
}

struct layer_arrays {
    int tokens, hidden, inner;
    unsigned char *bytes_hidden, *halves_hidden, *bytes_inner, *weights, *halves_weights;
    uint16_t *qkv, *halves, *x;
    uint8_t *q;
    float2 *scale;
    float *step, *ones;
};

static product_arguments product(const layer_arrays &l, bool bytes, int columns, int k) {
    product_arguments p = {};
    p.a = !bytes ? l.halves_hidden : k == l.hidden ? l.bytes_hidden : l.bytes_inner;
    p.b = bytes ? l.weights : l.halves_weights;
    p.a_scale = l.scale;
    p.a_step = l.step;
    p.a_shift = 0.17f;
    p.b_scale = p.b_sums = p.b_total = p.bias = l.ones;
    p.rows = l.tokens;
    p.columns = columns;
    p.k_bytes = k * (bytes ? 1 : 2);
    p.halves = l.halves;
    p.q = l.q;
    p.q_step = l.step;
    p.residual = (const uint16_t *)l.halves_hidden;
    p.norm = {l.ones, l.ones, 1e-12f};
    p.out = {l.x, l.q, l.scale};
    return p;
}

template <class OPERAND, int RESULT, int ACTIVATION, int WARPGROUPS, int PIPELINE>
static void bench_warpgroup_tiles(const char *name, const layer_arrays &l, int columns) {
    const product_arguments p = product(l, OPERAND::BYTES == 1, columns, l.hidden);
    const unsigned x = (unsigned)columns / TILE_COLUMNS;
    char text[64];
    snprintf(text, sizeof text, "%s, wgmma %d groups, %d stages", name, WARPGROUPS, PIPELINE);
    const size_t shared = warpgroup_tiles_shared_bytes<WARPGROUPS, PIPELINE>(p.k_bytes / TILE_BYTES);
    if (shared > most_shared)
        return;
    measure(text, 2.0 * l.tokens * columns * l.hidden,
            (double)l.tokens * (p.k_bytes + columns * (RESULT == RESULT_QUANTISED ? 1 : 2)), [&] {
                run_kernel<warpgroup_tiles<OPERAND, RESULT, ACTIVATION, WARPGROUPS, PIPELINE>>(
                    dim3(x, multiprocessors / x), WARPGROUPS * WARPGROUP, shared, most_shared, stream, p);
            });
}

template <class OPERAND, int RESULT, int ACTIVATION, bool RESIDENT>
static void bench_tiles(const char *name, const layer_arrays &l, int columns) {
    const product_arguments p = product(l, OPERAND::BYTES == 1, columns, l.hidden);
    const unsigned x = (unsigned)columns / TILE_COLUMNS;
    char text[64];
    snprintf(text, sizeof text, "%s, mma", name);
    measure(text, 2.0 * l.tokens * columns * l.hidden,
            (double)l.tokens * (p.k_bytes + columns * (RESULT == RESULT_QUANTISED ? 1 : 2)), [&] {
                run_kernel<product_tiles<OPERAND, RESULT, ACTIVATION, RESIDENT>>(
                    dim3(x, 2 * multiprocessors / x), TILE_WARPS * WARP, TILE_SHARED_BYTES, most_shared, stream, p);
            });
}

template <class OPERAND, int PIPELINE> static void bench_rows(const char *name, const layer_arrays &l, int k) {
    const product_arguments p = product(l, OPERAND::BYTES == 1, l.hidden, k);
    const dim3 grid(1, (unsigned)(l.tokens + 63) / 64);
    const double operations = 2.0 * l.tokens * l.hidden * k, bytes = (double)l.tokens * (p.k_bytes + l.hidden * 5);
    char text[64];
    snprintf(text, sizeof text, "%s, mma %d stages", name, PIPELINE);
    measure(text, operations, bytes, [&] {
        run_kernel<product_rows<OPERAND, 8, 6, PIPELINE, true>>(
            grid, 8 * WARP, product_rows_shared_bytes<8, 6>(PIPELINE, p.k_bytes / TILE_BYTES), most_shared, stream, p);
    });
    snprintf(text, sizeof text, "%s, wgmma %d stages", name, PIPELINE);
    measure(text, operations, bytes, [&] {
        run_kernel<warpgroup_rows<OPERAND, 3, PIPELINE, true>>(
            grid, 3 * WARPGROUP, warpgroup_rows_shared_bytes<3, PIPELINE>(p.k_bytes / TILE_BYTES), most_shared, stream, p);
    });
}

static void bench_attention(const layer_arrays &l, int length) {
    std::vector<int32_t> starts;
    std::vector<int2> tiles;
    for (int i = 0; i <= l.tokens / length; i++) {
        starts.push_back(i * length);
        for (int query = 0; i < l.tokens / length && query < length; query += QUERY_TILE)
            tiles.push_back({i, query});
    }
    int32_t *starts_there;
    int2 *tiles_there;
    check(cudaMalloc(&starts_there, starts.size() * sizeof *starts_there));
    check(cudaMemcpy(starts_there, starts.data(), starts.size() * sizeof *starts_there, cudaMemcpyHostToDevice));
    check(cudaMalloc(&tiles_there, tiles.size() * sizeof *tiles_there));
    check(cudaMemcpy(tiles_there, tiles.data(), tiles.size() * sizeof *tiles_there, cudaMemcpyHostToDevice));
    const attention_arguments a = {l.qkv, l.halves, tiles_there, starts_there, l.hidden / 32, 0.25f};
    char text[64];
    snprintf(text, sizeof text, "attention, texts of %d", length);
    measure(text, 4.0 * l.tokens * length * l.hidden, 8.0 * l.tokens * l.hidden, [&] {
        run_kernel<attend<32>>(dim3((unsigned)tiles.size(), (unsigned)l.hidden / 32), ATTENTION_WARPS * WARP,
                                       attention_layout<32>::SHARED_BYTES, most_shared, stream, a);
    });
    check(cudaFree(starts_there));
    check(cudaFree(tiles_there));
}

int main(int argc, char **argv) {
    const int tokens = argc > 1 ? atoi(argv[1]) : 32768, hidden = 384, inner = 1536;
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0));
    multiprocessors = (unsigned)properties.multiProcessorCount;
    most_shared = properties.sharedMemPerBlockOptin;
    check(cudaStreamCreate(&stream));
    const size_t n = (size_t)tokens;
    layer_arrays l = {tokens, hidden, inner};
    l.bytes_hidden = (unsigned char *)random_bytes(n * hidden, false);
    l.halves_hidden = (unsigned char *)random_bytes(n * inner * 2, true);
    l.bytes_inner = (unsigned char *)random_bytes(n * inner, false);
    l.weights = (unsigned char *)random_bytes((size_t)hidden * inner, false);
    l.halves_weights = (unsigned char *)random_bytes((size_t)hidden * inner * 2, true);
    l.qkv = (uint16_t *)random_bytes(n * 3 * hidden * 2, true);
    l.halves = (uint16_t *)random_bytes(n * inner * 2, true);
    l.x = (uint16_t *)random_bytes(n * hidden * 2, true);
    l.q = (uint8_t *)random_bytes(n * inner, false);
    l.scale = (float2 *)uniform_floats(n * hidden / GROUP * 2, 0.01f);
    l.step = uniform_floats(n * inner / GROUP, 0.01f);
    l.ones = uniform_floats((size_t)3 * inner, 0.001f);
    printf("%s, %d tokens\n", properties.name, tokens);
    bench_tiles<operand_s8, RESULT_HALVES, DEVICE_RELU, true>("qkv bytes", l, 3 * hidden);
    bench_warpgroup_tiles<operand_s8, RESULT_HALVES, DEVICE_RELU, 3, 3>("qkv bytes", l, 3 * hidden);
    bench_tiles<operand_f16, RESULT_HALVES, DEVICE_RELU, false>("qkv f16", l, 3 * hidden);
    bench_warpgroup_tiles<operand_f16, RESULT_HALVES, DEVICE_RELU, 3, 3>("qkv f16", l, 3 * hidden);
    bench_tiles<operand_s8, RESULT_QUANTISED, DEVICE_GELU, true>("up bytes GELU", l, inner);
    bench_warpgroup_tiles<operand_s8, RESULT_QUANTISED, DEVICE_GELU, 3, 3>("up bytes GELU", l, inner);
    bench_warpgroup_tiles<operand_s8, RESULT_QUANTISED, DEVICE_RELU, 3, 3>("up bytes ReLU", l, inner);
    bench_tiles<operand_f16, RESULT_ACTIVATED, DEVICE_GELU, false>("up f16", l, inner);
    bench_warpgroup_tiles<operand_f16, RESULT_ACTIVATED, DEVICE_GELU, 3, 3>("up f16", l, inner);
    bench_rows<operand_f16, 3>("output f16", l, hidden);
    bench_rows<operand_s8, 2>("down bytes", l, inner);
    bench_rows<operand_s8, 3>("down bytes", l, inner);
    bench_rows<operand_f16, 3>("down f16", l, inner);
    for (int length : {32, 128, 512})
        bench_attention(l, length);
    return 0;
}
