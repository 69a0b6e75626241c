/* SPDX-License-Identifier: Apache-2.0
 * Softmax attention of every token to every token of its text. */
#ifndef WISP_ATTENTION_FULL_H
#define WISP_ATTENTION_FULL_H

#include "kernels/kernels.h"

struct attention_shape {
    size_t heads;
    size_t head_size;
    size_t ld_qkv;     /* floats from one token's values to the next's, in q, k and v */
    size_t ld_context; /* the same in the result */
    bool i16; /* multiply q, k, v and shares as 16-bit numbers, where the set has i16 kernels */
};

/* One text, and which of its tokens ask. */
struct attention_text {
    const float *q, *k, *v; /* at its first token */
    size_t tokens;
    size_t first, end; /* queries [first, end) */
};

/* For each head h and query t
 *   context[t, h] = softmax(q[t, h] . k[:, h] / sqrt(head_size)) v[:, h]
 * context points at the first query's row. `scratch` holds attention_scratch_bytes(kernels, tokens,
 * head_size). */
void attention_full(const struct kernels *kernels, const struct attention_shape *shape,
                    const struct attention_text *text, float *context, void *scratch);

size_t attention_scratch_bytes(const struct kernels *kernels, size_t tokens, size_t head_size);

#endif
