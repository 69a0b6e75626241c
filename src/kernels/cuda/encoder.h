/* SPDX-License-Identifier: Apache-2.0
 * An encoder on the device: its weights, and the lanes on which passes run. */
#ifndef WISP_KERNELS_CUDA_ENCODER_H
#define WISP_KERNELS_CUDA_ENCODER_H

#include <condition_variable>
#include <mutex>

#include "kernels/cuda/products.h"
#include "kernels/cuda/runtime.h"

/* A matrix as its products read it: bytes with a scale for each output, or halves. */
struct device_matrix {
    unsigned char *weights;
    float *scale; /* NULL for halves */
    float *sums;  /* [groups, outputs]: of the bytes of each group of inputs */
    float *bias;
    size_t groups;
};

struct device_norm {
    float *weight, *bias;
};

struct device_layer {
    device_matrix qkv, output, up, down;
    device_norm attention_norm, output_norm;
};

/* The working memory of one pass, for so many tokens and texts, and its stream. */
struct device_lane {
    cudaStream_t stream;
    bool busy;
    size_t tokens, texts, dimensions; /* there is room for */
    uint64_t bytes;
    int32_t *index; /* what `staged` holds, on the device */
    int32_t
        *staged; /* ids, positions, starts, skipped and tiles, in memory that the device reads */
    float *staged_rows; /* [texts, dimensions] */
    uint16_t *x, *qkv, *context, *y;
    uint8_t *q;
    float2 *q_scale;
    unsigned char *inner; /* [tokens, intermediate_size] in bytes or halves */
    float *inner_step;
    float *rows;
};

enum { LANES = 2 };

struct device_encoder {
    device_shape shape;
    size_t most_shared_bytes; /* of a block */
    unsigned multiprocessors;
    unsigned tile_blocks;   /* of product_tiles that run at the same time */
    bool warpgroups;        /* multiply by wgmma */
    int pipeline_stages;    /* of product_rows */
    unsigned strip_columns; /* of product_rows */
    bool fused_norm;        /* a strip has all columns */
    uint64_t weight_bytes;
    uint16_t *tokens, *positions;
    device_norm embedding_norm;
    device_layer *layers;
    size_t pass_tokens;
    std::mutex mutex;
    std::condition_variable freed;
    device_lane lanes[LANES];
};

/* One pass, on the device. */
struct device_pass {
    size_t tokens, texts, tiles, dimensions, normalize;
    const int32_t *ids, *position, *starts, *skipped;
    const int2 *tile;
};

/* Begins all kernels of a pass on the lane's stream. (pass.cu) */
device_status encoder_run(const device_encoder *e, const device_lane *lane, const device_pass *pass,
                          char message[DEVICE_MESSAGE_BYTES]);

/* Chooses kernels for the shape, or says why there are none. (pass.cu) */
device_status encoder_plan(device_encoder *e, char message[DEVICE_MESSAGE_BYTES]);

/* Allocates all weights; sets rows of one. (weights.cu) */
device_status encoder_allocate(device_encoder *e, char message[DEVICE_MESSAGE_BYTES]);
device_status encoder_put(device_encoder *e, enum device_tensor tensor, uint32_t layer,
                          size_t first, size_t rows, const float *values,
                          char message[DEVICE_MESSAGE_BYTES]);
void encoder_release(device_encoder *e);

/* Embeds a batch in passes, on a free lane. (batch.cu) */
device_status encoder_embed(device_encoder *e, const device_batch *batch,
                            char message[DEVICE_MESSAGE_BYTES]);
void lane_release(device_lane *lane);

#endif
