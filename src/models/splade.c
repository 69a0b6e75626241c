/* SPDX-License-Identifier: Apache-2.0 */
#include "models/splade.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"

/* The head computes this many tokens at a time, so that their logits need a few megabytes. */
enum { PART_TOKENS = 32 };

const char *const splade_names[] = {TENSOR_SPLADE_DENSE, TENSOR_SPLADE_NORM, TENSOR_SPLADE_OUTPUT,
                                    NULL};

static bool has(const struct directory *dir, const char *name) {
    return directory_find_tensor(dir, name) != NULL;
}

/* Loads the norm, which may have no bias. */
static wisp_status load_norm(struct norm *norm, const struct directory *dir, size_t size,
                             wisp_error *error) {
    if (has(dir, TENSOR_SPLADE_NORM TENSOR_BIAS))
        return norm_load(norm, dir, TENSOR_SPLADE_NORM, size, error);
    TRY(directory_load_floats(dir, TENSOR_SPLADE_NORM TENSOR_WEIGHT, 1, size, &norm->weight,
                              error));
    norm->bias = memory_allocate(size * sizeof *norm->bias);
    if (!norm->bias)
        return fail_memory(error, size * sizeof *norm->bias);
    memset(norm->bias, 0, size * sizeof *norm->bias);
    return WISP_OK;
}

/* Loads the layer that gives words their values. Its bias is a tensor of its own, also if its
 * weights are the embeddings of tokens. */
static wisp_status load_output(struct splade *s, const struct directory *dir,
                               const struct kernels *kernels, const struct model_config *config,
                               wisp_compute compute, wisp_error *error) {
    static const char *const names[] = {"token_embd", TENSOR_SPLADE_OUTPUT};
    const bool own = has(dir, TENSOR_SPLADE_OUTPUT TENSOR_WEIGHT);
    struct linear_source source = {.dir = dir,
                                   .names = names + own,
                                   .unbiased = !own,
                                   .parts = 1,
                                   .n = config->vocabulary_size,
                                   .k = config->hidden_size};
    TRY(linear_load(&s->output, &source, kernels, compute, error));
    source.unbiased = false;
    return linear_bias(&source, TENSOR_SPLADE_OUTPUT TENSOR_BIAS, s->output.bias, error);
}

wisp_status splade_load(struct splade *s, const struct directory *dir,
                        const struct kernels *kernels, const struct model_config *config,
                        wisp_compute compute, wisp_error *error) {
    static const char *const dense = TENSOR_SPLADE_DENSE;
    const size_t size = config->hidden_size;
    const struct linear_source source = {.dir = dir,
                                         .names = &dense,
                                         .unbiased = !has(dir, TENSOR_SPLADE_DENSE TENSOR_BIAS),
                                         .parts = 1,
                                         .n = size,
                                         .k = size};
    s->logarithms = 1;
    TRY(metadata_bool_or(dir, KEY_SPLADE_SUMS, &s->sums, error));
    TRY(metadata_u32_or(dir, KEY_SPLADE_LOGARITHMS, &s->logarithms, error));
    if (s->logarithms != 1 && s->logarithms != 2)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_SPLADE_LOGARITHMS, "%u is not 1 or 2",
                    s->logarithms);
    if (config_token_size(config) != size)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, TENSOR_SPLADE_DENSE,
                    "the head of SPLADE beside embeddings that are smaller than hidden states");
    TRY(linear_load(&s->dense, &source, kernels, WISP_COMPUTE_F32, error));
    TRY(load_norm(&s->norm, dir, size, error));
    TRY(load_output(s, dir, kernels, config, compute, error));
    s->bytes = s->dense.bytes + s->output.bytes + norm_bytes(size);
    return WISP_OK;
}

void splade_release(struct splade *s) {
    linear_release(&s->dense);
    linear_release(&s->output);
    norm_release(&s->norm);
}

/* The working memory of a part of a text. */
struct work {
    float *h, *zeros; /* [PART_TOKENS, hidden_size] */
    float *logits;    /* [PART_TOKENS, vocabulary_size] */
    struct workspace scratch;
};

static struct work take_work(const struct splade *s, struct workspace *space) {
    struct work w;
    w.h = workspace_take(space, PART_TOKENS, s->dense.n, sizeof *w.h);
    w.zeros = workspace_take(space, PART_TOKENS, s->dense.n, sizeof *w.zeros);
    w.logits = workspace_take(space, PART_TOKENS, s->output.n, sizeof *w.logits);
    w.scratch = workspace_part(space, linear_workspace_bytes(PART_TOKENS, s->dense.n));
    return w;
}

size_t splade_workspace_bytes(const struct splade *s) {
    struct workspace measured = {0};
    if (s->output.n > 0)
        take_work(s, &measured);
    return measured.used;
}

static float value_of(const struct splade *s, float logit) {
    return s->logarithms == 2 ? log1pf(log1pf(logit)) : log1pf(logit);
}

static void add_values(const struct splade *s, const float *logits, float *values) {
    for (size_t i = 0; i < s->output.n; i++)
        if (logits[i] > 0)
            values[i] += value_of(s, logits[i]);
}

static void keep_largest(const float *logits, size_t n, float *values) {
    for (size_t i = 0; i < n; i++)
        values[i] = logits[i] > values[i] ? logits[i] : values[i];
}

void splade_apply(const struct splade *s, const struct model_config *config, const float *x,
                  size_t tokens, float *values, struct workspace space) {
    const struct kernels *kernels = s->dense.kernels;
    const size_t size = s->dense.n, words = s->output.n;
    struct work w = take_work(s, &space);
    float sum = 0;
    memset(values, 0, words * sizeof *values);
    memset(w.zeros, 0, PART_TOKENS * size * sizeof *w.zeros);
    for (size_t first = 0; first < tokens; first += PART_TOKENS) {
        const size_t n = smaller(PART_TOKENS, tokens - first);
        linear_apply(&s->dense, x + first * size, n, w.h, w.scratch);
        kernels->gelu(w.h, n * size);
        kernels->layer_norm(w.h, w.zeros, s->norm.weight, s->norm.bias, config->norm_epsilon, n,
                            size);
        linear_apply(&s->output, w.h, n, w.logits, w.scratch);
        for (size_t t = 0; t < n; t++)
            if (s->sums)
                add_values(s, w.logits + t * words, values);
            else
                keep_largest(w.logits + t * words, words, values);
        for (size_t i = 0; i < n * size; i++)
            sum += w.h[i];
    }
    if (!isfinite(sum)) /* comparisons have lost what is not a number */
        values[0] = NAN;
    /* Logarithms grow with their argument, so that those of the largest are enough. */
    for (size_t i = 0; i < words && !s->sums; i++)
        values[i] = value_of(s, values[i]);
}
