/* SPDX-License-Identifier: Apache-2.0
 * Attention of prompts over pages of keys and values, by tensor cores: a block of threads has up to
 * QUERY_TILE tokens of a text, beside each other, and one head. Queries and weights are halves. */
#ifndef WISP_KERNELS_CUDA_DECODER_PROMPT_H
#define WISP_KERNELS_CUDA_DECODER_PROMPT_H

#include "kernels/cuda/attention.h"
#include "kernels/cuda/decoder_attention.h"

static_assert((int)QUERY_TILE == (int)PROMPT_ROWS, "rows of a block");

struct prompt_arguments {
    const float *qkv; /* [rows, (heads + 2 kv_heads) head_size]: queries, times log2(e) and scale */
    const int2 *tiles; /* [blocks]: a first row, and the number of rows of its text */
    attention_texts texts;
    attention_sizes sizes;
    int layer;
    decoder_rows out; /* [rows, heads head_size] */
};

/* Copies queries, as halves. */
template <int SIZE>
static __device__ __forceinline__ void copy_queries(unsigned char *to, const float *from,
                                                    size_t stride, int rows) {
    typedef attention_layout<SIZE> layout;
    for (int at = threadIdx.x; at < QUERY_TILE * SIZE / 4; at += ATTENTION_WARPS * WARP) {
        const int row = at / (SIZE / 4), part = at % (SIZE / 4);
        float4 x = {0, 0, 0, 0};
        if (row < rows)
            x = *(const float4 *)(from + row * stride + 4 * part);
        *(uint2 *)(to + row * layout::STRIDE + 8 * part) = {halves_of(x.x, x.y),
                                                            halves_of(x.z, x.w)};
    }
}

/* Begins to copy the keys and values of a tile. */
template <int SIZE>
static __device__ __forceinline__ void copy_tile(unsigned char *to, const prompt_arguments &a,
                                                 int row, int kv_head, int tile, int keys) {
    typedef attention_layout<SIZE> layout;
    for (int values = 0; values < 2; values++)
        attention_copy<SIZE, KEY_TILE>(
            to + values * layout::KEY_BYTES,
            kv_row(a.texts, a.sizes, row, a.layer, kv_head, values, tile * KEY_TILE), SIZE,
            keys - tile * KEY_TILE, threadIdx.x);
}

/* Writes a row's values as products read them: a lane has columns 8 n + 2 t and the next. */
template <int SIZE>
static __device__ __forceinline__ void write_context(const decoder_rows &out, size_t at,
                                                     const float x[SIZE / 8][4], int half,
                                                     float factor, bool valid, int lane) {
    const int t = lane & 3;
#pragma unroll
    for (int block = 0; block < SIZE / VALUES; block++) {
        float v[8];
        int bits = 0; /* of the largest magnitude: NaN is above all */
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = x[4 * block + i / 2][2 * half + i % 2] * factor;
            bits = max(bits, __float_as_int(fabsf(v[i])));
        }
        bits = max(bits, __shfl_xor_sync(ALL_LANES, bits, 2));
        const float largest = __int_as_float(max(bits, __shfl_xor_sync(ALL_LANES, bits, 1)));
        const float inverse = inverse_scale(largest);
        const size_t first = at + VALUES * block;
#pragma unroll
        for (int i = 0; i < 8 && valid; i += 2) {
            const size_t to = first + 4 * i + 2 * t;
            const float two[4] = {v[i], v[i + 1], 0, 0};
            if (out.halves)
                *(uint32_t *)(out.halves + (out.staged ? place_in_stage(to) : to)) =
                    halves_of(v[i], v[i + 1]);
            else
                *(uint16_t *)(out.q + to) = (uint16_t)quantise_4(two, inverse);
        }
        if (valid && !out.halves && t == 0)
            out.scale[first / VALUES] = scale_of(largest);
    }
}

template <int SIZE>
static __global__ void __launch_bounds__(ATTENTION_WARPS *WARP, 1)
    attend_prompt(const prompt_arguments a) {
    typedef attention_layout<SIZE> layout;
    start_next_kernel();
    wait_for_kernel();
    DYNAMIC_SHARED(shared);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, head = blockIdx.y;
    const int row = a.tiles[blockIdx.x].x, rows = a.tiles[blockIdx.x].y;
    const int kv_head = head / (a.sizes.heads / a.sizes.kv_heads);
    const size_t stride = (size_t)(a.sizes.heads + 2 * a.sizes.kv_heads) * SIZE;
    const int position = a.texts.position[row], length = position + rows; /* of keys */
    const int tiles = (length + KEY_TILE - 1) / KEY_TILE;
    unsigned char *keys = shared + layout::QUERY_BYTES;
    for (int tile = 0; tile < ATTENTION_STAGES; tile++) {
        if (tile < tiles)
            copy_tile<SIZE>(keys + tile * 2 * layout::KEY_BYTES, a, row, kv_head, tile, length);
        copy_commit();
    }
    copy_queries<SIZE>(shared, a.qkv + row * stride + head * SIZE, stride, rows);
    attention_state<SIZE> s = {};
    s.largest[0] = s.largest[1] = -INFINITY;
    uint32_t q[SIZE / 16][4];
    const int own = 16 * warp + lane / 4; /* of the tile's rows; and own + 8 */
    for (int tile = 0; tile < tiles; tile++) {
        copy_wait<ATTENTION_STAGES - 1>();
        __syncthreads();
        if (tile == 0) {
#pragma unroll
            for (int step = 0; step < SIZE / 16; step++)
                load_matrices(q[step], shared + (16 * warp + (lane & 15)) * layout::STRIDE +
                                           32 * step + 16 * (lane >> 4));
        }
        unsigned char *k = keys + tile % ATTENTION_STAGES * 2 * layout::KEY_BYTES;
        const int before = position + 1 - tile * KEY_TILE;
        const int seen[2] = {before + own, before + own + 8};
        if (16 * warp < rows && before + 16 * warp + 15 > 0)
            attention_tile<SIZE>(s, q, k, k + layout::KEY_BYTES, seen, 1, lane);
        __syncthreads();
        if (tile + ATTENTION_STAGES < tiles)
            copy_tile<SIZE>(k, a, row, kv_head, tile + ATTENTION_STAGES, length);
        copy_commit();
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float inverse = reciprocal_near(lanes_sum<4>(s.sum[half]));
        const size_t at = ((size_t)(row + own + 8 * half) * a.sizes.heads + head) * SIZE;
        write_context<SIZE>(a.out, at, s.out, half, inverse, own + 8 * half < rows, lane);
    }
}

#endif
