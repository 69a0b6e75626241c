/* SPDX-License-Identifier: Apache-2.0
 * Compares every attention policy with plain loops in double precision: all masks, soft caps,
 * grouped key-value heads, both layouts of keys and values, f32 and 16-bit products, all types of
 * cache, all kernel sets, queries divided among calls. Inputs, working memory and results end at
 * guard pages. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "attention_reference.h"
#include "base/half.h"
#include "kernel_case.h"
#include "support/guarded.h"
#include "support/sampling.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { CAPACITY = 8 << 20 };

static struct guarded q_rows, k_rows, v_rows, working, context, bias_rows, sink_rows;

/* ---- cases ---------------------------------------------------------------------------------- */

/* The size of a case. Fields of the shape that are 0 are filled in. */
struct size {
    size_t heads, kv_heads, head_size, queries, keys;
};

/* Vectors [rows, heads, head_size], either token after token, as a layer's product leaves them, or
 * head after head, as a cache with room for more tokens would keep them. The values between them
 * stay NaN. */
static struct attention_rows place_vectors(struct guarded *place, size_t rows, size_t heads,
                                           size_t head_size, enum fill kind, float factor) {
    struct attention_rows v = {.head_stride = head_size,
                               .row_stride = heads * head_size + rng_below(&kernel_rng, 4)};
    if (rng_coin(&kernel_rng)) {
        v.row_stride = head_size;
        v.head_stride = (rows + rng_below(&kernel_rng, 3)) * head_size;
    }
    const size_t floats = (rows - 1) * v.row_stride + (heads - 1) * v.head_stride + head_size;
    float *data = guarded_place(place, floats * sizeof *data, GUARDED_END);
    for (size_t t = 0; t < rows; t++)
        for (size_t h = 0; h < heads; h++) {
            float *to = data + t * v.row_stride + h * v.head_stride;
            fill_floats(to, head_size, kind);
            for (size_t i = 0; i < head_size; i++)
                to[i] *= factor;
        }
    v.data = data;
    return v;
}

/* Queries, and so scores, are multiplied by `factor`. Values are uniform. */
static struct attention_case new_case(struct size n, enum fill kind, float factor) {
    struct attention_case c = {
        .policy = &attention_full,
        .shape = {.heads = n.heads,
                  .kv_heads = n.kv_heads,
                  .head_size = n.head_size,
                  .scale = rng_coin(&kernel_rng) ? 1 / sqrtf((float)n.head_size) : 0.3f},
        .ld_context = n.heads * n.head_size + rng_below(&kernel_rng, 4),
        .kind = kind};
    c.sequence = (struct attention_sequence){
        .q = place_vectors(&q_rows, n.queries, n.heads, n.head_size, kind, factor),
        .k = place_vectors(&k_rows, n.keys, n.kv_heads, n.head_size, kind, 1),
        .v = place_vectors(&v_rows, n.keys, n.kv_heads, n.head_size, FILL_UNIFORM, 1),
        .queries = n.queries,
        .keys = n.keys,
        .end = n.queries};
    c.kept_k = c.sequence.k;
    c.kept_v = c.sequence.v;
    return c;
}

static struct size random_size(size_t most_heads, size_t most_head_size, size_t most_keys) {
    const size_t kv_heads = rng_range(&kernel_rng, 1, most_heads);
    const size_t keys = rng_range(&kernel_rng, 1, most_keys);
    return (struct size){.heads = kv_heads * rng_range(&kernel_rng, 1, most_heads / kv_heads),
                         .kv_heads = kv_heads,
                         .head_size = rng_range(&kernel_rng, 1, most_head_size),
                         .queries = rng_coin(&kernel_rng) ? keys : rng_range(&kernel_rng, 1, keys),
                         .keys = keys};
}

/* ---- calls ---------------------------------------------------------------------------------- */

enum { CACHE_LAYERS = 3, CACHE_LAYER = 1 };

/* Fills a cache with the keys and values of the case, a few tokens at a time. It grows meanwhile.
 */
