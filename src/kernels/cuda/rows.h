/* SPDX-License-Identifier: Apache-2.0
 * Whole rows of hidden states, a warp for each: norm, and the two forms in which the next products
 * read them. A row has 128 GROUPS values; lane i of the warp has values [4 i, 4 i + 4) of each
 * group of 128. */
#ifndef WISP_KERNELS_CUDA_ROWS_H
#define WISP_KERNELS_CUDA_ROWS_H

#include "kernels/cuda/ptx.h"

enum { GROUP = 128, LANE_VALUES = GROUP / WARP };

/* A float of 1.5 * 2^23 holds integers of up to 2^22 in its low bits: adding it rounds to the
 * nearest integer, ties to even, and its bits plus an integer are the float plus that integer. The
 * GPU adds 4 times as fast as it converts. */
#define ROUNDING 12582912.0f
enum { ROUNDING_BITS = 0x4b400000 };

struct norm_weights {
    const float *weight, *bias; /* [128 GROUPS] */
    float epsilon;
};

/* Hidden states as halves and, unless NULL, as bytes: in each group a value is its byte times the
 * scale, which is x, plus the least value, which is y. */
struct hidden_rows {
    uint16_t *x;   /* [rows, 128 GROUPS] */
    uint8_t *q;    /* [rows, 128 GROUPS] */
    float2 *scale; /* [rows, GROUPS] */
};

/* How the values of a group become bytes: times `inverse`, plus `zero`, a whole number. 254 steps
 * rather than 255 leave room for the rounding of both. */
struct byte_range {
    float step, inverse, zero;
    /* The range of values from `least` to `largest`, extended to include 0. */
    __device__ __forceinline__ byte_range(float least, float largest) {
        least = fminf(least, 0.0f);
        const float range = fmaxf(largest, 0.0f) - least;
        step = range * (1.0f / 254);
        inverse = range > 1e-30f ? 254 * reciprocal_near(range) : 0;
        zero = fmaf(-least, inverse, ROUNDING) - ROUNDING;
    }
    /* A value is its byte times x, plus y. */
    __device__ __forceinline__ float2 scale() const {
        const float2 both = {step, -zero * step};
        return both;
    }
    /* Four values as bytes in a word. */
    __device__ __forceinline__ uint32_t bytes(float a, float b, float c, float d) const {
        const float shift = ROUNDING + zero;
        const uint32_t low = __byte_perm((uint32_t)__float_as_int(fmaf(a, inverse, shift)),
                                         (uint32_t)__float_as_int(fmaf(b, inverse, shift)), 0x0040);
        const uint32_t high =
            __byte_perm((uint32_t)__float_as_int(fmaf(c, inverse, shift)),
                        (uint32_t)__float_as_int(fmaf(d, inverse, shift)), 0x0040);
        return __byte_perm(low, high, 0x5410);
    }
};

/* Writes v as a row of halves. */
template <int GROUPS>
static __device__ __forceinline__ void write_half_row(const float v[GROUPS][LANE_VALUES],
                                                      uint16_t *row, int lane) {
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        uint2 halves;
        halves.x = halves_of(v[g][0], v[g][1]);
        halves.y = halves_of(v[g][2], v[g][3]);
        *(uint2 *)(row + g * GROUP + lane * LANE_VALUES) = halves;
    }
}

/* Writes layer_norm(v[i]) as row `row` + i, if i < `rows`. The warp's lanes call it together.
 * Several rows at once hide the time that each sum over the lanes takes. */
template <int GROUPS, int AT_ONCE>
static __device__ __forceinline__ void
norm_rows_at(float v[AT_ONCE][GROUPS][LANE_VALUES], const norm_weights &norm,
             const hidden_rows &out, size_t row, int rows, int lane) {
    const float share = 1.0f / (GROUPS * GROUP);
    float sum[AT_ONCE] = {}, squares[AT_ONCE] = {};
    float least[AT_ONCE * GROUPS] = {}, largest[AT_ONCE * GROUPS] = {}; /* least: negative */
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++)
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            sum[r] += (v[r][g][0] + v[r][g][1]) + (v[r][g][2] + v[r][g][3]);
    lanes_sums<AT_ONCE>(sum);
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++)
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
#pragma unroll
            for (int i = 0; i < LANE_VALUES; i++) {
                v[r][g][i] = fmaf(sum[r], -share, v[r][g][i]);
                squares[r] = fmaf(v[r][g][i], v[r][g][i], squares[r]);
            }
    lanes_sums<AT_ONCE>(squares);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const int column = g * GROUP + lane * LANE_VALUES;
        const float4 w = *(const float4 *)(norm.weight + column),
                     b = *(const float4 *)(norm.bias + column);
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            const float inverse = rsqrtf(fmaf(squares[r], share, norm.epsilon));
            v[r][g][0] = fmaf(v[r][g][0] * inverse, w.x, b.x);
            v[r][g][1] = fmaf(v[r][g][1] * inverse, w.y, b.y);
            v[r][g][2] = fmaf(v[r][g][2] * inverse, w.z, b.z);
            v[r][g][3] = fmaf(v[r][g][3] * inverse, w.w, b.w);
#pragma unroll
            for (int i = 0; i < LANE_VALUES; i++) {
                largest[r * GROUPS + g] = fmaxf(largest[r * GROUPS + g], v[r][g][i]);
                least[r * GROUPS + g] = fmaxf(least[r * GROUPS + g], -v[r][g][i]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++)
        if (r < rows)
            write_half_row<GROUPS>(v[r], out.x + (row + r) * GROUPS * GROUP, lane);
    if (!out.q)
        return;
    lanes_maxima<AT_ONCE * GROUPS>(largest);
    lanes_maxima<AT_ONCE * GROUPS>(least);
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++) {
        if (r >= rows)
            break;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            const byte_range range(-least[r * GROUPS + g], largest[r * GROUPS + g]);
            *(uint32_t *)(out.q + (row + r) * GROUPS * GROUP + g * GROUP + lane * LANE_VALUES) =
                range.bytes(v[r][g][0], v[r][g][1], v[r][g][2], v[r][g][3]);
            if (lane == 0)
                out.scale[(row + r) * GROUPS + g] = range.scale();
        }
    }
}

