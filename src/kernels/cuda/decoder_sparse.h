/* SPDX-License-Identifier: Apache-2.0
 * Feed-forward layers of which only the neurons are computed that the gates open widest: the gates
 * of all, then rows of W_up and columns of W_down of those that are chosen. Columns are together in
 * a copy of W_down by neuron.
 *
 * All sums have a fixed order, so that a row has the same bits in any batch. */
#ifndef WISP_KERNELS_CUDA_DECODER_SPARSE_H
#define WISP_KERNELS_CUDA_DECODER_SPARSE_H

#include "kernels/cuda/decoder_rows.h"

enum {
    SELECT_THREADS = 1024,
    NEURON_WARPS = 8,
    SLICE_OUTPUTS = 4 * WARP,
    SELECT_EACH = MOST_NEURONS / SELECT_THREADS /* neurons of a thread at most */
};

/* ---- W_down by neuron ----------------------------------------------------------------------- */

struct columns_arguments {
    decoder_matrix down; /* [outputs, neurons], quantised */
    neuron_columns to;
    int first, rows; /* outputs [first, first + rows) */
};

/* A thread copies 32 numbers of an output. */
static __global__ void __launch_bounds__(ROW_THREADS) copy_columns(const columns_arguments a) {
    const size_t row = (size_t)blockIdx.x * ROW_THREADS + threadIdx.x, block = blockIdx.y;
    const size_t output = a.first + row, blocks = a.down.columns / VALUES;
    if (row >= (size_t)a.rows)
        return;
    for (int i = 0; i < VALUES; i++)
        a.to.values[(block * VALUES + i) * a.down.rows + output] =
            (int8_t)stored_number(a.down, output * blocks + block, i);
    a.to.scale[block * a.down.rows + output] = a.down.scale[output * blocks + block];
}

/* ---- the choice ----------------------------------------------------------------------------- */

/* The sum of x over this thread and those before it. */
static __device__ __forceinline__ int block_scan(int x) {
    __shared__ int totals[SELECT_THREADS / WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int step = 1; step < WARP; step *= 2) {
        const int before = __shfl_sync(ALL_LANES, x, (lane - step) & (WARP - 1));
        x += lane >= step ? before : 0;
    }
    if (lane == WARP - 1)
        totals[warp] = x;
    __syncthreads();
    for (int w = 0; w < warp; w++)
        x += totals[w];
    __syncthreads(); /* before the next scan's totals */
    return x;
}

struct select_arguments {
    const float *gate_up; /* [rows, 2 neurons]: gates first */
    const float *weight;  /* [neurons]: multiply the scores; NULL: none */
    int neurons, most, gate;
    neuron_list list;
};

/* The bits of the scores of a thread's neurons, which are in the order of scores; 0 where there are
 * none. */
static __device__ __forceinline__ void score_bits(int bits[SELECT_EACH], const select_arguments &a,
                                                  const float *gates, int first, int end) {
#pragma unroll
    for (int k = 0; k < SELECT_EACH; k++) {
        const int i = first + k;
        bits[k] =
            i < end
                ? __float_as_int(fabsf(open_gate(gates[i], a.gate) * (a.weight ? a.weight[i] : 1)))
                : 0;
    }
}

/* Returns how many of a thread's scores have at least these bits. */
static __device__ __forceinline__ int count_scores(const int bits[SELECT_EACH], int least) {
    int count = 0;
#pragma unroll
    for (int k = 0; k < SELECT_EACH; k++)
        count += bits[k] >= least;
    return count;
}

/* The sum over the threads of a block. Odd and even rounds keep what warps bring in other places,
 * so that one barrier is enough. */