static void fill_cache(struct kv_cache *cache, const struct kernels *set,
                       const struct attention_case *c) {
    const struct attention_shape *shape = &c->shape;
    const struct attention_sequence *s = &c->sequence;
    const struct rope rope = {.theta = 100};
    const size_t row = shape->kv_heads * shape->head_size;
    float *keys = allocate(s->keys * row * sizeof *keys), *values = allocate(s->keys * row * 4);
    wisp_error error;
    for (size_t t = 0; t < s->keys; t++)
        for (size_t h = 0; h < shape->kv_heads; h++) {
            const size_t at = t * row + h * shape->head_size, bytes = shape->head_size * 4;
            memcpy(keys + at, vector_at(&s->k, t, h), bytes);
            memcpy(values + at, vector_at(&s->v, t, h), bytes);
        }
    assert_int_equal(kv_cache_open(cache,
                                   &(struct kv_shape){.layers = CACHE_LAYERS,
                                                      .kv_heads = shape->kv_heads,
                                                      .head_size = shape->head_size,
                                                      .panel = set->f32_panel,
                                                      .type = c->type},
                                   &error),
                     WISP_OK);
    while (cache->length < s->keys) {
        const size_t n = rng_range(&kernel_rng, 1, s->keys - cache->length);
        assert_int_equal(kv_cache_reserve(cache, cache->length + n, &rope, &error), WISP_OK);
        kv_cache_write(cache, CACHE_LAYER, cache->length, n, keys + cache->length * row,
                       values + cache->length * row, row);
        cache->length += n;
    }
    free(keys);
    free(values);
}

/* Returns number `index` of a head's keys or values. */
static float number_at(enum kv_type type, const void *numbers, size_t index, float scale) {
    if (type == KV_F32)
        return ((const float *)numbers)[index];
    if (type == KV_F16)
        return float_of_half(((const uint16_t *)numbers)[index]);
    return (float)((const int8_t *)numbers)[index] * scale;
}

/* Fails unless a number of the cache is the nearest one of its type to what was written. */
static void expect_kept(enum kv_type type, float kept, float written, float scale) {
    const double error = fabs((double)kept - (double)written);
    const double magnitude = fabs((double)written);
    if (type == KV_F32 ? error > 0
        : type == KV_F16
            ? error > fmax(magnitude * 0x1p-11, 0x1p-25)
            : error > fmax((double)scale / 2 + magnitude * 0x1p-20, scale > 0 ? 0 : 0x1p-100))
        fail_msg("cache type %d keeps %.9g as %.9g, scale %g", type, (double)written, (double)kept,
                 (double)scale);
}

/* Reads the keys and values [keys, kv_heads, head_size] of a cache, by the layout that kv_cache.h
 * describes, and compares them with what was written. */
static void read_cache(const struct kv_cache *cache, const struct attention_case *c, float *keys,
                       float *values) {
    const size_t size = c->shape.head_size, panel = cache->shape.panel;
    const bool bytes = c->type == KV_INT8;
    for (size_t t = 0; t < c->sequence.keys; t++)
        for (size_t h = 0; h < c->shape.kv_heads; h++) {
            const struct kv_head head = kv_cache_head(cache, t / KV_PAGE, CACHE_LAYER, h);
            const size_t at = t % KV_PAGE, step = at / KV_STEP, in = at % KV_STEP;
            const float v = bytes ? head.value_scales[at] : 0;
            for (size_t i = 0; i < size; i++, keys++, values++) {
                const float k = bytes ? head.key_scales[i / KV_BLOCK * KV_PAGE + at] : 0;
                const size_t key =
                    bytes ? step * KV_STEP * kv_key_bytes(size) + (i / 4 * KV_STEP + in) * 4 + i % 4
                          : (at / panel * size + i) * panel + at % panel;
                const size_t value = bytes ? (at / 4 * kv_channels(size) + i) * 4 + at % 4
                                           : (i / panel * KV_PAGE + at) * panel + i % panel;
                *keys = number_at(c->type, head.keys, key, k);
                *values = number_at(c->type, head.values, value, v);
                expect_kept(c->type, *keys, vector_at(&c->sequence.k, t, h)[i], k);
                expect_kept(c->type, *values, vector_at(&c->sequence.v, t, h)[i], v);
            }
        }
}

