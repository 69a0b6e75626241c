/* SPDX-License-Identifier: Apache-2.0
 * The products of products.h by wgmma, for compute capability 9.0: a warpgroup computes 64 rows of
 * 128 columns from tiles in shared memory, a stage of 128 bytes of k at a time.
 *
 * warpgroup_tiles keeps the weights of its 128 columns in shared memory. Each warpgroup has stages
 * and a barrier of its own and takes tiles of 64 rows in turn, so that some multiply while others
 * finish theirs.
 *
 * warpgroup_rows computes 64 rows with 128 columns to a warpgroup, which share the stages. If these
 * are all columns it norms the rows while they are in registers.
 *
 * Tiles are copied by cp.async, and a barrier follows before the tensor cores read them. The PTX
 * manual asks for a proxy fence there, too. It is left out, as in the cp.async pipelines of
 * CUTLASS: it waits for all copies of the thread that are under way, which are those of later
 * stages, too. The tests on the card show that sums are right. */
#ifndef WISP_KERNELS_CUDA_WARPGROUPS_H
#define WISP_KERNELS_CUDA_WARPGROUPS_H

#include "kernels/cuda/finish.h"
#include "kernels/cuda/ptx_warpgroup.h"

enum {
    WARPGROUP_A_BYTES = WARPGROUP_ROWS * TILE_BYTES,
    WARPGROUP_B_BYTES = WARPGROUP_COLUMNS * TILE_BYTES,
    WARPGROUP_SCALE_BYTES = WARPGROUP_ROWS * 8
};

/* Returns the shared memory of warpgroup_tiles for k of so many stages. */
template <int WARPGROUPS, int PIPELINE>
static __host__ __device__ constexpr size_t warpgroup_tiles_shared_bytes(int stages) {
    return (size_t)stages * WARPGROUP_B_BYTES +
           WARPGROUPS * PIPELINE * (WARPGROUP_A_BYTES + WARPGROUP_SCALE_BYTES) + SET_BYTES;
}

template <int WARPGROUPS> struct warpgroup_strip {
    enum {
        COLUMNS = WARPGROUPS * WARPGROUP_COLUMNS,
        STAGE_BYTES = WARPGROUP_A_BYTES + WARPGROUPS * WARPGROUP_B_BYTES,
        STRIDE = COLUMNS + 8, /* of the residual's rows, so that neighbours meet other banks */
        RESIDUAL_BYTES = WARPGROUP_ROWS * STRIDE * 2,
        SUMS_BYTES = WARPGROUPS * WARPGROUP_ROWS * 4
    };
};

/* Returns the shared memory of warpgroup_rows for k of so many stages. */
template <int WARPGROUPS, int PIPELINE>
static inline size_t warpgroup_rows_shared_bytes(int stages) {
    typedef warpgroup_strip<WARPGROUPS> strip;
    return PIPELINE * strip::STAGE_BYTES + strip::RESIDUAL_BYTES + 2 * strip::SUMS_BYTES +
           (size_t)stages * WARPGROUP_ROWS * 4;
}

#ifdef WARPGROUPS_EXIST

/* Begins to multiply a stage. Of bytes it is a group, whose sums take the place of those that were
 * there; of halves it is added to these, unless it is the first. */
static __device__ __forceinline__ void warpgroup_start(int32_t sums[64], uint64_t a, uint64_t b,
                                                       bool) {
    warpgroup_hold(sums);
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < TILE_BYTES / MMA_BYTES; step++)
        warpgroup_mma_u8(sums, a + 2 * step, b + 2 * step, step > 0);
    warpgroup_commit();
}
static __device__ __forceinline__ void warpgroup_start(float sums[64], uint64_t a, uint64_t b,
                                                       bool first) {
    warpgroup_hold(sums);
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < TILE_BYTES / MMA_BYTES; step++)
        warpgroup_mma_f16(sums, a + 2 * step, b + 2 * step, !first || step > 0);
    warpgroup_commit();
}

/* The sums of a stage: integers of their own for bytes; for halves the final sums. */
template <class OPERAND> struct warpgroup_sums;
template <> struct warpgroup_sums<operand_s8> {
    int32_t own[64];
    __device__ __forceinline__ int32_t *of(float *) {
        return own;
    }
};
template <> struct warpgroup_sums<operand_f16> {
    __device__ __forceinline__ float *of(float *all) {
        return all;
    }
};

