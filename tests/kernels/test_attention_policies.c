/* SPDX-License-Identifier: Apache-2.0
 * Policies over a cache that choose what a query looks at: beside their definitions in numpy
 * (tests/oracle/make_attention_goldens.py), beside full attention where they leave out nothing, and
 * with the same bits however queries are divided among calls; and how they are chosen by name.
 * Working memory ends at guard pages. Run it from the repository's root. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "attention/learned.h"
#include "base/byte_order.h"
#include "kernel_case.h"
#include "support/guarded.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum {
    KEYS = 1200,
    HEADS = 4,
    KV_HEADS = 2,
    SIZE = 20,
    QUERIES = 100,
    ROW = HEADS * SIZE,
    KV_ROW = KV_HEADS * SIZE,
    LAYERS = 4,
    LAYER = 3
};

static struct guarded working, plans;
static float q[KEYS * ROW], k[KEYS * KV_ROW], v[KEYS * KV_ROW];

/* Multiples of 2^-23 from -1 to below 1, by a hash of their place. */
static void fill_numbers(uint32_t seed, float factor, float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t h = (uint32_t)i + seed * 1000003;
        h = (h ^ h >> 16) * 0x7feb352d;
        h = (h ^ h >> 15) * 0x846ca68b;
        h ^= h >> 16;
        x[i] = ((float)(h >> 8) * 0x1p-23f - 1) * factor;
    }
}

static const struct attention_shape shape = {.heads = HEADS,
                                             .kv_heads = KV_HEADS,
                                             .head_size = SIZE,
                                             .scale = 0.25f,
                                             .mask = ATTENTION_CAUSAL};

/* Opens a cache with all keys and values, of which `decode` keeps what it keeps. */
static void open_cache(struct kv_cache *cache, const struct kernels *set, enum kv_type type,
                       const struct attention_policy *decode) {
    const struct rope rope = {.theta = 100};
    struct kv_shape kv = {.layers = LAYERS,
                          .kv_heads = KV_HEADS,
                          .head_size = SIZE,
                          .panel = set->f32_panel,
                          .type = type};
    kv.kept_bytes = decode->kept_bytes ? decode->kept_bytes(&kv) : 0;
    assert_int_equal(kv_cache_open(cache, &kv, NULL), WISP_OK);
    assert_int_equal(kv_cache_reserve(cache, KEYS, &rope, NULL), WISP_OK);
    kv_cache_write(cache, LAYER, 0, KEYS, k, v, KV_ROW);
    /* Some steps are shown to the policy; the others it must find by itself. */
    cache->kept_steps = decode->keep_step ? 7 : 0;
    for (size_t step = 0; step < cache->kept_steps; step++)
        for (size_t h = 0; h < KV_HEADS; h++)
            decode->keep_step(cache, LAYER, h, step);
    cache->length = KEYS;
}

/* Computes the last queries, at most so many in a call. */
static void run(const struct kernels *set, const struct kv_cache *cache,
                const struct attention_choice *choice, size_t queries, size_t at_once,
                struct attention_counts *counts, float *context) {
    struct attention_sequence s = {.q = {q + (KEYS - queries) * ROW, ROW, SIZE},
                                   .cache = cache,
                                   .layer = LAYER,
                                   .counts = counts,
                                   .queries = queries,
                                   .keys = KEYS};
    const struct attention_policy *policy = attention_policy_of(choice, &s);
    const size_t bytes = policy->workspace_bytes(set, &shape, KEYS);
    const struct workspace space = {.base = guarded_place(&working, bytes, GUARDED_END),
                                    .capacity = bytes};
    if (policy->prepare) {
        s.plan_bytes = policy->plan_bytes(KEYS);
        unsigned char *plan = guarded_place(&plans, KV_HEADS * s.plan_bytes, GUARDED_END);
        for (size_t h = 0; h < KV_HEADS; h++)
            policy->prepare(set, &shape, &s, h, plan + h * s.plan_bytes, space);
        s.plan = plan;
    }
    for (; s.first < queries; s.first = s.end) {
        s.end = s.first + at_once < queries ? s.first + at_once : queries;
        policy->run(set, &shape, &s, context + s.first * ROW, ROW, space);
    }
    assert_true(guarded_intact(&working) && (!policy->prepare || guarded_intact(&plans)));
}

static struct attention_choice choice_of(const char *text) {
    struct attention_choice choice;
    wisp_error error;
    if (attention_choose(text, &choice, &error) != WISP_OK)
        fail_msg("%s: %s", text, error.message);
    return choice;
}

/* ---- masks ---------------------------------------------------------------------------------- */

