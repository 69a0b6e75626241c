/* SPDX-License-Identifier: Apache-2.0
 * Products by mma.sync, with what follows fused into the end. Two kernels:
 *
 * product_tiles computes tiles of 128 x 128 outputs. It serves products whose columns are many:
 * queries, keys and values; the first feed-forward matrix with its activation function.
 *
 * product_rows computes 64 rows of 8 WARPS TILES columns. If these are all columns it adds the
 * residual and norms the rows; else it adds the residual, and norm_rows follows. It serves the
 * products that end a block.
 *
 * Both wait for the k of a tile in stages of 128 bytes, copied asynchronously while earlier ones
 * are multiplied. Of bytes a stage is a group, which has a scale. */
#ifndef WISP_KERNELS_CUDA_PRODUCTS_H
#define WISP_KERNELS_CUDA_PRODUCTS_H

#include "kernels/cuda/finish.h"

/* ---- tiles ---------------------------------------------------------------------------------- */

enum {
    TILE_ROWS = 128,
    TILE_WARPS = 4,
    TILE_STAGES = 3,
    TILE_A_BYTES = TILE_ROWS * TILE_BYTES,
    TILE_B_BYTES = TILE_COLUMNS * TILE_BYTES,
    TILE_SCALE_BYTES = TILE_ROWS * 8,       /* of the rows, for a stage */
    TILE_B_AT = TILE_STAGES * TILE_A_BYTES, /* as many stages of b follow those of a */
    TILE_SET_AT = TILE_STAGES * (TILE_A_BYTES + TILE_B_BYTES),
    TILE_SCALES_AT = TILE_SET_AT + SET_BYTES,
    TILE_SHARED_BYTES = TILE_SCALES_AT + TILE_STAGES * TILE_SCALE_BYTES,
    /* A warp computes 32 x 128 outputs: whole groups of columns, so that no other warp takes part
       in what follows. */
    WARP_ROWS = TILE_ROWS / TILE_WARPS,
    ROW_TILES = WARP_ROWS / 16
};

/* Multiplies one stage, which is a group of 128 bytes: the warp's rows of a with all columns of b,
 * a few of them at a time, and adds it to the sums with the scales of its rows and the sums of the
 * columns' weights. */
static __device__ __forceinline__ void tile_multiply(float sums[ROW_TILES][COLUMN_TILES][4],
                                                     const unsigned char *a, const unsigned char *b,
                                                     const float2 *scale, const float *b_sums,
                                                     int lane, operand_s8) {
    enum {
        AT_ONCE = COLUMN_TILES / 4
    }; /* tiles of columns: their sums and all others fit in registers */
#pragma unroll
    for (int first = 0; first < COLUMN_TILES; first += AT_ONCE) {
        static_assert(AT_ONCE == 4, "8 columns of a lane");
        const eight_floats b_sum = load_eight(b_sums + first_of_eight(first / 4, lane));
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
                    mma_u8(group[i][j], fa[i], fb[0], fb[1]);
                    mma_u8(group[i][j + 1], fa[i], fb[2], fb[3]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++) {
            const float2 low = scale[16 * i + lane / 4], high = scale[16 * i + 8 + lane / 4];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const float2 row = e < 2 ? low : high;
                    sums[i][first + j][e] =
                        fmaf(sum_of_group(group[i][j][e]), row.x,
                             fmaf(row.y, b_sum.at[2 * j + e % 2], sums[i][first + j][e]));
                }
        }
    }
}

