/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/full.h"

#include <math.h>

#include "base/checked.h"

/* Rows of scores held at a time: small enough for the first-level cache at ordinary lengths. */
enum { QUERY_ROWS = 32 };

struct scratch {
    void *keys;     /* packed: an output for each token, head_size inputs */
    void *values;   /* packed: an output for each of head_size, an input for each token */
    float *scores;  /* [QUERY_ROWS, score_columns(tokens)] */
    int32_t *query; /* [QUERY_ROWS, query_pairs(head_size)] */
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

static size_t query_pairs(size_t head_size) {
    return round_up(i16_pairs(head_size), 8);
}

/* 16-bit numbers in pairs take half of what floats take, or as much where there is but one. */
size_t attention_scratch_bytes(const struct kernels *kernels, size_t tokens, size_t head_size) {
    return (key_floats(kernels, tokens, head_size) + value_floats(kernels, tokens, head_size) +
            QUERY_ROWS * (score_columns(tokens) + query_pairs(head_size))) *
           sizeof(float);
}

/* One head of one text: q, k and v [tokens, head_size] at its first token. */
struct head {
    const float *q, *k, *v;
    float *context;
    size_t tokens;
    const struct attention_shape *shape;
};

static void attend(const struct kernels *kernels, const struct head *h, const struct scratch *s) {
    const size_t tokens = h->tokens, size = h->shape->head_size, ld = h->shape->ld_qkv;
    const size_t ld_scores = score_columns(tokens), ld_context = h->shape->ld_context;
    kernels->pack_f32(h->k, ld, tokens, size, s->keys);
    kernels->pack_f32_transposed(h->v, ld, size, tokens, s->values);
    for (size_t first = 0; first < tokens; first += QUERY_ROWS) {
        const size_t rows = tokens - first < QUERY_ROWS ? tokens - first : QUERY_ROWS;
        kernels->gemm_f32(h->q + first * ld, ld, s->keys, NULL, s->scores, ld_scores, rows, tokens,
                          size);
        kernels->softmax(s->scores, ld_scores, rows, tokens, 1 / sqrtf((float)size));
        kernels->gemm_f32(s->scores, ld_scores, s->values, NULL, h->context + first * ld_context,
                          ld_context, rows, size, tokens);
    }
}

/* What turns values of magnitude up to `largest` into whole numbers up to `most`, and back. */
struct i16_scale {
    float by, back;
};

static struct i16_scale i16_scale_of(float largest, float most) {
    if (!(largest >= 0x1p-112f)) /* for less, `by` would be no float: it counts as nothing */
        return (struct i16_scale){0};
    return (struct i16_scale){.by = most / largest, .back = largest / most};
}

/* The same in 16 bits, with one scale for q, for k and for v; no sum can reach 2^31. */
static void attend_i16(const struct kernels *kernels, const struct head *h,
                       const struct scratch *s) {
    const struct i16_kernels *i16 = kernels->i16;
    const size_t tokens = h->tokens, size = h->shape->head_size, ld = h->shape->ld_qkv;
    const size_t ld_scores = score_columns(tokens), ld_query = query_pairs(size);
    const size_t ld_context = h->shape->ld_context;
    const float most_score = i16_most(size), most_value = i16_most(tokens);
    const struct i16_scale q = i16_scale_of(i16->largest(h->q, ld, tokens, size), most_score);
    const struct i16_scale k = i16_scale_of(i16->largest(h->k, ld, tokens, size), most_score);
    const struct i16_scale v = i16_scale_of(i16->largest(h->v, ld, tokens, size), most_value);
    float scales[QUERY_ROWS];
    i16->pack(h->k, ld, tokens, size, k.by, s->keys);
    i16->pack_transposed(h->v, ld, size, tokens, v.by, s->values);
    for (size_t first = 0; first < tokens; first += QUERY_ROWS) {
        const size_t rows = tokens - first < QUERY_ROWS ? tokens - first : QUERY_ROWS;
        i16->quantise(h->q + first * ld, ld, rows, size, q.by, s->query, ld_query);
        for (size_t i = 0; i < rows; i++)
            scales[i] = q.back * k.back;
        i16->gemm(s->query, ld_query, s->keys, scales, s->scores, ld_scores, rows, tokens, size);
        i16->softmax(s->scores, ld_scores, rows, tokens, 1 / sqrtf((float)size), most_value,
                     scales);
        for (size_t i = 0; i < rows; i++)
            scales[i] = v.back / scales[i];
        i16->gemm((const int32_t *)(const void *)s->scores, ld_scores, s->values, scales,
                  h->context + first * ld_context, ld_context, rows, size, tokens);
    }
}

void attention_full(const struct kernels *kernels, const struct attention_shape *shape,
                    const float *q, const float *k, const float *v, float *context, size_t tokens,
                    void *scratch) {
    float *const keys = scratch;
    float *const values = keys + key_floats(kernels, tokens, shape->head_size);
    float *const scores = values + value_floats(kernels, tokens, shape->head_size);
    const struct scratch s = {.keys = keys,
                              .values = values,
                              .scores = scores,
                              .query =
                                  (int32_t *)(void *)(scores + QUERY_ROWS * score_columns(tokens))};
    for (size_t i = 0; i < shape->heads; i++) {
        const size_t at = i * shape->head_size;
        const struct head h = {q + at, k + at, v + at, context + at, tokens, shape};
        if (shape->i16 && kernels->i16)
            attend_i16(kernels, &h, &s);
        else
            attend(kernels, &h, &s);
    }
}
