/* SPDX-License-Identifier: Apache-2.0
 * Tiles of operands in shared memory: rows of 128 bytes, which are 128 values in int8 or 64 halves.
 * The 16-byte chunks of a row are permuted by its number, so that the 8 rows of a matrix that one
 * load reads are in different banks. int8 and half fragments of mma have their bytes in the same
 * places, so one loader serves both. */
#ifndef WISP_KERNELS_CUDA_TILE_H
#define WISP_KERNELS_CUDA_TILE_H

#include "kernels/cuda/ptx.h"

enum { TILE_BYTES = 128, CHUNK_BYTES = 16, ROW_CHUNKS = TILE_BYTES / CHUNK_BYTES, MMA_BYTES = 32 };

static __device__ __forceinline__ unsigned tile_offset(unsigned row, unsigned chunk) {
    return row * TILE_BYTES + ((chunk ^ (row & 7)) * CHUNK_BYTES);
}

/* Begins to copy ROWS rows of 128 bytes from `first` on, `stride` bytes apart, with all THREADS of
 * the block. Rows from `rows` on become zeros. */
template <int ROWS, int THREADS>
static __device__ __forceinline__ void tile_copy(unsigned char *tile, const unsigned char *first,
                                                 size_t stride, int rows, int thread) {
    enum { STEP = THREADS / ROW_CHUNKS }; /* rows that the threads copy at a time */
    static_assert(THREADS % (8 * ROW_CHUNKS) == 0,
                  "a thread's chunks have one place in their rows");
    const int row0 = thread / ROW_CHUNKS, chunk = thread % ROW_CHUNKS;
    unsigned char *to = tile + tile_offset(row0, chunk);
    const unsigned char *from = first + row0 * stride + chunk * CHUNK_BYTES;
#pragma unroll
    for (int i = 0; i < (ROWS + STEP - 1) / STEP; i++, from += STEP * stride) {
        if (ROWS % STEP != 0 && row0 + i * STEP >= ROWS)
            break;
        const bool valid = row0 + i * STEP < rows;
        copy16_async(to + i * STEP * TILE_BYTES, valid ? from : first, valid ? CHUNK_BYTES : 0);
    }
}

/* Which row of b, of the columns of a product, is in row `row` of a tile: within each 32, columns
 * 2 t and 2 t + 1 of four neighbouring fragments are 8 that follow one another. So lane t of the
 * four that have a row of the sums has 8 columns side by side, [32 i + 8 t, + 8). */
static __device__ __forceinline__ unsigned tile_column(unsigned row) {
    return (row & ~31u) | (row & 6) << 2 | (row >> 3 & 3) << 1 | (row & 1);
}

/* Begins to copy ROWS rows of b in this order, all of which exist. */
template <int ROWS, int THREADS>
static __device__ __forceinline__ void
tile_copy_columns(unsigned char *tile, const unsigned char *first, size_t stride, int thread) {
    enum { STEP = THREADS / ROW_CHUNKS };
    static_assert(2 * STEP % 32 == 0, "every other row of a thread is so much further on");
    const int row0 = thread / ROW_CHUNKS, chunk = thread % ROW_CHUNKS;
    unsigned char *to = tile + tile_offset(row0, chunk);
    const unsigned char *from[2] = {first + tile_column(row0) * stride + chunk * CHUNK_BYTES,
                                    first + tile_column(row0 + STEP) * stride +
                                        chunk * CHUNK_BYTES};
#pragma unroll
    for (int i = 0; i < (ROWS + STEP - 1) / STEP; i++) {
        if (ROWS % STEP != 0 && row0 + i * STEP >= ROWS)
            break;
        copy16_async(to + i * STEP * TILE_BYTES, from[i % 2] + i / 2 * 2 * STEP * stride,
                     CHUNK_BYTES);
    }
}

/* Loads the fragment of rows [row, row + 16) and bytes [32 step, + 32) of a: registers as mma wants
 * them. */
static __device__ __forceinline__ void tile_load_a(uint32_t a[4], const unsigned char *tile,
                                                   int row, int step, int lane) {
    load_matrices(a, tile + tile_offset(row + (lane & 15), 2 * step + (lane >> 4)));
}

/* Loads the fragments of two neighbouring b: rows [row, row + 8) in b[0] and b[1], the next 8 in
 * b[2] and b[3]. */
static __device__ __forceinline__ void tile_load_b(uint32_t b[4], const unsigned char *tile,
                                                   int row, int step, int lane) {
    load_matrices(
        b, tile + tile_offset(row + (lane & 7) + ((lane >> 4) << 3), 2 * step + ((lane >> 3) & 1)));
}

/* The types of operands. */
struct operand_s8 {
    enum { BYTES = 1 };
};
struct operand_f16 {
    enum { BYTES = 2 };
};

#endif
