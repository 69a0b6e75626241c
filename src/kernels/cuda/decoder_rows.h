/* SPDX-License-Identifier: Apache-2.0
 * The steps of decoders between products: look up rows, norm them, gate them, and write them as the
 * next product reads them. Sizes are multiples of 32. */
#ifndef WISP_KERNELS_CUDA_DECODER_ROWS_H
#define WISP_KERNELS_CUDA_DECODER_ROWS_H

#include "kernels/cuda/decoder_product.h"
#include "kernels/cuda/rows.h"

enum { ROW_THREADS = 256, BLOCK_LANES = VALUES / 4 };

/* Four quantised values in a word. */
static __device__ __forceinline__ uint32_t quantise_4(const float x[4], float inverse) {
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        word |= ((uint32_t)__float_as_int(fmaf(x[i], inverse, ROUNDING)) & 0xff) << 8 * i;
    return word;
}

/* The scale of values of which `largest` is the largest, and its inverse: 0 for values that are as
 * good as 0. */
static __device__ __forceinline__ float scale_of(float largest) {
    return largest * (1.0f / 127);
}
static __device__ __forceinline__ float inverse_scale(float largest) {
    return largest > 1e-30f ? 127 * reciprocal_near(largest) : 0;
}

/* The largest magnitude of a block of 32 values, of which 8 neighbouring lanes have 4 each. NaN is
 * larger than all: its bits are. */
static __device__ __forceinline__ float block_largest(const float v[4]) {
    int bits = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits = max(bits, __float_as_int(fabsf(v[i])));
#pragma unroll
    for (int step = BLOCK_LANES / 2; step > 0; step >>= 1)
        bits = max(bits, __shfl_xor_sync(ALL_LANES, bits, step));
    return __int_as_float(bits);
}

/* The nearest number to x that a half can be. NaN stays NaN. */
static __device__ __forceinline__ float within_halves(float x) {
    const float most = 65504;
    return x > most ? most : x < -most ? -most : x;
}

/* Writes values [at, at + 4) of rows. All lanes of a warp call it; those that are not valid write
 * nothing. */
static __device__ __forceinline__ void write_values(const decoder_rows &out, size_t at,
                                                    const float v[4], bool valid) {
    const float largest = block_largest(v);
    if (!valid)
        return;
    if (out.halves) {
        const uint2 halves = {halves_of(within_halves(v[0]), within_halves(v[1])),
                              halves_of(within_halves(v[2]), within_halves(v[3]))};
        if (!out.staged) {
            *(uint2 *)(out.halves + at) = halves;
            return;
        }
        *(uint32_t *)(out.halves + place_in_stage(at)) = halves.x;
        *(uint32_t *)(out.halves + place_in_stage(at + 2)) = halves.y;
        return;
    }
    *(uint32_t *)(out.q + at) = quantise_4(v, inverse_scale(largest));
    if (at % VALUES == 0)
        out.scale[at / VALUES] = scale_of(largest);
}

/* Sums over the threads of a block. */
static __device__ __forceinline__ float block_sum(float x) {
    __shared__ float sums[ROW_THREADS / WARP];
    x = lanes_sum<WARP>(x);
    if (threadIdx.x % WARP == 0)
        sums[threadIdx.x / WARP] = x;
    __syncthreads();
    float all = 0;
    for (int i = 0; i < ROW_THREADS / WARP; i++)
        all += sums[i];
    return all;
}

/* Number i of a block of quantised weights. */
static __device__ __forceinline__ int stored_number(const decoder_matrix &m, size_t block, int i) {
    if (m.format == DEVICE_Q8_0)
        return ((const int8_t *)m.values)[block * VALUES + i];
    return (m.values[block * (VALUES / 2) + i / 8 * 4 + i % 4] >> (i % 8 < 4 ? 0 : 4) & 15) - 8;
}

