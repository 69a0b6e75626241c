/* SPDX-License-Identifier: Apache-2.0
 * Steps by a bound of their scores, for one token at a time. Of each channel of the keys of 16
 * positions the largest and the smallest value are kept, so that q . k is at most the sum over
 * channels of the larger of q max and q min. Of a step the bound is that of its largest part; of
 * query heads that share keys, the one that is nearest to the head's largest bound of all. The
 * first and the last positions are looked at in any case, as are all in the first layers, whose
 * queries look everywhere. Source: Tang et al., Quest (2024), whose blocks are the parts here.
 *
 * q max for q > 0 and q min for q < 0 are a product of the channels' (max, min) with the positive
 * and the negative parts of q. So KV_STEP bounds are the scores of a step of keys in bytes, of
 * twice the head's size; being rounded, they are estimates. */
#include <math.h>

#include "attention/attention.h"
#include "attention/steps.h"
#include "base/checked.h"

enum {
    PARTS = KV_STEP / KV_KEPT_STEPS, /* of a step */
    PART = KV_STEP / PARTS,          /* positions */
    CHANNELS = KV_BLOCK / 2,         /* whose largest and smallest values share a scale */
    WHOLE_LAYERS = 2,
    WHOLE_STEPS = 4 /* of fewer none is left out */
};

/* The bytes of KV_STEP bounds, and behind them their scales [blocks][KV_STEP]. */
static size_t bound_bytes(size_t head_size) {
    return KV_STEP * kv_key_bytes(2 * head_size);
}

static size_t kept_bytes(const struct kv_shape *shape) {
    return bound_bytes(shape->head_size) +
           kv_blocks(2 * shape->head_size) * KV_STEP * sizeof(float);
}

/* Sets range[2 i] and range[2 i + 1] to the largest and the smallest value of channel first + i. */
static void find_range(const struct kv_shape *shape, const struct kv_head *head, size_t at,
                       size_t first, size_t n, float *range) {
    for (size_t t = 0; t < PART; t++) {
        float key[CHANNELS];
        kv_head_key(shape, head, at + t, first, n, key);
        for (size_t i = 0; i < n; i++) {
            range[2 * i] = t == 0 || key[i] > range[2 * i] ? key[i] : range[2 * i];
            range[2 * i + 1] = t == 0 || key[i] < range[2 * i + 1] ? key[i] : range[2 * i + 1];
        }
    }
}

static void keep_step(const struct kv_cache *cache, size_t layer, size_t kv_head, size_t step) {
    const struct kv_shape *shape = &cache->shape;
    const size_t size = shape->head_size, page = step * KV_STEP / KV_PAGE;
    unsigned char *kept = kv_cache_kept(cache, step, layer, kv_head);
    float *scales = (float *)(void *)(kept + bound_bytes(size));
    const struct kv_head head = kv_cache_head(cache, page, layer, kv_head);
    for (size_t part = 0; part < PARTS; part++)
        for (size_t c = 0; c < size; c += CHANNELS) {
            const size_t n = smaller(CHANNELS, size - c);
            float range[2 * CHANNELS];
            find_range(shape, &head, (step * KV_STEP + part * PART) % KV_PAGE, c, n, range);
            kv_write_key_bytes(range, 2 * n, step % KV_KEPT_STEPS * PARTS + part,
                               (int8_t *)kept + 2 * c * KV_STEP, scales + c / CHANNELS * KV_STEP,
                               KV_STEP);
        }
    kv_cache_let_go(cache, page, layer);
}

/* A query's positive and negative parts. */
struct signs {
    float *parts;  /* [2 head_size] */
    int8_t *bytes; /* [kv_key_bytes(2 head_size)] */
    int32_t *sums; /* [kv_blocks(2 head_size)] */
};

static struct signs take_signs(struct workspace *space, size_t head_size) {
    struct signs s;
    s.parts = workspace_take(space, 2, head_size, sizeof *s.parts);
    s.bytes = workspace_take(space, 1, kv_key_bytes(2 * head_size), sizeof *s.bytes);
    s.sums = workspace_take(space, 1, kv_blocks(2 * head_size), sizeof *s.sums);
    return s;
}

static size_t workspace_bytes(const struct kernels *kernels, const struct attention_shape *shape,
                              size_t keys) {
    struct workspace measured = {.used = attention_cached_bytes(kernels, shape, keys)};
    (void)take_signs(&measured, shape->head_size);
    return measured.used;
}