/* Sets the keys and values that the caches of all sets keep, which the caller frees. */
static void read_kept(struct attention_case *c, float **keys, float **values) {
    const size_t row = c->shape.kv_heads * c->shape.head_size, n = c->sequence.keys * row;
    float *k = allocate(n * sizeof *k), *v = allocate(n * sizeof *v);
    *keys = allocate(n * sizeof *k);
    *values = allocate(n * sizeof *v);
    for (size_t set = 0; kernels_at(set); set++) {
        struct kv_cache cache;
        fill_cache(&cache, kernels_at(set), c);
        read_cache(&cache, c, set == 0 ? *keys : k, set == 0 ? *values : v);
        kv_cache_release(&cache);
        if (set > 0) {
            assert_memory_equal(k, *keys, n * sizeof *k);
            assert_memory_equal(v, *values, n * sizeof *v);
        }
    }
    c->kept_k = (struct attention_rows){*keys, row, c->shape.head_size};
    c->kept_v = (struct attention_rows){*values, row, c->shape.head_size};
    free(k);
    free(v);
}

/* Computes all queries, in calls of random size up to a limit. */
static float *run(const struct kernels *set, const struct attention_case *c, size_t most_queries) {
    const struct attention_shape *shape = &c->shape;
    const size_t bytes = c->policy->workspace_bytes(set, shape, c->sequence.keys);
    const size_t queries = c->sequence.queries;
    struct workspace space = {.base = guarded_place(&working, bytes, GUARDED_END),
                              .capacity = bytes};
    float *to = guarded_place(
        &context, ((queries - 1) * c->ld_context + shape->heads * shape->head_size) * sizeof *to,
        GUARDED_END);
    struct attention_sequence part = c->sequence;
    struct kv_cache cache = {0};
    if (c->policy->needs_cache) {
        fill_cache(&cache, set, c);
        part.cache = &cache;
        part.layer = CACHE_LAYER;
    }
    for (part.first = 0; part.first < queries; part.first = part.end) {
        const size_t left = queries - part.first;
        part.end =
            most_queries >= queries
                ? queries
                : part.first + rng_range(&kernel_rng, 1, left < most_queries ? left : most_queries);
        c->policy->run(set, shape, &part, to + part.first * c->ld_context, c->ld_context, space);
    }
    kv_cache_release(&cache);
    assert_true(guarded_intact(&working) && guarded_intact(&context));
    assert_true(guarded_intact(&q_rows) && guarded_intact(&k_rows) && guarded_intact(&v_rows));
    return to;
}

/* Checks every set: near the reference, nothing written between the rows, and the same bits however
 * the queries are divided among calls. */
static void check_sets(const struct attention_case *c) {
    const size_t queries = c->sequence.queries, size = c->shape.heads * c->shape.head_size;
    const size_t step = queries > 40 ? queries / 20 : 1;
    const size_t floats = (queries - 1) * c->ld_context + size;
    float *whole = allocate(floats * sizeof *whole);
    double *shares = allocate((c->sequence.keys + 1) * sizeof *shares);
    double *errors = allocate((c->sequence.keys + 1) * sizeof *errors);
    for (size_t set = 0; kernels_at(set); set++) {
        if (c->shape.i16 && !kernels_at(set)->i16)
            continue; /* it would use floats, which are checked already */
        const struct where where = {ATTENTION,      kernels_at(set),    c->sequence.keys,
                                    c->shape.heads, c->shape.head_size, c->kind};
        const float *got = run(kernels_at(set), c, queries);
        expect_padding(&where, got, queries, size, c->ld_context);
        for (size_t h = 0; h < c->shape.heads; h++) {
            const struct attention_steps steps = attention_steps_of(c, h);
            for (size_t t = rng_below(&kernel_rng, step); t < queries; t += step)
                check_attention_head(&where, c, h, t, &steps, shares, errors,
                                     got + t * c->ld_context);
        }
        memcpy(whole, got, floats * sizeof *whole);
        expect_same_bits(&where, "queries in parts", run(kernels_at(set), c, queries / 2 + 1),
                         whole, floats * sizeof *whole);
    }
    free(whole);
    free(shares);
    free(errors);
}

