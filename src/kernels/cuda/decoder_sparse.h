/* SPDX-License-Identifier: Apache-2.0
 * Feed-forward layers that compute only the neurons that their gates open widest. A neuron's score
 * is |f(gate)| times its weight. Scores are chosen by a limit: either the layer's own, which is
 * known before, or the one that the largest of them have, which are counted in bins.
 *
 * A step of one row gathers: it reads rows of W_up, and columns of W_down, of chosen neurons alone.
 * sum_neurons does it, each block for some neurons, and add_slices adds up what the blocks have
 * summed. With the layer's limit sum_neurons computes the gates, too; else open_gates comes first.
 * A step of several rows would read nearly all neurons for one row or another: it computes all, and
 * mask_gates shuts the gates of the others.
 *
 * All sums have a fixed order. */
#ifndef WISP_KERNELS_CUDA_DECODER_SPARSE_H
#define WISP_KERNELS_CUDA_DECODER_SPARSE_H

#include "kernels/cuda/decoder_rows.h"

enum {
    NEURON_WARPS = 8,
    NEURON_THREADS = NEURON_WARPS * WARP,
    LANE = 16,             /* outputs of a lane of sum_columns */
    OUTPUTS = LANE * WARP, /* of a warp */
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
    neuron_columns down;
    neuron_choice choice;
    int outputs;        /* of W_down */
    int each;           /* neurons of a block of sum_neurons: 8, 16 or 32 */
    float *opened;      /* [neurons]: f(gate), if scores are counted */
    int32_t *bins;      /* [SCORE_BINS]: 0 before; how many scores each has */
    float *slices;      /* [neurons / each, outputs]: the sums of each block */
    uint32_t *computed; /* neurons that are chosen are added to it */
};

/* A lane's share of the product of the row with that of a neuron. */
template <int FORMAT>
static __device__ __forceinline__ float multiply_neuron(weight_stream<FORMAT> &weights,
                                                        const decoder_rows &x, int lane) {
    float sum = 0;
    weights.each(lane, [&](const weight_block<FORMAT> &own, int block) {
        sum = multiply_bytes(own, x, block, sum);
    });
    return sum;
}

/* Computes the gates of all neurons, a warp for each, and counts their scores. */
template <int FORMAT>
static __global__ void __launch_bounds__(NEURON_THREADS) open_gates(const neuron_arguments a) {
    const int lane = threadIdx.x % WARP, blocks = (int)a.gate.columns / VALUES;
    const int neuron = blockIdx.x * NEURON_WARPS + threadIdx.x / WARP;
    weight_stream<FORMAT> weights;
    start_next_kernel();
    weights.begin(a.gate.values, a.gate.scale, neuron, blocks, lane); /* weights do not wait */
    wait_for_kernel();
    const float opened =
        open_gate(lanes_sum<WARP>(multiply_neuron(weights, a.x, lane)), a.choice.gate);
    if (lane > 0)
        return;
    a.opened[neuron] = opened;
    atomicAdd(&a.bins[score_bits(a.choice, opened, neuron) >> SCORE_SHIFT], 1);
}

/* A lane's bytes of a column. */
struct column_bytes {
    uint4 words;
    /* A byte as a float: a word of 2^23 has a unit in its last place. */
    __device__ __forceinline__ float at(int i) const {
        const uint32_t word[4] = {words.x, words.y, words.z, words.w};
        const uint32_t shifted = word[i / 4] ^ 0x80808080u;
        return __int_as_float((int)__byte_perm(shifted, 0x4b000000u, 0x7440 + i % 4)) - 8388736.0f;
    }
};

/* Sums, for the outputs of a lane, the columns of neurons first + i, for each bit i of `left`. Lane
 * i has the value of neuron first + i. */
