/* SPDX-License-Identifier: Apache-2.0
 * Products of activations [rows, k] and weights [columns, k], with what follows fused into the end.
 * Two kernels:
 *
 * product_tiles computes tiles of 128 x 128 outputs. It serves products whose columns are many:
 * queries, keys and values; the first feed-forward matrix with its activation function.
 *
 * product_rows computes 64 rows of 8 WARPS TILES columns. If these are all columns it adds the
 * residual and norms the rows; else it adds the residual, and norm_rows follows. It serves the
 * products that end a block.
 *
 * In int8, each 128 values of a row of activations have a scale, and each row of weights. Both
 * kernels wait for the k of a tile in stages of 128 bytes, copied asynchronously while earlier ones
 * are multiplied. */
#ifndef WISP_KERNELS_CUDA_PRODUCTS_H
#define WISP_KERNELS_CUDA_PRODUCTS_H

#include "kernels/cuda/activation.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/tile.h"

struct product_arguments {
    const unsigned char *a, *b; /* [rows, k_bytes], [columns, k_bytes] */
    const float *a_scale;       /* int8: [rows, k / 128] */
    const float *b_scale;       /* int8: [columns] */
    const float *bias;          /* [columns] */
    int rows, columns, k_bytes;
    uint16_t *halves; /* [rows, columns]: the result of product_tiles, unless it quantises */
    int8_t *q;        /* [rows, columns]: the quantised result of product_tiles */
    float *q_scale;   /* [rows, columns / 128] */
    const uint16_t *residual; /* [rows, columns]: product_rows adds it */
    norm_weights norm;        /* and norms with this */
    hidden_rows out;          /* into this; without norm, into out.x */
};

/* ---- tiles ---------------------------------------------------------------------------------- */

enum {
    TILE_ROWS = 128,
    TILE_COLUMNS = 128,
    TILE_WARPS = 4,
    TILE_STAGES = 3,
    TILE_A_BYTES = TILE_ROWS * TILE_BYTES,
    TILE_B_BYTES = TILE_COLUMNS * TILE_BYTES,
    TILE_SCALE_BYTES = TILE_ROWS * 4, /* of the rows, for a stage */
    /* Scales and biases of columns: of the tile that is computed and of those that are copied
       meanwhile. */
    TILE_SETS = 4,
    TILE_SET_BYTES = 2 * TILE_COLUMNS * 4,
    TILE_B_AT = TILE_STAGES * TILE_A_BYTES, /* as many stages of b follow those of a */
    TILE_SETS_AT = TILE_STAGES * (TILE_A_BYTES + TILE_B_BYTES),
    TILE_SCALES_AT = TILE_SETS_AT + TILE_SETS * TILE_SET_BYTES,
    TILE_SHARED_BYTES = TILE_SCALES_AT + TILE_STAGES * TILE_SCALE_BYTES,
    /* A warp computes 32 x 128 outputs: whole groups of columns, so that no other warp takes part
       in what follows. */
    WARP_ROWS = TILE_ROWS / TILE_WARPS,
    ROW_TILES = WARP_ROWS / 16,
    COLUMN_TILES = TILE_COLUMNS / 8
};

/* What product_tiles does with its sums. */
enum tile_result { RESULT_HALVES, RESULT_ACTIVATED, RESULT_QUANTISED };

/* Starts a sum of integers so that its bits are those of a float, ROUNDING more than the sum. It
 * may come to 2^22: 128 products of int8 come to half of that. */
static __device__ __forceinline__ float sum_of_group(int32_t bits) {
    return __int_as_float(bits) - ROUNDING;
}

/* Multiplies one stage, which is a group of 128 values in int8: the warp's rows of a with all
 * columns of b, a few of them at a time, and adds it to the sums with the scales of its rows. */
