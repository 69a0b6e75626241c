/* SPDX-License-Identifier: Apache-2.0
 * Shared by the device library's files, on the host: errors as status and message, and memory. */
#ifndef WISP_KERNELS_CUDA_RUNTIME_H
#define WISP_KERNELS_CUDA_RUNTIME_H

#include <stdio.h>

#include "device/library.h"
#include "kernels/cuda/ptx.h"

#ifndef __CUDACC__
#include "runtime_emulated.h"
#endif

#define DEVICE_TRY(call)                                                                           \
    do {                                                                                           \
        const device_status try_status = (call);                                                   \
        if (try_status != DEVICE_OK)                                                               \
            return try_status;                                                                     \
    } while (0)

static inline device_status device_fail(device_status status, char message[DEVICE_MESSAGE_BYTES],
                                        const char *what) {
    snprintf(message, DEVICE_MESSAGE_BYTES, "%s", what);
    return status;
}

/* Converts an error of the runtime. */
static inline device_status runtime_check(cudaError_t error, const char *what,
                                          char message[DEVICE_MESSAGE_BYTES]) {
    if (error == cudaSuccess)
        return DEVICE_OK;
    snprintf(message, DEVICE_MESSAGE_BYTES, "%s: %s", what, cudaGetErrorString(error));
    return error == cudaErrorMemoryAllocation ? DEVICE_NO_MEMORY : DEVICE_LOST;
}

/* Chooses the first GPU and gets its properties, or says what keeps this machine from computing
 * with CUDA. (library.cu) */
device_status runtime_find(cudaDeviceProp *properties, char message[DEVICE_MESSAGE_BYTES]);

/* Allocates memory of the device, counted in *total. */
template <class T>
static device_status runtime_allocate(T **p, size_t count, uint64_t *total,
                                      char message[DEVICE_MESSAGE_BYTES]) {
    const size_t bytes = count * sizeof(T);
    const cudaError_t error = cudaMalloc(p, bytes);
    if (error == cudaSuccess) {
        *total += bytes;
        return DEVICE_OK;
    }
    *p = NULL;
    cudaGetLastError(); /* or the next launch would report it again */
    if (error == cudaErrorMemoryAllocation) {
        snprintf(message, DEVICE_MESSAGE_BYTES,
                 "the device has no %zu bytes left, besides %llu in use by this model", bytes,
                 (unsigned long long)*total);
        return DEVICE_NO_MEMORY;
    }
    return runtime_check(error, "allocating memory of the device", message);
}

/* Runs a kernel with one argument. The first launch of each lets it use all shared memory that a
 * block may have. */
template <auto KERNEL, class ARGUMENTS>
static void run_kernel(dim3 grid, unsigned threads, size_t shared_bytes, size_t most_shared_bytes,
                       cudaStream_t stream, const ARGUMENTS &arguments) {
    static const cudaError_t prepared = cudaFuncSetAttribute(
        KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most_shared_bytes);
    (void)prepared; /* if it failed, the launch fails, too */
    LAUNCH(KERNEL, grid, dim3(threads), shared_bytes, stream, arguments);
}

/* Runs a kernel with one argument that calls wait_for_kernel (ptx.h) before it reads what others
 * write, with as much shared memory at every launch. If it `overlaps`, which needs compute
 * capability 9.0, it starts while the kernel before ends. */
template <auto KERNEL, class ARGUMENTS>
static void run_dependent_kernel(dim3 grid, unsigned threads, size_t shared_bytes,
                                 cudaStream_t stream, bool overlaps, const ARGUMENTS &arguments) {
    static const cudaError_t prepared = cudaFuncSetAttribute(
        KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    (void)prepared; /* if it failed, the launch fails, too */
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = overlaps;
    cudaLaunchKernelEx(&config, KERNEL, arguments); /* cudaGetLastError tells of errors */
}

#endif
