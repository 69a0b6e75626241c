/* SPDX-License-Identifier: Apache-2.0
 * Compares the parts of scores that attention/disentangled.h adds with plain loops in double
 * precision: both parts and each alone, floats and pairs, all kernel sets, blocks of any size.
 * Rows, working memory and scores end at guard pages. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "attention/disentangled.h"
#include "base/checked.h"
#include "kernel_case.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

enum { CAPACITY = 4 << 20, CASES = 60, MOST_QUERIES = 32, MOST_KEYS = 200 };

static struct guarded working, placed_scores, tables[2];

/* A case: vectors of all queries, keys and rows, whose numbers are whole multiples of a step if
 * they are pairs. */
struct parts_case {
    size_t heads, size, keys, rows;
    uint32_t row_of[2 * MOST_KEYS - 1];
    size_t alone;
    bool has[2];    /* to_position, to_content */
    float *vectors; /* queries [heads, keys, size], keys, to_position [heads, rows, size], ... */
    float *of[4];
    float steps[4]; /* of pairs; the vectors hold multiples of them */
    float *scores;  /* [heads, keys, keys]: before the call */
};

static size_t vectors_of(const struct parts_case *c, size_t kind) {
    return kind < 2 ? c->keys : c->rows;
}

static float *vector_at(const struct parts_case *c, size_t kind, size_t head, size_t i) {
    return c->of[kind] + (head * vectors_of(c, kind) + i) * c->size;
}

static void fill_rows(struct parts_case *c) {
    uint32_t *middle = c->row_of + c->keys - 1;
    c->alone = rng_below(&kernel_rng, c->keys);
    c->row_of[0] = 0;
    for (size_t i = 1; i < 2 * c->keys - 1; i++) {
        const ptrdiff_t distance = (ptrdiff_t)i - (ptrdiff_t)(c->keys - 1);
        const ptrdiff_t alone = (ptrdiff_t)c->alone;
        const bool is_alone = distance > -alone && distance <= alone;
        c->row_of[i] = c->row_of[i - 1] + (is_alone || rng_below(&kernel_rng, 4) == 0);
    }
    c->rows = middle[c->keys - 1] + 1;
}

static struct parts_case new_case(bool is_i16) {
    struct parts_case c = {.heads = rng_range(&kernel_rng, 1, 3),
                           .size = rng_range(&kernel_rng, 1, 70),
                           .keys = rng_range(&kernel_rng, 1, MOST_KEYS)};
    const uint64_t which = rng_below(&kernel_rng, 3);
    c.has[0] = which != 1;
    c.has[1] = which != 2;
    fill_rows(&c);
    const size_t floats = 2 * c.heads * (c.keys + c.rows) * c.size;
    c.vectors = new_floats(floats, FILL_UNIFORM);
    c.scores = new_floats(c.heads * c.keys * c.keys, FILL_UNIFORM);
    float *at = c.vectors;
    for (size_t kind = 0; kind < 4; kind++) {
        c.of[kind] = at;
        c.steps[kind] = 0x1p-12f * (float)rng_range(&kernel_rng, 1, 9);
        const size_t n = c.heads * vectors_of(&c, kind) * c.size;
        for (size_t i = 0; is_i16 && i < n; i++)
            at[i] = rintf(at[i] * 1000) * c.steps[kind];
        at += n;
    }
    return c;
}

static void free_case(const struct parts_case *c) {
    free(c->vectors);
    free(c->scores);
}

