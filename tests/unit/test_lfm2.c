/* SPDX-License-Identifier: Apache-2.0
 * LFM2, whose short convolutions keep a state that cannot be cut back: a text has the same bits in
 * pieces of any size, with any number of threads, beside others, after parts of it were known, and
 * after it was saved and loaded. tests/oracle/decoders.py compares logits with transformers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/generation.h"
#include "support/builder.h"
#include "support/rng.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { TOKENS = 2 * CONV_STATE_EVERY + 30, VOCABULARY = LFM2_TOKENS };

static struct bytes file_bytes(const struct gguf *file) {
    struct bytes bytes = {0};
    gguf_write_bytes(file, &bytes);
    return bytes;
}

static wisp_status open_bytes(const struct bytes *bytes, wisp_compute compute, wisp_model **model,
                              wisp_error *error) {
    const wisp_source source = {.size = bytes->size, .data = bytes->data, .name = "lfm2.gguf"};
    const wisp_model_options options = {.compute = compute};
    return wisp_model_open_source(&source, &options, model, error);
}

/* The model, and the logits of a text that was computed in one pass by one thread. */
static struct {
    struct bytes bytes;
    wisp_model *model;
    int32_t ids[TOKENS];
    float whole[TOKENS * VOCABULARY];
} world;

static wisp_session *open_session(uint32_t threads) {
    const wisp_session_options options = {.threads = threads};
    wisp_session *session;
    assert_int_equal(wisp_session_open(world.model, &options, &session, NULL), WISP_OK);
    return session;
}

/* Adds n ids to a sequence of the session and writes the logits that follow each. */
static void add(wisp_session *session, size_t sequence, const int32_t *ids, size_t n,
                float *logits) {
    const float *rows;
    wisp_error error;
    assert_int_equal(generation_open(session, sequence + 1, &error), WISP_OK);
    const struct addition addition = {&session->generation->sequences[sequence], ids, n, false};
    if (generation_pass(session, &addition, 1, true, &rows, &error) != WISP_OK)
        fail_msg("%s", error.message);
    memcpy(logits, rows, n * VOCABULARY * sizeof *rows);
}

