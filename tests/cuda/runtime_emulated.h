/* SPDX-License-Identifier: Apache-2.0
 * The functions of CUDA's runtime that src/kernels/cuda/encoder.cu calls, on the processor's
 * memory. */
#ifndef WISP_TESTS_CUDA_RUNTIME_EMULATED_H
#define WISP_TESTS_CUDA_RUNTIME_EMULATED_H

#include <cstdlib>
#include <cstring>

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorNoDevice = 100,
    cudaErrorInsufficientDriver = 35
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
typedef struct emulated_stream *cudaStream_t;
struct cudaDeviceProp {
    char name[256];
    int major, minor;
    size_t sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
    int multiProcessorCount;
};

/* Allocations of more than this fail, as on a device that is full. */
extern size_t emulated_memory_left;
/* The number of devices; 0: as if no driver were there. */
extern int emulated_devices;
/* Of the compute capability: 9 has warpgroups. */
extern int emulated_major;

cudaError_t emulated_allocate(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
template <class T> cudaError_t cudaMalloc(T **p, size_t bytes) {
    return emulated_allocate(reinterpret_cast<void **>(p), bytes);
}
template <class T> cudaError_t cudaMallocHost(T **p, size_t bytes) {
    return emulated_allocate(reinterpret_cast<void **>(p), bytes);
}
static inline cudaError_t cudaFreeHost(void *p) {
    return cudaFree(p);
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                          cudaStream_t) {
    if (bytes > 0)
        memcpy(to, from, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    if (bytes > 0)
        memcpy(to, from, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    *stream = reinterpret_cast<cudaStream_t>(1);
    return cudaSuccess;
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (!stream)
        abort(); /* a GPU reports an error, which the next launch repeats */
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}
static inline cudaError_t cudaGetLastError() {
    return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int) {
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
const char *cudaGetErrorString(cudaError_t error);
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <class F> cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute, int) {
    return cudaSuccess;
}

#endif
