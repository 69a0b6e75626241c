/* SPDX-License-Identifier: Apache-2.0
 * The arguments of products, and the work on their sums while these are in registers: scale and
 * bias, an activation function, and writing as halves or bytes. A warp finishes rows of 128
 * columns.
 */
#ifndef WISP_KERNELS_CUDA_FINISH_H
#define WISP_KERNELS_CUDA_FINISH_H

#include "kernels/cuda/activation.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/tile.h"

/* Activations [rows, k] times weights [columns, k]: both halves, or unsigned and signed bytes. A
 * weight is its byte times the scale of its column. */
struct product_arguments {
    const unsigned char *a, *b; /* [rows, k_bytes], [columns, k_bytes] */
    const float *b_scale;       /* bytes: [columns] */
    const float *bias;          /* [columns] */
    int rows, columns, k_bytes;
    /* Products of tiles: hidden states as rows.h has them. */
    const float2 *a_scale; /* bytes: [rows, k / 128] */
    const float *b_sums;   /* bytes: [k / 128, columns], of a group's weights */
    uint16_t *halves;      /* [rows, columns]: the result, unless it becomes bytes */
    uint8_t *q;            /* [rows, columns]: the result as bytes: times q_step, less the shift */
    float *q_step;         /* [rows, columns / 128] */
    /* Products of whole rows, of what products of tiles wrote. */
    const float *a_step; /* bytes: [rows, k / 128] */
    float a_shift;
    const float *b_total;     /* bytes: [columns], of a row's weights */
    const uint16_t *residual; /* [rows, columns]: is added */
    norm_weights norm;        /* then rows are normed with this */
    hidden_rows out;          /* into this; without norm, into out.x */
};

/* How product_tiles writes its sums. */
enum tile_result { RESULT_HALVES, RESULT_ACTIVATED, RESULT_QUANTISED };

/* A lane has EIGHTS times 8 columns side by side of each of its rows (tile_column). */
enum { TILE_COLUMNS = 128, COLUMN_TILES = TILE_COLUMNS / 8, EIGHTS = COLUMN_TILES / 4 };

static __device__ __forceinline__ int first_of_eight(int i, int lane) {
    return 32 * i + 8 * (lane & 3);
}

