/* SPDX-License-Identifier: Apache-2.0
 * Feed-forward layers that compute only the neurons that their gates open widest. A neuron's score
 * is |f(gate)| times its weight. Scores are chosen by a limit: either the layer's own, which is
 * known before, or the one that the largest of them have, which are counted in bins.
 *
 * A step of one row gathers: it reads rows of W_up, and columns of W_down, of chosen neurons alone.
 * With the layer's limit open_gates, a warp for each neuron, goes on to W_up by itself; else
 * multiply_open follows. sum_columns comes last. A step of several rows would read nearly all
 * neurons for one row or another: it computes all, and mask_gates shuts the gates of the others.
 *
 * All sums have a fixed order. */
#ifndef WISP_KERNELS_CUDA_DECODER_SPARSE_H
#define WISP_KERNELS_CUDA_DECODER_SPARSE_H

#include "kernels/cuda/decoder_rows.h"

enum {
    NEURON_WARPS = 8,
    NEURON_THREADS = NEURON_WARPS * WARP,
    LANE = 8,              /* outputs of a lane of sum_columns */
    OUTPUTS = LANE * WARP, /* of a block */
    COLUMNS_AHEAD = 8      /* columns of W_down that a warp has on their way */
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

struct neuron_choice {
    const float *weight; /* [neurons]: of scores; NULL: none */
    const float *least;  /* the layer's limit; NULL: scores are counted */
    int neurons, most, gate;
};

/* The bits of a score, which are in the order of scores. NaN is above all. */
static __device__ __forceinline__ int score_bits(const neuron_choice &c, float opened, int neuron) {
    return __float_as_int(fabsf(opened * (c.weight ? c.weight[neuron] : 1)));
}

/* The least bits of a score that is chosen by the layer's limit. A score of 0 never is. */
static __device__ __forceinline__ int known_limit(const float *least) {
    return max(__float_as_int(*least), 1);
}

/* The least bits of the `most` largest scores, and of all in the bin of the last of these. All
 * threads of a block of NEURON_THREADS call it. */
static __device__ __forceinline__ int counted_limit(const int32_t *bins, int most) {
    enum { EACH = SCORE_BINS / NEURON_THREADS };
    __shared__ int totals[NEURON_WARPS], found;
    const int thread = threadIdx.x, warp = thread / WARP, lane = thread % WARP;
    const int first =
        SCORE_BINS - EACH * (thread + 1); /* the first threads have the highest bins */
    int count[EACH], own = 0;
#pragma unroll
    for (int i = 0; i < EACH; i += 4) {
        const int4 four = *(const int4 *)(bins + first + i);
        count[i] = four.x, count[i + 1] = four.y, count[i + 2] = four.z, count[i + 3] = four.w;
        own += (four.x + four.y) + (four.z + four.w);
    }
    int above = own;
    for (int step = 1; step < WARP; step *= 2) {
        const int before = __shfl_sync(ALL_LANES, above, (lane - step) & (WARP - 1));
        above += lane >= step ? before : 0;
    }
    if (lane == WARP - 1)
        totals[warp] = above;
    if (thread == 0)
        found = 0;
    __syncthreads();
    above -= own;
    for (int w = 0; w < warp; w++)
        above += totals[w];
    if (above < most && above + own >= most) {
        int bin = EACH;
#pragma unroll
        for (int i = EACH - 1; i >= 0; i--) {
            bin = above < most ? i : bin;
            above += count[i];
        }
        found = first + bin;
    }
    __syncthreads();
    return max(found << SCORE_SHIFT, 1);
}

/* ---- one row -------------------------------------------------------------------------------- */

struct neuron_arguments {
    decoder_rows x; /* one row */
    decoder_matrix gate, up;
    neuron_choice choice;
    float *opened; /* [neurons]: f(gate), if scores are counted */
    float *values; /* [neurons]: f(gate) * up of those chosen, 0 of others */
    int32_t *bins; /* [SCORE_BINS]: 0 before; how many scores each has */
};

/* The product of the row with that of a neuron, in all lanes of a warp. */
template <int FORMAT>
static __device__ __forceinline__ float multiply_neuron(weight_stream<FORMAT> &weights,
                                                        const decoder_rows &x, int lane) {
    float sum = 0;
    weights.each(lane, [&](const weight_block<FORMAT> &own, int block) {
        sum = multiply_bytes(own, x, block, sum);
    });
    return lanes_sum<WARP>(sum);
}

/* Computes the gates of all neurons, a warp for each. */
template <int FORMAT>
static __global__ void __launch_bounds__(NEURON_THREADS) open_gates(const neuron_arguments a) {
    const int lane = threadIdx.x % WARP, blocks = (int)a.gate.columns / VALUES;
    const int neuron = blockIdx.x * NEURON_WARPS + threadIdx.x / WARP;
    weight_stream<FORMAT> weights;
    start_next_kernel();
    weights.begin(a.gate.values, a.gate.scale, neuron, blocks, lane); /* weights do not wait */
    wait_for_kernel();
    const float opened = open_gate(multiply_neuron(weights, a.x, lane), a.choice.gate);
    const int bits = score_bits(a.choice, opened, neuron);
    float value = 0;
    if (a.choice.least && bits >= known_limit(a.choice.least)) {
        weights.begin(a.up.values, a.up.scale, neuron, blocks, lane);
        value = opened * multiply_neuron(weights, a.x, lane);
    }
    if (lane > 0)
        return;
    if (a.choice.least) {
        a.values[neuron] = value;
    } else {
        a.opened[neuron] = opened;
        atomicAdd(&a.bins[bits >> SCORE_SHIFT], 1);
    }
}

/* Computes the values of the neurons of a group of 32 whose scores are among the largest. */
template <int FORMAT>
static __global__ void __launch_bounds__(NEURON_THREADS) multiply_open(const neuron_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, first = blockIdx.x * VALUES;
    const float opened = a.opened[first + lane];
    const int bits = score_bits(a.choice, opened, first + lane);
    const bool chosen = bits >= counted_limit(a.bins, a.choice.most);
    if (warp == 0 && !chosen)
        a.values[first + lane] = 0;
    unsigned left = __ballot_sync(ALL_LANES, chosen);
    for (int at = 0; left; at++, left &= left - 1) { /* warps take neurons in turn */
        if (at % NEURON_WARPS != warp)
            continue;
        const int i = __ffs((int)left) - 1;
        weight_stream<FORMAT> weights;
        weights.begin(a.up.values, a.up.scale, first + i, (int)a.up.columns / VALUES, lane);
        const float value = __shfl_sync(ALL_LANES, opened, i) * multiply_neuron(weights, a.x, lane);
        if (lane == 0)
            a.values[first + i] = value;
    }
}

struct sum_arguments {
    neuron_columns down;
    const float *values; /* [neurons] */
    int neurons, outputs;
    int rounds;         /* groups of 32 neurons that a warp sums */
    float *slices;      /* [gridDim.y, outputs] */
    int32_t *arrived;   /* [gridDim.x]: 0 before and after */
    int32_t *bins;      /* are 0 after; NULL: none */
    uint32_t *computed; /* neurons that have values are added to it */
    float *h;           /* [outputs]: sums are added to it */
};

/* A lane's bytes of a column. */
struct column_bytes {
    uint32_t word[LANE / 4];
    __device__ __forceinline__ void load(const int8_t *from) {
        const uint2 v = *(const uint2 *)from;
        word[0] = v.x, word[1] = v.y;
    }
    /* A byte as a float: a word of 2^23 has a unit in its last place. */
    __device__ __forceinline__ float at(int i) const {
        const uint32_t shifted = word[i / 4] ^ 0x80808080u;
        return __int_as_float((int)__byte_perm(shifted, 0x4b000000u, 0x7440 + i % 4)) - 8388736.0f;
    }
};

/* Adds the columns of a group of 32 neurons, times the neurons' values, to a lane's sums. */
static __device__ __forceinline__ void sum_group(float sums[LANE], const sum_arguments &a,
                                                 int group, float value, unsigned left,
                                                 int output) {
    const bool valid = output < a.outputs;
    float sum[LANE] = {};
    uint4 scale = {0, 0, 0, 0}; /* on its way while columns are */
    if (valid)
        scale = *(const uint4 *)(a.down.scale + (size_t)group * a.outputs + output);
    const uint32_t scales[LANE / 2] = {scale.x, scale.y, scale.z, scale.w};
    while (left) {
        column_bytes column[COLUMNS_AHEAD] = {};
        float own[COLUMNS_AHEAD];
#pragma unroll
        for (int k = 0; k < COLUMNS_AHEAD; k++) {
            const int i = left ? __ffs((int)left) - 1 : 0;
            own[k] = __shfl_sync(ALL_LANES, value, i);
            own[k] = left ? own[k] : 0;
            if (valid && left)
                column[k].load(a.down.values + ((size_t)group * VALUES + i) * a.outputs + output);
            left &= left - 1;
        }
#pragma unroll
        for (int k = 0; k < COLUMNS_AHEAD; k++)
#pragma unroll
            for (int i = 0; i < LANE; i++)
                sum[i] = fmaf(own[k], column[k].at(i), sum[i]);
    }
#pragma unroll
    for (int i = 0; i < LANE; i++)
        sums[i] = fmaf(sum[i], i % 2 ? high_half(scales[i / 2]) : low_half(scales[i / 2]), sums[i]);
}

/* Returns, in all threads of a block, whether it is the last of `blocks` that call this. What all
 * have written before can then be read. */
static __device__ __forceinline__ bool arrive_last(int32_t *arrived, int blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1) == blocks - 1;
        if (last)
            *arrived = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

/* Adds all slices of a block's outputs to the hidden states. Threads share out the slices. */
static __device__ __forceinline__ void add_slices(float (*share)[OUTPUTS], const sum_arguments &a,
                                                  int first, int end) {
    enum { FOURS = OUTPUTS / 4, PARTS = NEURON_THREADS / FOURS };
    const int part = threadIdx.x / FOURS, at = threadIdx.x % FOURS * 4;
    float4 sum = {0, 0, 0, 0};
    if (at < end)
#pragma unroll 8
        for (int slice = part; slice < (int)gridDim.y; slice += PARTS) {
            const float4 x =
                __ldcg((const float4 *)(a.slices + (size_t)slice * a.outputs + first + at));
            sum = {sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w};
        }
    *(float4 *)&share[part][at] = sum;
    __syncthreads();
    for (int i = threadIdx.x; i < end; i += NEURON_THREADS) {
        float all = a.h[first + i];
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            all += share[p][i];
        a.h[first + i] = all;
    }
}

/* Sums columns of W_down: a block those of some outputs and a slice of the neurons, and the
 * last block of these outputs the slices. */
static __global__ void __launch_bounds__(NEURON_THREADS) sum_columns(const sum_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    alignas(16) __shared__ float share[NEURON_WARPS][OUTPUTS];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, first = blockIdx.x * OUTPUTS;
    const int end = min(a.outputs - first, (int)OUTPUTS), groups = a.neurons / VALUES;
    float sums[LANE] = {};
    int group = blockIdx.y * a.rounds * NEURON_WARPS + warp;
    float next = group < groups ? a.values[group * VALUES + lane] : 0;
    for (int round = 0; round < a.rounds; round++, group += NEURON_WARPS) {
        const float value = next;
        const bool more = round + 1 < a.rounds && group + NEURON_WARPS < groups;
        next = more ? a.values[(group + NEURON_WARPS) * VALUES + lane] : 0;
        const unsigned chosen = __ballot_sync(ALL_LANES, value != 0);
        if (!chosen)
            continue;
        if (blockIdx.x == 0 && lane == 0)
            atomicAdd(a.computed, (uint32_t)__popc(chosen));
        sum_group(sums, a, group, value, chosen, first + LANE * lane);
    }
    for (int i = 0; i < LANE; i++)
        share[warp][LANE * lane + i] = sums[i];
    for (int bin = threadIdx.x; a.bins && blockIdx.x + blockIdx.y == 0 && bin < SCORE_BINS;
         bin += NEURON_THREADS)
        a.bins[bin] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < end; i += NEURON_THREADS) {
        float all = 0;
        for (int w = 0; w < NEURON_WARPS; w++)
            all += share[w][i];
        a.slices[(size_t)blockIdx.y * a.outputs + first + i] = all;
    }
    if (arrive_last(a.arrived + blockIdx.x, (int)gridDim.y))
        add_slices(share, a, first, end);
}