static __device__ __forceinline__ void sum_columns(float sum[LANE], const neuron_arguments &a,
                                                   int first, float value, unsigned left,
                                                   int output) {
    const bool valid = output < a.outputs;
    uint4 scale[2] = {}; /* on their way while columns are */
    if (valid) {
        const uint4 *from =
            (const uint4 *)(a.down.scale + (size_t)(first / VALUES) * a.outputs + output);
        scale[0] = from[0], scale[1] = from[1];
    }
    while (left) {
        column_bytes column[COLUMNS_AHEAD] = {};
        float own[COLUMNS_AHEAD];
#pragma unroll
        for (int k = 0; k < COLUMNS_AHEAD; k++) {
            const int i = left ? __ffs((int)left) - 1 : 0;
            own[k] = __shfl_sync(ALL_LANES, value, i);
            own[k] = left ? own[k] : 0;
            if (valid && left)
                column[k].words =
                    *(const uint4 *)(a.down.values + (size_t)(first + i) * a.outputs + output);
            left &= left - 1;
        }
#pragma unroll
        for (int k = 0; k < COLUMNS_AHEAD; k++)
#pragma unroll
            for (int i = 0; i < LANE; i++)
                sum[i] = fmaf(own[k], column[k].at(i), sum[i]);
    }
    const uint32_t scales[LANE / 2] = {scale[0].x, scale[0].y, scale[0].z, scale[0].w,
                                       scale[1].x, scale[1].y, scale[1].z, scale[1].w};
#pragma unroll
    for (int i = 0; i < LANE; i++)
        sum[i] *= i % 2 ? high_half(scales[i / 2]) : low_half(scales[i / 2]);
}

/* Sums the columns of a block's neurons: a warp those of OUTPUTS outputs. If there are fewer
 * outputs, several warps share out their neurons. */
static __device__ __forceinline__ void sum_block(const neuron_arguments &a, int first, float value,
                                                 bool chosen) {
    alignas(16) __shared__ float share[NEURON_WARPS][OUTPUTS];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int chunks = (a.outputs + OUTPUTS - 1) / OUTPUTS;
    const int parts = chunks < NEURON_WARPS ? NEURON_WARPS / chunks : 1;
    const int before =
        __popc(__ballot_sync(ALL_LANES, chosen) & ((1u << lane) - 1)); /* that are chosen */
    float *slice = a.slices + (size_t)blockIdx.x * a.outputs;
    for (int base = 0; base < chunks; base += NEURON_WARPS) {
        const int chunk = base + warp % min(chunks, (int)NEURON_WARPS), part = warp / chunks;
        float sum[LANE] = {};
        const unsigned own = __ballot_sync(ALL_LANES, chosen && before % parts == part);
        const int output = chunk * OUTPUTS + lane * LANE;
        sum_columns(sum, a, first, value, own, output);
#pragma unroll
        for (int i = 0; i < LANE; i += 4) {
            const float4 four = {sum[i], sum[i + 1], sum[i + 2], sum[i + 3]};
            if (parts > 1)
                *(float4 *)&share[warp][lane * LANE + i] = four;
            else if (output < a.outputs)
                *(float4 *)(slice + output + i) = four;
        }
    }
    if (parts == 1)
        return;
    __syncthreads();
    for (int i = threadIdx.x; i < a.outputs; i += NEURON_THREADS) {
        float all = 0;
        for (int part = 0; part < parts; part++)
            all += share[part * chunks + i / OUTPUTS][i % OUTPUTS];
        slice[i] = all;
    }
}

/* Returns f(gate) of neuron first + lane, of `each` lanes, if its score is among the largest, else
 * 0. All warps of a block have the same. */
static __device__ __forceinline__ float choose_counted(const neuron_arguments &a, int first) {
    const int lane = threadIdx.x % WARP, limit = counted_limit(a.bins, a.choice.most);
    const float own = lane < a.each ? a.opened[first + lane] : 0;
    return lane < a.each && score_bits(a.choice, own, first + lane) >= limit ? own : 0;
}

/* Computes the gates, of which `weights` has begun a warp's first, and returns f(gate) of neuron
 * first + lane if its score reaches the layer's limit, else 0. */
