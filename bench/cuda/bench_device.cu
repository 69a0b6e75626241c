/* SPDX-License-Identifier: Apache-2.0
 * Times encoders of the device library, on random weights: tokens per second of a batch, from ids on the host to rows on
 * the host. Also what the card reaches at most: copies of memory, and int8 and half products from registers.
 *
 *     bench_device [TEXTS TOKENS [PASS_TOKENS]]   one pass after another of MiniLM's shape, for a profiler
 *     bench_device                                all of it */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/cuda/runtime.h"
#include "kernels/cuda/tile.h"

extern "C" const device_library *wisp_device_library(void);

static char message[DEVICE_MESSAGE_BYTES];
static const device_library *library;

static void check(device_status status) {
    if (status != DEVICE_OK) {
        fprintf(stderr, "%s\n", message);
        exit(1);
    }
}
static void check(cudaError_t error) { check(runtime_check(error, "bench", message)); }

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* Sums of four uniform values, which are nearly normal. */
static std::vector<float> normals(size_t n, float scale) {
    static uint64_t state = 1;
    std::vector<float> v(n);
    for (float &x : v) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const int sum = (int)((state >> 32 & 0xff) + (state >> 40 & 0xff) + (state >> 48 & 0xff) + (state >> 56 & 0xff)) - 510;
        x = scale * (float)sum / 148;
    }
    return v;
}

static device_encoder *open_shape(const device_shape &s) {
    device_encoder *e;
    check(library->open(&s, &e, message));
    const size_t h = s.hidden_size, inner = s.intermediate_size;
    const size_t rows[DEVICE_TENSORS] = {s.vocabulary_size, s.positions, 1, 1, 3 * h, 1, h, 1, 1, 1, inner, 1, h, 1, 1, 1};
    for (uint32_t l = 0; l < s.layers; l++)
        for (int t = l == 0 ? 0 : DEVICE_QKV; t < DEVICE_TENSORS; t++) {
            const size_t columns = t == DEVICE_QKV_BIAS ? 3 * h : t == DEVICE_UP_BIAS || t == DEVICE_DOWN ? inner : h;
            const std::vector<float> values = normals(rows[t] * columns, rows[t] > 1 ? 0.05f : 0.5f);
            check(library->put(e, (enum device_tensor)t, l, 0, rows[t], values.data(), message));
        }
    return e;
}

/* Returns the median seconds of a batch. */
static double time_batch(device_encoder *e, const device_shape &s, size_t texts, size_t tokens, int runs) {
    std::vector<int32_t> ids(texts * tokens);
    std::vector<size_t> starts;
    std::vector<float> rows(texts * s.hidden_size);
    std::vector<double> seconds;
    std::mt19937 random(2);
    for (int32_t &id : ids)
        id = (int32_t)(random() % s.vocabulary_size);
    for (size_t i = 0; i <= texts; i++)
        starts.push_back(i * tokens);
    const device_batch batch = {texts, ids.data(), starts.data(), NULL, s.hidden_size, s.hidden_size, rows.data()};
    for (int i = 0; i < runs + 3; i++) {
        const double start = now();
        check(library->embed(e, &batch, message));
        if (i >= 3)
            seconds.push_back(now() - start);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
}

static __device__ void multiply(int32_t d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) { mma_u8(d, a, b0, b1); }
static __device__ void multiply(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) { mma_f16(d, a, b0, b1); }

template <class SUM> __global__ void multiply_registers(int *out, int rounds) {
    SUM d[8][4] = {};
    uint32_t a[4] = {threadIdx.x, 2, 3, 4}, b[4] = {threadIdx.x * 7u, 6, 7, 8};
    for (int i = 0; i < rounds; i++)
        for (int j = 0; j < 8; j++)
            multiply(d[j], a, b[j % 4], b[(j + 1) % 4]);
    float sum = 0;
    for (int j = 0; j < 8; j++)
        sum += (float)d[j][0] + (float)d[j][3];
    out[blockIdx.x * blockDim.x + threadIdx.x] = (int)sum;
}

static float milliseconds(cudaEvent_t start, cudaEvent_t end) {
    float ms;
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&ms, start, end));
    return ms;
}

