/* SPDX-License-Identifier: Apache-2.0
 * Products of decoders: a few rows of activations [rows, k] with weights [columns, k] as files
 * store them, in blocks of 32 values. Reading the weights is what takes time, so a block of threads
 * has few columns and its warps share out k: each reads its part of the weights once, straight into
 * the registers of the tensor cores.
 *
 * The order of sums does not depend on the number of rows, and so a row has the same bits in any
 * batch. */
#ifndef WISP_KERNELS_CUDA_DECODER_PRODUCT_H
#define WISP_KERNELS_CUDA_DECODER_PRODUCT_H

#include "kernels/cuda/decoder_layout.h"

enum { PRODUCT_WARPS = 8, MOST_PARTS = 3, MMA_ROWS = 16, MMA_COLUMNS = 8 };

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
        /* A number of 0 to 15 stands for 8 less. With the highest bit of each byte set no byte
         * borrows. */
        const uint32_t w = *(const uint32_t *)(block + 4 * t), low = w & 0x0f0f0f0f,
                       high = w >> 4 & 0x0f0f0f0f;
        b[0] = ((low | 0x80808080u) - 0x08080808u) ^ 0x80808080u;
        b[1] = ((high | 0x80808080u) - 0x08080808u) ^ 0x80808080u;
    }
}

template <int FORMAT>
static __device__ __forceinline__ void load_row(uint32_t a[4], float *scale,
                                                const decoder_rows &rows, size_t row, int k,
                                                int block, bool valid, int lane) {
    const size_t at = row * k + block * VALUES;
    const int t = lane & 3;
    a[0] = a[1] = a[2] = a[3] = 0;
    *scale = 0;
    if (!valid)
        return;
    if (FORMAT == DEVICE_F16) {
        const uint4 v = *(const uint4 *)(rows.halves + at + 8 * t);
        a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
    } else {
        const uint2 v = *(const uint2 *)(rows.q + at + 8 * t);
        a[0] = v.x, a[1] = v.y;
        *scale = rows.scale[at / VALUES];
    }
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
    int32_t d[4] = {0, 0, 0, 0};
    mma_s8(d, a, b[0], b[1]);
#pragma unroll
    for (int e = 0; e < 4; e++)
        sum[e] = fmaf((float)d[e], a_scale[e >> 1] * b_scale[e & 1], sum[e]);
}

/* The sums of a warp's share of k. */
template <int FORMAT, int ROW_TILES, int COLUMN_TILES>
static __device__ __forceinline__ void
multiply_share(float sums[ROW_TILES][COLUMN_TILES][4], const decoder_product_arguments &p,
               const product_part &part, int row, int column, int warp, int lane) {
    const int blocks = p.k / VALUES, each = (blocks + PRODUCT_WARPS - 1) / PRODUCT_WARPS;
    const int end = min((warp + 1) * each, blocks), g = lane >> 2, t = lane & 3;
#pragma unroll(ROW_TILES == 1 ? 4 : 1)
    for (int block = warp * each; block < end; block++) {
        uint32_t b[COLUMN_TILES][4];
        float b_scale[COLUMN_TILES][2] = {};
#pragma unroll
        for (int j = 0; j < COLUMN_TILES; j++) {
            /* Columns past the last are the last one, and are not written. */
            const int own = min(column + MMA_COLUMNS * j + g, part.columns - 1);
            load_weights<FORMAT>(
                b[j], part.values + ((size_t)own * blocks + block) * format_bytes(FORMAT), lane);
#pragma unroll
            for (int e = 0; e < 2 && FORMAT != DEVICE_F16; e++) {
                const int scaled = min(column + MMA_COLUMNS * j + 2 * t + e, part.columns - 1);
                b_scale[j][e] = low_half(part.scale[(size_t)scaled * blocks + block]);
            }
        }
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++) {
            const int low_row = row + MMA_ROWS * i + g, high_row = low_row + MMA_ROWS / 2;
            uint32_t low[4], high[4];
            float a_scale[2];
            load_row<FORMAT>(low, &a_scale[0], p.a, low_row, p.k, block, low_row < p.rows, lane);
            load_row<FORMAT>(high, &a_scale[1], p.a, high_row, p.k, block, high_row < p.rows, lane);
#pragma unroll
            for (int j = 0; j < COLUMN_TILES; j++)
                multiply_block<FORMAT>(sums[i][j], low, high, b[j], a_scale, b_scale[j]);
        }
    }
}

/* Returns the blocks of threads that the columns of a part take. */
static __host__ __device__ inline int part_blocks(const product_part &part, int column_tiles) {
    return (part.columns + MMA_COLUMNS * column_tiles - 1) / (MMA_COLUMNS * column_tiles);
}

template <int FORMAT, int ROW_TILES, int COLUMN_TILES>
__global__ void __launch_bounds__(PRODUCT_WARPS *WARP)
    decoder_product(const decoder_product_arguments p) {
    enum { ROWS = ROW_TILES * MMA_ROWS, COLUMNS = COLUMN_TILES * MMA_COLUMNS };
    __shared__ float share[PRODUCT_WARPS][ROWS][COLUMNS];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = blockIdx.y * ROWS;
    int n = 0, block = blockIdx.x;
    while (block >= part_blocks(p.part[n], COLUMN_TILES))
        block -= part_blocks(p.part[n++], COLUMN_TILES);
    const product_part part = p.part[n];
    const int column = block * COLUMNS;
    float sums[ROW_TILES][COLUMN_TILES][4] = {};
    multiply_share<FORMAT, ROW_TILES, COLUMN_TILES>(sums, p, part, row, column, warp, lane);
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++)
#pragma unroll
        for (int j = 0; j < COLUMN_TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                share[warp][MMA_ROWS * i + (lane >> 2) + 8 * (e >> 1)]
                     [MMA_COLUMNS * j + 2 * (lane & 3) + (e & 1)] = sums[i][j][e];
    __syncthreads();
    for (int at = threadIdx.x; at < ROWS * COLUMNS; at += PRODUCT_WARPS * WARP) {
        const int r = at / COLUMNS, c = at % COLUMNS;
        if (row + r >= p.rows || column + c >= part.columns)
            continue;
        float sum = part.bias ? part.bias[column + c] : 0;
        for (int w = 0; w < PRODUCT_WARPS; w++)
            sum += share[w][r][c];
        float *out = part.out + (size_t)(row + r) * p.stride + column + c;
        *out = p.add ? *out + sum : sum;
    }
}

#endif
