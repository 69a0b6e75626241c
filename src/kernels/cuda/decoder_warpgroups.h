/* SPDX-License-Identifier: Apache-2.0
 * Products of decoders with many rows, for compute capability 9.0: halves by wgmma. The weights of
 * 64 columns are its a, which comes from registers: there they become halves. Rows are its b, in
 * shared memory. Both are copied there by stages of 64 values of k, weights as they are stored.
 *
 * A warpgroup has two tiles of 64 columns: weights of one become halves while the tensor cores
 * multiply those of the other. Lane t of the four that share a column has numbers [16 t, + 16) of a
 * stage, so what is 16 t + 4 i in a row is where wgmma has lane t's part of its step i
 * (place_in_stage). */
#ifndef WISP_KERNELS_CUDA_DECODER_WARPGROUPS_H
#define WISP_KERNELS_CUDA_DECODER_WARPGROUPS_H

#include "kernels/cuda/decoder_product.h"
#include "kernels/cuda/ptx_warpgroup.h"
#include "kernels/cuda/tile.h"

enum {
    MANY_ROWS = WARPGROUP_COLUMNS, /* of a block */
    MANY_TILES = 2,                /* of WARPGROUP_ROWS columns, to a warpgroup */
    MANY_COLUMNS = MANY_TILES * WARPGROUP_ROWS,
    MANY_STEPS = STAGE_VALUES / 16,
    MANY_SHARED_BYTES = 200 * 1024 /* at most */
};
static_assert((int)STAGE_VALUES * 2 == (int)TILE_BYTES, "a stage has a tile's row of halves");

template <int FORMAT, int WARPGROUPS> struct many_layout {
    enum {
        THREADS = WARPGROUPS * WARPGROUP,
        COLUMNS = WARPGROUPS * MANY_COLUMNS,
        COLUMN_BYTES = 2 * format_bytes(FORMAT), /* of a stage */
        ROW_BYTES = MANY_ROWS * TILE_BYTES,
        STAGE_BYTES = ROW_BYTES + COLUMNS * COLUMN_BYTES,
        SCALE_BYTES = COLUMNS * 4, /* a pair for each column */
        PIPELINE = MANY_SHARED_BYTES / (STAGE_BYTES + SCALE_BYTES),
        SHARED_BYTES = PIPELINE * (STAGE_BYTES + SCALE_BYTES)
    };
};

#ifdef WARPGROUPS_EXIST

/* The bytes of four numbers, of which 0 stands for -`zero`, as halves times scales. */
static __device__ __forceinline__ void scale_bytes(uint32_t halves[2], uint32_t bytes, int zero,
                                                   uint32_t scales) {
    /* Below 0x64 a byte n makes the half 1024 + n. */
    const uint32_t base = 0xe400e400u + (uint32_t)zero * 0x10001u; /* -1024 - zero */
    halves[0] = halves_mul(halves_add(__byte_perm(bytes, 0x64646464u, 0x4140), base), scales);
    halves[1] = halves_mul(halves_add(__byte_perm(bytes, 0x64646464u, 0x4342), base), scales);
}

/* Begins to copy a stage of the weights of a block's columns, each of k numbers. Columns past the
 * last are the last one, and are not written. */
template <int FORMAT, class LAYOUT>
static __device__ __forceinline__ void copy_stage(unsigned char *to, unsigned char *scales,
                                                  const product_part &part, int column, int k,
                                                  int stage) {
    enum { CHUNKS = LAYOUT::COLUMN_BYTES / 16 };
#pragma unroll
    for (int i = 0; i < LAYOUT::COLUMNS * CHUNKS / LAYOUT::THREADS; i++) {
        const int at = threadIdx.x + i * LAYOUT::THREADS;
        const size_t own = min(column + at / CHUNKS, part.columns - 1);
        copy16_of_line_async(
            to + 16 * at, part.values + (own * (k / STAGE_VALUES) + stage) * LAYOUT::COLUMN_BYTES +
                              at % CHUNKS * 16);
    }
    if (FORMAT != DEVICE_F16) {
        const size_t own = min(column + (int)threadIdx.x, part.columns - 1);
        copy4_async(scales + 4 * threadIdx.x, part.scale + own * (k / VALUES) + 2 * stage, true);
    }
}

