/* SPDX-License-Identifier: Apache-2.0
 * The functions of CUDA's runtime that src/kernels/cuda calls, on the processor's
 * memory. */
#ifndef WISP_TESTS_CUDA_RUNTIME_EMULATED_H
#define WISP_TESTS_CUDA_RUNTIME_EMULATED_H

#include <cstdlib>
#include <cstring>

#include "emulator.h"

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorNoDevice = 100,
    cudaErrorInsufficientDriver = 35
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
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
static inline cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    memset(to, value, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
    return cudaMemset(to, value, bytes);
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
/* A graph is the list of launches that were made while a stream was captured. */
typedef struct emulated_graph *cudaGraph_t;
typedef struct emulated_graph *cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};
template <class A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(A), A argument) {
    emulated_submit(config->gridDim, config->blockDim, config->dynamicSmemBytes,
                    [=] { kernel(argument); });
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
