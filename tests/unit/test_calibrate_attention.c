/* SPDX-License-Identifier: Apache-2.0
 * Calibration of attention: what masks cost by the policy that uses them, what is written and used
 * again, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/attention_watch.h"
#include "engine/session.h"
#include "formats/schema.h"
#include "support/decoders.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char stories[] = "models/wisp-stories.gguf";
static wisp_error error;

static void expect(wisp_status status) {
    if (status != WISP_OK)
        fail_msg("%s", error.message);
}

/* ---- what masks cost ------------------------------------------------------------------------ */

enum {
    KEYS = 600,
    HEADS = 4,
    KV_HEADS = 2,
    SIZE = 20,
    ROW = HEADS * SIZE,
    KV_ROW = KV_HEADS * SIZE,
    STEPS = 10
};

static float q[KEYS * ROW], k[KEYS * KV_ROW], v[KEYS * KV_ROW];

static void fill(uint32_t seed, float factor, float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = ((float)(seed >> 8) * 0x1p-23f - 1) * factor;
    }
}

/* Computes all queries of all heads by a policy. */
static void attend(const struct attention_shape *shape, const struct kv_cache *cache,
                   const struct attention_policy *policy, const struct attention_masks *masks,
                   bool prepare, float *context) {
    const struct kernels *set = kernels_at(0);
    const size_t bytes = policy->workspace_bytes(set, shape, KEYS);
    struct workspace space = {0};
    const struct attention_sequence s = {.q = {q, ROW, SIZE},
                                         .cache = cache,
                                         .policy = policy,
                                         .masks = masks,
                                         .queries = KEYS,
                                         .keys = KEYS,
                                         .end = KEYS};
    expect(workspace_reserve(&space, bytes, &error));
    for (size_t h = 0; prepare && h < KV_HEADS; h++)
        policy->prepare(set, shape, &s, h, NULL, space);
    policy->run(set, shape, &s, context, ROW, space);
    workspace_release(&space);
}

/* Returns what part of the outputs of a key-value head's heads differs. */
static double part_of(const float *whole, const float *part, size_t kv_head) {
    double wrong = 0, all = 0;
    for (size_t i = 0; i < KEYS; i++)
        for (size_t c = kv_head * ROW / KV_HEADS; c < (kv_head + 1) * ROW / KV_HEADS; c++) {
            const double d = (double)whole[i * ROW + c] - (double)part[i * ROW + c];
            wrong += d * d;
            all += (double)whole[i * ROW + c] * (double)whole[i * ROW + c];
        }
    return sqrt(wrong / all);
}

/* The error that a watch finds for a mask is that of `learned` with this mask, and it does not
 * change what is computed. */
