/* SPDX-License-Identifier: Apache-2.0
 * Products of decoders by tensor cores. A block of threads has tiles of rows and of columns. Stages
 * of k come through shared memory, one on its way while another is multiplied, and the 8 warps
 * share out a stage's blocks of 32 values: warp w has w, w + 8 and so on.
 *
 * A warp keeps CLASSES sums of each output apart. With 4, for stages of 32 blocks, these are the
 * sums of the lanes of multiply_few, which are then added as there; that takes too many registers
 * for more than one tile of rows. */
#ifndef WISP_KERNELS_CUDA_DECODER_TILES_H
#define WISP_KERNELS_CUDA_DECODER_TILES_H

#include "kernels/cuda/decoder_product.h"

template <int FORMAT, int ROW_TILES_, int COLUMN_TILES_> struct product_layout {
    enum {
        ROW_TILES = ROW_TILES_,
        COLUMN_TILES = COLUMN_TILES_,
        IN_BYTES = FORMAT != DEVICE_F16,
        ROWS = MMA_ROWS * ROW_TILES,
        COLUMNS = MMA_COLUMNS * COLUMN_TILES,
        CLASSES = IN_BYTES && ROW_TILES == 1 ? 4 : 1,
        BLOCKS = ROW_TILES > 1 ? 8
                 : IN_BYTES    ? 32
                               : 16,            /* of a stage */
        WEIGHT_BYTES = format_bytes(FORMAT), /* of a block */
        ROW_BYTES = IN_BYTES ? VALUES : 2 * VALUES,
        SCALE_WORDS = BLOCKS / 2 + 1 /* pairs of scales: the first may be the second of a pair */
    };
    /* Padding after rows and columns puts neighbours in different banks. */
    struct stage {
        alignas(16) unsigned char weights[COLUMNS][(BLOCKS + 1) * WEIGHT_BYTES];
        alignas(16) unsigned char rows[ROWS][(BLOCKS + 1) * ROW_BYTES];
        alignas(16) uint16_t weight_scale[IN_BYTES ? COLUMNS : 1][BLOCKS + 6];
        alignas(16) float row_scale[IN_BYTES ? ROWS : 1][BLOCKS + 4];
    };
    union memory {
        stage stages[2];
        float share[PRODUCT_WARPS][ROWS][COLUMNS];
    };
};

/* Begins to copy the weights of blocks [first, first + BLOCKS) of a tile's columns. Columns past
 * the last are the last one, and are not written. */
template <class LAYOUT>
static __device__ __forceinline__ void copy_weights(typename LAYOUT::stage *to,
                                                    const product_part &part, int column, int first,
                                                    int blocks) {
    enum { CHUNKS = LAYOUT::BLOCKS * LAYOUT::WEIGHT_BYTES / 16 };
    const int left = (blocks - first) * LAYOUT::WEIGHT_BYTES;
#pragma unroll 2
    for (int i = threadIdx.x; i < LAYOUT::COLUMNS * CHUNKS; i += PRODUCT_WARPS * WARP) {
        const int c = i / CHUNKS, at = i % CHUNKS * 16;
        const size_t own = (size_t)min(column + c, part.columns - 1) * blocks + first;
        const bool valid = at < left;
        copy16_async(&to->weights[c][at],
                     part.values + own * LAYOUT::WEIGHT_BYTES + (valid ? at : 0), valid ? 16 : 0);
    }
    for (int i = threadIdx.x; LAYOUT::IN_BYTES && i < LAYOUT::COLUMNS * LAYOUT::SCALE_WORDS;
         i += PRODUCT_WARPS * WARP) {
        const int c = i / LAYOUT::SCALE_WORDS, word = i % LAYOUT::SCALE_WORDS;
        const size_t row = (size_t)min(column + c, part.columns - 1) * blocks;
        const size_t pair = (row + first) / 2 + word;
        const bool valid = 2 * pair < row + blocks;
        copy4_async(&to->weight_scale[c][2 * word], part.scale + 2 * (valid ? pair : 0), valid);
    }
}