/* Returns a bias for all distances of a case, or NULL. */
static const float *random_bias(struct attention_case *c) {
    const size_t keys = c->sequence.keys;
    c->shape.bias_stride = 2 * keys - 1 + rng_below(&kernel_rng, 3);
    if (!c->policy->biases || rng_coin(&kernel_rng))
        return NULL;
    const size_t floats = (c->shape.heads - 1) * c->shape.bias_stride + 2 * keys - 1;
    float *bias = guarded_place(&bias_rows, floats * sizeof *bias, GUARDED_END);
    fill_floats(bias, floats, FILL_UNIFORM);
    return bias + keys - 1;
}

/* Returns a sink for each head of a case, some of them far from all scores, or NULL. */
static const float *random_sinks(const struct attention_case *c) {
    const size_t heads = c->shape.heads;
    if (!c->policy->needs_cache || rng_coin(&kernel_rng))
        return NULL;
    float *sinks = guarded_place(&sink_rows, heads * sizeof *sinks, GUARDED_END);
    fill_floats(sinks, heads, FILL_UNIFORM);
    for (size_t h = 0; h < heads; h++)
        sinks[h] *= rng_coin(&kernel_rng) ? 4 : 300;
    return sinks;
}

/* Checks every policy and mask, with and without a bias, f32 and 16-bit. */
static void check_size(struct size n, enum fill kind, float factor) {
    struct attention_case c = new_case(n, kind, factor);
    for (size_t i = 0; attention_policies[i]; i++)
        for (unsigned mask = 0; mask < ATTENTION_MASKS; mask++) {
            c.policy = attention_policies[i];
            if (!(c.policy->masks >> mask & 1) || c.policy->select_steps)
                continue; /* test_attention_policies has those that leave out steps */
            c.shape.mask = (enum attention_mask)mask;
            c.shape.window = rng_range(&kernel_rng, 1, rng_coin(&kernel_rng) ? 8 : n.keys);
            c.shape.ahead = rng_below(&kernel_rng, rng_coin(&kernel_rng) ? 8 : n.keys);
            c.shape.soft_cap = 0;
            c.shape.sinks = random_sinks(&c);
            c.shape.bias = random_bias(&c);
#ifdef DECODER_KERNELS
            if (c.policy->needs_cache && rng_coin(&kernel_rng))
                c.shape.soft_cap = rng_coin(&kernel_rng) ? 50 : 1;
#endif
            for (int i16 = 0; !c.policy->needs_cache && i16 < 2; i16++) {
                c.shape.i16 = i16;
                check_sets(&c);
            }
            const int types = kernels_scalar.kv ? KV_INT8 : KV_F16; /* for decoders */
            for (int type = KV_F32; c.policy->needs_cache && type <= types; type++) {
                struct attention_case cached = c;
                float *keys, *values;
                cached.shape.i16 = false;
                cached.type = (enum kv_type)type;
                read_kept(&cached, &keys, &values);
                check_sets(&cached);
                free(keys);
                free(values);
            }
        }
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_small_shapes(void **state) {
    (void)state;
    for (size_t head_size = 1; head_size <= 80; head_size++) {
        struct size n = random_size(5, 1, 20);
        n.head_size = head_size;
        check_size(n, FILL_UNIFORM, 1);
    }
    for (size_t tokens = 1; tokens <= 100; tokens++)
        check_size((struct size){1, 1, rng_range(&kernel_rng, 1, 33), tokens, tokens}, FILL_UNIFORM,
                   1);
}

/* Checks all numbers of query heads and of key-value heads that fit, with more keys than queries.
 */
static void test_groups(void **state) {
    (void)state;
    for (size_t heads = 1; heads <= 8; heads++)
        for (size_t kv_heads = 1; kv_heads <= heads; kv_heads++)
            if (heads % kv_heads == 0)
                check_size((struct size){heads, kv_heads, 16, rng_range(&kernel_rng, 1, 34), 70},
                           FILL_UNIFORM, 1);
}

static void test_random_shapes(void **state) {
    /* They are large, so under an emulator all of them take minutes. */
    const int sizes = everything_runs("four of five random shapes") ? 40 : 8;
    (void)state;
    for (int i = 0; i < sizes; i++)
        check_size(random_size(6, 80, 300), FILL_UNIFORM, 1);
}

/* Checks caches of several pages, whose last one is full, or has one position. */
static void test_pages(void **state) {
    (void)state;
    for (size_t keys = 2 * KV_PAGE; keys <= 2 * KV_PAGE + 1; keys++)
        check_size((struct size){6, 2, 40, 70, keys}, FILL_UNIFORM, 1);
}

/* Checks scores that are near to each other, equal, and so far apart that one token takes all. */
static void test_extremes(void **state) {
    (void)state;
    static const enum fill kinds[] = {FILL_ZERO,     FILL_EQUAL, FILL_ALTERNATING,
                                      FILL_DENORMAL, FILL_TINY,  FILL_UNIFORM};
    static const float factors[] = {1, 1e-6f, 30, 1000, 1e16f};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (size_t f = 0; f < sizeof factors / sizeof *factors; f++)
            check_size(random_size(4, 70, 90), kinds[kind], factors[f]);
}

/* Nothing is written elsewhere, whatever the values are. */
static void test_special_values(void **state) {
    (void)state;
    for (int i = 0; i < 60; i++) {
        struct attention_case c =
            new_case(random_size(4, 40, 70), i % 2 ? FILL_SPECIAL : FILL_LARGEST, 1);
        c.shape.i16 = rng_coin(&kernel_rng);
        c.shape.mask = rng_coin(&kernel_rng) ? ATTENTION_CAUSAL : ATTENTION_ALL_KEYS;
        for (size_t set = 0; kernels_at(set); set++)
            run(kernels_at(set), &c, c.sequence.queries / 2 + 1);
    }
}

/* In floats, near keys alone have the bits that all keys have when a bias takes the others away,
 * and those of any division among calls. */
static void test_near_keys(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct size n = random_size(4, 70, 400);
        n.queries = n.keys;
        struct attention_case c = new_case(n, FILL_UNIFORM, 1);
        const size_t size = n.heads * n.head_size, values = (n.keys - 1) * c.ld_context + size;
        float *biases = allocate((2 * n.keys - 1) * sizeof *biases);
        float *whole = allocate(values * sizeof *whole);
        struct attention_case near = c;
        near.shape.mask = ATTENTION_NEAR;
        near.shape.window = rng_below(&kernel_rng, 90);
        near.shape.ahead = rng_below(&kernel_rng, 90);
        c.shape.mask = ATTENTION_ALL_KEYS;
        for (size_t at = 0; at < 2 * n.keys - 1; at++)
            biases[at] = at + near.shape.window < n.keys - 1 || at > n.keys - 1 + near.shape.ahead
                             ? -1e30f
                             : 0;
        c.shape.bias = biases + n.keys - 1;
        for (size_t set = 0; kernels_at(set); set++) {
            const struct where where = {ATTENTION, kernels_at(set), n.keys,
                                        n.heads,   n.head_size,     FILL_UNIFORM};
            memcpy(whole, run(kernels_at(set), &c, n.keys), values * sizeof *whole);
            const float *found = run(kernels_at(set), &near, rng_range(&kernel_rng, 1, n.keys));
            for (size_t t = 0; t < n.keys; t++)
                expect_same_bits(&where, "near keys", found + t * c.ld_context,
                                 whole + t * c.ld_context, size * sizeof *whole);
        }
        free(biases);
        free(whole);
    }
}

