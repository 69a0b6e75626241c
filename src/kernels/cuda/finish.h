/* SPDX-License-Identifier: Apache-2.0
 * What products are, and what follows their sums while these are in registers: scale and bias, an
 * activation function, and writing as halves or bytes. A warp finishes rows of 128 columns. */
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

/* What product_tiles does with its sums. */
enum tile_result { RESULT_HALVES, RESULT_ACTIVATED, RESULT_QUANTISED };

enum { TILE_COLUMNS = 128, COLUMN_TILES = TILE_COLUMNS / 8 };

/* What a block of product_tiles knows of its columns, in shared memory: rows of 128 floats. */
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

/* Adds a group of hidden states: its sum with the scale of the row and the sum of its weights. */
static __device__ __forceinline__ float add_group(float sum, int32_t bits, float2 scale,
                                                  float b_sum) {
    return fmaf(sum_of_group(bits), scale.x, fmaf(scale.y, b_sum, sum));
}

/* What a product of whole rows does to the sums of two columns: adds `add` after `scale`. */
template <class OPERAND>
static __device__ __forceinline__ void column_terms(float2 &add, float2 &scale,
                                                    const product_arguments &p, int column) {
    add = *(const float2 *)(p.bias + column);
    scale.x = scale.y = 1;
    if (OPERAND::BYTES == 2)
        return;
    scale = *(const float2 *)(p.b_scale + column);
    const float2 total = *(const float2 *)(p.b_total + column);
    add.x = fmaf(-p.a_shift * scale.x, total.x, add.x);
    add.y = fmaf(-p.a_shift * scale.y, total.y, add.y);
}

/* Writes a row of 128 values as halves. Of tile j, this lane has v[j], and its neighbours the rest;
 * they exchange them so that each writes 16 bytes. */
static __device__ __forceinline__ void tile_write_halves(const uint32_t v[COLUMN_TILES],
                                                         uint16_t *row, bool valid, int lane) {
#pragma unroll
    for (int j = 0; j < COLUMN_TILES; j += 4) {
        uint32_t w[4] = {v[j], v[j + 1], v[j + 2], v[j + 3]};
        lanes_transpose(w, lane);
        const uint4 chunk = {w[0], w[1], w[2], w[3]};
        if (valid)
            *(uint4 *)(row + 8 * (j + (lane & 3))) = chunk;
    }
}

/* Writes a row of 128 bytes. w[i] has this lane's two columns of tile 2 i and of the next. */
static __device__ __forceinline__ void tile_write_bytes(const uint32_t words[COLUMN_TILES / 2],
                                                        uint8_t *row, bool valid, int lane) {
#pragma unroll
    for (int j = 0; j < COLUMN_TILES / 2; j += 4) {
        uint32_t w[4] = {words[j], words[j + 1], words[j + 2], words[j + 3]};
        lanes_transpose(w, lane); /* word k is lane k's part of tiles 2 (j + t) and the next, if t
                                     is this lane */
        const uint4 chunk = {__byte_perm(w[0], w[1], 0x5410), __byte_perm(w[2], w[3], 0x5410),
                             __byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x7632)};
        if (valid)
            *(uint4 *)(row + 16 * j + 16 * (lane & 3)) = chunk;
    }
}

/* Writes a row of 128 halves, none of which is negative, as bytes with one scale. */
static __device__ __forceinline__ void tile_write_quantised(uint32_t v[COLUMN_TILES], uint8_t *row,
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
    if (valid && (lane & 3) == 0)
        *step = reciprocal_near(low_half(inverse));
    const uint32_t integers = 0x64006400; /* 1024: a half has no fraction from there on */
    uint32_t w[COLUMN_TILES / 2];
#pragma unroll
    for (int j = 0; j < COLUMN_TILES; j += 2)
        w[j / 2] = __byte_perm(halves_fma(v[j], inverse, integers),
                               halves_fma(v[j + 1], inverse, integers), 0x6420);
    tile_write_bytes(w, row, valid, lane);
}

/* Finishes ROW_TILES times 16 rows of the warp: `row` and `column` are its first. */
template <class OPERAND, int RESULT, int ACTIVATION, int ROW_TILES>
static __device__ __forceinline__ void tile_finish(const float sums[ROW_TILES][COLUMN_TILES][4],
                                                   const float *set, const product_arguments &p,
                                                   int row, int column, int lane) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const size_t r = row + 16 * i + 8 * half + lane / 4;
            const bool valid = r < (size_t)p.rows;
            uint32_t v[COLUMN_TILES];
#pragma unroll
            for (int j = 0; j < COLUMN_TILES; j++) {
                const int c = 8 * j + 2 * (lane & 3);
                const float2 add = *(const float2 *)(set + SET_BIAS * TILE_COLUMNS + c);
                float2 scale = {1, 1};
                if (OPERAND::BYTES == 1)
                    scale = *(const float2 *)(set + SET_SCALE * TILE_COLUMNS + c);
                float x = fmaf(sums[i][j][2 * half], scale.x, add.x),
                      y = fmaf(sums[i][j][2 * half + 1], scale.y, add.y);
                if (RESULT == RESULT_ACTIVATED) {
                    x = activate<ACTIVATION>(x);
                    y = activate<ACTIVATION>(y);
                }
                v[j] = halves_of(x, y);
                if (RESULT == RESULT_QUANTISED)
                    v[j] = activate_halves<ACTIVATION>(v[j]);
            }
            if (RESULT == RESULT_QUANTISED)
                tile_write_quantised(v, p.q + r * p.columns + column,
                                     p.q_step + r * (p.columns / GROUP) + column / GROUP, valid,
                                     lane);
            else
                tile_write_halves(v, p.halves + r * p.columns + column, valid, lane);
        }
}

#endif