static int set_up(void **state) {
    struct gguf file;
    wisp_error error;
    (void)state;
    gguf_make_lfm2(&file);
    world.bytes = file_bytes(&file);
    gguf_release(&file);
    if (open_bytes(&world.bytes, WISP_COMPUTE_F32, &world.model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    for (size_t t = 0; t < TOKENS; t++)
        world.ids[t] = (int32_t)((t * t * 31 + t * 7 + 3) % VOCABULARY);
    wisp_session *session = open_session(1);
    add(session, 0, world.ids, TOKENS, world.whole);
    wisp_session_close(session);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    wisp_model_close(world.model);
    bytes_release(&world.bytes);
    return 0;
}

static void pieces_change_nothing(void **state) {
    static const size_t pieces[] = {1, 2, 3, 33, CONV_STATE_EVERY, 300};
    static float logits[TOKENS * VOCABULARY];
    (void)state;
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            wisp_session *session = open_session(threads);
            for (size_t done = 0, n; done < TOKENS; done += n) {
                n = TOKENS - done < pieces[p] ? TOKENS - done : pieces[p];
                add(session, 0, world.ids + done, n, logits + done * VOCABULARY);
            }
            assert_memory_equal(logits, world.whole, TOKENS * VOCABULARY * sizeof *logits);
            wisp_session_close(session);
        }
}

/* Members that split the outputs of each layer; the engine does so for larger layers. */
static void members_may_split_outputs(void **state) {
    static float logits[TOKENS * VOCABULARY];
    wisp_session *session = open_session(3);
    const struct network *network = &world.model->network;
    wisp_error error;
    (void)state;
    assert_int_equal(generation_open(session, 1, &error), WISP_OK);
    struct sequence *sequence = &session->generation->sequences[0];
    assert_int_equal(sequence_reserve(session, sequence, TOKENS, &error), WISP_OK);
    for (size_t done = 0, n; done < TOKENS; done += n) {
        n = done % 7 == 0 && done + 5 <= TOKENS ? 5 : 1;
        const size_t starts[] = {0, n};
        struct kv_cache *caches[] = {&sequence->cache};
        struct conv_state *states[] = {&sequence->conv};
        const struct pass_size size = {
            .texts = 1, .tokens = n, .longest = TOKENS, .members = 3, .by_outputs = true};
        struct workspace space = {0};
        assert_int_equal(workspace_reserve(&space, pass_workspace_bytes(network, &size), &error),
                         WISP_OK);
        struct pass pass = {.network = network,
                            .batch = {.texts = 1,
                                      .ids = world.ids + done,
                                      .starts = starts,
                                      .caches = caches,
                                      .states = states,
                                      .all_logits = true},
                            .rows = logits + done * VOCABULARY,
                            .members = 3,
                            .by_outputs = true,
                            .team = session->team};
        pass_begin(&pass, &space);
        assert_int_equal(pass_run(&pass, &error), WISP_OK);
        sequence->cache.length += n;
        conv_state_commit(&sequence->conv, n);
        workspace_release(&space);
    }
    assert_memory_equal(logits, world.whole, sizeof logits);
    wisp_session_close(session);
}

/* Texts of different lengths in one pass, each after tokens of its own. */
static void texts_share_a_pass(void **state) {
    enum { TEXTS = 3 };
    static const size_t before[TEXTS] = {0, 1, 250}, counts[TEXTS] = {40, 3, 9};
    static float unused[TOKENS * VOCABULARY];
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads++) {
        wisp_session *session = open_session(threads);
        struct addition additions[TEXTS];
        const float *rows;
        wisp_error error;
        assert_int_equal(generation_open(session, TEXTS, &error), WISP_OK);
        for (size_t i = 0; i < TEXTS; i++) {
            if (before[i] > 0)
                add(session, i, world.ids, before[i], unused);
            additions[i] = (struct addition){&session->generation->sequences[i],
                                             world.ids + before[i], counts[i], false};
        }
        assert_int_equal(generation_pass(session, additions, TEXTS, true, &rows, &error), WISP_OK);
        for (size_t i = 0; i < TEXTS; i++) {
            assert_memory_equal(rows, world.whole + before[i] * VOCABULARY,
                                counts[i] * VOCABULARY * sizeof *rows);
            rows += counts[i] * VOCABULARY;
        }
        wisp_session_close(session);
    }
}

/* Prompts that begin as the session's text does, in random order. A prefix is reused only as far as
 * a state is known. */
static void prefixes_are_reused_where_states_are_known(void **state) {
    struct rng rng = {rng_seed()};
    wisp_session *kept = open_session(1);
    wisp_error error;
    (void)state;
    for (int i = 0; i < 150; i++) {
        const size_t shared = rng_range(&rng, 0, TOKENS - 20), n = shared + rng_range(&rng, 1, 20);
        int32_t ids[TOKENS];
        float got[VOCABULARY], expected[VOCABULARY];
        memcpy(ids, world.ids, sizeof ids);
        for (size_t t = shared; t < n && i % 3 > 0; t++)
            ids[t] = (int32_t)rng_below(&rng, VOCABULARY);
        wisp_session *fresh = open_session(2);
        assert_int_equal(wisp_next_logits(fresh, ids, n, expected, &error), WISP_OK);
        assert_int_equal(wisp_next_logits(kept, ids, n, got, &error), WISP_OK);
        assert_memory_equal(got, expected, sizeof got);
        wisp_session_close(fresh);
    }
    wisp_session_close(kept);
}