static void masks_cost_what_the_policy_loses(void **state) {
    static float whole[KEYS * ROW], watched[KEYS * ROW], part[KEYS * ROW];
    static const float sinks[HEADS] = {1, -2, 0.5f, 3};
    unsigned char bits[64], kinds[KV_HEADS];
    const int32_t windows[KV_HEADS] = {128, 128};
    const struct rope rope = {.theta = 100};
    (void)state;
    fill(1, 8, q, KEYS * ROW);
    fill(2, 1, k, KEYS * KV_ROW);
    fill(3, 1, v, KEYS * KV_ROW);
    for (size_t i = 0; i < sizeof bits; i++)
        bits[i] = i % 2 ? 0x08 : 0x20;
    for (int type = KV_F32; type <= KV_INT8; type++)
        for (int variant = 0; variant < 4; variant++) {
            const struct attention_shape shape = {.heads = HEADS,
                                                  .kv_heads = KV_HEADS,
                                                  .head_size = SIZE,
                                                  .scale = 0.25f,
                                                  .mask = variant == 1 ? ATTENTION_WINDOW
                                                                       : ATTENTION_CAUSAL,
                                                  .window = 300,
                                                  .soft_cap = variant == 2 ? 4 : 0,
                                                  .sinks = variant == 3 ? sinks : NULL};
            const struct kv_shape kv = {.layers = 1,
                                        .kv_heads = KV_HEADS,
                                        .head_size = SIZE,
                                        .panel = kernels_at(0)->f32_panel,
                                        .type = (enum kv_type)type};
            struct watch watch = {
                .shape = {.layers = 1, .kv_heads = KV_HEADS, .steps = STEPS, .sinks = 64}};
            struct watched_masks own = {.watch = &watch};
            struct attention_masks masks = watch.shape;
            struct arena arena = {0};
            struct kv_cache cache;
            expect(kv_cache_open(&cache, &kv, &error));
            expect(kv_cache_reserve(&cache, KEYS, &rope, &error));
            kv_cache_write(&cache, 0, 0, KEYS, k, v, KV_ROW);
            cache.length = KEYS;
            expect(watch_open(&watch, &arena, &error));
            attend(&shape, &cache, &attention_cached, NULL, false, whole);

            attend(&shape, &cache, &attention_watched, &own.masks, true, watched);
            assert_memory_equal(watched, whole, sizeof whole);
            watch_end_part(&watch);
            for (size_t h = 0; h < KV_HEADS; h++) { /* shares of the weight make 1 */
                double sums[2] = {0};
                for (size_t i = 0; i < STEPS; i++) {
                    sums[0] += watch.heads[h].slash[i];
                    sums[1] += watch.heads[h].vertical[i];
                }
                assert_true(fabs(sums[0] - 1) < 1e-4 && fabs(sums[1] - 1) < 1e-4);
                for (int kind = ATTENTION_KEEPS_LOCAL; kind < ATTENTION_KINDS; kind++)
                    watch.heads[h].mask[watch.heads[h].masks++] = (struct attention_mask_of_head){
                        .kind = (enum attention_kind)kind, .window = 128, .bits = bits};
            }
            watch.measures = true;
            attend(&shape, &cache, &attention_watched, &own.masks, true, watched);
            assert_memory_equal(watched, whole, sizeof whole);
            watch_end_part(&watch);

            masks.kinds = kinds;
            masks.windows = windows;
            unsigned char both[2 * sizeof bits];
            const size_t bytes = attention_mask_bytes(STEPS);
            assert_true(bytes <= sizeof bits);
            memcpy(both, bits, bytes);
            memcpy(both + bytes, bits, bytes);
            masks.bits = both;
            for (size_t m = 0; m < ATTENTION_KINDS - 1; m++) {
                kinds[0] = kinds[1] = (unsigned char)(ATTENTION_KEEPS_LOCAL + m);
                attend(&shape, &cache, &attention_learned, &masks, false, part);
                for (size_t h = 0; h < KV_HEADS; h++) {
                    const double want = part_of(whole, part, h), got = watch.heads[h].error[m];
                    const double near = type == KV_INT8 ? 0.02 : 1e-4;
                    if (!(fabs(got - want) <= near * want + 1e-6) || !(want > 0.01))
                        fail_msg("type %d, variant %d, mask %zu, head %zu: %g, and %g is lost",
                                 type, variant, m, h, got, want);
                    assert_true(watch.heads[h].kept[m] < watch.heads[h].visible);
                }
            }
            kv_cache_release(&cache);
            arena_release(&arena);
        }
}

/* ---- files ---------------------------------------------------------------------------------- */

static const char words[] =
    "Once upon a time there was a little dog who liked to play in the park "
    "with a red ball. One day the ball rolled away and the dog ran after it.";

enum { LINES = 40 };

static void make_texts(wisp_text *texts) {
    for (size_t i = 0; i < LINES; i++)
        texts[i] = (wisp_text){words + i % 7, sizeof words - 1 - i % 7 - 2 * (i % 5)};
}

struct told {
    size_t heads, full, tried, passed;
};

static void see_head(void *context, const wisp_learned_attention *found) {
    struct told *told = context;
    assert_true(found->kept > 0 && found->kept <= 1 && found->error >= 0);
    told->full += strcmp(found->kind, "full") == 0;
    told->heads++;
}

static void see_policy(void *context, const wisp_tried_attention *tried) {
    struct told *told = context;
    assert_true(tried->perplexity > 1 && tried->seen > 0 && tried->seen <= 1 && tried->read > 0);
    assert_true(!tried->passes || (tried->searched && tried->found == tried->hidden));
    told->tried++;
    told->passed += tried->passes;
}

static struct told calibrate(const char *input, const char *output, float bound, uint32_t threads) {
    struct told told = {0};
    wisp_text texts[LINES];
    const wisp_calibrate_attention_options o = {.window = 400,
                                                .windows = 1,
                                                .needles = 2,
                                                .bound = bound,
                                                .threads = threads,
                                                .context = &told,
                                                .learned = see_head,
                                                .tried = see_policy};
    make_texts(texts);
    expect(wisp_calibrate_attention(input, output, texts, LINES, &o, &error));
    return told;
}