struct eight_floats {
    float at[8];
};
static __device__ __forceinline__ eight_floats load_eight(const float *from) {
    const float4 low = *(const float4 *)from, high = *(const float4 *)(from + 4);
    const eight_floats all = {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
    return all;
}

/* The data of a block's columns in product_tiles, in shared memory: rows of 128 floats. */
enum { SET_SCALE, SET_BIAS, SET_SUMS, SET_MOST_STAGES = 8, SET_ROW_BYTES = TILE_COLUMNS * 4 };
enum { SET_BYTES = (SET_SUMS + SET_MOST_STAGES) * SET_ROW_BYTES };

/* Begins to copy it, with all THREADS of the block. */
template <class OPERAND, int THREADS>
static __device__ __forceinline__ void begin_set(unsigned char *set, const product_arguments &p,
                                                 int column0, int thread) {
    const int stages = p.k_bytes / TILE_BYTES;
    const int rows = SET_SUMS + (OPERAND::BYTES == 1 ? stages : 0);
    for (int at = thread; at < rows * (SET_ROW_BYTES / CHUNK_BYTES); at += THREADS) {
        const int row = at / (SET_ROW_BYTES / CHUNK_BYTES),
                  column = at % (SET_ROW_BYTES / CHUNK_BYTES) * 4;
        const float *from = row == SET_BIAS    ? p.bias
                            : row == SET_SCALE ? p.b_scale
                                               : p.b_sums + (size_t)(row - SET_SUMS) * p.columns;
        if (OPERAND::BYTES == 1 || row == SET_BIAS)
            copy16_async(set + at * CHUNK_BYTES, from + column0 + column, CHUNK_BYTES);
    }
}

/* Starts a sum of integers so that its bits are those of a float, ROUNDING more than the sum. It
 * may come to 2^22: 128 products of bytes come to 255 * 127 * 128, which is less. */
static __device__ __forceinline__ float sum_of_group(int32_t bits) {
    return __int_as_float(bits) - ROUNDING;
}

/* The bias of a column in a product of whole rows of bytes, with the shift of these bytes: `total`
 * is the sum of the column's weights, in bytes, and `scale` their scale. */
static __device__ __forceinline__ float with_shift(float bias, float scale, float total,
                                                   const product_arguments &p) {
    return fmaf(-p.a_shift * scale, total, bias);
}

/* Writes 8 columns of a row as halves. */
static __device__ __forceinline__ void write_eight_halves(const uint32_t v[4], uint16_t *to) {
    const uint4 chunk = {v[0], v[1], v[2], v[3]};
    *(uint4 *)to = chunk;
}

/* Writes a lane's part of a row of 128 halves, none of which is negative, as bytes with one scale.
 */
static __device__ __forceinline__ void write_quantised(const uint32_t v[COLUMN_TILES], uint8_t *row,
                                                       float *step, bool valid, int lane) {
    uint32_t most = v[0];
#pragma unroll
    for (int j = 1; j < COLUMN_TILES; j++)
        most = halves_max(most, v[j]);
    most = halves_max(most, __shfl_xor_sync(ALL_LANES, most, 1));
    most = halves_max(most, __shfl_xor_sync(ALL_LANES, most, 2));
    most = halves_max(most, most >> 16 | most << 16);
    const float largest = low_half(most);
    /* The least that is told apart; NaN and infinity go on into the step. */
    const float wanted = largest < 0.0039f ? 65280.0f : 255 * reciprocal_near(largest);
    const uint32_t inverse = halves_of(wanted, wanted);
    if (!valid)
        return;
    if ((lane & 3) == 0)
        *step = reciprocal_near(low_half(inverse));
    const uint32_t integers = 0x64006400; /* 1024: a half has no fraction from there on */
#pragma unroll
    for (int i = 0; i < EIGHTS; i++) {
        uint32_t q[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            q[k] = halves_fma(v[4 * i + k], inverse, integers);
        const uint2 chunk = {__byte_perm(q[0], q[1], 0x6420), __byte_perm(q[2], q[3], 0x6420)};
        *(uint2 *)(row + first_of_eight(i, lane)) = chunk;
    }
}

/* Finishes ROW_TILES times 16 rows of the warp: `row` and `column` are its first. */
template <class OPERAND, int RESULT, int ACTIVATION, int ROW_TILES>
static __device__ __forceinline__ void tile_finish(const float sums[ROW_TILES][COLUMN_TILES][4],
                                                   const float *set, const product_arguments &p,
                                                   int row, int column, int lane) {
    uint32_t v[2 * ROW_TILES][COLUMN_TILES];
#pragma unroll
    for (int i = 0; i < EIGHTS; i++) {
        const int first = first_of_eight(i, lane);
        const eight_floats add = load_eight(set + SET_BIAS * TILE_COLUMNS + first);
        eight_floats scale = {{1, 1, 1, 1, 1, 1, 1, 1}};
        if (OPERAND::BYTES == 1)
            scale = load_eight(set + SET_SCALE * TILE_COLUMNS + first);
#pragma unroll
        for (int r = 0; r < 2 * ROW_TILES; r++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const float *sum = &sums[r / 2][4 * i + k][r % 2 * 2];
                float x = fmaf(sum[0], scale.at[2 * k], add.at[2 * k]),
                      y = fmaf(sum[1], scale.at[2 * k + 1], add.at[2 * k + 1]);
                if (RESULT == RESULT_ACTIVATED) {
                    x = activate<ACTIVATION>(x);
                    y = activate<ACTIVATION>(y);
                }
                v[r][4 * i + k] = halves_of(x, y);
                if (RESULT == RESULT_QUANTISED)
                    v[r][4 * i + k] = activate_halves<ACTIVATION>(v[r][4 * i + k]);
            }
    }
#pragma unroll
    for (int r = 0; r < 2 * ROW_TILES; r++) {
        const size_t at = row + 8 * r + lane / 4;
        const bool valid = at < (size_t)p.rows;
        if (RESULT == RESULT_QUANTISED)
            write_quantised(v[r], p.q + at * p.columns + column,
                            p.q_step + at * (p.columns / GROUP) + column / GROUP, valid, lane);
        else if (valid)
#pragma unroll
            for (int i = 0; i < EIGHTS; i++)
                write_eight_halves(&v[r][4 * i],
                                   p.halves + at * p.columns + column + first_of_eight(i, lane));
    }
}

#endif
