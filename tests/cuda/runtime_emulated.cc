// SPDX-License-Identifier: Apache-2.0
#include "runtime_emulated.h"

#include <cstdint>
#include <cstdio>
#include <map>

size_t emulated_memory_left = SIZE_MAX / 2;
int emulated_devices = 1;
int emulated_major = 9;

static std::map<void *, size_t> &sizes() {
    static auto *all = new std::map<void *, size_t>;
    return *all;
}

cudaError_t emulated_allocate(void **p, size_t bytes) {
    *p = nullptr;
    if (bytes > emulated_memory_left)
        return cudaErrorMemoryAllocation;
    *p = malloc(bytes > 0 ? bytes : 1);
    if (!*p)
        return cudaErrorMemoryAllocation;
    memset(*p, 0xee, bytes); // nobody may count on zeros
    sizes()[*p] = bytes;
    emulated_memory_left -= bytes;
    return cudaSuccess;
}

cudaError_t cudaFree(void *p) {
    if (!p)
        return cudaSuccess;
    emulated_memory_left += sizes()[p];
    sizes().erase(p);
    free(p);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = emulated_devices;
    return emulated_devices > 0 ? cudaSuccess : cudaErrorInsufficientDriver;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
    snprintf(properties->name, sizeof properties->name, "emulated");
    properties->major = emulated_major;
    properties->minor = 0;
    properties->sharedMemPerBlockOptin = 227 * 1024;
    properties->sharedMemPerMultiprocessor = 228 * 1024;
    properties->multiProcessorCount = 2; // blocks compute several tiles
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an emulated error";
}