template <int FORMAT>
static __device__ __forceinline__ float choose_limited(weight_stream<FORMAT> &weights,
                                                       const neuron_arguments &a, int first) {
    __shared__ float opened[VALUES];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (int i = warp; i < a.each; i += NEURON_WARPS) {
        const float sum = multiply_neuron(weights, a.x, lane);
        if (i + NEURON_WARPS < a.each)
            weights.begin(a.gate.values, a.gate.scale, first + i + NEURON_WARPS,
                          (int)a.gate.columns / VALUES, lane);
        const float own = open_gate(lanes_sum<WARP>(sum), a.choice.gate);
        if (lane == 0)
            opened[i] =
                score_bits(a.choice, own, first + i) >= known_limit(a.choice.least) ? own : 0;
    }
    __syncthreads();
    return lane < a.each ? opened[lane] : 0;
}

/* Computes the chosen neurons of a block, and sums their columns of W_down. */
template <int FORMAT, bool COUNTED>
static __global__ void __launch_bounds__(NEURON_THREADS, 3) sum_neurons(const neuron_arguments a) {
    __shared__ float values[VALUES];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, first = blockIdx.x * a.each;
    const int blocks = (int)a.up.columns / VALUES;
    weight_stream<FORMAT> weights;
    start_next_kernel();
    if (!COUNTED) /* weights do not wait */
        weights.begin(a.gate.values, a.gate.scale, first + warp, blocks, lane);
    wait_for_kernel();
    const float opened =
        COUNTED ? choose_counted(a, first) : choose_limited<FORMAT>(weights, a, first);
    const bool chosen = opened != 0;
    const unsigned all = __ballot_sync(ALL_LANES, chosen);
    if (threadIdx.x == 0)
        atomicAdd(a.computed, (uint32_t)__popc(all));
    unsigned left = all;
    for (int at = 0; left; at++, left &= left - 1) { /* warps take neurons in turn */
        if (at % NEURON_WARPS != warp)
            continue;
        const int i = __ffs((int)left) - 1;
        weights.begin(a.up.values, a.up.scale, first + i, blocks, lane);
        const float up = lanes_sum<WARP>(multiply_neuron(weights, a.x, lane));
        const float value = __shfl_sync(ALL_LANES, opened, i) * up;
        if (lane == 0)
            values[i] = value;
    }
    __syncthreads();
    sum_block(a, first, chosen ? values[lane] : 0, chosen);
}

struct slices_arguments {
    const float *slices; /* [count, outputs] */
    int count, outputs;
    int32_t *bins; /* are 0 after; NULL: none */
    float *h;      /* [outputs]: sums are added to it */
};

/* Adds slices to the hidden states: a block for each 32 outputs, whose threads share out the
 * slices. */
static __global__ void __launch_bounds__(NEURON_THREADS) add_slices(const slices_arguments a) {
    enum { FOURS = VALUES / 4, PARTS = NEURON_THREADS / FOURS };
    alignas(16) __shared__ float share[PARTS][VALUES];
    start_next_kernel();
    wait_for_kernel();
    const int part = threadIdx.x / FOURS, at = threadIdx.x % FOURS * 4;
    const int first = blockIdx.x * VALUES;
    float4 sum = {0, 0, 0, 0};
#pragma unroll 8
    for (int slice = part; slice < a.count; slice += PARTS) {
        const float4 x =
            __ldcg((const float4 *)(a.slices + (size_t)slice * a.outputs + first + at));
        sum = {sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w};
    }
    *(float4 *)&share[part][at] = sum;
    for (int bin = threadIdx.x; a.bins && blockIdx.x == 0 && bin < SCORE_BINS;
         bin += NEURON_THREADS)
        a.bins[bin] = 0;
    __syncthreads();
    if (threadIdx.x >= VALUES)
        return;
    float all = a.h[first + threadIdx.x];
#pragma unroll
    for (int p = 0; p < PARTS; p++)
        all += share[p][threadIdx.x];
    a.h[first + threadIdx.x] = all;
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