/* Makes what a set takes of the rows; whoever calls frees the factors. */
static struct disentangled parts_for(const struct parts_case *c, const struct kernels *set,
                                     bool is_i16) {
    struct disentangled parts = {
        .row_of = c->row_of + c->keys - 1, .alone = c->alone, .rows = c->rows};
    for (size_t part = 0; part < 2; part++) {
        const bool packs = part == 0;
        const size_t words =
            packs ? (is_i16 ? i16_pairs(c->size) : c->size) : disentangled_words(is_i16, c->size);
        const size_t each = (packs ? round_up(c->rows, set->f32_panel) : c->rows) * words;
        float *table = guarded_place(&tables[part], c->heads * each * 4, GUARDED_END);
        float *scales = allocate(c->heads * sizeof *scales);
        const float factor = 1 / c->steps[2 + part];
        for (size_t h = 0; h < c->heads; h++) {
            const float *rows = vector_at(c, 2 + part, h, 0);
            int32_t *pairs = (int32_t *)(void *)(table + h * each);
            scales[h] = c->steps[2 + part];
            if (is_i16 && packs)
                set->i16->pack(rows, c->size, c->rows, c->size, factor, pairs);
            else if (is_i16)
                set->i16->quantise(rows, c->size, c->rows, c->size, factor, pairs, words);
            else if (packs)
                set->pack_f32(rows, c->size, c->rows, c->size, table + h * each);
            else
                memcpy(table + h * each, rows, each * sizeof *table);
        }
        *(packs ? &parts.to_position : &parts.to_content) = c->has[part] ? table : NULL;
        *(packs ? &parts.position_scale : &parts.content_scale) = scales;
    }
    return parts;
}

/* Computes the scores of a head for all queries, in blocks of up to `most`. Returns them [keys,
 * ld], until the next call. */
static float *run(const struct parts_case *c, const struct kernels *set,
                  const struct disentangled *parts, bool is_i16, size_t head, size_t most,
                  size_t ld) {
    const size_t panel = set->f32_panel, ldq = round_up(i16_pairs(c->size), 8);
    struct workspace measured = {0};
    disentangled_take(parts, panel, MOST_QUERIES, &measured);
    struct workspace space = {.base = guarded_place(&working, measured.used, GUARDED_END),
                              .capacity = measured.used};
    const struct disentangled_space own = disentangled_take(parts, panel, MOST_QUERIES, &space);
    float *scores =
        guarded_place(&placed_scores, ((c->keys - 1) * ld + c->keys) * sizeof *scores, GUARDED_END);
    float *keys = allocate(round_up(c->keys, panel) * (c->size + 1) * sizeof *keys);
    int32_t *queries = allocate(MOST_QUERIES * ldq * sizeof *queries);
    const float *k = vector_at(c, 1, head, 0);
    if (is_i16)
        set->i16->pack(k, c->size, c->keys, c->size, 1 / c->steps[1], (int32_t *)(void *)keys);
    else
        set->pack_f32(k, c->size, c->keys, c->size, keys);
    for (size_t at = 0, n; at < c->keys; at += n) {
        const float *q = vector_at(c, 0, head, at);
        n = smaller(rng_range(&kernel_rng, 1, most), c->keys - at);
        if (is_i16)
            set->i16->quantise(q, c->size, n, c->size, 1 / c->steps[0], queries, ldq);
        for (size_t i = at; i < at + n; i++)
            memcpy(scores + i * ld, c->scores + (head * c->keys + i) * c->keys,
                   c->keys * sizeof *scores);
        const struct disentangled_block block = {.queries = is_i16 ? (const void *)queries : q,
                                                 .ld_queries = is_i16 ? ldq : c->size,
                                                 .keys = keys,
                                                 .query_scale = c->steps[0],
                                                 .key_scale = c->steps[1],
                                                 .is_i16 = is_i16,
                                                 .rows = n,
                                                 .n_keys = c->keys,
                                                 .head = head,
                                                 .head_size = c->size,
                                                 .position = at,
                                                 .scores = scores + at * ld,
                                                 .ld_scores = ld};
        disentangled_add(set, parts, &block, &own);
    }
    free(keys);
    free(queries);
    assert_true(guarded_intact(&working) && guarded_intact(&placed_scores));
    return scores;
}

/* Returns the score of a query and a key, and a bound of its error. */
static double exact(const struct parts_case *c, size_t head, size_t i, size_t j,
                    double *tolerance) {
    const size_t row = c->row_of[c->keys - 1 + j - i];
    const float *factors[2][2] = {{vector_at(c, 0, head, i), vector_at(c, 2, head, row)},
                                  {vector_at(c, 1, head, j), vector_at(c, 3, head, row)}};
    double sum = (double)c->scores[(head * c->keys + i) * c->keys + j], magnitudes = fabs(sum);
    for (size_t part = 0; part < 2; part++)
        for (size_t d = 0; c->has[part] && d < c->size; d++) {
            const double product = (double)factors[part][0][d] * (double)factors[part][1][d];
            sum += product;
            magnitudes += fabs(product);
        }
    *tolerance = magnitudes * (double)(c->size + 6) * ROUNDING;
    return sum;
}