/* Where the copies of a warpgroup are: stage `k` of a tile. */
struct warpgroup_place {
    int row0, k, slot;
};

/* Begins to copy the stage at this place, and goes on to the next, `step` rows on after the last
 * of a tile. */
template <class OPERAND, int PIPELINE>
static __device__ __forceinline__ void
warpgroup_begin(unsigned char *a, unsigned char *scales, const product_arguments &p,
                warpgroup_place &at, int stages, int step, int thread) {
    const int slot = at.slot;
    at.slot = slot + 1 < PIPELINE ? slot + 1 : 0;
    if (at.row0 >= p.rows)
        return;
    tile_copy<WARPGROUP_ROWS, WARPGROUP>(a + slot * WARPGROUP_A_BYTES,
                                         p.a + (size_t)at.row0 * p.k_bytes + at.k * TILE_BYTES,
                                         p.k_bytes, p.rows - at.row0, thread);
    if (OPERAND::BYTES == 1 && thread < WARPGROUP_ROWS) {
        const bool valid = at.row0 + thread < p.rows;
        copy8_async(scales + slot * WARPGROUP_SCALE_BYTES + 8 * thread,
                    p.a_scale + (valid ? (size_t)(at.row0 + thread) * stages + at.k : 0), valid);
    }
    if (++at.k < stages)
        return;
    at.k = 0;
    at.row0 += step;
}

/* Adds a stage of hidden states to the sums, with the scales of its rows and the sums of the
 * columns' weights. */
static __device__ __forceinline__ void warpgroup_add_hidden(float sums[64], const int32_t group[64],
                                                            const float2 *scales,
                                                            const float *b_sums, int row,
                                                            int lane) {
    const float2 low = scales[row], high = scales[row + 8];
#pragma unroll
    for (int i = 0; i < EIGHTS; i++) {
        const eight_floats b_sum = load_eight(b_sums + first_of_eight(i, lane));
#pragma unroll
        for (int k = 0; k < 16; k++) {
            const float2 scale = k & 2 ? high : low;
            float &sum = sums[16 * i + k];
            sum = fmaf((float)group[16 * i + k], scale.x,
                       fmaf(scale.y, b_sum.at[k / 4 * 2 + k % 2], sum));
        }
    }
}
static __device__ __forceinline__ void warpgroup_add_hidden(float *, const float *, const float2 *,
                                                            const float *, int, int) {}

/* Adds sums of whole rows, with the scale of the row. Their bytes have one shift, which with_shift
 * adds. */
static __device__ __forceinline__ void warpgroup_add_row(float sums[64], const int32_t group[64],
                                                         const float *scales, int row) {
    const float low = scales[row], high = scales[row + 8];
#pragma unroll
    for (int i = 0; i < 64; i++)
        sums[i] = fmaf((float)group[i], i & 2 ? high : low, sums[i]);
}
static __device__ __forceinline__ void warpgroup_add_row(float *, const float *, const float *,
                                                         int) {}

/* Begins to copy a stage that all warpgroups share. */
template <int WARPGROUPS>
static __device__ __forceinline__ void
warpgroup_rows_begin(unsigned char *to, const product_arguments &p, int row0, int column0, int k) {
    enum { THREADS = WARPGROUPS * WARPGROUP };
    const int thread = threadIdx.x;
    tile_copy<WARPGROUP_ROWS, THREADS>(to, p.a + (size_t)row0 * p.k_bytes + k * TILE_BYTES,
                                       p.k_bytes, p.rows - row0, thread);
    tile_copy_columns<WARPGROUPS * WARPGROUP_COLUMNS, THREADS>(
        to + WARPGROUP_A_BYTES, p.b + (size_t)column0 * p.k_bytes + k * TILE_BYTES, p.k_bytes,
        thread);
}

