/* SPDX-License-Identifier: Apache-2.0
 * Attention of decoders over pages of keys and values. A page has PAGE positions of a text, in all
 * layers: for each layer and key-value head the keys [PAGE, head_size] and then the values, as
 * halves.
 *
 * attend_split computes SPLIT keys of a page for one row and one key-value head, with all query
 * heads that share it; merge_splits joins them. Splits are at fixed positions, so that a row's bits
 * do not depend on the batch. */
#ifndef WISP_KERNELS_CUDA_DECODER_ATTENTION_H
#define WISP_KERNELS_CUDA_DECODER_ATTENTION_H

#include "kernels/cuda/decoder_rows.h"

enum { HEAD_WARPS = 4, MOST_HEAD_SIZE = 256, SPLIT_THREADS = 128, MOST_GROUP = 16 };

/* Where rows find their texts, and the keys and values of these. */
struct attention_texts {
    const int32_t *position; /* [rows] */
    const int32_t *text;     /* [rows] */
    uint16_t *const *pages;  /* [texts, page_slots] */
    int page_slots;
};

struct attention_sizes {
    int heads, kv_heads, head_size;
};

/* The keys of a layer's head at a position, or the values. */
static __device__ __forceinline__ uint16_t *kv_row(const attention_texts &t,
                                                   const attention_sizes &s, int row, int layer,
                                                   int kv_head, bool values, int position) {
    uint16_t *page = t.pages[(size_t)t.text[row] * t.page_slots + position / PAGE];
    return page + ((((size_t)layer * s.kv_heads + kv_head) * 2 + values) * PAGE + position % PAGE) *
                      s.head_size;
}

struct rotate_arguments {
    float *qkv; /* [rows, (heads + 2 kv_heads) head_size] */
    attention_texts texts;
    attention_sizes sizes;
    const float *q_norm, *k_norm; /* [head_size]; NULL: none */
    const float *rotations;       /* [positions, head_size] */
    int layer, rotary_size;
    bool neighbours;
    float epsilon;
    float scale; /* of queries */
};

/* Normalises and rotates queries and keys, a warp for each head of a row; scales queries, and puts
 * keys and values where they stay. */
static __global__ void __launch_bounds__(HEAD_WARPS *WARP) rotate_heads(const rotate_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    __shared__ float heads[HEAD_WARPS][MOST_HEAD_SIZE];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = blockIdx.y,
              size = a.sizes.head_size;
    const int head = blockIdx.x * HEAD_WARPS + warp, all = a.sizes.heads + 2 * a.sizes.kv_heads;
    if (head >= all)
        return;
    const bool is_q = head < a.sizes.heads, is_v = head >= a.sizes.heads + a.sizes.kv_heads;
    const int kv_head = (head - a.sizes.heads) % a.sizes.kv_heads, position = a.texts.position[row];
    float *x = a.qkv + ((size_t)row * all + head) * size, *own = heads[warp];
    const float *weight = is_q ? a.q_norm : is_v ? NULL : a.k_norm;
    float squares = 0;
    for (int i = lane; i < size; i += WARP)
        squares = fmaf(x[i], x[i], squares);
    const float inverse = rsqrtf(lanes_sum<WARP>(squares) / (float)size + a.epsilon);
    for (int i = lane; i < size; i += WARP)
        own[i] = weight ? x[i] * inverse * weight[i] : x[i];
    __syncwarp();
    const float *cosines = a.rotations + (size_t)position * size,
                *sines = cosines + a.rotary_size / 2;
    const int half = a.rotary_size / 2;
    uint16_t *kept = is_q ? NULL : kv_row(a.texts, a.sizes, row, a.layer, kv_head, is_v, position);
    for (int i = lane; i < size; i += WARP) {
        float v = own[i];
        if (!is_v && i < a.rotary_size) {
            const int pair = a.neighbours ? i / 2 : i % half;
            const bool first = a.neighbours ? i % 2 == 0 : i < half;
            const float other = own[a.neighbours ? i ^ 1 : first ? i + half : i - half];
            v = v * cosines[pair] + (first ? -other : other) * sines[pair];
        }
        if (is_q)
            x[i] = v * a.scale;
        else /* what is too large for a half becomes the largest one */
            kept[i] = (uint16_t)halves_of(v > 65504 ? 65504 : v < -65504 ? -65504 : v, 0);
    }
}