/* A lane's 16 weights of a column and stage. */
template <int FORMAT> struct lane_weights {
    enum { BYTES = format_bytes(FORMAT) / 2 };
    uint32_t words[BYTES / 4];
    uint32_t scales; /* the same twice */
    __device__ __forceinline__ void load(const unsigned char *stage, const unsigned char *pairs,
                                         int column, int t) {
        const unsigned char *from = stage + column * 4 * BYTES + t * BYTES;
        if (FORMAT == DEVICE_Q4_0) {
            const uint2 w = *(const uint2 *)from;
            words[0] = w.x, words[1] = w.y;
        }
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++) {
            const uint4 w = *(const uint4 *)(from + 16 * i);
            words[4 * i] = w.x, words[4 * i + 1] = w.y;
            words[4 * i + 2] = w.z, words[4 * i + 3] = w.w;
        }
        if (FORMAT != DEVICE_F16)
            scales = ((const uint16_t *)pairs)[2 * column + t / 2] * 0x10001u;
    }
    /* Numbers [4 step, + 4) as halves. */
    __device__ __forceinline__ void step(uint32_t halves[2], int step) const {
        if (FORMAT == DEVICE_F16)
            halves[0] = words[2 * step], halves[1] = words[2 * step + 1];
        else if (FORMAT == DEVICE_Q8_0)
            scale_bytes(halves, words[step] ^ 0x80808080u, 128, scales);
        else
            scale_bytes(halves, words[step / 2] >> 4 * (step % 2) & 0x0f0f0f0fu, 8, scales);
    }
};

/* Writes a thread's sums of a tile, of which the first is of this row and column. */
static __device__ __forceinline__ void write_sums(const float sums[64],
                                                  const decoder_product_arguments &p,
                                                  const product_part &part, int row, int column) {
    enum { AT_ONCE = 32 }; /* are read before one of them is written, so that no read waits */
    const bool there[2] = {column < part.columns, column + 8 < part.columns};
    const float bias[2] = {part.bias && there[0] ? part.bias[column] : 0,
                           part.bias && there[1] ? part.bias[column + 8] : 0};
    float *out = part.out + (size_t)row * p.stride + column;
#pragma unroll
    for (int first = 0; first < 64; first += AT_ONCE) {
        float before[AT_ONCE] = {};
        const auto row_of = [&](int i) { return (first + i) / 4 * MMA_COLUMNS + (i & 1); };
        const auto is_valid = [&](int i) { return row + row_of(i) < p.rows && there[i >> 1 & 1]; };
        const auto out_of = [&](int i) {
            return out + (size_t)row_of(i) * p.stride + 8 * (i >> 1 & 1);
        };
        if (p.add) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if (is_valid(i))
                    before[i] = *out_of(i);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (is_valid(i))
                *out_of(i) = before[i] + (sums[first + i] + bias[i >> 1 & 1]);
    }
}

#endif

/* Blocks of threads that have the same weights are neighbours. p.a has halves in stages, and k is a
 * multiple of STAGE_VALUES. */