static size_t reused(wisp_session *session, size_t n, size_t max_tokens) {
    const wisp_generate_options options = {.max_tokens = (uint32_t)max_tokens};
    const wisp_request request = {.ids = world.ids, .n_ids = n, .options = &options};
    wisp_generation result;
    wisp_error error;
    if (wisp_generate_batch(session, &request, 1, 1, &result, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return result.reused_tokens;
}

static void known_states_are_found(void **state) {
    wisp_session *session = open_session(1);
    (void)state;
    assert_int_equal(reused(session, 300, 8), 0);
    assert_int_equal(reused(session, 300, 8), 299); /* the mark */
    assert_int_equal(reused(session, 290, 8), 256);
    assert_int_equal(reused(session, 290, 1), 289);
    assert_int_equal(reused(session, 300, 1), 290); /* the end: one token is never computed */
    assert_int_equal(reused(session, 200, 1), 0);
    assert_int_equal(reused(session, 530, 1), 200);
    assert_int_equal(reused(session, 520, 1), 512);
    assert_int_equal(reused(session, 500, 1), 256);
    wisp_session_close(session);
}

/* A batch of texts with one beginning, which some of them copy from another. */
static void texts_with_one_beginning(void **state) {
    enum { TEXTS = 5 };
    int32_t ids[TEXTS][TOKENS];
    wisp_request requests[TEXTS];
    wisp_generation results[TEXTS];
    wisp_error error;
    const wisp_generate_options options = {.max_tokens = 1};
    wisp_session *session = open_session(2);
    (void)state;
    for (size_t i = 0; i < TEXTS; i++) {
        const size_t n = 280 + 3 * i;
        memcpy(ids[i], world.ids, sizeof ids[i]);
        ids[i][n - 1] = (int32_t)i + 5;
        requests[i] = (wisp_request){.ids = ids[i], .n_ids = n, .options = &options};
    }
    assert_int_equal(wisp_generate_batch(session, requests, TEXTS, 3, results, &error), WISP_OK);
    for (size_t i = 0; i < TEXTS; i++) {
        float got[VOCABULARY], expected[VOCABULARY];
        wisp_session *fresh = open_session(1);
        assert_int_equal(wisp_next_logits(session, ids[i], 280 + 3 * i, got, &error), WISP_OK);
        assert_int_equal(wisp_next_logits(fresh, ids[i], 280 + 3 * i, expected, &error), WISP_OK);
        assert_memory_equal(got, expected, sizeof got);
        wisp_session_close(fresh);
    }
    wisp_session_close(session);
}

/* A call that is cancelled leaves the text and its state as they were. */
static void cancelled_calls_change_nothing(void **state) {
    static float logits[TOKENS * VOCABULARY];
    wisp_session *session = open_session(1);
    const float *rows;
    wisp_error error;
    (void)state;
    add(session, 0, world.ids, 250, logits);
    struct sequence *sequence = &session->generation->sequences[0];
    sequence_mark(sequence, 255);
    const int32_t other[10] = {9, 8, 7, 6, 5, 4, 3, 9, 8, 7};
    wisp_session_cancel(session);
    assert_int_equal(generation_pass(session, &(struct addition){sequence, other, 10, false}, 1,
                                     true, &rows, &error),
                     WISP_ERROR_CANCELLED);
    atomic_store(&session->cancelled, false);
    add(session, 0, world.ids + 250, 20, logits);
    assert_memory_equal(logits, world.whole + 250 * VOCABULARY, 20 * VOCABULARY * sizeof *logits);
    wisp_session_close(session);
}

static void loaded_texts_go_on(void **state) {
    static const size_t lengths[] = {1, 2, 255, 256, 300, 520};
    static float logits[TOKENS * VOCABULARY];
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i];
        wisp_session *first = open_session(1), *second = open_session(2);
        wisp_error error;
        size_t size;
        assert_int_equal(reused(first, n, 1), 0);
        assert_int_equal(wisp_session_save_bytes(first, NULL, 0, &size, &error), WISP_OK);
        unsigned char *bytes = malloc(size);
        assert_int_equal(wisp_session_save_bytes(first, bytes, size, &size, &error), WISP_OK);
        if (wisp_session_load_bytes(second, bytes, size, &error) != WISP_OK)
            fail_msg("%s", error.message);
        for (size_t cut = 0; cut < size; cut += 1 + size / 50)
            assert_int_equal(wisp_session_load_bytes(second, bytes, cut, &error),
                             WISP_ERROR_FORMAT);
        add(second, 0, world.ids + n, 10, logits);
        assert_memory_equal(logits, world.whole + n * VOCABULARY, 10 * VOCABULARY * sizeof *logits);
        /* The positions at which states are known are saved, too. */
        assert_int_equal(reused(second, n, 1), n - 1);
        if (n > CONV_STATE_EVERY + 1)
            assert_int_equal(reused(second, n - 2, 1),
                             (n - 2) / CONV_STATE_EVERY * CONV_STATE_EVERY);
        free(bytes);
        wisp_session_close(first);
        wisp_session_close(second);
    }
}

