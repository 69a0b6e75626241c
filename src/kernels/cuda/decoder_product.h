/* SPDX-License-Identifier: Apache-2.0
 * Products of decoders: rows of activations [rows, k] with weights [columns, k] as files store
 * them, in blocks of 32 values. Three kernels:
 *
 * multiply_few serves steps of few rows in bytes. Reading the weights is what takes time: a warp
 * has a column, and lane i its blocks i, i + 32 and so on.
 *
 * decoder_product (decoder_tiles.h) serves others, with tensor cores. Of up to 16 rows it sums in
 * the same order, and so a row has the same bits in any such batch.
 *
 * multiply_many (decoder_warpgroups.h) serves more than 16 rows on compute capability 9.0. */
#ifndef WISP_KERNELS_CUDA_DECODER_PRODUCT_H
#define WISP_KERNELS_CUDA_DECODER_PRODUCT_H

#include "kernels/cuda/decoder_layout.h"

enum { PRODUCT_WARPS = 8, MOST_FEW_ROWS = 4, MOST_PARTS = 3, MMA_ROWS = 16, MMA_COLUMNS = 8 };

/* Columns [0, columns) of `out`, whose rows are arguments.stride apart. */
struct product_part {
    const unsigned char *values;
    const uint16_t *scale;
    const float *bias; /* NULL: none */
    float *out;
    int columns;
};

struct decoder_product_arguments {
    decoder_rows a; /* [rows, k] */
    int rows, k, stride, parts;
    bool add; /* to what `out` has */
    product_part part[MOST_PARTS];
};

/* The low halves of bytes, of which 0 to 15 stand for 8 less, as signed bytes. With the highest bit
 * of each set no byte borrows. */
static __device__ __forceinline__ uint32_t signed_nibbles(uint32_t w) {
    return (((w & 0x0f0f0f0fu) | 0x80808080u) - 0x08080808u) ^ 0x80808080u;
}

/* A lane's share of 32 weights, in the order of the mma's k: that of rows is the same. */
template <int FORMAT>
static __device__ __forceinline__ void load_weights(uint32_t b[4], const unsigned char *block,
                                                    int lane) {
    const int t = lane & 3;
    if (FORMAT == DEVICE_F16) {
        const uint4 w = *(const uint4 *)(block + 16 * t);
        b[0] = w.x, b[1] = w.y, b[2] = w.z, b[3] = w.w;
    } else if (FORMAT == DEVICE_Q8_0) {
        const uint2 w = *(const uint2 *)(block + 8 * t);
        b[0] = w.x, b[1] = w.y;
    } else {
        const uint32_t w = *(const uint32_t *)(block + 4 * t);
        b[0] = signed_nibbles(w);
        b[1] = signed_nibbles(w >> 4);
    }
}

/* Likewise of 32 values of a row. */
template <int FORMAT>
static __device__ __forceinline__ void load_row(uint32_t a[4], const unsigned char *block,
                                                int lane) {
    load_weights<FORMAT == DEVICE_F16 ? DEVICE_F16 : DEVICE_Q8_0>(a, block, lane);
}

/* Adds the products of 32 values: of rows g and g + 8 with columns 2 t and 2 t + 1. */
template <int FORMAT>
static __device__ __forceinline__ void
multiply_block(float sum[4], const uint32_t low[4], const uint32_t high[4], const uint32_t b[4],
               const float a_scale[2], const float b_scale[2]) {
    const uint32_t a[4] = {low[0], high[0], low[1], high[1]};
    if (FORMAT == DEVICE_F16) {
        const uint32_t rest[4] = {low[2], high[2], low[3], high[3]};
        mma_f16(sum, a, b[0], b[1]);
        mma_f16(sum, rest, b[2], b[3]);
        return;
    }
    /* The bits of 1.5 * 2^23: sums of up to 2^22 on top of them are those of a float, which is
       faster than converting. */
    enum { BASE = 0x4b400000 };
    int32_t d[4] = {BASE, BASE, BASE, BASE};
    mma_s8(d, a, b[0], b[1]);
#pragma unroll
    for (int e = 0; e < 4; e++)
        sum[e] = fmaf(__int_as_float(d[e]) - 12582912.0f, a_scale[e >> 1] * b_scale[e & 1], sum[e]);
}

/* Writes a sum, with bias. */
static __device__ __forceinline__ void finish_sum(const decoder_product_arguments &p,
                                                  const product_part &part, int row, int column,
                                                  float sum) {
    float *out = part.out + (size_t)row * p.stride + column;
    sum += part.bias ? part.bias[column] : 0;
    *out = p.add ? *out + sum : sum;
}

/* Returns the blocks of threads that the columns of a part take. */
static __host__ __device__ inline int part_blocks(const product_part &part, int column_tiles) {
    return (part.columns + MMA_COLUMNS * column_tiles - 1) / (MMA_COLUMNS * column_tiles);
}