static __device__ __forceinline__ void tile_multiply(float sums[ROW_TILES][COLUMN_TILES][4],
                                                     const unsigned char *a, const unsigned char *b,
                                                     const float *scale, int lane, operand_s8) {
    enum {
        AT_ONCE = COLUMN_TILES / 4
    }; /* tiles of columns: their sums and all others fit in registers */
#pragma unroll
    for (int first = 0; first < COLUMN_TILES; first += AT_ONCE) {
        int32_t group[ROW_TILES][AT_ONCE][4];
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++)
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    group[i][j][e] = ROUNDING_BITS;
#pragma unroll
        for (int step = 0; step < TILE_BYTES / MMA_BYTES; step++) {
            uint32_t fa[ROW_TILES][4];
#pragma unroll
            for (int i = 0; i < ROW_TILES; i++)
                tile_load_a(fa[i], a, 16 * i, step, lane);
#pragma unroll
            for (int j = 0; j < AT_ONCE; j += 2) {
                uint32_t fb[4];
                tile_load_b(fb, b, 8 * (first + j), step, lane);
#pragma unroll
                for (int i = 0; i < ROW_TILES; i++) {
                    mma_s8(group[i][j], fa[i], fb[0], fb[1]);
                    mma_s8(group[i][j + 1], fa[i], fb[2], fb[3]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++) {
            const float low = scale[16 * i + lane / 4], high = scale[16 * i + 8 + lane / 4];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    sums[i][first + j][e] = fmaf(sum_of_group(group[i][j][e]), e < 2 ? low : high,
                                                 sums[i][first + j][e]);
        }
    }
}

/* The same of halves, which need no scales. */
static __device__ __forceinline__ void tile_multiply(float sums[ROW_TILES][COLUMN_TILES][4],
                                                     const unsigned char *a, const unsigned char *b,
                                                     const float *, int lane, operand_f16) {
#pragma unroll
    for (int step = 0; step < TILE_BYTES / MMA_BYTES; step++) {
        uint32_t fa[ROW_TILES][4];
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++)
            tile_load_a(fa[i], a, 16 * i, step, lane);
#pragma unroll
        for (int j = 0; j < COLUMN_TILES; j += 2) {
            uint32_t fb[4];
            tile_load_b(fb, b, 8 * j, step, lane);
#pragma unroll
            for (int i = 0; i < ROW_TILES; i++) {
                mma_f16(sums[i][j], fa[i], fb[0], fb[1]);
                mma_f16(sums[i][j + 1], fa[i], fb[2], fb[3]);
            }
        }
    }
}

/* Writes a row of 128 values as halves. Of tile j, this lane has v[j][0] and v[j][1], and its
 * neighbours the rest; they exchange them so that each writes 16 bytes. */
static __device__ __forceinline__ void tile_write_halves(const float v[COLUMN_TILES][2],
                                                         uint16_t *row, bool valid, int lane) {
#pragma unroll
    for (int j = 0; j < COLUMN_TILES; j += 4) {
        uint32_t w[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            w[k] = halves_of(v[j + k][0], v[j + k][1]);
        lanes_transpose(w, lane);
        const uint4 chunk = {w[0], w[1], w[2], w[3]};
        if (valid)
            *(uint4 *)(row + 8 * (j + (lane & 3))) = chunk;
    }
}

/* Quantises a row of 128 values with one scale, and writes both. */
static __device__ __forceinline__ void tile_write_quantised(const float v[COLUMN_TILES][2],
                                                            int8_t *row, float *scale, bool valid,
                                                            int lane) {
    float largest = 0;
#pragma unroll
    for (int j = 0; j < COLUMN_TILES; j++)
        largest = fmaxf(largest, fmaxf(fabsf(v[j][0]), fabsf(v[j][1])));
    largest = lanes_max<4>(largest);
    const float to_int8 = inverse_scale(largest);
    if (valid && (lane & 3) == 0)
        *scale = scale_of(largest);
#pragma unroll
    for (int j = 0; j < COLUMN_TILES; j += 8) {
        uint32_t w[4]; /* two columns of a tile and of the next */
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float x[4] = {v[j + 2 * k][0], v[j + 2 * k][1], v[j + 2 * k + 1][0],
                                v[j + 2 * k + 1][1]};
            w[k] = quantise_4(x, to_int8);
        }
        lanes_transpose(w, lane); /* word k is lane k's part of tiles j + 2 t and j + 2 t + 1, if
                                     t is this lane */
        const uint4 chunk = {(w[0] & 0xffff) | w[1] << 16, (w[2] & 0xffff) | w[3] << 16,
                             w[0] >> 16 | (w[1] & 0xffff0000), w[2] >> 16 | (w[3] & 0xffff0000)};
        if (valid)
            *(uint4 *)(row + 8 * j + 16 * (lane & 3)) = chunk;
    }
}

/* Finishes the warp's rows of a tile: `row` and `column` are its first. `set` has the scales and
 * biases. */
template <class OPERAND, int RESULT, int ACTIVATION>
static __device__ __forceinline__ void tile_finish(const float sums[ROW_TILES][COLUMN_TILES][4],
                                                   const float *set, const product_arguments &p,
                                                   int row, int column, int lane) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const size_t r = row + 16 * i + 8 * half + lane / 4;
            const bool valid = r < (size_t)p.rows;
            float v[COLUMN_TILES][2];
#pragma unroll
            for (int j = 0; j < COLUMN_TILES; j++) {
                const int c = 8 * j + 2 * (lane & 3);
                const float2 add = *(const float2 *)(set + TILE_COLUMNS + c);
                float2 scale = {1, 1};
                if (OPERAND::BYTES == 1)
                    scale = *(const float2 *)(set + c);
                v[j][0] = fmaf(sums[i][j][2 * half], scale.x, add.x);
                v[j][1] = fmaf(sums[i][j][2 * half + 1], scale.y, add.y);
                if (RESULT != RESULT_HALVES) {
                    v[j][0] = activate<ACTIVATION>(v[j][0]);
                    v[j][1] = activate<ACTIVATION>(v[j][1]);
                }
            }
            if (RESULT == RESULT_QUANTISED)
                tile_write_quantised(v, p.q + r * p.columns + column,
                                     p.q_scale + r * (p.columns / GROUP) + column / GROUP, valid,
                                     lane);
            else
                tile_write_halves(v, p.halves + r * p.columns + column, valid, lane);
        }
}