static __device__ __forceinline__ int block_total(int x, int round) {
    __shared__ int totals[2][SELECT_THREADS / WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int step = WARP / 2; step > 0; step >>= 1)
        x += __shfl_xor_sync(ALL_LANES, x, step);
    if (lane == 0)
        totals[round & 1][warp] = x;
    __syncthreads();
    x = totals[round & 1][lane];
    for (int step = WARP / 2; step > 0; step >>= 1)
        x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

/* Lists the neurons whose score is above 0 and among the `most` largest, and all that are as large
 * as the last of these: those with at least the bits that are found here, from the highest on. A
 * block for each row. */
static __global__ void __launch_bounds__(SELECT_THREADS) select_neurons(const select_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    const float *gates = a.gate_up + (size_t)blockIdx.x * 2 * a.neurons;
    int32_t *index = a.list.index + (size_t)blockIdx.x * a.neurons;
    const int each = (a.neurons + SELECT_THREADS - 1) / SELECT_THREADS;
    const int first = min((int)threadIdx.x * each, a.neurons), end = min(first + each, a.neurons);
    int bits[SELECT_EACH], least = 0;
    score_bits(bits, a, gates, first, end);
    for (int bit = 30; bit >= 0; bit--)
        if (block_total(count_scores(bits, least | 1 << bit), bit) >= a.most)
            least |= 1 << bit;
    least = max(least, 1);
    const int own = count_scores(bits, least), sum = block_scan(own);
    int at = sum - own;
#pragma unroll
    for (int k = 0; k < SELECT_EACH; k++)
        if (bits[k] >= least)
            index[at++] = first + k;
    if (threadIdx.x == SELECT_THREADS - 1)
        a.list.count[blockIdx.x] = sum;
}

/* ---- products ------------------------------------------------------------------------------- */

struct neuron_arguments {
    decoder_rows x; /* [rows, up.columns] */
    decoder_matrix up;
    float *gate_up; /* [rows, 2 neurons]: in the place of what gates let through, the values of the
                       list */
    neuron_list list;
    int gate;
};

/* Writes f(gate) * up of the neurons of each row's list, a warp for each. */
template <int FORMAT>
static __global__ void __launch_bounds__(NEURON_WARPS *WARP)
    multiply_neurons(const neuron_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = blockIdx.y,
              blocks = (int)a.up.columns / VALUES;
    const int8_t *x = a.x.q + (size_t)row * a.up.columns;
    const float *x_scale = a.x.scale + (size_t)row * blocks;
    float *gates = a.gate_up + (size_t)row * 2 * a.up.rows, *values = gates + a.up.rows;
    const int32_t *index = a.list.index + (size_t)row * a.up.rows;
    for (int at = blockIdx.x * NEURON_WARPS + warp; at < a.list.count[row];
         at += gridDim.x * NEURON_WARPS) {
        const size_t neuron = index[at], first = neuron * blocks;
        float sum = 0;
        for (int block = lane; block < blocks; block += WARP) {
            weight_block<FORMAT> own;
            own.load(a.up.values, a.up.scale, first + block);
            const uint4 *from = (const uint4 *)(x + block * VALUES);
            const uint4 v[2] = {from[0], from[1]};
            sum = fmaf((float)own.dot(v), x_scale[block] * own.scale, sum);
        }
        sum = lanes_sum<WARP>(sum);
        if (lane == 0)
            values[at] = sum * open_gate(gates[neuron], a.gate);
    }
}

struct columns_sum_arguments {
    neuron_columns down;
    const float *gate_up; /* [rows, 2 neurons]: the values of the list come second */
    neuron_list list;
    int neurons, outputs;
    float *slices; /* [rows, SLICES, outputs] */
};

/* Sums the columns of a slice of each row's list. */
static __global__ void __launch_bounds__(NEURON_WARPS *WARP)
    sum_columns(const columns_sum_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    __shared__ float share[NEURON_WARPS][SLICE_OUTPUTS];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, slice = blockIdx.y,
              row = blockIdx.z;
    const int output = blockIdx.x * SLICE_OUTPUTS + 4 * lane, count = a.list.count[row];
    const float *values = a.gate_up + ((size_t)row * 2 + 1) * a.neurons;
    const int32_t *index = a.list.index + (size_t)row * a.neurons;
    /* Neurons beside each other, which share scales. */
    const int each = (count + SLICES * NEURON_WARPS - 1) / (SLICES * NEURON_WARPS);
    const int begin = (slice * NEURON_WARPS + warp) * each, end = min(begin + each, count);
    float sum[4] = {};
#pragma unroll 8
    for (int at = begin; at < end; at++) {
        if (output >= a.outputs)
            break;
        const size_t neuron = index[at];
        const float value = values[at];
        const uint32_t q = *(const uint32_t *)(a.down.values + neuron * a.outputs + output);
        const uint2 scale = *(const uint2 *)(a.down.scale + neuron / VALUES * a.outputs + output);
        const float scales[4] = {low_half(scale.x), high_half(scale.x), low_half(scale.y),
                                 high_half(scale.y)};
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] = fmaf(value, (float)(int8_t)(q >> 8 * i & 0xff) * scales[i], sum[i]);
    }
    for (int i = 0; i < 4; i++)
        share[warp][4 * lane + i] = sum[i];
    __syncthreads();
    for (int i = threadIdx.x; i < SLICE_OUTPUTS && (int)blockIdx.x * SLICE_OUTPUTS + i < a.outputs;
         i += NEURON_WARPS * WARP) {
        float all = 0;
        for (int w = 0; w < NEURON_WARPS; w++)
            all += share[w][i];
        a.slices[((size_t)row * SLICES + slice) * a.outputs + blockIdx.x * SLICE_OUTPUTS + i] = all;
    }
}

#endif
