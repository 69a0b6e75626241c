/* SPDX-License-Identifier: Apache-2.0
 * Attention over packed texts, without padding: softmax(q k^T scale) v of each text and head, in
 * one kernel. Scores stay in registers. Softmax runs along the keys: each tile of keys rescales
 * what was summed before when a larger score comes (Dao et al., FlashAttention, 2022). */
#ifndef WISP_KERNELS_CUDA_ATTENTION_H
#define WISP_KERNELS_CUDA_ATTENTION_H

#include "kernels/cuda/ptx.h"

enum {
    ATTENTION_WARPS = 8,
    QUERY_TILE = 16 * ATTENTION_WARPS,
    KEY_TILE = 64,
    ATTENTION_STAGES = 2
};

struct attention_arguments {
    const uint16_t *qkv;   /* [rows, 3 heads SIZE]: queries, keys, values */
    uint16_t *context;     /* [rows, heads SIZE] */
    const int2 *tiles;     /* [blocks]: a text, and its first query in the tile */
    const int32_t *starts; /* [texts + 1] */
    int heads;
    float scale; /* times log2(e), because powers of 2 are what the GPU computes */
};

/* Rows of SIZE halves are 16 bytes apart from a multiple of 128, so that the loads of 8 rows meet
 * no bank twice. */
template <int SIZE> struct attention_layout {
    enum {
        CHUNKS = SIZE * 2 / 16,
        STRIDE = SIZE * 2 + 16,
        QUERY_BYTES = QUERY_TILE * STRIDE,
        KEY_BYTES = KEY_TILE * STRIDE,
        SHARED_BYTES = QUERY_BYTES + 2 * ATTENTION_STAGES * KEY_BYTES
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

/* A warp's state of its 16 queries; this lane has rows g and g + 8. */
template <int SIZE> struct attention_state {
    float out[SIZE / 8][4];
    float largest[2], sum[2];
};

/* Adds a tile of keys and values to the state. Of the lane's rows, row i does not see keys from
 * keys[i] on. Of their first tile both see one. */
template <int SIZE>
static __device__ __forceinline__ void
attention_tile(attention_state<SIZE> &s, const uint32_t q[SIZE / 16][4], const unsigned char *k,
               const unsigned char *v, const int keys[2], float scale, int lane) {
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
    if (keys[0] < KEY_TILE || keys[1] < KEY_TILE)
#pragma unroll
        for (int n = 0; n < KEY_TILE / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                p[n][i] = 8 * n + 2 * (lane & 3) + (i & 1) < keys[i >> 1] ? p[n][i] : -INFINITY;
    float largest[2] = {s.largest[0], s.largest[1]};
#pragma unroll
    for (int n = 0; n < KEY_TILE / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            largest[i >> 1] = fmaxf(largest[i >> 1], p[n][i]);
    float scaled[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        largest[half] = lanes_max<4>(largest[half]); /* finite: there is a key */
        scaled[half] = largest[half] * scale;
        const float shrink = exp2_near(fmaf(s.largest[half], scale, -scaled[half]));
        s.largest[half] = largest[half];
        s.sum[half] *= shrink;
#pragma unroll
        for (int n = 0; n < SIZE / 8; n++) {
            s.out[n][2 * half] *= shrink;
            s.out[n][2 * half + 1] *= shrink;
        }
    }
#pragma unroll
    for (int n = 0; n < KEY_TILE / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            p[n][i] = exp2_near(fmaf(p[n][i], scale, -scaled[i >> 1]));
            s.sum[i >> 1] += p[n][i];
        }
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
    }
}

template <int SIZE>
__global__ void __launch_bounds__(ATTENTION_WARPS *WARP, SIZE == 32 ? 3 : 1)
    attend(const attention_arguments a) {
    typedef attention_layout<SIZE> layout;
    DYNAMIC_SHARED(shared);
    const int thread = threadIdx.x, lane = thread % WARP, warp = thread / WARP, head = blockIdx.y;
    const int text = a.tiles[blockIdx.x].x, query = a.tiles[blockIdx.x].y;
    const int start = a.starts[text], length = a.starts[text + 1] - start;
    const size_t width = (size_t)a.heads * SIZE;
    const uint16_t *first = a.qkv + start * 3 * width + head * SIZE;
    unsigned char *queries = shared, *keys = shared + layout::QUERY_BYTES;
    const int tiles = (length + KEY_TILE - 1) / KEY_TILE;

    attention_copy<SIZE, QUERY_TILE>(queries, first + query * 3 * width, 3 * width, length - query,
                                     thread);
    for (int tile = 0; tile < ATTENTION_STAGES; tile++) {
        if (tile < tiles) {
            unsigned char *k = keys + tile * 2 * layout::KEY_BYTES;
            const uint16_t *from = first + width + (size_t)tile * KEY_TILE * 3 * width;
            attention_copy<SIZE, KEY_TILE>(k, from, 3 * width, length - tile * KEY_TILE, thread);
            attention_copy<SIZE, KEY_TILE>(k + layout::KEY_BYTES, from + width, 3 * width,
                                           length - tile * KEY_TILE, thread);
        }
        copy_commit();
    }
    attention_state<SIZE> s = {};
    s.largest[0] = s.largest[1] = -INFINITY;
    uint32_t q[SIZE / 16][4];
    for (int tile = 0; tile < tiles; tile++) {
        copy_wait<ATTENTION_STAGES - 1>();
        __syncthreads();
        if (tile == 0) {
#pragma unroll
            for (int step = 0; step < SIZE / 16; step++)
                load_matrices(q[step], queries + (16 * warp + (lane & 15)) * layout::STRIDE +
                                           32 * step + 16 * (lane >> 4));
        }
        unsigned char *k = keys + tile % ATTENTION_STAGES * 2 * layout::KEY_BYTES;
        const int left = length - tile * KEY_TILE, seen[2] = {left, left};
        if (query + 16 * warp < length)
            attention_tile<SIZE>(s, q, k, k + layout::KEY_BYTES, seen, a.scale, lane);
        __syncthreads();
        if (tile + ATTENTION_STAGES < tiles) {
            const int next = tile + ATTENTION_STAGES;
            const uint16_t *from = first + width + (size_t)next * KEY_TILE * 3 * width;
            attention_copy<SIZE, KEY_TILE>(k, from, 3 * width, length - next * KEY_TILE, thread);
            attention_copy<SIZE, KEY_TILE>(k + layout::KEY_BYTES, from + width, 3 * width,
                                           length - next * KEY_TILE, thread);
        }
        copy_commit();
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float inverse = reciprocal_near(lanes_sum<4>(s.sum[half]));
        const int row = query + 16 * warp + 8 * half + lane / 4;
        if (row < length) {
            uint16_t *to = a.context + (size_t)(start + row) * width + head * SIZE + 2 * (lane & 3);
#pragma unroll
            for (int n = 0; n < SIZE / 8; n++)
                *(uint32_t *)(to + 8 * n) =
                    halves_of(s.out[n][2 * half] * inverse, s.out[n][2 * half + 1] * inverse);
        }
    }
}

#endif