static void check_set(const struct parts_case *c, const struct kernels *set, bool is_i16) {
    const struct where where = {ATTENTION, set, c->keys, c->heads, c->size, FILL_UNIFORM};
    const struct disentangled parts = parts_for(c, set, is_i16);
    const size_t ld = c->keys + rng_below(&kernel_rng, 4), floats = (c->keys - 1) * ld + c->keys;
    float *whole = allocate(floats * sizeof *whole);
    for (size_t h = 0; h < c->heads; h++) {
        const float *got = run(c, set, &parts, is_i16, h, MOST_QUERIES, ld);
        expect_padding(&where, got, c->keys, c->keys, ld);
        for (size_t i = 0; i < c->keys; i++)
            for (size_t j = 0; j < c->keys; j++) {
                double tolerance;
                const double want = exact(c, h, i, j, &tolerance);
                expect_near(&where, i, j, got[i * ld + j], want, tolerance);
            }
        memcpy(whole, got, floats * sizeof *whole);
        expect_same_bits(&where, "other blocks", run(c, set, &parts, is_i16, h, 5, ld), whole,
                         floats * sizeof *whole);
    }
    free(whole);
    free(parts.position_scale);
    free(parts.content_scale);
}

static void parts_are_added(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const bool is_i16 = i % 2;
        const struct parts_case c = new_case(is_i16);
        for (size_t set = 0; kernels_at(set); set++)
            if (!is_i16 || kernels_at(set)->i16)
                check_set(&c, kernels_at(set), is_i16);
        free_case(&c);
    }
}

/* Queries beyond the keys of their sequence have the rows of their own distances. */
static void queries_may_be_beyond_the_keys(void **state) {
    (void)state;
    struct parts_case c = new_case(false);
    for (; c.keys < 40; c = new_case(false))
        free_case(&c);
    const struct kernels *set = kernels_at(0);
    struct disentangled parts = parts_for(&c, set, false);
    const size_t all = c.keys, seen = 30, query = 35;
    float *wanted = allocate(seen * sizeof *wanted);
    memcpy(wanted, run(&c, set, &parts, false, 0, 1, all) + query * all, seen * sizeof *wanted);
    float *keys = allocate(round_up(seen, set->f32_panel) * c.size * sizeof *keys);
    float *scores = allocate(seen * sizeof *scores);
    struct workspace measured = {0}, space = {0};
    disentangled_take(&parts, set->f32_panel, 1, &measured);
    space.base = allocate(measured.used);
    space.capacity = measured.used;
    const struct disentangled_space own = disentangled_take(&parts, set->f32_panel, 1, &space);
    set->pack_f32(vector_at(&c, 1, 0, 0), c.size, seen, c.size, keys);
    memcpy(scores, c.scores + query * all, seen * sizeof *scores);
    parts.beyond = query - (seen - 1);
    const struct disentangled_block block = {.queries = vector_at(&c, 0, 0, query),
                                             .ld_queries = c.size,
                                             .keys = keys,
                                             .rows = 1,
                                             .n_keys = seen,
                                             .head_size = c.size,
                                             .position = seen - 1,
                                             .scores = scores,
                                             .ld_scores = seen};
    disentangled_add(set, &parts, &block, &own);
    assert_memory_equal(scores, wanted, seen * sizeof *scores);
    free(space.base);
    free(scores);
    free(keys);
    free(wanted);
    free(parts.position_scale);
    free(parts.content_scale);
    free_case(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_are_added),
                                       cmocka_unit_test(queries_may_be_beyond_the_keys)};
    struct guarded *const all[] = {&working, &placed_scores, &tables[0], &tables[1]};
    kernel_cases_open(rng_seed(), false);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guarded_open(all[i], CAPACITY);
    const int failed = cmocka_run_group_tests_name("disentangled attention", tests, NULL, NULL);
    print_worst_errors();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guarded_close(all[i]);
    kernel_cases_close();
    return failed;
}