/* ---- several rows --------------------------------------------------------------------------- */

struct mask_arguments {
    float *gate_up; /* [rows, 2 neurons]: gates first */
    neuron_choice choice;
    uint32_t *computed; /* neurons whose gates stay open are added to it */
};

/* Sets the gates of neurons that are not chosen to 0, a block for each row. */
static __global__ void __launch_bounds__(NEURON_THREADS) mask_gates(const mask_arguments a) {
    start_next_kernel();
    wait_for_kernel();
    alignas(16) __shared__ int32_t bins[SCORE_BINS];
    const int neurons = a.choice.neurons;
    float *gates = a.gate_up + (size_t)blockIdx.x * 2 * neurons;
    const auto bits = [&](int i) {
        return score_bits(a.choice, open_gate(gates[i], a.choice.gate), i);
    };
    if (!a.choice.least) {
        for (int bin = threadIdx.x; bin < SCORE_BINS; bin += NEURON_THREADS)
            bins[bin] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < neurons; i += NEURON_THREADS)
            atomicAdd(&bins[bits(i) >> SCORE_SHIFT], 1);
        __syncthreads();
    }
    const int limit =
        a.choice.least ? known_limit(a.choice.least) : counted_limit(bins, a.choice.most);
    int count = 0;
    for (int i = threadIdx.x; i < neurons; i += NEURON_THREADS) {
        const bool chosen = bits(i) >= limit;
        count += chosen;
        if (!chosen)
            gates[i] = 0;
    }
    for (int step = WARP / 2; step > 0; step >>= 1)
        count += __shfl_xor_sync(ALL_LANES, count, step);
    if (threadIdx.x % WARP == 0)
        atomicAdd(a.computed, (uint32_t)count);
}

#endif