struct look_up_arguments {
    const int32_t *ids; /* [rows] */
    decoder_matrix tokens;
    float *h; /* [rows, tokens.columns] */
};

/* Writes embeddings of tokens, a block for each row. */
static __global__ void __launch_bounds__(ROW_THREADS) look_up_rows(const look_up_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    const size_t size = a.tokens.columns, token = a.ids[blockIdx.x], first = token * size;
    float *h = a.h + blockIdx.x * size;
    for (size_t i = threadIdx.x; i < size; i += ROW_THREADS) {
        const size_t at = first + i;
        if (a.tokens.format == DEVICE_F16) {
            h[i] = low_half(((const uint16_t *)a.tokens.values)[at]);
            continue;
        }
        h[i] = (float)stored_number(a.tokens, at / VALUES, i % VALUES) *
               low_half(a.tokens.scale[at / VALUES]);
    }
}

struct rms_norm_arguments {
    const float *x;     /* [any, size] */
    const int32_t *map; /* [rows]: the row of x that becomes a row; NULL: the same */
    const float *weight;
    float epsilon;
    int size;
    decoder_rows out; /* [rows, size] */
};

/* Writes rms_norm(x), a block for each row. */
static __global__ void __launch_bounds__(ROW_THREADS) rms_norm_rows(const rms_norm_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    const size_t row = blockIdx.x, from = a.map ? (size_t)a.map[row] : row;
    const float *x = a.x + from * a.size;
    const int chunks = a.size / 4;
    float squares = 0;
    for (int i = threadIdx.x; i < chunks; i += ROW_THREADS) {
        const float4 v = *(const float4 *)(x + 4 * i);
        squares += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    }
    const float inverse = rsqrtf(block_sum(squares) / (float)a.size + a.epsilon);
    for (int first = 0; first < chunks; first += ROW_THREADS) {
        const int i = first + threadIdx.x;
        const bool valid = i < chunks;
        const float4 v = valid ? *(const float4 *)(x + 4 * i) : float4{0, 0, 0, 0};
        const float4 w = valid ? *(const float4 *)(a.weight + 4 * i) : float4{0, 0, 0, 0};
        const float normed[4] = {v.x * inverse * w.x, v.y * inverse * w.y, v.z * inverse * w.z,
                                 v.w * inverse * w.w};
        write_values(a.out, row * a.size + 4 * i, normed, valid);
    }
}

/* f(x) of a gate. */
static __device__ __forceinline__ float open_gate(float x, int gate) {
    const float positive = fmaxf(x, 0.0f);
    return gate == DEVICE_GATE_SILU   ? x / (1 + exp2_near(-1.4426950408889634f * x))
           : gate == DEVICE_GATE_RELU ? positive
                                      : positive * positive;
}

struct gate_arguments {
    const float *y; /* [rows, 2 size]: gates, and what they let through */
    int rows, size, gate;
    decoder_rows out; /* [rows, size] */
};

/* Writes f(gate) * up. */
static __global__ void __launch_bounds__(ROW_THREADS) gate_rows(const gate_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    const size_t chunk = (size_t)blockIdx.x * ROW_THREADS + threadIdx.x,
                 chunks = (size_t)a.rows * (a.size / 4);
    const bool valid = chunk < chunks;
    const size_t row = chunk / (a.size / 4), at = 4 * (chunk % (a.size / 4));
    float4 g = {0, 0, 0, 0}, u = {0, 0, 0, 0};
    if (valid) {
        g = *(const float4 *)(a.y + row * 2 * a.size + at);
        u = *(const float4 *)(a.y + row * 2 * a.size + a.size + at);
    }
    const float v[4] = {open_gate(g.x, a.gate) * u.x, open_gate(g.y, a.gate) * u.y,
                        open_gate(g.z, a.gate) * u.z, open_gate(g.w, a.gate) * u.w};
    write_values(a.out, row * a.size + at, v, valid);
}

#endif
