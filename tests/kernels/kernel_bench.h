/* SPDX-License-Identifier: Apache-2.0
 * Timed calls of kernels: what the files kernel_bench*.c share. */
#ifndef WISP_TESTS_KERNEL_BENCH_H
#define WISP_TESTS_KERNEL_BENCH_H

#include "attention/attention.h"
#include "kernel_case.h"

struct sparse_bench;

/* A call to be timed, and the amount of its work. */
struct timed {
    const struct kernels *set;
    enum kernel kernel;
    size_t m, n, k;
    struct gemm_call gemm;
    const float *source; /* of x */
    float *x, *other, *bias, *packed;
    struct quantised_rows rows;
    const int16_t *query;                           /* of dots_int8 */
    const int8_t *vectors;                          /* [n, k] */
    const int32_t *pairs, *i16_weights;             /* x and w; NULL for the softmax */
    const uint16_t *bfloats, *bfloat_weights;       /* x and w */
    void (*half)(const struct sparse_bench *bench); /* of a sparse layer */
    const struct sparse_bench *sparse;
    const struct attention_shape *attention;
    const struct attention_sequence *sequence;
    struct workspace space;
};

/* Prints how much of the `work` of a call is done a second or, where kernel_bench counts
 * instructions, how many the call executes. */
void print_speed(const struct timed *t, double work);

/* Returns `unit`, or "" where instructions are counted. */
const char *speed_unit(const char *unit);

/* Allocates memory with the alignment of the engine's memory. */
void *random_bytes(size_t n);

/* The tokens of a sparse layer that time_sparse times. */
enum { SPARSE_TOKENS = 63 };

/* Times one half of a sparse layer, the first (`up`) or the second, of which each token has
 * `percent` of the neurons, and prints a line. */
void time_sparse(bool up, size_t neurons, size_t k, size_t percent);

/* kernel_bench_rows.c: each prints a line, with the speeds of all sets. time_i16 times a product
 * or, with k = 0, the softmax. */
void time_rows(enum kernel kernel, size_t m, size_t n);
void time_i16(size_t m, size_t n, size_t k);
void time_attention(size_t tokens, size_t heads, size_t kv_heads, size_t head_size, bool causal,
                    bool i16);
#ifndef __wasm__
void time_bf16(size_t m, size_t n, size_t k);
void time_dots_int8(size_t n, size_t k);
#endif

#endif