template <int GROUPS>
static __device__ __forceinline__ void norm_row(float v[GROUPS][LANE_VALUES],
                                                const norm_weights &norm, const hidden_rows &out,
                                                size_t row, int lane) {
    norm_rows_at<GROUPS, 1>((float(*)[GROUPS][LANE_VALUES])v, norm, out, row, 1, lane);
}

/* Adds a row of halves to v. */
template <int GROUPS>
static __device__ __forceinline__ void add_half_row(float v[GROUPS][LANE_VALUES],
                                                    const uint16_t *row, int lane) {
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const uint2 h = *(const uint2 *)(row + g * GROUP + lane * LANE_VALUES);
        v[g][0] += low_half(h.x);
        v[g][1] += high_half(h.x);
        v[g][2] += low_half(h.y);
        v[g][3] += high_half(h.y);
    }
}

enum { ROW_WARPS = 8 };

struct embed_arguments {
    const int32_t *ids;        /* [rows] */
    const int32_t *position;   /* [rows] */
    const uint16_t *tokens;    /* [vocabulary, 128 GROUPS] */
    const uint16_t *positions; /* [positions, 128 GROUPS], with the embedding of token type 0 */
    norm_weights norm;
    hidden_rows out;
    int rows;
};

/* Looks up tokens and positions, and norms their sum. */
template <int GROUPS>
__global__ void __launch_bounds__(ROW_WARPS *WARP) embed_rows(const embed_arguments a) {
    const int row = blockIdx.x * ROW_WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (row >= a.rows)
        return;
    float v[GROUPS][LANE_VALUES] = {};
    add_half_row<GROUPS>(v, a.tokens + (size_t)a.ids[row] * GROUPS * GROUP, lane);
    add_half_row<GROUPS>(v, a.positions + (size_t)a.position[row] * GROUPS * GROUP, lane);
    norm_row<GROUPS>(v, a.norm, a.out, row, lane);
}

struct norm_arguments {
    const uint16_t *y; /* [rows, 128 GROUPS] */
    norm_weights norm;
    hidden_rows out;
    int rows;
};

/* Norms rows that products wrote with the residual added. */
template <int GROUPS>
__global__ void __launch_bounds__(ROW_WARPS *WARP) norm_rows(const norm_arguments a) {
    const int row = blockIdx.x * ROW_WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (row >= a.rows)
        return;
    float v[GROUPS][LANE_VALUES] = {};
    add_half_row<GROUPS>(v, a.y + (size_t)row * GROUPS * GROUP, lane);
    norm_row<GROUPS>(v, a.norm, a.out, row, lane);
}

struct pool_arguments {
    const uint16_t *x;      /* [rows, 128 GROUPS] */
    const int32_t *starts;  /* [texts + 1] */
    const int32_t *skipped; /* [texts]: leading rows that do not count */
    float *rows;            /* [texts, dimensions] */
    int dimensions;         /* of the row that are written */
    bool first;             /* take the first row that counts rather than the mean */
    int normalize; /* divide by the length of the row's first `normalize` values; 0: do not */
};

/* Pools the hidden states of each text, a block for each. A row whose values are not finite becomes
 * NaN in all. */
template <int GROUPS>
__global__ void __launch_bounds__(ROW_WARPS *WARP) pool_rows(const pool_arguments a) {
    __shared__ float sums[ROW_WARPS][GROUPS * GROUP];
    __shared__ float squares[ROW_WARPS];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, text = blockIdx.x;
    const int begin = a.starts[text] + a.skipped[text],
              end = a.first ? begin + 1 : a.starts[text + 1];
    float v[GROUPS][LANE_VALUES] = {};
    for (int row = begin + warp; row < end; row += ROW_WARPS)
        add_half_row<GROUPS>(v, a.x + (size_t)row * GROUPS * GROUP, lane);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int i = 0; i < LANE_VALUES; i++)
            sums[warp][g * GROUP + lane * LANE_VALUES + i] = v[g][i];
    __syncthreads();
    const float share = reciprocal_near((float)(end - begin));
    float own = 0, all = 0;
#pragma unroll 1
    for (int column = threadIdx.x; column < GROUPS * GROUP; column += ROW_WARPS * WARP) {
        float sum = 0;
        for (int w = 0; w < ROW_WARPS; w++)
            sum += sums[w][column];
        sum *= share;
        sums[0][column] = sum; /* only this thread reads and writes its column */
        all = fmaf(sum, sum, all);
        if (column < a.normalize)
            own = fmaf(sum, sum, own);
    }
    own = lanes_sum<WARP>(own);
    all = lanes_sum<WARP>(all);
    if (lane == 0)
        squares[warp] = all < INFINITY ? own : NAN; /* false of NaN, too */
    __syncthreads();
    float length = 0;
    for (int w = 0; w < ROW_WARPS; w++)
        length += squares[w];
    const float scale = !(length < INFINITY) ? NAN
                        : a.normalize        ? rsqrtf(fmaxf(length, 1e-24f))
                                             : 1;
    for (int column = threadIdx.x; column < a.dimensions; column += ROW_WARPS * WARP)
        a.rows[(size_t)text * a.dimensions + column] = sums[0][column] * scale;
}

#endif