enum { LEARNED = 18 }; /* steps that masks were learned from: fewer than there are */

/* A choice of `learned` with masks for the heads of LAYER, whose bits are the script's. */
struct learned_case {
    unsigned char kinds[LAYERS * KV_HEADS];
    int32_t windows[LAYERS * KV_HEADS];
    unsigned char bits[LAYERS * KV_HEADS * 64];
    struct attention_masks masks;
};

static void make_masks(struct learned_case *m, enum attention_kind first, int32_t first_window,
                       enum attention_kind second, int32_t second_window) {
    const enum attention_kind kinds[] = {first, second};
    const int32_t windows[] = {first_window, second_window};
    const size_t bytes = attention_mask_bytes(LEARNED);
    memset(m, 0, sizeof *m);
    assert_true(bytes <= 64);
    for (size_t h = 0; h < KV_HEADS; h++) {
        const size_t at = LAYER * KV_HEADS + h;
        m->kinds[at] = (unsigned char)kinds[h];
        m->windows[at] = windows[h];
        for (size_t i = 0; i < 8 * bytes; i++) {
            const bool set = kinds[h] == ATTENTION_KEEPS_BLOCKS ? i % 2 == 0
                             : i < LEARNED                      ? i % 3 == 1
                                                                : (i - LEARNED) % 5 == 2;
            m->bits[at * bytes + i / 8] |= (unsigned char)(set << i % 8);
        }
    }
    m->masks = (struct attention_masks){.layers = LAYERS,
                                        .kv_heads = KV_HEADS,
                                        .steps = LEARNED,
                                        .sinks = 64,
                                        .kinds = m->kinds,
                                        .windows = m->windows,
                                        .bits = m->bits};
}

/* ---- definitions ---------------------------------------------------------------------------- */

static const size_t rows[] = {0, 1, 13, 40, 63, 64, 90, 99};

/* In the order of the script's CASES. */
static const struct {
    const char *text;
    size_t queries;
    enum attention_kind kinds[KV_HEADS]; /* of learned, with these windows */
    int32_t windows[KV_HEADS];
} goldens[] = {{.text = "local,window=200,sinks=100", .queries = QUERIES},
               {.text = "strided,window=128,sinks=64,stride=3", .queries = QUERIES},
               {.text = "mass,mass=800", .queries = QUERIES},
               {.text = "minference,window=100,sinks=30,budget=30/full", .queries = QUERIES},
               {.text = "mass,mass=650", .queries = 1},
               {.text = "full/quest,window=128,sinks=64,tokens=512", .queries = 1},
               {"learned", QUERIES, {ATTENTION_KEEPS_LINES, ATTENTION_KEEPS_BLOCKS}, {64, 64}},
               {"learned", QUERIES, {ATTENTION_KEEPS_ALL, ATTENTION_KEEPS_LOCAL}, {64, 128}},
               {"learned", 1, {ATTENTION_KEEPS_LINES, ATTENTION_KEEPS_BLOCKS}, {64, 64}}};

enum { MOST_GOLDEN = 16 * ROW * 6 };

/* Reads the golden rows. Returns the number of floats. */
static size_t read_golden(float *golden) {
    FILE *file = fopen("tests/data/golden-attention.f32", "rb");
    if (!file) {
        fail_msg("tests/data/golden-attention.f32 is not there: run from the repository's root");
        return 0;
    }
    const size_t count = fread(golden, sizeof *golden, MOST_GOLDEN, file);
    fclose(file);
    swap_file_numbers(golden, count, sizeof *golden);
    return count;
}

static void policies_are_their_definitions(void **state) {
    static float context[QUERIES * ROW], golden[MOST_GOLDEN];
    const size_t count = read_golden(golden);
    const float *want = golden;
    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        struct attention_choice choice = choice_of(goldens[i].text);
        struct learned_case learned;
        const size_t n = goldens[i].queries == 1 ? 1 : sizeof rows / sizeof *rows;
        make_masks(&learned, goldens[i].kinds[0], goldens[i].windows[0], goldens[i].kinds[1],
                   goldens[i].windows[1]);
        choice.masks = &learned.masks;
        for (size_t set = 0; kernels_at(set); set++) {
            struct attention_counts counts = {0};
            struct kv_cache cache;
            open_cache(&cache, kernels_at(set), KV_F32, choice.decode);
            run(kernels_at(set), &cache, &choice, goldens[i].queries, QUERIES, &counts, context);
            for (size_t r = 0; r < n; r++)
                for (size_t c = 0; c < ROW; c++) {
                    const float got = context[(n == 1 ? 0 : rows[r] * ROW) + c];
                    if (!(fabsf(got - want[r * ROW + c]) < 2e-6f))
                        fail_msg("%s, %s: row %zu, column %zu: %g, wanted %g", goldens[i].text,
                                 kernels_at(set)->name, r, c, (double)got,
                                 (double)want[r * ROW + c]);
                }
            assert_true(counts.seen > 0 && counts.seen < counts.visible && counts.bytes > 0);
            kv_cache_release(&cache);
        }
        want += n * ROW;
    }
    assert_int_equal(want - golden, count);
}

