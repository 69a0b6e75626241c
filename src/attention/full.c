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

/* One head of a text, whose q, k and v are this head's. */
struct head {
    struct attention_text text;
    float *context;
    const struct attention_shape *shape;
};

static void attend(const struct kernels *kernels, const struct head *h, const struct scratch *s) {
    const struct attention_text *t = &h->text;
    const size_t tokens = t->tokens, size = h->shape->head_size, ld = h->shape->ld_qkv;
    const size_t ld_scores = score_columns(tokens), ld_context = h->shape->ld_context;
    kernels->pack_f32(t->k, ld, tokens, size, s->keys);
    kernels->pack_f32_transposed(t->v, ld, size, tokens, s->values);
    for (size_t i = t->first; i < t->end; i += QUERY_ROWS) {
        const size_t rows = smaller(t->end - i, QUERY_ROWS);
        float *context = h->context + (i - t->first) * ld_context;
        kernels->gemm_f32(t->q + i * ld, ld, s->keys, NULL, s->scores, ld_scores, rows, tokens,
                          size);
        kernels->softmax(s->scores, ld_scores, rows, tokens, 1 / sqrtf((float)size));
        kernels->gemm_f32(s->scores, ld_scores, s->values, NULL, context, ld_context, rows, size,
                          tokens);
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
    const struct attention_text *t = &h->text;
    const size_t tokens = t->tokens, size = h->shape->head_size, ld = h->shape->ld_qkv;
    const size_t ld_scores = score_columns(tokens), ld_query = query_pairs(size);
    const size_t ld_context = h->shape->ld_context;
    const float most_score = i16_most(size), most_value = i16_most(tokens);
    const struct i16_scale q = i16_scale_of(i16->largest(t->q, ld, tokens, size), most_score);
    const struct i16_scale k = i16_scale_of(i16->largest(t->k, ld, tokens, size), most_score);
    const struct i16_scale v = i16_scale_of(i16->largest(t->v, ld, tokens, size), most_value);
    float scales[QUERY_ROWS];
    i16->pack(t->k, ld, tokens, size, k.by, s->keys);
    i16->pack_transposed(t->v, ld, size, tokens, v.by, s->values);
    for (size_t i = t->first; i < t->end; i += QUERY_ROWS) {
        const size_t rows = smaller(t->end - i, QUERY_ROWS);
        float *context = h->context + (i - t->first) * ld_context;
        i16->quantise(t->q + i * ld, ld, rows, size, q.by, s->query, ld_query);
        for (size_t r = 0; r < rows; r++)
            scales[r] = q.back * k.back;
        i16->gemm(s->query, ld_query, s->keys, scales, s->scores, ld_scores, rows, tokens, size);
        i16->softmax(s->scores, ld_scores, rows, tokens, 1 / sqrtf((float)size), most_value,
                     scales);
        for (size_t r = 0; r < rows; r++)
            scales[r] = v.back / scales[r];
        i16->gemm((const int32_t *)(const void *)s->scores, ld_scores, s->values, scales, context,
                  ld_context, rows, size, tokens);
    }
}

void attention_full(const struct kernels *kernels, const struct attention_shape *shape,
                    const struct attention_text *text, float *context, void *scratch) {
    const size_t tokens = text->tokens;
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
        struct head h = {.text = *text, .context = context + at, .shape = shape};
        h.text.q += at;
        h.text.k += at;
        h.text.v += at;
        if (shape->i16 && kernels->i16)
            attend_i16(kernels, &h, &s);
        else
            attend(kernels, &h, &s);
    }
}
