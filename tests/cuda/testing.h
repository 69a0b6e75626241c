/* SPDX-License-Identifier: Apache-2.0
 * What the tests of CUDA kernels share. The same programs run on a GPU and, through the emulator,
 * on the processor. */
#ifndef WISP_TESTS_CUDA_TESTING_H
#define WISP_TESTS_CUDA_TESTING_H

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/cuda/runtime.h"
#include "lanes.h"

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define CUDA_CHECK(call)                                                                           \
    do {                                                                                           \
        const cudaError_t cuda_error = (call);                                                     \
        CHECK(cuda_error == cudaSuccess, "%s", cudaGetErrorString(cuda_error));                    \
    } while (0)

/* An array in the device's memory. It begins as bytes 0xee, so that a value nobody wrote is found.
 */
template <class T> struct device_array {
    T *p = nullptr;
    size_t n;
    explicit device_array(size_t count) : n(count) {
        const std::vector<unsigned char> garbage(count * sizeof(T) + 1, 0xee);
        CUDA_CHECK(cudaMalloc(&p, count * sizeof(T)));
        CUDA_CHECK(cudaMemcpy(p, garbage.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }
    explicit device_array(const std::vector<T> &values) : device_array(values.size()) {
        CUDA_CHECK(cudaMemcpy(p, values.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    }
    device_array(const device_array &) = delete;
    device_array &operator=(const device_array &) = delete;
    ~device_array() {
        cudaFree(p);
    }
    std::vector<T> get() const {
        std::vector<T> values(n);
        CUDA_CHECK(cudaMemcpy(values.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }
};

struct random_source {
    std::mt19937 engine;
    explicit random_source(unsigned seed) : engine(seed) {}
    int below(int n) {
        return static_cast<int>(engine() % static_cast<unsigned>(n));
    }
    float uniform(float low, float high) {
        return low + (high - low) * static_cast<float>(engine() >> 8) / 16777216.0f;
    }
    float normal() {
        return std::normal_distribution<float>()(engine);
    }
    std::vector<float> normals(size_t n, float scale) {
        std::vector<float> v(n);
        for (float &x : v)
            x = scale * normal();
        return v;
    }
};

/* Rounds values to halves and back, so that a reference begins with what the kernel reads. */
static inline std::vector<uint16_t> halves_from(std::vector<float> &values) {
    std::vector<uint16_t> h(values.size());
    for (size_t i = 0; i < h.size(); i++) {
        h[i] = emulated_half(values[i]);
        values[i] = emulated_float(h[i]);
    }
    return h;
}

/* The distance of two arrays over the length of the second; NaN or infinity if a value is. */
template <class A, class B> static double relative_error(const A &values, const B &expected) {
    double difference = 0, length = 0;
    CHECK(values.size() == expected.size(), "%zu values, %zu expected", values.size(),
          expected.size());
    for (size_t i = 0; i < values.size(); i++) {
        const double d = static_cast<double>(values[i]) - static_cast<double>(expected[i]);
        difference += d * d;
        length += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    }
    return std::sqrt(difference) / (std::sqrt(length) + 1e-30);
}

static inline std::vector<float> floats_from(const std::vector<uint16_t> &halves) {
    std::vector<float> v(halves.size());
    for (size_t i = 0; i < v.size(); i++)
        v[i] = emulated_float(halves[i]);
    return v;
}

#endif