struct split_arguments {
    const float *qkv;
    attention_texts texts;
    attention_sizes sizes;
    int layer, first_row, split_slots;
    float *part;   /* [rows from first_row on, split_slots, heads, head_size] */
    float2 *state; /* [rows from first_row on, split_slots, heads]: the largest score, and the sum
                      of weights */
};

/* The lanes that share a key, each with 8 values of every CHUNKS parts of it. */
template <int SIZE> struct split_layout {
    enum {
        LANES = SIZE % 64 == 0 ? 8 : 4,
        CHUNKS = SIZE / 8 / LANES,
        KEY_GROUPS = SPLIT_THREADS / LANES,
        KEYS = SPLIT / KEY_GROUPS,
        VALUE_LANES = SIZE / 8, /* threads that share a value row */
        VALUE_GROUPS = SPLIT_THREADS / VALUE_LANES,
        VALUE_ROWS = (SPLIT + VALUE_GROUPS - 1) / VALUE_GROUPS
    };
};

static __device__ __forceinline__ void expand_halves(float x[8], const uint4 &h) {
    const uint32_t w[4] = {h.x, h.y, h.z, h.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = low_half(w[i]);
        x[2 * i + 1] = high_half(w[i]);
    }
}

/* Writes the scores of a split's keys with all queries of the group. */
template <int SIZE>
static __device__ __forceinline__ void score_keys(float score[MOST_GROUP][SPLIT],
                                                  const float4 *queries, const uint16_t *keys,
                                                  int count, int group, int thread) {
    typedef split_layout<SIZE> layout;
    const int lane = thread % layout::LANES, first = thread / layout::LANES;
    uint4 k[layout::KEYS][layout::CHUNKS];
#pragma unroll
    for (int i = 0; i < layout::KEYS; i++)
#pragma unroll
        for (int c = 0; c < layout::CHUNKS; c++) {
            const int key = first + i * layout::KEY_GROUPS;
            k[i][c] =
                key < count
                    ? *(const uint4 *)(keys + (size_t)key * SIZE + 8 * (c * layout::LANES + lane))
                    : uint4{0, 0, 0, 0};
        }
    for (int head = 0; head < group; head++) {
        float dot[layout::KEYS] = {};
#pragma unroll
        for (int c = 0; c < layout::CHUNKS; c++) {
            const float4 *q = queries + head * SIZE / 4 + 2 * (c * layout::LANES + lane);
            const float4 low = q[0], high = q[1];
            const float own[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (int i = 0; i < layout::KEYS; i++) {
                float x[8];
                expand_halves(x, k[i][c]);
#pragma unroll
                for (int e = 0; e < 8; e++)
                    dot[i] = fmaf(own[e], x[e], dot[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < layout::KEYS; i++) {
            const int key = first + i * layout::KEY_GROUPS;
            const float sum = lanes_sum<layout::LANES>(dot[i]);
            if (lane == 0)
                score[head][key] = key < count ? sum : -INFINITY;
        }
    }
}

/* Sums the values of a split, weighted, for all heads of the group. */
template <int SIZE>
static __device__ __forceinline__ void sum_values(const float weight[MOST_GROUP][SPLIT],
                                                  const uint16_t *values, int count, int group,
                                                  float *out, int thread) {
    typedef split_layout<SIZE> layout;
    __shared__ float sums[SPLIT_THREADS][8];
    const int lane = thread % layout::VALUE_LANES, first = thread / layout::VALUE_LANES;
    uint4 v[layout::VALUE_ROWS];
#pragma unroll
    for (int i = 0; i < layout::VALUE_ROWS; i++) {
        const int key = first + i * layout::VALUE_GROUPS;
        v[i] = key < count && first < layout::VALUE_GROUPS
                   ? *(const uint4 *)(values + (size_t)key * SIZE + 8 * lane)
                   : uint4{0, 0, 0, 0};
    }
    for (int head = 0; head < group; head++) {
        float sum[8] = {};
#pragma unroll
        for (int i = 0; i < layout::VALUE_ROWS; i++) {
            const int key = first + i * layout::VALUE_GROUPS;
            const float w = key < SPLIT ? weight[head][key] : 0;
            float x[8];
            expand_halves(x, v[i]);
#pragma unroll
            for (int e = 0; e < 8; e++)
                sum[e] = fmaf(w, x[e], sum[e]);
        }
#pragma unroll
        for (int e = 0; e < 8; e++)
            sums[thread][e] = sum[e];
        __syncthreads();
        for (int i = thread; i < SIZE; i += SPLIT_THREADS) {
            float all = 0;
            for (int g = 0; g < layout::VALUE_GROUPS; g++)
                all += sums[g * layout::VALUE_LANES + i / 8][i % 8];
            out[head * SIZE + i] = all;
        }
        __syncthreads(); /* before the next head's sums */
    }
}

template <int SIZE>
static __global__ void __launch_bounds__(SPLIT_THREADS) attend_split(const split_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    __shared__ float4 queries[MOST_GROUP * SIZE / 4];
    __shared__ float score[MOST_GROUP][SPLIT];
    const int thread = threadIdx.x, warp = thread / WARP, lane = thread % WARP;
    const int split = blockIdx.x, kv_head = blockIdx.y, row = a.first_row + blockIdx.z,
              first = split * SPLIT;
    const int count = min(a.texts.position[row] + 1 - first, (int)SPLIT),
              group = a.sizes.heads / a.sizes.kv_heads;
    if (count <= 0)
        return;
    const size_t all = a.sizes.heads + 2 * a.sizes.kv_heads;
    const float *q = a.qkv + (row * all + kv_head * group) * SIZE;
    for (int i = thread; i < group * SIZE / 4; i += SPLIT_THREADS)
        queries[i] = *(const float4 *)(q + 4 * i);
    __syncthreads();
    score_keys<SIZE>(score, queries, kv_row(a.texts, a.sizes, row, a.layer, kv_head, false, first),
                     count, group, thread);
    __syncthreads();
    const size_t at =
        ((size_t)blockIdx.z * a.split_slots + split) * a.sizes.heads + kv_head * group;
    for (int head = warp; head < group; head += SPLIT_THREADS / WARP) {
        const float low = score[head][lane], high = score[head][lane + WARP];
        const float largest = lanes_max<WARP>(fmaxf(low, high));
        const float w0 = exp2_near(low - largest), w1 = exp2_near(high - largest);
        const float sum = lanes_sum<WARP>(w0 + w1);
        score[head][lane] = w0;
        score[head][lane + WARP] = w1;
        if (lane == 0)
            a.state[at + head] = float2{largest, sum};
    }
    __syncthreads();
    sum_values<SIZE>(score, kv_row(a.texts, a.sizes, row, a.layer, kv_head, true, first), count,
                     group, a.part + at * SIZE, thread);
}

struct merge_arguments {
    const float *part;
    const float2 *state;
    const int32_t *position; /* [rows] */
    attention_sizes sizes;
    int first_row, split_slots;
    decoder_rows out; /* [rows, heads head_size] */
};

/* Joins the splits of each row, in their order. */
static __global__ void __launch_bounds__(ROW_THREADS) merge_splits(const merge_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    const int row = a.first_row + blockIdx.x, splits = a.position[row] / SPLIT + 1;
    const int size = a.sizes.heads * a.sizes.head_size, chunks = size / 4;
    for (int first = 0; first < chunks; first += ROW_THREADS) {
        const int i = first + threadIdx.x, head = 4 * i / a.sizes.head_size;
        const bool valid = i < chunks;
        float largest = -INFINITY, sum = 0, v[4] = {};
        for (int split = 0; split < splits && valid; split++) {
            const size_t at = (size_t)blockIdx.x * a.split_slots + split;
            const float2 state = a.state[at * a.sizes.heads + head];
            const float4 x = *(const float4 *)(a.part + at * size + 4 * i);
            const float larger = fmaxf(largest, state.x);
            const float old = exp2_near(largest - larger), own = exp2_near(state.x - larger);
            largest = larger;
            sum = fmaf(sum, old, state.y * own);
            v[0] = fmaf(v[0], old, x.x * own);
            v[1] = fmaf(v[1], old, x.y * own);
            v[2] = fmaf(v[2], old, x.z * own);
            v[3] = fmaf(v[3], old, x.w * own);
        }
        const float inverse = valid ? 1 / sum : 0;
        for (int e = 0; e < 4; e++)
            v[e] *= inverse;
        write_values(a.out, (size_t)row * size + 4 * i, v, valid);
    }
}

#endif