/* Sets logits that follow the last of 400 ids, and returns the share of the keys that were seen. */
static double logits_by(const char *path, const char *policies, float *logits) {
    const wisp_session_options options = {.attention = policies};
    wisp_model *model = open_model_or_fail(path, WISP_COMPUTE_F32, NULL);
    wisp_session *session;
    int32_t ids[400];
    wisp_layer_stats s;
    double seen = 0, visible = 0;
    for (int32_t t = 0; t < 400; t++)
        ids[t] = (t * t * 31 + t * 7) % 200 + 3;
    expect(wisp_session_open(model, &options, &session, &error));
    expect(wisp_next_logits(session, ids, 400, logits, &error));
    for (uint32_t l = 0; wisp_session_get_layer_stats(session, l, &s); l++) {
        seen += (double)s.keys_seen;
        visible += (double)s.keys_visible;
    }
    wisp_session_close(session);
    wisp_model_close(model);
    return seen / visible;
}

static void what_was_found_is_used(void **state) {
    static float full[4096], learned[4096], chosen[4096];
    const char *output = temporary_path("found.gguf"), *again = temporary_path("again.gguf");
    char first[GOLDEN_PATH_BYTES], second[GOLDEN_PATH_BYTES];
    (void)state;
    strcpy(first, output);
    strcpy(second, again);
    const struct told told = calibrate(stories, first, 0.5f, 1);
    assert_int_equal(told.heads, 5 * 4);
    assert_true(told.full < told.heads && told.tried >= 4 && told.passed >= 2);
    assert_true(logits_by(first, "full", full) == 1);
    assert_true(logits_by(first, "learned", learned) < 1);
    assert_memory_not_equal(full, learned, 512 * sizeof *full);
    assert_true(logits_by(first, "auto", chosen) > 0);
    calibrate(stories, second, 0.5f, 3); /* the same bytes by any number of threads */
    expect_same_files(first, second);
}

/* Heads that may lack nothing look at all keys: the bits of full attention. */
static void learned_without_a_bound_is_full(void **state) {
    static float full[512], learned[512];
    char output[GOLDEN_PATH_BYTES];
    (void)state;
    strcpy(output, temporary_path("whole.gguf"));
    const struct told told = calibrate(stories, output, -1, 2);
    assert_int_equal(told.full, told.heads);
    logits_by(output, "full", full);
    assert_true(logits_by(output, "learned", learned) == 1);
    assert_memory_equal(full, learned, sizeof full);
}

static void plain_models_have_no_masks(void **state) {
    char output[GOLDEN_PATH_BYTES], plain[GOLDEN_PATH_BYTES], same[GOLDEN_PATH_BYTES];
    const wisp_convert_options without = {.plain = true};
    (void)state;
    strcpy(output, temporary_path("masks.gguf"));
    strcpy(plain, temporary_path("plain.gguf"));
    strcpy(same, temporary_path("same.gguf"));
    calibrate(stories, output, 0.5f, 1);
    expect(wisp_convert(output, plain, &without, &error));
    expect(wisp_convert(stories, same, &without, &error));
    expect_same_files(plain, same);
}

/* ---- maps ----------------------------------------------------------------------------------- */

/* Reads 400 ids in a session that is watched. */
static wisp_session *watch(wisp_model *model, const char *policies, uint32_t threads) {
    const wisp_session_options options = {.attention = policies, .threads = threads};
    wisp_session *session;
    wisp_attention_map map;
    int32_t ids[400];
    static float logits[4096];
    for (int32_t t = 0; t < 400; t++)
        ids[t] = t % 200 + 3;
    expect(wisp_session_open(model, &options, &session, &error));
    assert_false(wisp_session_get_attention_map(session, 0, 0, &map));
    expect(wisp_session_watch_attention(session, &error));
    expect(wisp_session_watch_attention(session, &error));
    expect(wisp_next_logits(session, ids, 400, logits, &error));
    return session;
}

/* A cell has the keys that were looked at, whichever thread has looked. */
static void maps_show_what_was_looked_at(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_F32, NULL);
    wisp_attention_map map;
    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads += 2)
        for (int local = 0; local < 2; local++) {
            wisp_session *session =
                watch(model, local ? "local,window=64,sinks=0" : "full", threads);
            for (uint32_t l = 0; l < 5; l++)
                for (uint32_t h = 0; h < 4; h++) {
                    assert_true(wisp_session_get_attention_map(session, l, h, &map));
                    assert_int_equal(map.positions, 64);
                    assert_int_equal(map.cells, 7);
                    for (int row = 0; row < WISP_ATTENTION_CELLS; row++)
                        for (int column = 0; column < WISP_ATTENTION_CELLS; column++) {
                            const float want = row >= 7 || column > row    ? -1
                                               : local && row - column > 1 ? 0
                                                                           : 1;
                            assert_true(map.seen[row][column] == want);
                        }
                }
            assert_false(wisp_session_get_attention_map(session, 5, 0, &map));
            assert_false(wisp_session_get_attention_map(session, 0, 4, &map));
            wisp_session_close(session);
        }
    wisp_model_close(model);
}

