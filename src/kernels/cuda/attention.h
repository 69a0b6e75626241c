/* SPDX-License-Identifier: Apache-2.0
 * Attention over packed texts, without padding: softmax(q k^T scale) v of each text and head, in
 * one kernel. Scores stay in registers. Softmax runs along the keys: each tile of keys rescales
 * what was summed before when a larger score comes (Dao et al., FlashAttention, 2022). */
#ifndef WISP_KERNELS_CUDA_ATTENTION_H
#define WISP_KERNELS_CUDA_ATTENTION_H

#include "kernels/cuda/ptx.h"

enum { ATTENTION_WARPS = 8, QUERY_TILE = 16 * ATTENTION_WARPS, KEY_TILE = 64 };

struct attention_arguments {
    const uint16_t *qkv;   /* [rows, 3 heads SIZE]: queries, keys, values */
    uint16_t *context;     /* [rows, heads SIZE] */
    const int2 *tiles;     /* [blocks]: a text, and its first query in the tile */
    const int32_t *starts; /* [texts + 1] */
    int heads, heads_each; /* of all; of those that a block computes one after the other */
    float scale;           /* times log2(e), because powers of 2 are what the GPU computes */
};

/* Rows of SIZE halves are 16 bytes apart from a multiple of 128, so that the loads of 8 rows meet
 * no bank twice. */
template <int SIZE> struct attention_layout {
    enum {
        CHUNKS = SIZE * 2 / 16,
        STRIDE = SIZE * 2 + 16,
        QUERY_BYTES = QUERY_TILE * STRIDE,
        KEY_BYTES = KEY_TILE * STRIDE,
        STAGES = SIZE > 64 ? 2 : 3,
        STAGE_BYTES = QUERY_BYTES + 2 * KEY_BYTES,
        SHARED_BYTES = STAGES * STAGE_BYTES
    };
};

template <int SIZE, int ROWS>
static __device__ __forceinline__ void attention_copy(unsigned char *to, const uint16_t *first,
                                                      size_t stride, int rows, int thread) {
    typedef attention_layout<SIZE> layout;
    for (int at = thread; at < ROWS * layout::CHUNKS; at += ATTENTION_WARPS * WARP) {
        const int row = at / layout::CHUNKS, chunk = at % layout::CHUNKS;
        const bool valid = row < rows;
        copy16_async(to + row * layout::STRIDE + chunk * 16,
                     first + (valid ? row : 0) * stride + chunk * 8, valid ? 16 : 0);
    }
}

/* What a warp knows of its 16 queries; this lane has rows g and g + 8. Behind the sums of values
 * are those of weights, which are sums of ones. */
template <int SIZE> struct attention_state {
    enum { TILES = SIZE / 8 + 1 };
    float out[TILES][4];
    float largest[2];
};