template <int WARPGROUPS>
static __device__ __forceinline__ void
warpgroup_begin_residual(uint16_t *to, const product_arguments &p, int row0, int column0) {
    typedef warpgroup_strip<WARPGROUPS> strip;
    enum { CHUNKS = strip::COLUMNS / 8 };
    for (int at = threadIdx.x; at < WARPGROUP_ROWS * CHUNKS; at += WARPGROUPS * WARPGROUP) {
        const int row = at / CHUNKS, chunk = at % CHUNKS;
        const bool valid = row0 + row < p.rows;
        copy16_async(to + row * strip::STRIDE + 8 * chunk,
                     p.residual + (size_t)(valid ? row0 + row : 0) * p.columns + column0 +
                         8 * chunk,
                     valid ? 16 : 0);
    }
}

/* Adds up x of the thread's two rows over all columns of the block, by way of `sums` in shared
 * memory. */
template <int WARPGROUPS>
static __device__ __forceinline__ void warpgroup_sum_rows(float x[2], float *sums, int group,
                                                          int row, int lane) {
    x[0] = lanes_sum<4>(x[0]);
    x[1] = lanes_sum<4>(x[1]);
    if ((lane & 3) == 0) {
        sums[group * WARPGROUP_ROWS + row] = x[0];
        sums[group * WARPGROUP_ROWS + row + 8] = x[1];
    }
    __syncthreads();
    x[0] = x[1] = 0;
#pragma unroll
    for (int g = 0; g < WARPGROUPS; g++) {
        x[0] += sums[g * WARPGROUP_ROWS + row];
        x[1] += sums[g * WARPGROUP_ROWS + row + 8];
    }
}

/* Norms the rows, of which the thread has parts of two in v. */
template <int WARPGROUPS>
static __device__ __forceinline__ void
warpgroup_norm(float v[64], float *sums, const norm_weights &norm, int group, int row, int lane) {
    const float share = 1.0f / (WARPGROUPS * WARPGROUP_COLUMNS);
    float sum[2] = {}, squares[2] = {};
#pragma unroll
    for (int i = 0; i < 64; i++)
        sum[i >> 1 & 1] += v[i];
    warpgroup_sum_rows<WARPGROUPS>(sum, sums, group, row, lane);
#pragma unroll
    for (int i = 0; i < 64; i++) {
        v[i] = fmaf(sum[i >> 1 & 1], -share, v[i]);
        squares[i >> 1 & 1] = fmaf(v[i], v[i], squares[i >> 1 & 1]);
    }
    warpgroup_sum_rows<WARPGROUPS>(squares, sums + WARPGROUPS * WARPGROUP_ROWS, group, row, lane);
    const float inverse[2] = {rsqrtf(fmaf(squares[0], share, norm.epsilon)),
                              rsqrtf(fmaf(squares[1], share, norm.epsilon))};
#pragma unroll
    for (int i = 0; i < EIGHTS; i++) {
        const int c = group * WARPGROUP_COLUMNS + first_of_eight(i, lane);
        const eight_floats w = load_eight(norm.weight + c), b = load_eight(norm.bias + c);
#pragma unroll
        for (int k = 0; k < 16; k++)
            v[16 * i + k] = fmaf(v[16 * i + k] * inverse[k >> 1 & 1], w.at[k / 4 * 2 + k % 2],
                                 b.at[k / 4 * 2 + k % 2]);
    }
}

/* Writes a lane's part of a row's 128 columns, which are those of v with this `half`, as bytes with
 * their scale. */
static __device__ __forceinline__ void warpgroup_write_bytes(const float v[64], int half,
                                                             uint8_t *row, float2 *scale,
                                                             bool valid, int lane) {
    float least = 0, largest = 0;
#pragma unroll
    for (int j = 0; j < COLUMN_TILES; j++) {
        const float x = v[4 * j + 2 * half], y = v[4 * j + 2 * half + 1];
        least = fminf(least, fminf(x, y));
        largest = fmaxf(largest, fmaxf(x, y));
    }
    const byte_range range(-lanes_max<4>(-least), lanes_max<4>(largest));
    if (!valid)
        return;
    if ((lane & 3) == 0)
        *scale = range.scale();
#pragma unroll
    for (int i = 0; i < EIGHTS; i++) {
        const float *x = v + 16 * i + 2 * half;
        const uint2 chunk = {range.bytes(x[0], x[1], x[4], x[5]),
                             range.bytes(x[8], x[9], x[12], x[13])};
        *(uint2 *)(row + first_of_eight(i, lane)) = chunk;
    }
}

#endif