/* The part that a block of threads computes, and its first column there. */
struct product_place {
    product_part part;
    int column;
    __device__ __forceinline__ product_place(const decoder_product_arguments &p, int block,
                                             int column_tiles) {
        int n = 0;
        while (block >= part_blocks(p.part[n], column_tiles))
            block -= part_blocks(p.part[n++], column_tiles);
        part = p.part[n];
        column = block * MMA_COLUMNS * column_tiles;
    }
};

/* ---- few rows ------------------------------------------------------------------------------- */

/* A lane's block of weights, as words of four values in order. */
template <int FORMAT> struct weight_block {
    uint4 words[FORMAT == DEVICE_Q8_0 ? 2 : 1];
    float scale;
    __device__ __forceinline__ void load(const unsigned char *values, const uint16_t *scales,
                                         size_t at) {
        const uint4 *from = (const uint4 *)(values + at * format_bytes(FORMAT));
#pragma unroll
        for (int i = 0; i < (FORMAT == DEVICE_Q8_0 ? 2 : 1); i++)
            words[i] = from[i];
        scale = low_half(scales[at]);
    }
    /* The product with 32 values in bytes. */
    __device__ __forceinline__ int dot(const uint4 x[2]) const {
        const uint32_t v[8] = {x[0].x, x[0].y, x[0].z, x[0].w, x[1].x, x[1].y, x[1].z, x[1].w};
        uint32_t w[8] = {words[0].x, words[0].y, words[0].z, words[0].w};
        if (FORMAT == DEVICE_Q8_0) {
            const uint4 &rest = words[FORMAT == DEVICE_Q8_0];
            w[4] = rest.x, w[5] = rest.y, w[6] = rest.z, w[7] = rest.w;
        } else {
#pragma unroll
            for (int i = 3; i >= 0; i--) {
                w[2 * i + 1] = signed_nibbles(w[i] >> 4);
                w[2 * i] = signed_nibbles(w[i]);
            }
        }
        int sum = 0;
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum = dot_4(w[i], v[i], sum);
        return sum;
    }
};

/* A lane's blocks of a column: `lane`, lane + 32 and so on, of which AHEAD are on their way. */
template <int FORMAT> struct weight_stream {
    enum { AHEAD = 2 };
    weight_block<FORMAT> next[AHEAD];
    const unsigned char *values;
    const uint16_t *scale;
    size_t first;
    int blocks;
    __device__ __forceinline__ void begin(const unsigned char *values_, const uint16_t *scale_,
                                          size_t column, int blocks_, int lane) {
        values = values_, scale = scale_, first = column * blocks_, blocks = blocks_;
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (lane + WARP * i < blocks)
                next[i].load(values, scale, first + lane + WARP * i);
    }
    /* Calls use(weights, block) for each. */
    template <class USE> __device__ __forceinline__ void each(int lane, USE use) {
        for (int base = lane; base < blocks; base += AHEAD * WARP)
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                const int block = base + WARP * i;
                if (block >= blocks)
                    break;
                const weight_block<FORMAT> own = next[i];
                if (block + AHEAD * WARP < blocks)
                    next[i].load(values, scale, first + block + AHEAD * WARP);
                use(own, block);
            }
    }
};

/* Adds the product of a block of weights with that of a row, whose numbers are bytes. */
template <int FORMAT>
static __device__ __forceinline__ float
multiply_bytes(const weight_block<FORMAT> &w, const decoder_rows &rows, size_t block, float sum) {
    const uint4 *from = (const uint4 *)(rows.q + block * VALUES);
    const uint4 x[2] = {from[0], from[1]};
    return fmaf((float)w.dot(x), rows.scale[block] * w.scale, sum);
}

/* Multiplies up to ROWS rows, whose numbers are bytes. */
template <int FORMAT, int ROWS>
__global__ void __launch_bounds__(PRODUCT_WARPS *WARP)
    multiply_few(const decoder_product_arguments p) {
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, blocks = p.k / VALUES;
    const product_place place(p, blockIdx.x, 1);
    const product_part &part = place.part;
    const int column = place.column + warp;
    weight_stream<FORMAT> weights;
    start_next_kernel();
    /* Weights do not wait. */
    weights.begin(part.values, part.scale, min(column, part.columns - 1), blocks, lane);
    wait_for_kernel();
    float sums[ROWS] = {};
    weights.each(lane, [&](const weight_block<FORMAT> &own, int block) {
#pragma unroll
        for (int row = 0; row < ROWS; row++)
            if (row < p.rows)
                sums[row] = multiply_bytes(own, p.a, (size_t)row * blocks + block, sums[row]);
    });
    lanes_sums<ROWS>(sums);
#pragma unroll
    for (int row = 0; row < ROWS; row++)
        if (lane == row && row < p.rows && column < part.columns)
            finish_sum(p, part, row, column, sums[row]);
}

#endif
