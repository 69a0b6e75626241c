/* SPDX-License-Identifier: Apache-2.0
 * Products of decoders: a few rows of activations [rows, k] with weights [columns, k] as files
 * store them, in blocks of 32 values. Two kernels:
 *
 * multiply_few serves steps of up to 8 rows in bytes. Reading the weights is what takes time: a
 * warp has a column, and lane i its blocks i, i + 32 and so on.
 *
 * decoder_product serves others, with tensor cores. A block of threads has few columns, and its 8
 * warps share out k: warp w has the blocks of lanes w, w + 16, w + 8 and w + 24 of multiply_few.
 *
 * Both sum in the same order, and so a row has the same bits in any batch. */
#ifndef WISP_KERNELS_CUDA_DECODER_PRODUCT_H
#define WISP_KERNELS_CUDA_DECODER_PRODUCT_H

#include "kernels/cuda/decoder_layout.h"

enum { PRODUCT_WARPS = 8, MOST_FEW_ROWS = 8, MOST_PARTS = 3, MMA_ROWS = 16, MMA_COLUMNS = 8 };

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

/* Adds one block of k to the sums. */
template <int FORMAT, int ROW_TILES, int COLUMN_TILES>
static __device__ __forceinline__ void
multiply_tile(float sums[ROW_TILES][COLUMN_TILES][4], const decoder_product_arguments &p,
              const product_part &part, int row, int column, int block, int lane) {
    const int blocks = p.k / VALUES, g = lane >> 2, t = lane & 3;
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

/* Adds blocks first, first + 32 and so on to sums[0], and those DISTANCE behind each to the next,
 * so that the loads of all are under way at once. */
template <int FORMAT, int ROW_TILES, int COLUMN_TILES, int CLASSES, int DISTANCE>
static __device__ __forceinline__ void
multiply_classes(float sums[CLASSES][ROW_TILES][COLUMN_TILES][4],
                 const decoder_product_arguments &p, const product_part &part, int row, int column,
                 int first, int lane) {
    const int blocks = p.k / VALUES;
    for (int base = first; base < blocks; base += WARP)
#pragma unroll
        for (int i = 0; i < CLASSES; i++)
            if (base + DISTANCE * i < blocks)
                multiply_tile<FORMAT, ROW_TILES, COLUMN_TILES>(sums[i], p, part, row, column,
                                                               base + DISTANCE * i, lane);
}

/* Where a warp keeps its sums. */
template <int ROW_TILES, int COLUMN_TILES> struct warp_share {
    float sum[ROW_TILES * MMA_ROWS][COLUMN_TILES * MMA_COLUMNS];
    /* Writes the lane's sums, or adds them to those that it wrote. */
    __device__ __forceinline__ void put(const float x[ROW_TILES][COLUMN_TILES][4], bool add,
                                        int lane) {
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++)
#pragma unroll
            for (int j = 0; j < COLUMN_TILES; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float &own = sum[MMA_ROWS * i + (lane >> 2) + 8 * (e >> 1)]
                                    [MMA_COLUMNS * j + 2 * (lane & 3) + (e & 1)];
                    own = add ? own + x[i][j][e] : x[i][j][e];
                }
    }
};

/* x += y. */
template <int ROW_TILES, int COLUMN_TILES>
static __device__ __forceinline__ void add_sums(float x[ROW_TILES][COLUMN_TILES][4],
                                                const float y[ROW_TILES][COLUMN_TILES][4]) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++)
#pragma unroll
        for (int j = 0; j < COLUMN_TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[i][j][e] += y[i][j][e];
}

/* Computes the sums of a warp's share of k: (x[w] + x[w + 16]) + (x[w + 8] + x[w + 24]), as lanes
 * add theirs. */
