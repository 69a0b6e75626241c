/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/full.h"

#include <math.h>

#include "base/checked.h"

/* Rows of scores held at a time: small enough for the first-level cache at ordinary lengths. */
enum { QUERY_ROWS = 32 };

struct scratch {
    float *keys;   /* packed: an output for each token, head_size inputs */
    float *values; /* packed: an output for each of head_size, an input for each token */
    float *scores; /* [QUERY_ROWS, score_columns(tokens)] */
};

/* A row of scores fills whole vectors: the end of one that is stored in part would else hold up
 * loads from the beginning of the next. */
static size_t score_columns(size_t tokens) {
    return round_up(tokens, 16);
}

static size_t key_floats(const struct kernels *kernels, size_t tokens, size_t head_size) {
    return round_up(packed_f32_floats(tokens, head_size, kernels->f32_panel), 16);
}

static size_t value_floats(const struct kernels *kernels, size_t tokens, size_t head_size) {
    return round_up(packed_f32_floats(head_size, tokens, kernels->f32_panel), 16);
}

size_t attention_scratch_bytes(const struct kernels *kernels, size_t tokens, size_t head_size) {
    return (key_floats(kernels, tokens, head_size) + value_floats(kernels, tokens, head_size) +
            QUERY_ROWS * score_columns(tokens)) *
           sizeof(float);
}

static void attend_head(const struct kernels *kernels, const struct attention_shape *shape,
                        const float *q, const float *k, const float *v, float *context,
                        size_t tokens, const struct scratch *s) {
    const size_t size = shape->head_size, ld = shape->ld_qkv, ld_scores = score_columns(tokens);
    const float scale = 1 / sqrtf((float)size);
    kernels->pack_f32(k, ld, tokens, size, s->keys);
    kernels->pack_f32_transposed(v, ld, size, tokens, s->values);
    for (size_t first = 0; first < tokens; first += QUERY_ROWS) {
        const size_t rows = tokens - first < QUERY_ROWS ? tokens - first : QUERY_ROWS;
        kernels->gemm_f32(q + first * ld, ld, s->keys, NULL, s->scores, ld_scores, rows, tokens,
                          size);
        kernels->softmax(s->scores, ld_scores, rows, tokens, scale);
        kernels->gemm_f32(s->scores, ld_scores, s->values, NULL,
                          context + first * shape->ld_context, shape->ld_context, rows, size,
                          tokens);
    }
}

void attention_full(const struct kernels *kernels, const struct attention_shape *shape,
                    const float *q, const float *k, const float *v, float *context, size_t tokens,
                    void *scratch) {
    struct scratch s = {.keys = scratch};
    s.values = s.keys + key_floats(kernels, tokens, shape->head_size);
    s.scores = s.values + value_floats(kernels, tokens, shape->head_size);
    for (size_t h = 0; h < shape->heads; h++) {
        const size_t at = h * shape->head_size;
        attend_head(kernels, shape, q + at, k + at, v + at, context + at, tokens, &s);
    }
}