/* Sets weights[s] of each step to the bound of the row's scores, less the largest one. */
static void find_bounds(const struct query_block *b, size_t row, const struct step_looks *looks,
                        float *weights) {
    const struct attention_sequence *s = b->sequence;
    const size_t size = b->shape->head_size;
    struct workspace space = looks->space;
    const struct signs signs = take_signs(&space, size);
    float bounds[KV_STEP], largest = -INFINITY;
    for (size_t i = 0; i < size; i++) {
        const float q = b->q[row * size + i];
        signs.parts[2 * i] = q > 0 ? q : 0;
        signs.parts[2 * i + 1] = q > 0 ? 0 : q;
    }
    const float factor =
        b->shape->scale * step_quantise(signs.parts, 2 * size, signs.bytes, signs.sums);
    const struct int8_queries queries = {signs.bytes, signs.sums, 1, 2 * size};
    for (size_t step = looks->first; step < looks->end - 1; step++) {
        const size_t place = step % KV_KEPT_STEPS * PARTS;
        if (step == looks->first || place == 0) {
            const unsigned char *kept =
                kv_cache_kept(s->cache, step, s->layer, s->kv_head + b->kv_head);
            b->kernels->kv->score_int8(&queries, (const int8_t *)kept,
                                       (const float *)(const void *)(kept + bound_bytes(size)),
                                       KV_STEP, bounds);
        }
        float bound = bounds[place];
        for (size_t part = 1; part < PARTS; part++)
            bound = bounds[place + part] > bound ? bounds[place + part] : bound;
        weights[step] = bound * factor;
        largest = weights[step] > largest ? weights[step] : largest;
    }
    for (size_t step = looks->first; step < looks->end - 1; step++)
        weights[step] -= largest;
}

/* Keeps what is not kept yet: the keys of texts that come from files, or that were copied. */
static void keep_all(const struct query_block *b) {
    const struct attention_sequence *s = b->sequence;
    for (size_t step = s->cache->kept_steps; step < step_own(b); step++)
        keep_step(s->cache, s->layer, s->kv_head + b->kv_head, step);
}

struct wanted {
    const struct step_looks *looks;
    size_t steps;
};

static bool enough(void *context, size_t index) {
    struct wanted *wanted = context;
    bool *looks = wanted->looks->at + wanted->looks->first;
    if (!looks[index]) {
        if (wanted->steps == 0)
            return true;
        wanted->steps--;
    }
    looks[index] = true;
    return false;
}

static void select_steps(const struct query_block *b, struct step_looks *looks) {
    const struct attention_settings *settings = b->sequence->settings;
    const size_t n = looks->end - looks->first, steps = settings->tokens / KV_STEP;
    const bool whole = b->sequence->layer < WHOLE_LAYERS || n <= larger(steps, WHOLE_STEPS);
    struct wanted wanted = {looks, steps};
    keep_all(b);
    for (size_t s = looks->first; s < looks->end; s++) {
        looks->at[s] = whole || attention_sees_local(settings, step_own(b), s);
        wanted.steps -= looks->at[s] && wanted.steps > 0;
    }
    if (whole)
        return;
    float *weights = looks->weights;
    for (size_t h = 0; h < step_heads(b); h++) {
        float *own = weights + h * looks->ld;
        find_bounds(b, h, looks, own);
        for (size_t s = looks->first; s < looks->end - 1; s++)
            weights[s] = own[s] > weights[s] ? own[s] : weights[s];
    }
    (void)attention_order(weights + looks->first, n - 1, looks->order, enough, &wanted);
}

const struct attention_policy attention_quest = {
    .name = "quest",
    .only_decode = true,
    .selects_steps = true,
    .masks = 1u << ATTENTION_CAUSAL | 1u << ATTENTION_WINDOW,
    .needs_cache = true,
    .settings = ATTENTION_TAKES_WINDOW | ATTENTION_TAKES_SINKS | ATTENTION_TAKES_TOKENS,
    .defaults = {.window = 128, .sinks = 64, .tokens = 1024},
    .least = {.window = 128, .sinks = 1, .tokens = KV_STEP},
    .select_steps = select_steps,
    .kept_bytes = kept_bytes,
    .keep_step = keep_step,
    .workspace_bytes = workspace_bytes,
    .run = attention_cached_run,
};