/* ---- bits ----------------------------------------------------------------------------------- */

static void policies_that_leave_out_nothing_are_full(void **state) {
    static const char *const texts[] = {
        "local,window=1200",      "strided,stride=1",           "mass,mass=1000",
        "full/quest,tokens=1216", "minference,budget=100/full", "learned"};
    static float whole[QUERIES * ROW], context[QUERIES * ROW];
    const struct attention_choice full = choice_of("full");
    struct learned_case learned;
    (void)state;
    make_masks(&learned, ATTENTION_KEEPS_ALL, 64, ATTENTION_KEEPS_LOCAL, KEYS);
    for (size_t set = 0; kernels_at(set); set++)
        for (int type = KV_F32; type <= KV_INT8; type++)
            for (size_t queries = 1; queries <= QUERIES; queries += QUERIES - 1)
                for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                    struct attention_choice choice = choice_of(texts[i]);
                    struct attention_counts counts = {0};
                    struct kv_cache cache;
                    choice.masks = &learned.masks;
                    open_cache(&cache, kernels_at(set), (enum kv_type)type, choice.decode);
                    run(kernels_at(set), &cache, &full, queries, QUERIES, NULL, whole);
                    run(kernels_at(set), &cache, &choice, queries, QUERIES, &counts, context);
                    assert_memory_equal(context, whole, queries * ROW * sizeof *whole);
                    assert_int_equal(counts.seen, counts.visible);
                    kv_cache_release(&cache);
                }
}

/* Each query has the same bits however they are divided among calls, and alone. */
static void queries_may_be_divided(void **state) {
    static const char *const texts[] = {"strided", "mass,mass=700", "minference/full", "learned"};
    static float whole[QUERIES * ROW], context[QUERIES * ROW];
    struct learned_case learned;
    (void)state;
    make_masks(&learned, ATTENTION_KEEPS_LINES, 64, ATTENTION_KEEPS_BLOCKS, 64);
    for (size_t set = 0; kernels_at(set); set++)
        for (int type = KV_F32; type <= KV_INT8; type += KV_INT8 - KV_F32)
            for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                struct attention_choice choice = choice_of(texts[i]);
                struct kv_cache cache;
                choice.masks = &learned.masks;
                open_cache(&cache, kernels_at(set), (enum kv_type)type, choice.decode);
                run(kernels_at(set), &cache, &choice, QUERIES, QUERIES, NULL, whole);
                for (size_t at_once = 7; at_once < QUERIES; at_once += 46) {
                    run(kernels_at(set), &cache, &choice, QUERIES, at_once, NULL, context);
                    assert_memory_equal(context, whole, sizeof whole);
                }
                run(kernels_at(set), &cache, &choice, 1, 1, NULL, context);
                if (choice.decode == choice.prefill)
                    assert_memory_equal(context, whole + (QUERIES - 1) * ROW, ROW * sizeof *whole);
                kv_cache_release(&cache);
            }
}

/* A window of the model hides keys, which then weigh nothing. */
static void windows_of_models_hide_keys(void **state) {
    static const char *const texts[] = {"mass,mass=999", "full/quest,tokens=64", "minference/full"};
    static float whole[QUERIES * ROW], context[QUERIES * ROW];
    const struct attention_choice full = choice_of("full");
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const struct attention_choice choice = choice_of(texts[i]);
        const size_t queries =
            choice.decode == full.decode || choice.prefill == choice.decode ? QUERIES : 1;
        struct attention_counts counts = {0};
        struct kv_cache cache;
        struct attention_shape window = shape;
        window.mask = ATTENTION_WINDOW;
        window.window = 100;
        open_cache(&cache, kernels_at(0), KV_F32, choice.decode);
        struct attention_sequence s = {.q = {q + (KEYS - queries) * ROW, ROW, SIZE},
                                       .cache = &cache,
                                       .layer = LAYER,
                                       .counts = &counts,
                                       .queries = queries,
                                       .keys = KEYS,
                                       .end = queries};
        for (int policies = 0; policies < 2; policies++) {
            const struct attention_policy *policy =
                attention_policy_of(policies ? &choice : &full, &s);
            const size_t bytes = policy->workspace_bytes(kernels_at(0), &window, KEYS);
            const struct workspace space = {.base = guarded_place(&working, bytes, GUARDED_END),
                                            .capacity = bytes};
            if (policy->prepare) {
                s.plan_bytes = policy->plan_bytes(KEYS);
                unsigned char *plan = guarded_place(&plans, KV_HEADS * s.plan_bytes, GUARDED_END);
                for (size_t h = 0; h < KV_HEADS; h++)
                    policy->prepare(kernels_at(0), &window, &s, h, plan + h * s.plan_bytes, space);
                s.plan = plan;
            }
            counts = (struct attention_counts){0};
            policy->run(kernels_at(0), &window, &s, policies ? context : whole, ROW, space);
            assert_int_equal(counts.visible, 100 * queries * KV_HEADS);
        }
        for (size_t c = 0; c < queries * ROW; c++)
            assert_true(fabsf(context[c] - whole[c]) < 0.02f);
        kv_cache_release(&cache);
    }
}