/* If the copies of a block are: stage `k` of a tile. */
struct tile_place {
    int row0, column0, k, slot, set;
};

/* Begins to copy the scales and biases of a tile's columns. */
static __device__ __forceinline__ void tile_begin_set(unsigned char *to, const product_arguments &p,
                                                      int column0, int thread, bool scaled) {
    const int at = column0 + 4 * (thread % WARP), part = thread / WARP;
    if (part == 1)
        copy16_async(to + 16 * thread, p.bias + at, 16);
    else if (scaled && part == 0)
        copy16_async(to + 16 * thread, p.b_scale + at, 16);
}

/* Begins to copy the stage at this place, and goes on to the next. With RESIDENT, all stages of b
 * have places of their own, and are copied for the block's first tile only. */
template <bool RESIDENT>
static __device__ __forceinline__ void tile_begin(unsigned char *shared, const product_arguments &p,
                                                  tile_place &at, int stages, bool first,
                                                  int thread, bool scaled) {
    const int slot = at.slot;
    at.slot = slot + 1 < TILE_STAGES ? slot + 1 : 0;
    if (at.row0 >= p.rows)
        return;
    tile_copy<TILE_ROWS, TILE_WARPS * WARP>(shared + slot * TILE_A_BYTES,
                                            p.a + (size_t)at.row0 * p.k_bytes + at.k * TILE_BYTES,
                                            p.k_bytes, p.rows - at.row0, thread);
    if (!RESIDENT || first)
        tile_copy<TILE_COLUMNS, TILE_WARPS * WARP>(
            shared + TILE_B_AT + (RESIDENT ? at.k : slot) * TILE_B_BYTES,
            p.b + (size_t)at.column0 * p.k_bytes + at.k * TILE_BYTES, p.k_bytes, TILE_COLUMNS,
            thread);
    if (at.k == 0)
        tile_begin_set(shared + TILE_SETS_AT + at.set * TILE_SET_BYTES, p, at.column0, thread,
                       scaled);
    if (scaled) {
        static_assert(TILE_ROWS == TILE_WARPS * WARP, "a thread copies the scale of a row");
        const bool valid = at.row0 + thread < p.rows;
        copy4_async(shared + TILE_SCALES_AT + slot * TILE_SCALE_BYTES + 4 * thread,
                    p.a_scale + (valid ? (size_t)(at.row0 + thread) * stages + at.k : 0), valid);
    }
    if (++at.k < stages)
        return;
    at.k = 0;
    at.set = (at.set + 1) % TILE_SETS;
    at.row0 += gridDim.y * TILE_ROWS;
}

/* Blocks: x counts tiles of columns, y those that share one: they take its tiles of rows in turn.
 * The copies for the next tile run while one is finished. RESIDENT keeps the columns' weights in
 * shared memory, for k of at most TILE_STAGES stages. */