/* Where a text outgrows the cells of a thread, these become larger, and so do those of others. */
static void maps_grow_with_texts(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_F32, NULL);
    wisp_session *session = watch(model, "full", 2);
    const struct attention_counts *counts = session->workers[1].attention;
    wisp_attention_map map;
    (void)state;
    counts->see(counts->map, 0, 70, 69, 10, 40);
    assert_true(wisp_session_get_attention_map(session, 0, 0, &map));
    assert_int_equal(map.positions, 256);
    assert_int_equal(map.cells, 18);
    assert_true(map.seen[0][0] == 1 && map.seen[1][0] == 1 && map.seen[1][1] == 1);
    assert_true(map.seen[17][17] == 0.25f && map.seen[17][0] == -1 && map.seen[2][0] == -1);
    assert_true(wisp_session_get_attention_map(session, 1, 0, &map));
    assert_int_equal(map.positions, 64);
    wisp_session_close(session);
    wisp_model_close(model);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void expect_refused(const char *path, const char *policies, wisp_status status,
                           const char *field, const char *says) {
    const wisp_session_options options = {.attention = policies};
    wisp_model *model = open_model_or_fail(path, WISP_COMPUTE_F32, NULL);
    wisp_session *session;
    assert_int_equal(wisp_session_open(model, &options, &session, &error), status);
    assert_null(session);
    assert_string_equal(error.field, field);
    if (!strstr(error.message, says))
        fail_msg("%s", error.message);
    wisp_model_close(model);
}

static void set_numbers(struct gguf *file, const char *key, enum value_type type,
                        const void *numbers, size_t count) {
    struct bytes array = {0};
    bytes_put_u32(&array, type);
    bytes_put_u64(&array, count);
    bytes_put(&array, numbers, count * value_type_bytes(type));
    gguf_set(file, key, VALUE_ARRAY, array.data, array.size);
    bytes_release(&array);
}

/* Makes a decoder with 3 layers of 2 heads, whose masks are for 16 steps. */
static void make_masked(struct gguf *file) {
    static const unsigned char model[32], kinds[6] = {0, 1, 2, 3, 0, 1}, bits[6 * 4];
    static const int32_t windows[6] = {64, 64, 64, 64, 64, 64};
    decoder_make(file, tiny_decoders);
    set_numbers(file, KEY_ATTENTION_MODEL, VALUE_U8, model, 32);
    gguf_set_u32(file, KEY_ATTENTION_STEPS, 16);
    gguf_set_u32(file, KEY_ATTENTION_SINKS, 64);
    set_numbers(file, KEY_ATTENTION_KINDS, VALUE_U8, kinds, 6);
    set_numbers(file, KEY_ATTENTION_WINDOWS, VALUE_I32, windows, 6);
    set_numbers(file, KEY_ATTENTION_MASKS, VALUE_U8, bits, 6 * 4);
}