/* Begins to copy the same blocks of a tile's rows. */
template <class LAYOUT>
static __device__ __forceinline__ void copy_rows(typename LAYOUT::stage *to,
                                                 const decoder_product_arguments &p, int row,
                                                 int first, int blocks) {
    enum { CHUNKS = LAYOUT::BLOCKS * LAYOUT::ROW_BYTES / 16 };
    const unsigned char *from = (const unsigned char *)p.a.halves;
    if (LAYOUT::IN_BYTES)
        from = (const unsigned char *)p.a.q;
    const int left = (blocks - first) * LAYOUT::ROW_BYTES;
#pragma unroll 2
    for (int i = threadIdx.x; i < LAYOUT::ROWS * CHUNKS; i += PRODUCT_WARPS * WARP) {
        const int r = i / CHUNKS, at = i % CHUNKS * 16;
        const bool valid = row + r < p.rows && at < left;
        const size_t own = valid ? (size_t)(row + r) * blocks + first : 0;
        copy16_async(&to->rows[r][at], from + own * LAYOUT::ROW_BYTES + (valid ? at : 0),
                     valid ? 16 : 0);
    }
    for (int i = threadIdx.x; LAYOUT::IN_BYTES && i < LAYOUT::ROWS * LAYOUT::BLOCKS;
         i += PRODUCT_WARPS * WARP) {
        const int r = i / LAYOUT::BLOCKS, block = i % LAYOUT::BLOCKS;
        const bool valid = row + r < p.rows && first + block < blocks;
        copy4_async(&to->row_scale[r][block],
                    p.a.scale + (valid ? (size_t)(row + r) * blocks + first + block : 0), valid);
    }
}

/* Adds a block of a stage to the sums. */
template <int FORMAT, class LAYOUT>
static __device__ __forceinline__ void
multiply_tiles(float sums[LAYOUT::ROW_TILES][LAYOUT::COLUMN_TILES][4],
               const typename LAYOUT::stage &from, int block, int row_tiles, int odd_columns,
               int lane) {
    const int g = lane >> 2, t = lane & 3;
    uint32_t b[LAYOUT::COLUMN_TILES][4];
    float b_scale[LAYOUT::COLUMN_TILES][2] = {};
#pragma unroll
    for (int j = 0; j < LAYOUT::COLUMN_TILES; j++) {
        load_weights<FORMAT>(b[j], &from.weights[MMA_COLUMNS * j + g][block * LAYOUT::WEIGHT_BYTES],
                             lane);
#pragma unroll
        for (int e = 0; e < 2 && LAYOUT::IN_BYTES; e++)
            b_scale[j][e] = low_half(from.weight_scale[MMA_COLUMNS * j + 2 * t + e]
                                                      [block + (odd_columns >> (2 * j + e) & 1)]);
    }
#pragma unroll
    for (int i = 0; i < LAYOUT::ROW_TILES; i++) {
        if (i >= row_tiles)
            break;
        const int row = MMA_ROWS * i + g;
        uint32_t low[4], high[4];
        float a_scale[2] = {};
        load_row<FORMAT>(low, &from.rows[row][block * LAYOUT::ROW_BYTES], lane);
        load_row<FORMAT>(high, &from.rows[row + MMA_ROWS / 2][block * LAYOUT::ROW_BYTES], lane);
        if (LAYOUT::IN_BYTES) {
            a_scale[0] = from.row_scale[row][block];
            a_scale[1] = from.row_scale[row + MMA_ROWS / 2][block];
        }
#pragma unroll
        for (int j = 0; j < LAYOUT::COLUMN_TILES; j++)
            multiply_block<FORMAT>(sums[i][j], low, high, b[j], a_scale, b_scale[j]);
    }
}

/* Returns a bit for each column whose scales a lane reads: 1 if they begin at the second of a pair.
 */