template <class OPERAND, int RESULT, int ACTIVATION, bool RESIDENT>
__global__ void __launch_bounds__(TILE_WARPS *WARP, 2) product_tiles(const product_arguments p) {
    DYNAMIC_SHARED(shared);
    const bool scaled = OPERAND::BYTES == 1;
    const int thread = threadIdx.x, lane = thread % WARP, warp = thread / WARP;
    const int stages = p.k_bytes / TILE_BYTES, column0 = blockIdx.x * TILE_COLUMNS;
    int begun = 0; /* stages, up to those of the first tile */
    tile_place next = {(int)blockIdx.y * TILE_ROWS, column0, 0, 0, 0};
    for (; begun < TILE_STAGES - 1; begun++) {
        tile_begin<RESIDENT>(shared, p, next, stages, begun < stages, thread, scaled);
        copy_commit();
    }
    for (int row0 = blockIdx.y * TILE_ROWS, set = 0; row0 < p.rows;
         row0 += gridDim.y * TILE_ROWS, set = (set + 1) % TILE_SETS) {
        float sums[ROW_TILES][COLUMN_TILES][4] = {};
        for (int k = 0; k < stages; k++) {
            copy_wait<TILE_STAGES - 2>();
            __syncthreads(); /* all copies of the stage are there, and the one before has been read
                              */
            tile_begin<RESIDENT>(shared, p, next, stages, begun++ < stages, thread, scaled);
            copy_commit();
            /* The slot that is overwritten next is the one to read. */
            const unsigned char *a = shared + next.slot * TILE_A_BYTES;
            const unsigned char *b = shared + TILE_B_AT + (RESIDENT ? k : next.slot) * TILE_B_BYTES;
            const float *scales =
                (const float *)(shared + TILE_SCALES_AT + next.slot * TILE_SCALE_BYTES);
            tile_multiply(sums, a + WARP_ROWS * warp * TILE_BYTES, b, scales + WARP_ROWS * warp,
                          lane, OPERAND());
        }
        tile_finish<OPERAND, RESULT, ACTIVATION>(
            sums, (const float *)(shared + TILE_SETS_AT + set * TILE_SET_BYTES), p,
            row0 + WARP_ROWS * warp, column0, lane);
    }
}

/* ---- whole rows ----------------------------------------------------------------------------- */

enum { STRIP_ROWS = 64, STRIP_ROW_TILES = STRIP_ROWS / 16 };

/* A warp has 8 TILES columns. Sums lie in shared memory as floats, with 32 bytes between rows, so
 * that neighbouring rows meet other banks. */
template <int WARPS, int TILES> struct strip_layout {
    enum {
        COLUMNS = WARPS * TILES * 8,
        STAGE_BYTES = (STRIP_ROWS + COLUMNS) * TILE_BYTES,
        STRIDE = COLUMNS + 8, /* floats */
        RESULT_BYTES = STRIP_ROWS * STRIDE * 4
    };
    /* Of the stages, whose place the sums take in the end. */
    static __host__ __device__ constexpr size_t pipeline_bytes(int stages) {
        return stages * STAGE_BYTES > RESULT_BYTES ? stages * STAGE_BYTES : RESULT_BYTES;
    }
};

/* Multiplies one stage, which is a group of 128 values in int8, and adds it to the sums with the
 * scales of its rows. The sums of the group begin as ROUNDING's bits, so that they are floats
 * without a conversion. */
template <int TILES>
static __device__ __forceinline__ void
strip_multiply(float sums[STRIP_ROW_TILES][TILES][4], const unsigned char *a,
               const unsigned char *b, const float *scale, int lane, operand_s8) {
    uint32_t fb[TILE_BYTES / MMA_BYTES][TILES / 2][4];
#pragma unroll
    for (int step = 0; step < TILE_BYTES / MMA_BYTES; step++)
#pragma unroll
        for (int j = 0; j < TILES / 2; j++)
            tile_load_b(fb[step][j], b, 16 * j, step, lane);
#pragma unroll
    for (int i = 0; i < STRIP_ROW_TILES; i++) {
        int32_t group[TILES][4];
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                group[j][e] = ROUNDING_BITS;
#pragma unroll
        for (int step = 0; step < TILE_BYTES / MMA_BYTES; step++) {
            uint32_t fa[4];
            tile_load_a(fa, a, 16 * i, step, lane);
#pragma unroll
            for (int j = 0; j < TILES; j++)
                mma_s8(group[j], fa, fb[step][j / 2][j % 2 * 2], fb[step][j / 2][j % 2 * 2 + 1]);
        }
        const float low = scale[16 * i + lane / 4], high = scale[16 * i + 8 + lane / 4];
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums[i][j][e] = fmaf(sum_of_group(group[j][e]), e < 2 ? low : high, sums[i][j][e]);
    }
}