/* Blocks: x counts tiles of columns, y those that share one. */
template <class OPERAND, int RESULT, int ACTIVATION, int WARPGROUPS, int PIPELINE>
__global__ void __launch_bounds__(WARPGROUPS *WARPGROUP, 1)
    warpgroup_tiles(const product_arguments p) {
#ifdef WARPGROUPS_EXIST
    DYNAMIC_SHARED(shared);
    const int group = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const int lane = thread % WARP, warp = thread / WARP;
    const int stages = p.k_bytes / TILE_BYTES, column0 = blockIdx.x * WARPGROUP_COLUMNS;
    const int step = gridDim.y * WARPGROUPS * WARPGROUP_ROWS;
    const int row0 = (blockIdx.y * WARPGROUPS + group) * WARPGROUP_ROWS;
    unsigned char *b = shared, *a = b + stages * WARPGROUP_B_BYTES;
    unsigned char *scales = a + WARPGROUPS * PIPELINE * WARPGROUP_A_BYTES;
    unsigned char *set = scales + WARPGROUPS * PIPELINE * WARPGROUP_SCALE_BYTES;
    a += group * PIPELINE * WARPGROUP_A_BYTES;
    scales += group * PIPELINE * WARPGROUP_SCALE_BYTES;

    for (int k = 0; k < stages; k++)
        tile_copy_columns<WARPGROUP_COLUMNS, WARPGROUPS * WARPGROUP>(
            b + k * WARPGROUP_B_BYTES, p.b + (size_t)column0 * p.k_bytes + k * TILE_BYTES,
            p.k_bytes, threadIdx.x);
    begin_set<OPERAND, WARPGROUPS * WARPGROUP>(set, p, column0, threadIdx.x);
    copy_commit();
    warpgroup_place next = {row0, 0, 0};
    for (int i = 0; i < PIPELINE - 1; i++) {
        warpgroup_begin<OPERAND, PIPELINE>(a, scales, p, next, stages, step, thread);
        copy_commit();
    }
    copy_wait<PIPELINE - 1>();
    __syncthreads(); /* the columns' weights are there */
    for (int row = row0; row < p.rows; row += step) {
        float sums[64] = {};
        for (int k = 0; k < stages; k++) {
            copy_wait<PIPELINE - 2>();
            /* All copies of the stage are there, and the one before has been read. */
            barrier_wait(1 + group, WARPGROUP);
            warpgroup_sums<OPERAND> own;
            const int slot = next.slot + 1 < PIPELINE ? next.slot + 1 : 0;
            warpgroup_start(own.of(sums), tile_place_of(a + slot * WARPGROUP_A_BYTES),
                            tile_place_of(b + k * WARPGROUP_B_BYTES), k == 0);
            warpgroup_begin<OPERAND, PIPELINE>(a, scales, p, next, stages, step, thread);
            copy_commit();
            warpgroup_wait();
            warpgroup_hold(own.of(sums));
            warpgroup_add_hidden(
                sums, own.of(sums), (const float2 *)(scales + slot * WARPGROUP_SCALE_BYTES),
                (const float *)set + (SET_SUMS + k) * TILE_COLUMNS, 16 * warp + lane / 4, lane);
        }
        tile_finish<OPERAND, RESULT, ACTIVATION, 1>((const float(*)[COLUMN_TILES][4])sums,
                                                    (const float *)set, p, row + 16 * warp, column0,
                                                    lane);
    }
#else
    (void)p;
#endif
}

