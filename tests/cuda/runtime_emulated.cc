// SPDX-License-Identifier: Apache-2.0
#include "runtime_emulated.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

#include "emulator.h"

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

struct emulated_graph {
    struct launch {
        dim3 grid, block;
        size_t shared_bytes;
        std::function<void()> body;
    };
    std::vector<launch> launches;
};

emulated_graph *emulated_recording;

void emulated_submit(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &body) {
    if (emulated_recording)
        emulated_recording->launches.push_back({grid, block, shared_bytes, body});
    else
        emulated_launch(grid, block, shared_bytes, body);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
    if (emulated_recording)
        return cudaErrorInvalidValue;
    emulated_recording = new emulated_graph;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
    *graph = emulated_recording;
    emulated_recording = nullptr;
    return *graph ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    *exec = new emulated_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
    for (const emulated_graph::launch &l : exec->launches)
        emulated_launch(l.grid, l.block, l.shared_bytes, l.body);
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