/* Adds a tile of keys and values to the state. Keys from `keys` on do not exist. */
template <int SIZE>
static __device__ __forceinline__ void
attention_tile(attention_state<SIZE> &s, const uint32_t q[SIZE / 16][4], const unsigned char *k,
               const unsigned char *v, int keys, float scale, int lane) {
    typedef attention_layout<SIZE> layout;
    float p[KEY_TILE / 8][4] = {};
#pragma unroll
    for (int step = 0; step < SIZE / 16; step++)
#pragma unroll
        for (int n = 0; n < KEY_TILE / 16; n++) {
            uint32_t b[4];
            load_matrices(b, k + (16 * n + (lane & 7) + ((lane >> 4) << 3)) * layout::STRIDE +
                                 32 * step + 16 * ((lane >> 3) & 1));
            mma_f16(p[2 * n], q[step], b[0], b[1]);
            mma_f16(p[2 * n + 1], q[step], b[2], b[3]);
        }
    if (keys < KEY_TILE)
#pragma unroll
        for (int n = 0; n < KEY_TILE / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                p[n][i] = 8 * n + 2 * (lane & 3) + (i & 1) < keys ? p[n][i] : -INFINITY;
    float largest[2] = {s.largest[0], s.largest[1]};
#pragma unroll
    for (int n = 0; n < KEY_TILE / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            largest[i >> 1] = fmaxf(largest[i >> 1], p[n][i]);
    float scaled[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        largest[half] =
            lanes_max<4>(largest[half]); /* a tile has at least one key, so it is finite */
        scaled[half] = largest[half] * scale;
        const float shrink = exp2_near(fmaf(s.largest[half], scale, -scaled[half]));
        s.largest[half] = largest[half];
#pragma unroll
        for (int n = 0; n < attention_state<SIZE>::TILES; n++) {
            s.out[n][2 * half] *= shrink;
            s.out[n][2 * half + 1] *= shrink;
        }
    }
#pragma unroll
    for (int n = 0; n < KEY_TILE / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            p[n][i] = exp2_near(fmaf(p[n][i], scale, -scaled[i >> 1]));
    const uint32_t ones = 0x3c003c00;
#pragma unroll
    for (int step = 0; step < KEY_TILE / 16; step++) {
        const uint32_t a[4] = {halves_of(p[2 * step][0], p[2 * step][1]),
                               halves_of(p[2 * step][2], p[2 * step][3]),
                               halves_of(p[2 * step + 1][0], p[2 * step + 1][1]),
                               halves_of(p[2 * step + 1][2], p[2 * step + 1][3])};
#pragma unroll
        for (int n = 0; n < SIZE / 16; n++) {
            uint32_t b[4];
            load_matrices_transposed(b, v + (16 * step + (lane & 15)) * layout::STRIDE + 32 * n +
                                            16 * (lane >> 4));
            mma_f16(s.out[2 * n], a, b[0], b[1]);
            mma_f16(s.out[2 * n + 1], a, b[2], b[3]);
        }
        mma_f16(s.out[SIZE / 8], a, ones, ones);
    }
}

/* A stage: a tile of keys and values of a head, and with its first one the queries. Stages of a
 * block follow one another, head by head, so that copies for the next head run while one is
 * computed. */
template <int SIZE>
static __device__ __forceinline__ void
attention_begin(unsigned char *to, const attention_arguments &a, const uint16_t *text, int length,
                int query, int head, int tile, int thread) {
    typedef attention_layout<SIZE> layout;
    const size_t width = (size_t)a.heads * SIZE;
    const uint16_t *from = text + head * SIZE;
    const uint16_t *keys = from + width + (size_t)tile * KEY_TILE * 3 * width;
    if (tile == 0)
        attention_copy<SIZE, QUERY_TILE>(to, from + query * 3 * width, 3 * width, length - query,
                                         thread);
    to += layout::QUERY_BYTES;
    attention_copy<SIZE, KEY_TILE>(to, keys, 3 * width, length - tile * KEY_TILE, thread);
    attention_copy<SIZE, KEY_TILE>(to + layout::KEY_BYTES, keys + width, 3 * width,
                                   length - tile * KEY_TILE, thread);
}

/* Divides by the sums of weights and writes; `first` is the lane's place in the context of its
 * first row, of which `rows` exist. */
template <int SIZE>
static __device__ __forceinline__ void attention_write(const attention_state<SIZE> &s,
                                                       uint16_t *first, size_t width, int rows) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float inverse = reciprocal_near(s.out[SIZE / 8][2 * half]);
        if (8 * half >= rows)
            break;
#pragma unroll
        for (int n = 0; n < SIZE / 8; n++)
            *(uint32_t *)(first + 8 * half * width + 8 * n) =
                halves_of(s.out[n][2 * half] * inverse, s.out[n][2 * half + 1] * inverse);
    }
}

/* Blocks: x counts tiles of queries, y groups of heads. */
template <int SIZE, int BLOCKS = SIZE == 32   ? 3
                                 : SIZE == 64 ? 2
                                              : 1>
__global__ void __launch_bounds__(ATTENTION_WARPS *WARP, BLOCKS)
    attend(const attention_arguments a) {
    typedef attention_layout<SIZE> layout;
    DYNAMIC_SHARED(shared);
    const int thread = threadIdx.x, lane = thread % WARP, warp = thread / WARP;
    const int text = a.tiles[blockIdx.x].x, query = a.tiles[blockIdx.x].y;
    const int start = a.starts[text], length = a.starts[text + 1] - start;
    const size_t width = (size_t)a.heads * SIZE;
    const uint16_t *from = a.qkv + start * 3 * width;
    const int tiles = (length + KEY_TILE - 1) / KEY_TILE, head0 = blockIdx.y * a.heads_each;
    const int row = query + 16 * warp, rows = length - row; /* the warp's first, and how many are */
    int begun_head = head0, begun_tile = 0, slot = 0;
    attention_state<SIZE> s;
    uint32_t q[SIZE / 16][4];

    for (int i = 0; i < layout::STAGES - 1; i++) {
        if (begun_head < head0 + a.heads_each)
            attention_begin<SIZE>(shared + i * layout::STAGE_BYTES, a, from, length, query,
                                  begun_head, begun_tile, thread);
        copy_commit();
        if (++begun_tile == tiles) {
            begun_tile = 0;
            begun_head++;
        }
    }
    for (int head = head0; head < head0 + a.heads_each; head++) {
#pragma unroll
        for (int n = 0; n < attention_state<SIZE>::TILES; n++)
            s.out[n][0] = s.out[n][1] = s.out[n][2] = s.out[n][3] = 0;
        s.largest[0] = s.largest[1] = -INFINITY;
        for (int tile = 0; tile < tiles; tile++) {
            copy_wait<layout::STAGES - 2>();
            __syncthreads(); /* all copies of the stage are there; the one before has been read */
            const int before = slot == 0 ? layout::STAGES - 1 : slot - 1;
            if (begun_head < head0 + a.heads_each)
                attention_begin<SIZE>(shared + before * layout::STAGE_BYTES, a, from, length, query,
                                      begun_head, begun_tile, thread);
            copy_commit();
            if (++begun_tile == tiles) {
                begun_tile = 0;
                begun_head++;
            }
            const unsigned char *stage = shared + slot * layout::STAGE_BYTES;
            slot = slot + 1 < layout::STAGES ? slot + 1 : 0;
            if (rows <= 0)
                continue;
            if (tile == 0) {
#pragma unroll
                for (int step = 0; step < SIZE / 16; step++)
                    load_matrices(q[step], stage + (16 * warp + (lane & 15)) * layout::STRIDE +
                                               32 * step + 16 * (lane >> 4));
            }
            const unsigned char *k = stage + layout::QUERY_BYTES;
            attention_tile<SIZE>(s, q, k, k + layout::KEY_BYTES, length - tile * KEY_TILE, a.scale,
                                 lane);
        }
        attention_write<SIZE>(
            s, a.context + (size_t)(start + row + lane / 4) * width + head * SIZE + 2 * (lane & 3),
            width, rows - lane / 4);
    }
}

#endif