static void ceilings() {
    const size_t bytes = (size_t)4 << 30;
    char *from, *to;
    cudaEvent_t start, end;
    check(cudaEventCreate(&start));
    check(cudaEventCreate(&end));
    check(cudaMalloc(&from, bytes));
    check(cudaMalloc(&to, bytes));
    for (int i = 0; i < 4; i++) {
        check(cudaEventRecord(start));
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice));
        check(cudaEventRecord(end));
        if (i == 3)
            printf("copy                     %8.2f TB/s, read and written\n",
                   2.0 * (double)bytes / (double)milliseconds(start, end) / 1e9);
    }
    const int blocks = 132 * 4, threads = 256, rounds = 20000;
    const double macs = (double)blocks * threads / 32 * rounds * 8;
    for (int i = 0; i < 2; i++) {
        check(cudaEventRecord(start));
        multiply_registers<int32_t><<<blocks, threads>>>((int *)to, rounds);
        check(cudaEventRecord(end));
        const double s8 = (double)milliseconds(start, end);
        check(cudaEventRecord(start));
        multiply_registers<float><<<blocks, threads>>>((int *)to, rounds);
        check(cudaEventRecord(end));
        const double f16 = (double)milliseconds(start, end);
        if (i == 1)
            printf("mma.sync from registers  %8.0f TOPS int8, %.0f TFLOPS f16\n", macs * 16 * 8 * 32 * 2 / s8 / 1e9,
                   macs * 16 * 8 * 16 * 2 / f16 / 1e9);
    }
    check(cudaFree(from));
    check(cudaFree(to));
}

int main(int argc, char **argv) {
    library = wisp_device_library();
    char name[DEVICE_MESSAGE_BYTES];
    check(library->describe(0, name, message));
    device_shape minilm = {384, 1536, 6, 12, 30522, 512, 1e-12f, DEVICE_GELU, true, false, 0};
    if (argc > 2) {
        minilm.pass_tokens = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
        device_encoder *e = open_shape(minilm);
        time_batch(e, minilm, (size_t)atoi(argv[1]), (size_t)atoi(argv[2]), 1);
        library->close(e);
        return 0;
    }
    printf("%s\n", name);
    ceilings();
    static const struct {
        const char *name;
        device_shape shape;
    } models[] = {
        {"MiniLM-L6 int8", {384, 1536, 6, 12, 30522, 512, 1e-12f, DEVICE_GELU, true, false, 0}},
        {"MiniLM-L6 f16", {384, 1536, 6, 12, 30522, 512, 1e-12f, DEVICE_GELU, false, false, 0}},
        {"BERT-base int8", {768, 3072, 12, 12, 30522, 512, 1e-12f, DEVICE_GELU, true, false, 0}},
        {"BERT-base f16", {768, 3072, 12, 12, 30522, 512, 1e-12f, DEVICE_GELU, false, false, 0}},
    };
    for (const auto &model : models)
        for (const uint32_t pass_tokens : {8192u, 16384u, 32768u, 65536u}) {
            if (model.shape.hidden_size > 384 && pass_tokens != 16384 && pass_tokens != 32768)
                continue; /* their weights take long to make */
            device_shape s = model.shape;
            s.pass_tokens = pass_tokens;
            device_encoder *e = open_shape(s);
            const size_t h = s.hidden_size, inner = s.intermediate_size;
            const double macs = (double)s.layers * (double)(4 * h * h + 2 * h * inner + 2 * 128 * h);
            const double seconds = time_batch(e, s, 1024, 128, 20), rate = 1024 * 128 / seconds;
            printf("%-16s 1024 x 128, passes of %6u tokens: %8.3f ms %7.2f M tokens/s %6.0f TOPS\n", model.name, pass_tokens,
                   seconds * 1e3, rate / 1e6, 2 * macs * rate / 1e12);
            if (pass_tokens == 32768)
                for (const size_t texts : {(size_t)1, (size_t)16, (size_t)128}) {
                    const double some = time_batch(e, s, texts, 128, 20);
                    printf("%-16s %4zu x 128: %8.3f ms %7.2f M tokens/s\n", model.name, texts, some * 1e3,
                           (double)texts * 128 / some / 1e6);
                }
            library->close(e);
        }
    return 0;
}