/* ---- malformed files ------------------------------------------------------------------------ */

static void expect_refused(const struct gguf *file, wisp_status status, const char *field) {
    struct bytes bytes = file_bytes(file);
    wisp_model *model = NULL;
    wisp_error error = {0};
    const wisp_status got = open_bytes(&bytes, WISP_COMPUTE_AUTO, &model, &error);
    if (got != status || strcmp(error.field, field) != 0)
        fail_msg("status %d: %s", (int)got, error.message);
    bytes_release(&bytes);
}

static void malformed_files_are_refused(void **state) {
    static const char kv[] = "lfm2.attention.head_count_kv", taps[] = "lfm2.shortconv.l_cache";
    static const int32_t others[] = {0, 2, 4, 0}, negative[] = {0, 2, -1, 0}, none[] = {0, 3, 0, 0};
    struct gguf file;
    (void)state;
    gguf_make_lfm2(&file);
    gguf_set_i32s(&file, kv, others, 3);
    expect_refused(&file, WISP_ERROR_FORMAT, kv);
    gguf_set_i32s(&file, kv, others, 4);
    expect_refused(&file, WISP_ERROR_UNSUPPORTED, kv);
    gguf_set_i32s(&file, kv, negative, 4);
    expect_refused(&file, WISP_ERROR_FORMAT, kv);
    gguf_set_i32s(&file, kv, none, 4);
    expect_refused(&file, WISP_ERROR_FORMAT, kv);
    gguf_set_text(&file, kv, "two");
    expect_refused(&file, WISP_ERROR_FORMAT, kv);
    gguf_release(&file);

    gguf_make_lfm2(&file);
    gguf_set_u32(&file, taps, 1);
    expect_refused(&file, WISP_ERROR_FORMAT, taps);
    gguf_set_u32(&file, taps, 65);
    expect_refused(&file, WISP_ERROR_FORMAT, taps);
    gguf_set_u32(&file, taps, 4);
    expect_refused(&file, WISP_ERROR_FORMAT, "blk.0.shortconv.conv.weight");
    gguf_drop_key(&file, taps);
    expect_refused(&file, WISP_ERROR_NOT_FOUND, taps);
    gguf_release(&file);

    gguf_make_lfm2(&file);
    gguf_drop_tensor(&file, "blk.2.shortconv.in_proj.weight");
    expect_refused(&file, WISP_ERROR_NOT_FOUND, "blk.2.shortconv.in_proj.weight");
    gguf_release(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_change_nothing),
        cmocka_unit_test(members_may_split_outputs),
        cmocka_unit_test(texts_share_a_pass),
        cmocka_unit_test(prefixes_are_reused_where_states_are_known),
        cmocka_unit_test(known_states_are_found),
        cmocka_unit_test(texts_with_one_beginning),
        cmocka_unit_test(cancelled_calls_change_nothing),
        cmocka_unit_test(loaded_texts_go_on),
        cmocka_unit_test(malformed_files_are_refused),
    };
    return cmocka_run_group_tests_name("lfm2", tests, set_up, tear_down);
}