/* A decoder computes one token at a time. With a causal mask, or a window of it, and floats, each
 * token gets the keys up to its own, and must have the bits that it has when all tokens are
 * computed at once. */
static void test_token_by_token(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        struct size n = random_size(4, 80, i == 7 ? 2 * KV_PAGE : 100);
        n.queries = n.keys;
        struct attention_case c = new_case(n, FILL_UNIFORM, 1);
        const size_t size = n.heads * n.head_size;
        if (i % 2) {
            c.policy = &attention_cached;
            c.type = (enum kv_type)(i / 2 % (kernels_scalar.kv ? 3 : 2));
        }
        float *whole = allocate(((n.keys - 1) * c.ld_context + size) * sizeof *whole);
        c.shape.mask = i % 4 == 3 ? ATTENTION_WINDOW : ATTENTION_CAUSAL;
        c.shape.window = rng_range(&kernel_rng, 1, n.keys);
        for (size_t set = 0; kernels_at(set); set++) {
            const struct where where = {ATTENTION, kernels_at(set), n.keys,
                                        n.heads,   n.head_size,     FILL_UNIFORM};
            memcpy(whole, run(kernels_at(set), &c, n.keys),
                   ((n.keys - 1) * c.ld_context + size) * sizeof *whole);
            for (size_t t = 0; t < n.keys; t++) {
                struct attention_case one = c;
                one.sequence.q.data += t * c.sequence.q.row_stride;
                one.sequence.queries = one.sequence.end = 1;
                one.sequence.keys = t + 1;
                expect_same_bits(&where, "token by token", run(kernels_at(set), &one, 1),
                                 whole + t * c.ld_context, size * sizeof *whole);
            }
        }
        free(whole);
    }
}