/* Multiplies one stage of halves, which need no scales, and adds it to the sums. */
static __device__ __forceinline__ void tile_multiply(float sums[ROW_TILES][COLUMN_TILES][4],
                                                     const unsigned char *a, const unsigned char *b,
                                                     const float2 *, const float *, int lane,
                                                     operand_f16) {
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

/* Where the copies of a block are: stage `k` of a tile. */
struct tile_place {
    int row0, k, slot;
};

/* Begins to copy the stage at this place, and goes on to the next. With RESIDENT, all stages of b
 * have places of their own, and are copied for the block's first tile only. */
template <bool RESIDENT>
static __device__ __forceinline__ void tile_begin(unsigned char *shared, const product_arguments &p,
                                                  tile_place &at, int column0, int stages,
                                                  bool first, int thread, bool scaled) {
    const int slot = at.slot;
    at.slot = slot + 1 < TILE_STAGES ? slot + 1 : 0;
    if (at.row0 >= p.rows)
        return;
    tile_copy<TILE_ROWS, TILE_WARPS * WARP>(shared + slot * TILE_A_BYTES,
                                            p.a + (size_t)at.row0 * p.k_bytes + at.k * TILE_BYTES,
                                            p.k_bytes, p.rows - at.row0, thread);
    if (!RESIDENT || first)
        tile_copy_columns<TILE_COLUMNS, TILE_WARPS * WARP>(
            shared + TILE_B_AT + (RESIDENT ? at.k : slot) * TILE_B_BYTES,
            p.b + (size_t)column0 * p.k_bytes + at.k * TILE_BYTES, p.k_bytes, thread);
    if (scaled) {
        static_assert(TILE_ROWS == TILE_WARPS * WARP, "a thread copies the scale of a row");
        const bool valid = at.row0 + thread < p.rows;
        copy8_async(shared + TILE_SCALES_AT + slot * TILE_SCALE_BYTES + 8 * thread,
                    p.a_scale + (valid ? (size_t)(at.row0 + thread) * stages + at.k : 0), valid);
    }
    if (++at.k < stages)
        return;
    at.k = 0;
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
    const float *set = (const float *)(shared + TILE_SET_AT);
    tile_place next = {(int)blockIdx.y * TILE_ROWS, 0, 0};
    begin_set<OPERAND, TILE_WARPS * WARP>(shared + TILE_SET_AT, p, column0, thread);
    for (; begun < TILE_STAGES - 1; begun++) {
        tile_begin<RESIDENT>(shared, p, next, column0, stages, begun < stages, thread, scaled);
        copy_commit();
    }
    for (int row0 = blockIdx.y * TILE_ROWS; row0 < p.rows; row0 += gridDim.y * TILE_ROWS) {
        float sums[ROW_TILES][COLUMN_TILES][4] = {};
        for (int k = 0; k < stages; k++) {
            copy_wait<TILE_STAGES - 2>();
            __syncthreads(); /* all copies of the stage are there, and the one before has been read
                              */
            tile_begin<RESIDENT>(shared, p, next, column0, stages, begun++ < stages, thread,
                                 scaled);
            copy_commit();
            /* The slot that is overwritten next is the one to read. */
            const unsigned char *a = shared + next.slot * TILE_A_BYTES;
            const unsigned char *b = shared + TILE_B_AT + (RESIDENT ? k : next.slot) * TILE_B_BYTES;
            const float2 *scales =
                (const float2 *)(shared + TILE_SCALES_AT + next.slot * TILE_SCALE_BYTES);
            tile_multiply(sums, a + WARP_ROWS * warp * TILE_BYTES, b, scales + WARP_ROWS * warp,
                          set + (SET_SUMS + k) * TILE_COLUMNS, lane, OPERAND());
        }
        tile_finish<OPERAND, RESULT, ACTIVATION, ROW_TILES>(sums, set, p, row0 + WARP_ROWS * warp,
                                                            column0, lane);
    }
    copy_wait<0>(); /* a block without rows has begun to copy, too */
}

/* ---- whole rows ----------------------------------------------------------------------------- */

enum { STRIP_ROWS = 64, STRIP_ROW_TILES = STRIP_ROWS / 16 };

/* A warp has 8 TILES columns. Sums are in shared memory as floats, with 32 bytes between rows, so
 * that neighbouring rows meet other banks. */
template <int WARPS, int TILES> struct strip_layout {
    enum {
        COLUMNS = WARPS * TILES * 8,
        STAGE_BYTES = (STRIP_ROWS + COLUMNS) * TILE_BYTES,
        STRIDE = COLUMNS + 8, /* floats */
        RESULT_BYTES = STRIP_ROWS * STRIDE * 4
    };
    /* The bytes of the stages. In the end the sums replace them. */
    static __host__ __device__ constexpr size_t pipeline_bytes(int stages) {
        return stages * STAGE_BYTES > RESULT_BYTES ? stages * STAGE_BYTES : RESULT_BYTES;
    }
};

/* Multiplies one stage, which is a group of 128 bytes, and adds it to the sums with the scales of
 * its rows. The sums of the group begin as ROUNDING's bits, so that they are floats
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
                mma_u8(group[j], fa, fb[step][j / 2][j % 2 * 2], fb[step][j / 2][j % 2 * 2 + 1]);
        }
        const float low = scale[16 * i + lane / 4], high = scale[16 * i + 8 + lane / 4];
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums[i][j][e] = fmaf(sum_of_group(group[j][e]), e < 2 ? low : high, sums[i][j][e]);
    }
}

/* Multiplies one stage of halves, which need no scales, and adds it to the sums. */
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
        float2 add = *(const float2 *)(p.bias + column0 + c), scale = {1, 1};
        if (OPERAND::BYTES == 1) {
            const float2 total = *(const float2 *)(p.b_total + column0 + c);
            scale = *(const float2 *)(p.b_scale + column0 + c);
            add.x = with_shift(add.x, scale.x, total.x, p);
            add.y = with_shift(add.y, scale.y, total.y, p);
        }
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
                row0 + r < p.rows ? p.a_step[(size_t)(row0 + r) * stages + stage] : 0;
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
