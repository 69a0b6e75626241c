/* SPDX-License-Identifier: Apache-2.0
 * The table of functions that libwisp-cuda.so offers to wisp. */
#include <new>

#include "kernels/cuda/decoder.h"
#include "kernels/cuda/encoder.h"

enum { LEAST_CAPABILITY = 8, RESERVED_BYTES = 1024 }; /* of shared memory, for each block */

/* Says what keeps this machine from computing with CUDA. */
static device_status find_devices(int *count, char message[DEVICE_MESSAGE_BYTES]) {
    const cudaError_t error = cudaGetDeviceCount(count);
    if (error == cudaErrorInsufficientDriver)
        return device_fail(DEVICE_ABSENT, message,
                           "this machine has no NVIDIA driver (libcuda.so.1), or one that is too old for this library");
    if (error == cudaErrorNoDevice || (error == cudaSuccess && *count == 0))
        return device_fail(DEVICE_ABSENT, message, "the NVIDIA driver finds no GPU");
    if (error != cudaSuccess) {
        snprintf(message, DEVICE_MESSAGE_BYTES, "the NVIDIA driver does not start: %s", cudaGetErrorString(error));
        return DEVICE_ABSENT;
    }
    return DEVICE_OK;
}

static device_status describe(unsigned index, char name[DEVICE_MESSAGE_BYTES], char message[DEVICE_MESSAGE_BYTES]) {
    int count;
    cudaDeviceProp properties;
    DEVICE_TRY(find_devices(&count, message));
    if (index >= (unsigned)count)
        return device_fail(DEVICE_ABSENT, message, "there are no more GPUs");
    DEVICE_TRY(runtime_check(cudaGetDeviceProperties(&properties, (int)index), "asking for a GPU's properties", message));
    snprintf(name, DEVICE_MESSAGE_BYTES, "%.200s, compute capability %d.%d", properties.name, properties.major,
             properties.minor);
    return DEVICE_OK;
}

static void close_encoder(device_encoder *e) {
    if (!e)
        return;
    for (device_lane &lane : e->lanes) {
        lane_release(&lane);
        if (lane.stream) /* or the error would be that of the next launch */
            cudaStreamDestroy(lane.stream);
    }
    encoder_release(e);
    delete e;
}

device_status runtime_find(cudaDeviceProp *properties, char message[DEVICE_MESSAGE_BYTES]) {
    int count;
    DEVICE_TRY(find_devices(&count, message));
    DEVICE_TRY(runtime_check(cudaSetDevice(0), "choosing the device", message));
    DEVICE_TRY(runtime_check(cudaGetDeviceProperties(properties, 0), "asking for the GPU's properties", message));
    if (properties->major >= LEAST_CAPABILITY)
        return DEVICE_OK;
    snprintf(message, DEVICE_MESSAGE_BYTES, "%.100s has compute capability %d.%d, and the kernels need 8.0 or later",
             properties->name, properties->major, properties->minor);
    return DEVICE_UNSUPPORTED;
}

static device_status open_encoder(const device_shape *shape, device_encoder **encoder, char message[DEVICE_MESSAGE_BYTES]) {
    cudaDeviceProp properties;
    *encoder = NULL;
    DEVICE_TRY(runtime_find(&properties, message));
    device_encoder *e = new (std::nothrow) device_encoder();
    if (!e)
        return device_fail(DEVICE_NO_MEMORY, message, "the host has no memory for an encoder");
    e->shape = *shape;
    e->most_shared_bytes = properties.sharedMemPerBlockOptin;
    e->warpgroups = properties.major == 9;
    e->multiprocessors = (unsigned)properties.multiProcessorCount;
    e->tile_blocks = e->multiprocessors *
                     (properties.sharedMemPerMultiprocessor >= 2 * (TILE_SHARED_BYTES + RESERVED_BYTES) ? 2 : 1);
    device_status status = encoder_plan(e, message);
    for (device_lane &lane : e->lanes)
        if (status == DEVICE_OK)
            status = runtime_check(cudaStreamCreate(&lane.stream), "making a stream", message);
    if (status == DEVICE_OK)
        status = encoder_allocate(e, message);
    if (status == DEVICE_OK)
        *encoder = e;
    else
        close_encoder(e);
    return status;
}

static uint64_t encoder_bytes(const device_encoder *e) {
    uint64_t bytes = e->weight_bytes;
    for (const device_lane &lane : e->lanes)
        bytes += lane.bytes;
    return bytes;
}

extern "C" __attribute__((visibility("default"))) const device_library *wisp_device_library(void) {
    static const device_library library = {
        DEVICE_VERSION, "cuda",        describe,      open_encoder,
        encoder_put,    encoder_embed, encoder_bytes, close_encoder,
        {decoder_open, decoder_put, decoder_bytes, decoder_close, context_open, context_bytes, context_close, sequence_open,
         sequence_reserve, sequence_copy, sequence_close, context_step}};
    return &library;
}