/* Blocks: x counts strips of columns, y those of rows. NORM asks for one strip of columns. */
template <class OPERAND, int WARPGROUPS, int PIPELINE, bool NORM>
__global__ void __launch_bounds__(WARPGROUPS *WARPGROUP, 1)
    warpgroup_rows(const product_arguments p) {
#ifdef WARPGROUPS_EXIST
    typedef warpgroup_strip<WARPGROUPS> strip;
    DYNAMIC_SHARED(shared);
    const int group = threadIdx.x / WARPGROUP, warp = threadIdx.x % WARPGROUP / WARP,
              lane = threadIdx.x % WARP;
    const int row0 = blockIdx.y * WARPGROUP_ROWS, column0 = blockIdx.x * strip::COLUMNS;
    const int row = 16 * warp + lane / 4; /* and that 8 further on */
    const int stages = p.k_bytes / TILE_BYTES;
    uint16_t *residual = (uint16_t *)(shared + PIPELINE * strip::STAGE_BYTES);
    float *row_sums = (float *)(residual + WARPGROUP_ROWS * strip::STRIDE);
    float *scales = row_sums + 2 * WARPGROUPS * WARPGROUP_ROWS; /* [stages, 64] */
    float v[64] = {};

    for (int k = 0; k < PIPELINE - 1; k++) {
        if (k < stages)
            warpgroup_rows_begin<WARPGROUPS>(shared + k * strip::STAGE_BYTES, p, row0, column0, k);
        if (k == PIPELINE - 2)
            warpgroup_begin_residual<WARPGROUPS>(residual, p, row0, column0);
        copy_commit();
    }
    if (OPERAND::BYTES == 1)
        for (int at = threadIdx.x; at < stages * WARPGROUP_ROWS; at += WARPGROUPS * WARPGROUP) {
            const int k = at % stages, r = at / stages;
            scales[k * WARPGROUP_ROWS + r] =
                row0 + r < p.rows ? p.a_step[(size_t)(row0 + r) * stages + k] : 0;
        }
    for (int k = 0; k < stages; k++) {
        copy_wait<PIPELINE - 2>();
        __syncthreads(); /* all copies of stage k are there, and stage k - 1 has been read */
        const unsigned char *from = shared + k % PIPELINE * strip::STAGE_BYTES;
        warpgroup_sums<OPERAND> own;
        warpgroup_start(own.of(v), tile_place_of(from),
                        tile_place_of(from + WARPGROUP_A_BYTES + group * WARPGROUP_B_BYTES),
                        k == 0);
        const int next = k + PIPELINE - 1;
        if (next < stages)
            warpgroup_rows_begin<WARPGROUPS>(shared + next % PIPELINE * strip::STAGE_BYTES, p, row0,
                                             column0, next);
        copy_commit();
        warpgroup_wait();
        warpgroup_hold(own.of(v));
        warpgroup_add_row(v, own.of(v), scales + k * WARPGROUP_ROWS, row);
    }
    copy_wait<0>();
    __syncthreads(); /* the residual is there */
    const int column = group * WARPGROUP_COLUMNS;
#pragma unroll
    for (int i = 0; i < EIGHTS; i++) {
        const int c = column + first_of_eight(i, lane);
        eight_floats add = load_eight(p.bias + column0 + c), scale = {{1, 1, 1, 1, 1, 1, 1, 1}};
        if (OPERAND::BYTES == 1) {
            const eight_floats total = load_eight(p.b_total + column0 + c);
            scale = load_eight(p.b_scale + column0 + c);
#pragma unroll
            for (int k = 0; k < 8; k++)
                add.at[k] = with_shift(add.at[k], scale.at[k], total.at[k], p);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint4 r = *(const uint4 *)(residual + (row + 8 * half) * strip::STRIDE + c);
            const uint32_t words[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float *x = v + 16 * i + 4 * k + 2 * half;
                x[0] = fmaf(x[0], scale.at[2 * k], add.at[2 * k]) + low_half(words[k]);
                x[1] = fmaf(x[1], scale.at[2 * k + 1], add.at[2 * k + 1]) + high_half(words[k]);
            }
        }
    }
    if (NORM)
        warpgroup_norm<WARPGROUPS>(v, row_sums, p.norm, group, row, lane);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const size_t r = row0 + row + 8 * half;
        const bool valid = r < (size_t)p.rows;
        const size_t at = r * p.columns + column0 + column;
#pragma unroll
        for (int i = 0; valid && i < EIGHTS; i++) {
            const float *x = v + 16 * i + 2 * half;
            const uint32_t w[4] = {halves_of(x[0], x[1]), halves_of(x[4], x[5]),
                                   halves_of(x[8], x[9]), halves_of(x[12], x[13])};
            write_eight_halves(w, p.out.x + at + first_of_eight(i, lane));
        }
        if (NORM && p.out.q)
            warpgroup_write_bytes(v, half, p.out.q + at, p.out.scale + r * WARPGROUPS + group,
                                  valid, lane);
    }
#else
    (void)p;
#endif
}

#endif