template <int FORMAT, int WARPGROUPS>
__global__ void __launch_bounds__(WARPGROUPS *WARPGROUP, 1)
    multiply_many(const decoder_product_arguments p) {
#ifdef WARPGROUPS_EXIST
    typedef many_layout<FORMAT, WARPGROUPS> layout;
    DYNAMIC_SHARED(shared);
    const int lane = threadIdx.x % WARP, t = lane & 3, row0 = blockIdx.x * MANY_ROWS;
    const int stages = p.k / STAGE_VALUES;
    const size_t row_bytes = (size_t)p.k * sizeof(uint16_t);
    const unsigned char *rows = (const unsigned char *)p.a.halves + row0 * row_bytes;
    const product_place place(p, blockIdx.y, layout::COLUMNS / MMA_COLUMNS);
    const product_part &part = place.part;
    unsigned char *scales = shared + layout::PIPELINE * layout::STAGE_BYTES;
    const int column0 = threadIdx.x / WARPGROUP * MANY_COLUMNS +
                        threadIdx.x % WARPGROUP / WARP * MMA_ROWS + lane / 4; /* in the block */
    const auto column_of = [&](int tile, int half) {
        return column0 + tile * WARPGROUP_ROWS + half * 8;
    };
    const auto copy_columns = [&](int stage) {
        const int slot = stage % layout::PIPELINE;
        if (stage < stages)
            copy_stage<FORMAT, layout>(shared + slot * layout::STAGE_BYTES + layout::ROW_BYTES,
                                       scales + slot * layout::SCALE_BYTES, part, place.column, p.k,
                                       stage);
    };
    const auto copy_rows = [&](int stage) {
        if (stage < stages)
            tile_copy<MANY_ROWS, layout::THREADS>(
                shared + stage % layout::PIPELINE * layout::STAGE_BYTES, rows + stage * TILE_BYTES,
                row_bytes, p.rows - row0, threadIdx.x);
        copy_commit();
    };
    uint32_t a[MANY_TILES][MANY_STEPS][4];
    float sums[MANY_TILES][64] = {};

    start_next_kernel();
    for (int i = 0; i < layout::PIPELINE - 2; i++) /* weights do not wait */
        copy_columns(i);
    wait_for_kernel();
    for (int i = 0; i < layout::PIPELINE - 2; i++)
        copy_rows(i);
#pragma unroll
    for (int tile = 0; tile < MANY_TILES; tile++)
        warpgroup_hold(sums[tile]); /* they are 0 before the first product */
    for (int k = 0; k < stages; k++) {
        copy_wait<layout::PIPELINE - 3>();
        /* All copies of the stage are there, and all warpgroups have done with stage k - 2. */
        __syncthreads();
        copy_columns(k + layout::PIPELINE - 2);
        copy_rows(k + layout::PIPELINE - 2);
        const int slot = k % layout::PIPELINE;
        const unsigned char *stage = shared + slot * layout::STAGE_BYTES;
        const uint64_t b = tile_place_of(stage);
#pragma unroll
        for (int tile = 0; tile < MANY_TILES; tile++) {
            lane_weights<FORMAT> own[2];
#pragma unroll
            for (int half = 0; half < 2; half++)
                own[half].load(stage + layout::ROW_BYTES, scales + slot * layout::SCALE_BYTES,
                               column_of(tile, half), t);
#pragma unroll
            for (int i = 0; i < MANY_STEPS * 2; i++) {
                uint32_t halves[2];
                own[i % 2].step(halves, i / 2);
                a[tile][i / 2][i % 2] = halves[0];
                a[tile][i / 2][i % 2 + 2] = halves[1];
            }
            warpgroup_hold(sums[tile]);
            warpgroup_arrive();
#pragma unroll
            for (int step = 0; step < MANY_STEPS; step++)
                warpgroup_add_f16(sums[tile], a[tile][step], b + 2 * step);
            warpgroup_commit();
            warpgroup_wait<1>(); /* the other tile's registers may be written */
        }
    }
    warpgroup_wait();
#pragma unroll
    for (int tile = 0; tile < MANY_TILES; tile++) {
        warpgroup_hold(sums[tile]);
        write_sums(sums[tile], p, part, row0 + 2 * t, place.column + column_of(tile, 0));
    }
#else
    (void)p;
#endif
}

#endif