template <class LAYOUT>
static __device__ __forceinline__ int find_odd(const product_part &part, int column, int first,
                                               int blocks, int lane) {
    int odd = 0;
#pragma unroll
    for (int i = 0; i < 2 * LAYOUT::COLUMN_TILES; i++) {
        const int own = column + MMA_COLUMNS * (i / 2) + 2 * (lane & 3) + i % 2;
        odd |= ((min(own, part.columns - 1) * blocks + first) & 1) << i;
    }
    return odd;
}

/* Adds the sums of classes as lanes add theirs: (x[0] + x[2]) + (x[1] + x[3]). */
static __device__ __forceinline__ float join_classes(const float (&x)[4]) {
    return (x[0] + x[2]) + (x[1] + x[3]);
}
static __device__ __forceinline__ float join_classes(const float (&x)[1]) {
    return x[0];
}

/* Blocks of threads that have the same weights are neighbours. */
template <int FORMAT, int ROW_TILES, int COLUMN_TILES>
__global__ void __launch_bounds__(PRODUCT_WARPS *WARP, 2)
    decoder_product(const decoder_product_arguments p) {
    typedef product_layout<FORMAT, ROW_TILES, COLUMN_TILES> layout;
    DYNAMIC_SHARED(shared);
    typename layout::memory &memory = *(typename layout::memory *)shared;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = blockIdx.x * layout::ROWS;
    const int blocks = p.k / VALUES, row_tiles = (p.rows - row + MMA_ROWS - 1) / MMA_ROWS;
    const product_place place(p, blockIdx.y, COLUMN_TILES);
    const product_part &part = place.part;
    const int odd = find_odd<layout>(part, place.column, 0, blocks, lane);
    float sums[layout::CLASSES][ROW_TILES][COLUMN_TILES][4] = {};
    start_next_kernel();
    copy_weights<layout>(&memory.stages[0], part, place.column, 0, blocks);
    wait_for_kernel(); /* weights do not wait */
    copy_rows<layout>(&memory.stages[0], p, row, 0, blocks);
    copy_commit();
    for (int first = 0, n = 0; first < blocks; first += layout::BLOCKS, n ^= 1) {
        const int next = first + layout::BLOCKS;
        if (next < blocks) {
            copy_weights<layout>(&memory.stages[n ^ 1], part, place.column, next, blocks);
            copy_rows<layout>(&memory.stages[n ^ 1], p, row, next, blocks);
        }
        copy_commit();
        copy_wait<1>();
        __syncthreads();
#pragma unroll
        for (int i = 0; i < layout::BLOCKS / PRODUCT_WARPS; i++)
            if (first + warp + PRODUCT_WARPS * i < blocks)
                multiply_tiles<FORMAT, layout>(sums[i % layout::CLASSES], memory.stages[n],
                                               warp + PRODUCT_WARPS * i, row_tiles, odd, lane);
        __syncthreads(); /* before the stage after the next, or the shares, take its place */
    }
#pragma unroll
    for (int at = 0; at < ROW_TILES * COLUMN_TILES * 4; at++) {
        const int i = at / (COLUMN_TILES * 4), j = at / 4 % COLUMN_TILES, e = at % 4;
        float x[layout::CLASSES];
#pragma unroll
        for (int c = 0; c < layout::CLASSES; c++)
            x[c] = sums[c][i][j][e];
        memory.share[warp][MMA_ROWS * i + (lane >> 2) + 8 * (e >> 1)]
                    [MMA_COLUMNS * j + 2 * (lane & 3) + (e & 1)] = join_classes(x);
    }
    __syncthreads();
    for (int at = threadIdx.x; at < layout::ROWS * layout::COLUMNS; at += PRODUCT_WARPS * WARP) {
        const int r = at / layout::COLUMNS, c = at % layout::COLUMNS;
        if (row + r >= p.rows || place.column + c >= part.columns)
            continue;
        const auto of = [&](int w) { return memory.share[w][r][c] + memory.share[w + 4][r][c]; };
        finish_sum(p, part, row + r, place.column + c, (of(0) + of(2)) + (of(1) + of(3)));
    }
}

#endif