template <int FORMAT, int ROW_TILES, int COLUMN_TILES>
static __device__ __forceinline__ void
multiply_share(warp_share<ROW_TILES, COLUMN_TILES> *share, const decoder_product_arguments &p,
               const product_part &part, int row, int column, int warp, int lane) {
    enum { EIGHTH = WARP / 4, HALF = WARP / 2 };
    if constexpr (ROW_TILES == 1) {
        float x[4][ROW_TILES][COLUMN_TILES][4] = {};
        multiply_classes<FORMAT, ROW_TILES, COLUMN_TILES, 4, EIGHTH>(x, p, part, row, column, warp,
                                                                     lane);
        add_sums<ROW_TILES, COLUMN_TILES>(x[0], x[2]);
        add_sums<ROW_TILES, COLUMN_TILES>(x[1], x[3]);
        add_sums<ROW_TILES, COLUMN_TILES>(x[0], x[1]);
        share->put(x[0], false, lane);
    } else { /* fewer sums at a time, because they are many */
#pragma unroll
        for (int side = 0; side < 2; side++) {
            float x[2][ROW_TILES][COLUMN_TILES][4] = {};
            multiply_classes<FORMAT, ROW_TILES, COLUMN_TILES, 2, HALF>(x, p, part, row, column,
                                                                       warp + EIGHTH * side, lane);
            add_sums<ROW_TILES, COLUMN_TILES>(x[0], x[1]);
            share->put(x[0], side > 0, lane);
        }
    }
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

template <int FORMAT, int ROW_TILES, int COLUMN_TILES>
__global__ void __launch_bounds__(PRODUCT_WARPS *WARP, 2)
    decoder_product(const decoder_product_arguments p) {
    enum { ROWS = ROW_TILES * MMA_ROWS, COLUMNS = COLUMN_TILES * MMA_COLUMNS };
    __shared__ warp_share<ROW_TILES, COLUMN_TILES> share[PRODUCT_WARPS];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = blockIdx.y * ROWS;
    int n = 0, block = blockIdx.x;
    while (block >= part_blocks(p.part[n], COLUMN_TILES))
        block -= part_blocks(p.part[n++], COLUMN_TILES);
    const product_part part = p.part[n];
    const int column = block * COLUMNS;
    start_next_kernel();
    wait_for_kernel();
    multiply_share<FORMAT, ROW_TILES, COLUMN_TILES>(&share[warp], p, part, row, column, warp, lane);
    __syncthreads();
    for (int at = threadIdx.x; at < ROWS * COLUMNS; at += PRODUCT_WARPS * WARP) {
        const int r = at / COLUMNS, c = at % COLUMNS;
        if (row + r >= p.rows || column + c >= part.columns)
            continue;
        const auto of = [&](int w) { return share[w].sum[r][c] + share[w + 4].sum[r][c]; };
        finish_sum(p, part, row + r, column + c, (of(0) + of(2)) + (of(1) + of(3)));
    }
}

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

/* Multiplies up to ROWS rows, whose numbers are bytes. */
template <int FORMAT, int ROWS>
__global__ void __launch_bounds__(PRODUCT_WARPS *WARP)
    multiply_few(const decoder_product_arguments p) {
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, blocks = p.k / VALUES;
    int n = 0, block_of_part = blockIdx.x;
    while (block_of_part >= part_blocks(p.part[n], 1))
        block_of_part -= part_blocks(p.part[n++], 1);
    const product_part part = p.part[n];
    const int column = block_of_part * PRODUCT_WARPS + warp;
    const size_t first = (size_t)min(column, part.columns - 1) * blocks;
    weight_block<FORMAT> next;
    start_next_kernel();
    if (lane < blocks) /* weights do not wait */
        next.load(part.values, part.scale, first + lane);
    wait_for_kernel();
    float sums[ROWS] = {};
    for (int block = lane; block < blocks; block += WARP) {
        const weight_block<FORMAT> own = next;
        if (block + WARP < blocks)
            next.load(part.values, part.scale, first + block + WARP);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            if (row >= p.rows)
                break;
            const size_t at = (size_t)row * blocks + block;
            const uint4 *from = (const uint4 *)(p.a.q + at * VALUES);
            const uint4 x[2] = {from[0], from[1]};
            sums[row] = fmaf((float)own.dot(x), p.a.scale[at] * own.scale, sums[row]);
        }
    }
    lanes_sums<ROWS>(sums);
#pragma unroll
    for (int row = 0; row < ROWS; row++)
        if (lane == row && row < p.rows && column < part.columns)
            finish_sum(p, part, row, column, sums[row]);
}

#endif