/* The same of halves, which need no scales. */
template <int TILES>
static __device__ __forceinline__ void
strip_multiply(float sums[STRIP_ROW_TILES][TILES][4], const unsigned char *a,
               const unsigned char *b, const float *, int lane, operand_f16) {
#pragma unroll
    for (int step = 0; step < TILE_BYTES / MMA_BYTES; step++) {
        uint32_t fb[TILES / 2][4];
#pragma unroll
        for (int j = 0; j < TILES / 2; j++)
            tile_load_b(fb[j], b, 16 * j, step, lane);
#pragma unroll
        for (int i = 0; i < STRIP_ROW_TILES; i++) {
            uint32_t fa[4];
            tile_load_a(fa, a, 16 * i, step, lane);
#pragma unroll
            for (int j = 0; j < TILES; j++)
                mma_f16(sums[i][j], fa, fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
        }
    }
}

/* Reads a row of sums and of the residual from shared memory, and adds them. */
template <int GROUPS>
static __device__ __forceinline__ void strip_row(float v[GROUPS][LANE_VALUES], const float *sums,
                                                 const uint16_t *residual, int lane) {
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const float4 sum = *(const float4 *)(sums + g * GROUP + lane * LANE_VALUES);
        v[g][0] = sum.x;
        v[g][1] = sum.y;
        v[g][2] = sum.z;
        v[g][3] = sum.w;
    }
    add_half_row<GROUPS>(v, residual, lane);
}

/* Begins to copy a stage. */
template <int WARPS, int TILES>
static __device__ __forceinline__ void strip_begin(unsigned char *to, const product_arguments &p,
                                                   int row0, int column0, int stage, int thread) {
    tile_copy<STRIP_ROWS, WARPS * WARP>(to, p.a + (size_t)row0 * p.k_bytes + stage * TILE_BYTES,
                                        p.k_bytes, p.rows - row0, thread);
    tile_copy<WARPS * TILES * 8, WARPS * WARP>(
        to + STRIP_ROWS * TILE_BYTES, p.b + (size_t)column0 * p.k_bytes + stage * TILE_BYTES,
        p.k_bytes, WARPS * TILES * 8, thread);
}

/* Begins to copy the residual's rows, one after the other. */
template <int WARPS, int TILES>
static __device__ __forceinline__ void
strip_begin_residual(uint16_t *to, const product_arguments &p, int row0, int column0, int thread) {
    enum { COLUMNS = WARPS * TILES * 8, CHUNKS = COLUMNS / 8 };
#pragma unroll
    for (int i = 0; i < STRIP_ROWS * CHUNKS / (WARPS * WARP); i++) {
        const int at = thread + i * WARPS * WARP, row = at / CHUNKS, chunk = at % CHUNKS;
        const bool valid = row0 + row < p.rows;
        copy16_async(to + row * COLUMNS + 8 * chunk,
                     p.residual + (size_t)(valid ? row0 + row : 0) * p.columns + column0 +
                         8 * chunk,
                     valid ? 16 : 0);
    }
}

/* Writes the sums of the warp's columns, with scales and biases, to shared memory. */
template <class OPERAND, int WARPS, int TILES>
static __device__ __forceinline__ void strip_share(const float sums[STRIP_ROW_TILES][TILES][4],
                                                   float *result, const product_arguments &p,
                                                   int column0, int column, int lane) {
#pragma unroll
    for (int j = 0; j < TILES; j++) {
        const int c = column + 8 * j;
        const float2 add = *(const float2 *)(p.bias + column0 + c);
        float2 scale = {1, 1};
        if (OPERAND::BYTES == 1)
            scale = *(const float2 *)(p.b_scale + column0 + c);
#pragma unroll
        for (int i = 0; i < STRIP_ROW_TILES; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float2 pair = {fmaf(sums[i][j][2 * half], scale.x, add.x),
                                     fmaf(sums[i][j][2 * half + 1], scale.y, add.y)};
                *(float2 *)(result +
                            (16 * i + 8 * half + lane / 4) * strip_layout<WARPS, TILES>::STRIDE +
                            c) = pair;
            }
    }
}