/* ---- choices -------------------------------------------------------------------------------- */

static void expect_choice(const char *text, const char *prefill, const char *decode, size_t window,
                          size_t sinks) {
    const struct attention_choice choice = choice_of(text);
    assert_string_equal(choice.prefill->name, prefill);
    assert_string_equal(choice.decode->name, decode);
    assert_true(choice.decode->needs_cache);
    assert_int_equal(choice.decode_settings.window, window);
    assert_int_equal(choice.decode_settings.sinks, sinks);
}

static void expect_no_choice(const char *text, const char *message) {
    struct attention_choice choice;
    wisp_error error;
    assert_int_equal(attention_choose(text, &choice, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "attention");
    if (!strstr(error.message, message))
        fail_msg("%s: %s", text, error.message);
}

static void choices_are_read(void **state) {
    (void)state;
    expect_choice("full", "full", "full", 0, 0);
    expect_choice("local", "local", "local", 1024, 64);
    expect_choice("full/local,window=64", "full", "local", 64, 64);
    expect_choice("strided,stride=4/local,sinks=0,window=100", "strided", "local", 100, 0);
    expect_choice("minference,vertical=64,slash=200/quest,tokens=64", "minference", "quest", 128,
                  64);
    expect_choice("learned", "learned", "learned", 0, 0);
    expect_no_choice("", "\"\" is not one of the policies full, local, strided, mass, quest, "
                         "minference, learned");
    expect_no_choice("learned,window=64", "learned takes no \"window\"");
    expect_no_choice("exact", "not one of the policies");
    expect_no_choice("local/", "\"\" is not one of the policies");
    expect_no_choice("full,window=64", "full takes no \"window\"");
    expect_no_choice("local,stride=2", "local takes no \"stride\"");
    expect_no_choice("local,window=63",
                     "window of local is \"63\", and must be a whole number of at least 64");
    expect_no_choice("local,window", "window of local is \"\"");
    expect_no_choice("local,window=1e9", "must be a whole number");
    expect_no_choice("local,window=12345678901", "must be a whole number");
    expect_no_choice("local,,window=64", "local takes no \"\"");
    expect_no_choice("full/local/local", "not one of the policies");
    expect_no_choice("mass,mass=1001", "mass of mass is 1001, and must be at most 1000");
    expect_no_choice("full/quest,tokens=63", "must be a whole number of at least 64");
    expect_no_choice("full/quest,window=127", "must be a whole number of at least 128");
    expect_no_choice("full/quest,sinks=0", "must be a whole number of at least 1");
    expect_no_choice("quest", "quest is for adding one token at a time, and another policy must "
                              "read prompts, as in \"full/quest\"");
    expect_no_choice("minference", "minference is for reading prompts, and another policy must add "
                                   "one token at a time, as in \"minference/full\"");
    expect_no_choice("full/minference", "as in \"minference/full\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_are_their_definitions),
        cmocka_unit_test(policies_that_leave_out_nothing_are_full),
        cmocka_unit_test(queries_may_be_divided),
        cmocka_unit_test(windows_of_models_hide_keys),
        cmocka_unit_test(choices_are_read),
    };
    fill_numbers(1, 8, q, KEYS * ROW);
    fill_numbers(2, 1, k, KEYS * KV_ROW);
    fill_numbers(3, 1, v, KEYS * KV_ROW);
    guarded_open(&working, 1 << 20);
    guarded_open(&plans, 1 << 16);
    const int failed = cmocka_run_group_tests_name("attention policies", tests, NULL, NULL);
    guarded_close(&working);
    guarded_close(&plans);
    return failed;
}
