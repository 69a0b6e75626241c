/* SPDX-License-Identifier: Apache-2.0
 * Kernels of attention over cached keys and values, KV_STEP positions at a time. Softmax goes from
 * step to step: a row keeps the largest score and the sum of powers so far, and when a step has a
 * larger score, what was added up before is scaled down. Source: Milakov and Gimelshein, Online
 * normalizer calculation for softmax (2018).
 *
 * With int8 caches products are those of bytes. A query has one scale, a key one for each KV_BLOCK
 * values, and a value vector one. The share of a key times the scale of its values is rounded to
 * one of SHARE_STEPS steps, of which the largest in the step has all. So a step whose shares are
 * small rounds as finely as any other.
 *
 * Bytes are arranged so that an instruction multiplies four neighbours along the inner dimension at
 * once:
 *
 *   keys   [round_up(head_size, 4) / 4][KV_STEP][4]: value 4 c + i of position p is at [c][p][i]
 *   values [KV_STEP / 4][kv_channels(head_size)][4]: value c of position 4 p + i is at [p][c][i]
 */
#ifndef WISP_KERNELS_KV_STEP_H
#define WISP_KERNELS_KV_STEP_H

#include <stddef.h>
#include <stdint.h>

enum {
    KV_STEP = 64,       /* positions: a multiple of every panel */
    KV_BLOCK = 32,      /* values of a key that share a scale: a multiple of every panel */
    SHARE_STEPS = 127,  /* so that shares are signed bytes, too */
    SOFTMAX_LANES = 16, /* a multiple of VF_LANES */
    KV_MASS_BITS = 100, /* of `mass` */
    KV_CHANNELS = 16    /* value vectors are padded with zeros to a multiple of these */
};

/* Returns the bytes of a key, and those of a position's values. */
static inline size_t kv_key_bytes(size_t head_size) {
    return (head_size + 3) & ~(size_t)3;
}

static inline size_t kv_channels(size_t head_size) {
    return (head_size + KV_CHANNELS - 1) & ~(size_t)(KV_CHANNELS - 1);
}

/* Returns the scales of a key. */
static inline size_t kv_blocks(size_t head_size) {
    return (head_size + KV_BLOCK - 1) / KV_BLOCK;
}

/* Queries as signed bytes, -127 .. 127. */
struct int8_queries {
    const int8_t *q;     /* [rows, kv_key_bytes(head_size)] */
    const int32_t *sums; /* [rows, blocks]: the sums of the bytes of each block */
    size_t rows, head_size;
};

/* A query's softmax. It starts with .top = -INFINITY and the rest 0, and a sum of zeros. */
struct softmax_row {
    /* Added up: the sum of e^(factor (score - top)) so far. */
    float total[SOFTMAX_LANES];
    float top;   /* the largest score so far */
    float keep;  /* what the sums before this step are multiplied with */
    float scale; /* of the bytes that `shares_int8` wrote */
};

struct kv_kernels {
    /* Computes y[i, j] = sum over blocks b of scales[b, j] (sum of q[i, c] keys[j, c] over the
     * block) for the KV_STEP keys of a step. The inner sums are exact. scales [blocks, ld_scales];
     * y [rows, KV_STEP]. */
    void (*score_int8)(const struct int8_queries *x, const int8_t *keys, const float *scales,
                       size_t ld_scales, float *y);

    /* Computes e^(factor (score - top)) of scores [KV_STEP], where only those from `first` to
     * before `end` count, first < end, and the others become 0. `factor` is at least 0. Sets row.
     */
    void (*shares)(float *scores, size_t first, size_t end, float factor, struct softmax_row *row);

    /* Does so for rows of scores [rows, KV_STEP] with factors [rows]. Multiplies the powers with
     * value_scales [KV_STEP], divides them by row[i].scale and rounds them to bytes
     * [rows, KV_STEP]. Overwrites the scores. */
    void (*shares_int8)(float *scores, size_t rows, size_t first, size_t end, const float *factors,
                        const float *value_scales, struct softmax_row *row, uint8_t *bytes);

    /* Returns the sum of e^(factor score) of scores [KV_STEP], for choosing steps by what they
     * weigh: each power is kept between 2^-100 and 2^100, and within 0.25 % of its value. */
    float (*mass)(const float *scores, float factor);

    /* Computes sum[i, c] = row[i].keep sum[i, c] + row[i].scale (sum of shares[i, j] values[j, c]
     * over the step). The inner sums are exact. shares [rows, KV_STEP], at most SHARE_STEPS each;
     * sum [rows, kv_channels(head_size)]. */
    void (*add_up_int8)(const uint8_t *shares, const struct softmax_row *row, const int8_t *values,
                        size_t rows, size_t head_size, float *sum);

    /* Computes sum = row[i].keep sum + y, for y [rows, n] and sum [rows, n]. */
    void (*add_up)(const float *y, const struct softmax_row *row, size_t rows, size_t n,
                   float *sum);
};

extern const struct kv_kernels kv_scalar;

#endif