/* Blocks: x counts strips of columns, y those of rows. NORM asks for one strip of columns. */
template <class OPERAND, int WARPS, int TILES, int STAGES, bool NORM>
__global__ void __launch_bounds__(WARPS *WARP, 1) product_rows(const product_arguments p) {
    typedef strip_layout<WARPS, TILES> layout;
    enum { GROUPS = layout::COLUMNS / GROUP, AT_ONCE = 4 };
    DYNAMIC_SHARED(shared);
    const int thread = threadIdx.x, lane = thread % WARP, warp = thread / WARP;
    const int row0 = blockIdx.y * STRIP_ROWS, column0 = blockIdx.x * layout::COLUMNS;
    const int stages = p.k_bytes / TILE_BYTES;
    uint16_t *residual = (uint16_t *)(shared + layout::pipeline_bytes(STAGES));
    float *scales = (float *)(residual + STRIP_ROWS * layout::COLUMNS); /* [stages, 64] */
    float sums[STRIP_ROW_TILES][TILES][4] = {};

    for (int s = 0; s < STAGES - 1; s++) {
        if (s < stages)
            strip_begin<WARPS, TILES>(shared + s * layout::STAGE_BYTES, p, row0, column0, s,
                                      thread);
        if (s == STAGES - 2)
            strip_begin_residual<WARPS, TILES>(residual, p, row0, column0, thread);
        copy_commit();
    }
    if (OPERAND::BYTES == 1)
        for (int at = thread; at < stages * STRIP_ROWS; at += WARPS * WARP) {
            const int stage = at % stages, r = at / stages;
            scales[stage * STRIP_ROWS + r] =
                row0 + r < p.rows ? p.a_scale[(size_t)(row0 + r) * stages + stage] : 0;
        }
    for (int s = 0; s < stages; s++) {
        copy_wait<STAGES - 2>();
        __syncthreads(); /* all copies of stage s are there, and stage s - 1 has been read */
        const int next = s + STAGES - 1;
        if (next < stages)
            strip_begin<WARPS, TILES>(shared + next % STAGES * layout::STAGE_BYTES, p, row0,
                                      column0, next, thread);
        copy_commit();
        const unsigned char *from = shared + s % STAGES * layout::STAGE_BYTES;
        strip_multiply(sums, from, from + (STRIP_ROWS + 8 * TILES * warp) * TILE_BYTES,
                       scales + s * STRIP_ROWS, lane, OPERAND());
    }
    copy_wait<0>();
    __syncthreads(); /* the residual is there, and the stages have been read: sums take their place
                      */
    float *result = (float *)shared;
    strip_share<OPERAND, WARPS, TILES>(sums, result, p, column0, 8 * TILES * warp + 2 * (lane & 3),
                                       lane);
    __syncthreads();
    for (int first = AT_ONCE * warp; first < STRIP_ROWS && row0 + first < p.rows;
         first += AT_ONCE * WARPS) {
        float v[AT_ONCE][GROUPS][LANE_VALUES];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            strip_row<GROUPS>(v[i], result + (first + i) * layout::STRIDE,
                              residual + (first + i) * layout::COLUMNS, lane);
        const int rows = p.rows - row0 - first; /* that there are */
        if (NORM)
            norm_rows_at<GROUPS, AT_ONCE>(v, p.norm, p.out, row0 + first, rows, lane);
        else
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if (i < rows)
                    write_half_row<GROUPS>(
                        v[i], p.out.x + (size_t)(row0 + first + i) * p.columns + column0, lane);
    }
}

/* Returns the shared memory of product_rows for k of `stages` times 128 bytes. */
template <int WARPS, int TILES>
static inline size_t product_rows_shared_bytes(int pipeline_stages, int stages) {
    typedef strip_layout<WARPS, TILES> layout;
    return layout::pipeline_bytes(pipeline_stages) +
           STRIP_ROWS * (layout::COLUMNS * 2 + (size_t)stages * 4);
}

#endif