static void masks_that_do_not_fit_are_refused(void **state) {
    static const unsigned char kinds[6] = {0, 1, 2, 4, 0, 1}, more[8];
    static const int32_t windows[6] = {64, 64, 63, 64, 64, 64};
    struct gguf file;
    (void)state;
    assert_int_equal(attention_mask_bytes(16), 4);
    decoder_make(&file, tiny_decoders);
    const char *path = write_made(&file, "refused.gguf");
    expect_refused(path, "learned", WISP_ERROR_ARGUMENT, "attention",
                   "learned needs the masks that wisp calibrate --attention writes");
    expect_refused(path, "full/learned", WISP_ERROR_ARGUMENT, "attention", "it has none");
    expect_refused(path, "auto", WISP_ERROR_ARGUMENT, "attention",
                   "auto is what wisp calibrate --attention has chosen");
    expect_refused(path, "auto/full", WISP_ERROR_ARGUMENT, "attention", "not one of the policies");
    make_masked(&file);
    expect_refused(write_made(&file, "refused.gguf"), "learned", WISP_ERROR_FORMAT,
                   KEY_ATTENTION_MODEL, "the masks of attention are another model's");
    make_masked(&file);
    set_numbers(&file, KEY_ATTENTION_KINDS, VALUE_U8, more, 8);
    expect_refused(write_made(&file, "refused.gguf"), "learned", WISP_ERROR_FORMAT,
                   KEY_ATTENTION_KINDS, "masks of attention need u8[6] here");
    make_masked(&file);
    set_numbers(&file, KEY_ATTENTION_KINDS, VALUE_U8, kinds, 6);
    expect_refused(write_made(&file, "refused.gguf"), "learned", WISP_ERROR_FORMAT,
                   KEY_ATTENTION_KINDS, "4 at 3 is none of the kinds 0 to 3");
    make_masked(&file);
    set_numbers(&file, KEY_ATTENTION_WINDOWS, VALUE_I32, windows, 6);
    expect_refused(write_made(&file, "refused.gguf"), "learned", WISP_ERROR_FORMAT,
                   KEY_ATTENTION_WINDOWS, "63 at 2 is less than 64");
    make_masked(&file);
    gguf_set_u32(&file, KEY_ATTENTION_STEPS, 0);
    expect_refused(write_made(&file, "refused.gguf"), "learned", WISP_ERROR_FORMAT,
                   KEY_ATTENTION_STEPS, "0 is not from 1 to");
    make_masked(&file);
    gguf_set_u32(&file, KEY_ATTENTION_STEPS, 17);
    expect_refused(write_made(&file, "refused.gguf"), "learned", WISP_ERROR_FORMAT,
                   KEY_ATTENTION_MASKS, "need u8[30] here");
    make_masked(&file);
    gguf_set_text(&file, KEY_ATTENTION_AUTO, "exact");
    expect_refused(write_made(&file, "refused.gguf"), "auto", WISP_ERROR_ARGUMENT, "attention",
                   "\"exact\" is not one of the policies");
}

static void expect_option(wisp_calibrate_attention_options o, const char *input, size_t n,
                          wisp_status status, const char *field, const char *says) {
    wisp_text texts[LINES];
    make_texts(texts);
    assert_int_equal(
        wisp_calibrate_attention(input, temporary_path("no.gguf"), texts, n, &o, &error), status);
    assert_string_equal(error.field, field);
    if (!strstr(error.message, says))
        fail_msg("%s", error.message);
}

static bool cancels(void *context) {
    (void)context;
    return true;
}

static void options_are_checked(void **state) {
    typedef wisp_calibrate_attention_options o;
    (void)state;
    expect_option((o){.window = 255}, stories, LINES, WISP_ERROR_ARGUMENT, "window",
                  "255 is less than 256");
    expect_option((o){.window = 513}, stories, LINES, WISP_ERROR_ARGUMENT, "window",
                  "more than the model's context of 512");
    expect_option((o){.windows = 65}, stories, LINES, WISP_ERROR_ARGUMENT, "windows", "65");
    expect_option((o){.needles = 17}, stories, LINES, WISP_ERROR_ARGUMENT, "needles", "17");
    expect_option((o){.loss = 1}, stories, LINES, WISP_ERROR_ARGUMENT, "loss", "1 is not between");
    expect_option((o){.loss = NAN}, stories, LINES, WISP_ERROR_ARGUMENT, "loss", "nan");
    expect_option((o){.bound = 1}, stories, LINES, WISP_ERROR_ARGUMENT, "bound", "1 is not below");
    expect_option((o){.threads = 1025}, stories, LINES, WISP_ERROR_ARGUMENT, "threads", "1025");
    expect_option((o){0}, stories, 1, WISP_ERROR_ARGUMENT, "texts",
                  "but 4 windows of at least 256 are needed");
    expect_option((o){.cancelled = cancels}, stories, LINES, WISP_ERROR_CANCELLED, "", "cancelled");
    expect_option((o){0}, write_tiny(&tiny_shape, "embeds.gguf"), LINES, WISP_ERROR_UNSUPPORTED,
                  "general.architecture", "for models that generate text");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_cost_what_the_policy_loses),
        cmocka_unit_test(what_was_found_is_used),
        cmocka_unit_test(learned_without_a_bound_is_full),
        cmocka_unit_test(plain_models_have_no_masks),
        cmocka_unit_test(maps_show_what_was_looked_at),
        cmocka_unit_test(maps_grow_with_texts),
        cmocka_unit_test(masks_that_do_not_fit_are_refused),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests_name("calibrate attention", tests, NULL,
                                       tear_down_temporary_folder);
}
