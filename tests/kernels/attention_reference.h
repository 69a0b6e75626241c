/* SPDX-License-Identifier: Apache-2.0
 * Attention as plain loops in double precision, with a bound of the error of each result. */
#ifndef WISP_TESTS_ATTENTION_REFERENCE_H
#define WISP_TESTS_ATTENTION_REFERENCE_H

#include "attention/attention.h"
#include "kernel_case.h"

struct attention_case {
    const struct attention_policy *policy;
    struct attention_shape shape;
    struct attention_sequence sequence; /* all queries are asked for */
    size_t ld_context;
    enum fill kind;
    enum kv_type type; /* of the cache, if the policy has one */
    /* The keys and values that the policy computes with: those of the sequence, or those of the
     * cache, which has rounded them. */
    struct attention_rows kept_k, kept_v;
};

static inline const float *vector_at(const struct attention_rows *rows, size_t row, size_t head) {
    return rows->data + row * rows->row_stride + head * rows->head_stride;
}

/* The distances between neighbouring 16-bit numbers of a query head and of its key-value head; 0
 * if floats are used. */
struct attention_steps {
    double q, k, v;
};

struct attention_steps attention_steps_of(const struct attention_case *c, size_t head);

/* Compares one head of one query, `got`, with the reference. The arrays `shares` and `errors` have
 * room for a number for each key and one more. */
void check_attention_head(const struct where *where, const struct attention_case *c, size_t head,
                          size_t query, const struct attention_steps *steps, double *shares,
                          double *errors, const float *got);

#endif