/* Keys and values outside of a window are not read, but for those that share a step with its first
 * key: were they multiplied by a share of 0, NaN would show. */
static void test_window_reads_no_others(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        struct size n = random_size(4, 70, 300);
        n.keys += 100;
        n.queries = 1;
        struct attention_case c = new_case(n, FILL_UNIFORM, 1);
        const size_t size = n.heads * n.head_size;
        float *wanted = allocate(size * sizeof *wanted);
        c.policy = &attention_cached;
        c.shape.mask = ATTENTION_WINDOW;
        c.shape.window = rng_range(&kernel_rng, 1, 60);
        for (size_t set = 0; kernels_at(set); set++) {
            const struct where where = {ATTENTION, kernels_at(set), n.keys,
                                        n.heads,   n.head_size,     FILL_UNIFORM};
            memcpy(wanted, run(kernels_at(set), &c, 1), size * sizeof *wanted);
            struct attention_case spoilt = c;
            const size_t others = (n.keys - c.shape.window) / KV_STEP * KV_STEP;
            float *nans = allocate(n.keys * n.kv_heads * n.head_size * sizeof *nans);
            for (size_t t = 0; t < n.keys; t++)
                for (size_t h = 0; h < n.kv_heads; h++)
                    for (size_t d = 0; d < n.head_size; d++)
                        nans[(t * n.kv_heads + h) * n.head_size + d] =
                            t < others ? NAN : vector_at(&c.sequence.k, t, h)[d];
            spoilt.sequence.k =
                (struct attention_rows){nans, n.kv_heads * n.head_size, n.head_size};
            if (i % 2) { /* the values instead of the keys */
                for (size_t t = others; t < n.keys; t++)
                    for (size_t h = 0; h < n.kv_heads; h++)
                        memcpy(nans + (t * n.kv_heads + h) * n.head_size,
                               vector_at(&c.sequence.v, t, h), n.head_size * sizeof *nans);
                spoilt.sequence.v = spoilt.sequence.k;
                spoilt.sequence.k = c.sequence.k;
            }
            expect_same_bits(&where, "keys outside of the window", run(kernels_at(set), &spoilt, 1),
                             wanted, size * sizeof *wanted);
            free(nans);
        }
        free(wanted);
    }
}

/* Those that look at all steps of a cache need as much for any number of keys. */
static void test_workspace_saturates(void **state) {
    (void)state;
    const struct attention_shape shape = {.heads = 4, .kv_heads = 2, .head_size = 64};
    for (size_t i = 0; attention_policies[i]; i++) {
        assert_non_null(attention_policies[i]->name);
        const size_t bytes =
            attention_policies[i]->workspace_bytes(&kernels_scalar, &shape, SIZE_MAX / 64);
        assert_true(attention_policies[i] == &attention_cached ? bytes < 1 << 20
                                                               : bytes > SIZE_MAX / 64 / KV_STEP);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_shapes),   cmocka_unit_test(test_groups),
        cmocka_unit_test(test_random_shapes),  cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_special_values), cmocka_unit_test(test_near_keys),
        cmocka_unit_test(test_token_by_token), cmocka_unit_test(test_window_reads_no_others),
        cmocka_unit_test(test_pages),          cmocka_unit_test(test_workspace_saturates),
    };
    struct guarded *const places[] = {&q_rows,  &k_rows,    &v_rows,   &working,
                                      &context, &bias_rows, &sink_rows};
    kernel_cases_open(rng_seed(), false);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        guarded_open(places[i], CAPACITY);
    const int failed = cmocka_run_group_tests_name("attention", tests, NULL, NULL);
    print_worst_errors();
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        guarded_close(places[i]);
    kernel_cases_close();
    return failed;
}
