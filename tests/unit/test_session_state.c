/* SPDX-License-Identifier: Apache-2.0
 * The memory of a session's texts: its bytes, what it allocates, and its state saved and loaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/generation.h"
#include "support/allocations.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { VOCABULARY = 512, MORE = 20 };

static const char stories[] = "models/wisp-stories.gguf";

static wisp_session *open_with(const wisp_model *model, wisp_cache_type type, uint32_t threads) {
    const wisp_session_options options = {.threads = threads, .cache_type = type};
    wisp_session *session;
    wisp_error error;
    assert_int_equal(wisp_session_open(model, &options, &session, &error), WISP_OK);
    return session;
}

/* Adds n ids to the session's first text. Writes the logits that follow each. */
static void add(wisp_session *session, const int32_t *ids, size_t n, float *logits) {
    const float *rows;
    wisp_error error;
    assert_int_equal(generation_open(session, 1, &error), WISP_OK);
    const struct addition addition = {&session->generation->sequences[0], ids, n, false};
    assert_int_equal(generation_pass(session, &addition, 1, true, &rows, &error), WISP_OK);
    memcpy(logits, rows, n * VOCABULARY * sizeof *rows);
}

static void make_ids(int32_t *ids, size_t n) {
    for (size_t t = 0; t < n; t++)
        ids[t] = (int32_t)((t * t * 31 + t * 7 + 3) % VOCABULARY);
}

static unsigned char *save(wisp_session *session, size_t *size) {
    wisp_error error;
    assert_int_equal(wisp_session_save_bytes(session, NULL, 0, size, &error), WISP_OK);
    unsigned char *bytes = malloc(*size);
    assert_non_null(bytes);
    size_t again;
    assert_int_equal(wisp_session_save_bytes(session, bytes, *size - 1, &again, &error), WISP_OK);
    assert_int_equal(again, *size);
    assert_int_equal(wisp_session_save_bytes(session, bytes, *size, &again, &error), WISP_OK);
    assert_int_equal(again, *size);
    return bytes;
}

/* A text that goes on after it was loaded, in another session with other threads, has the bits of
 * one that was never saved. */
static void loaded_texts_go_on_with_the_same_bits(void **state) {
    static const size_t lengths[] = {1, 31, KV_PAGE - 1, KV_PAGE, KV_PAGE + 3};
    static float logits[(KV_PAGE + 3) * VOCABULARY], straight[MORE * VOCABULARY];
    static float loaded[MORE * VOCABULARY];
    int32_t ids[KV_PAGE + 3 + MORE];
    (void)state;
    make_ids(ids, sizeof ids / sizeof *ids);
    for (int compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++) {
        wisp_model *model = open_model_or_fail(stories, (wisp_compute)compute, NULL);
        for (int type = WISP_CACHE_F16; type <= WISP_CACHE_F32; type++)
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
                const size_t n = lengths[i];
                wisp_session *first = open_with(model, (wisp_cache_type)type, 1);
                wisp_session *second = open_with(model, (wisp_cache_type)type, 2);
                wisp_error error;
                size_t size;
                add(first, ids, n, logits);
                unsigned char *bytes = save(first, &size);
                add(first, ids + n, MORE, straight);
                add(second, ids + 3, 1, logits); /* a text that is forgotten */
                if (wisp_session_load_bytes(second, bytes, size, &error) != WISP_OK)
                    fail_msg("%s", error.message);
                assert_int_equal(second->generation->sequences[0].past.count, n);
                add(second, ids + n, MORE, loaded);
                assert_memory_equal(straight, loaded, sizeof straight);
                free(bytes);
                wisp_session_close(first);
                wisp_session_close(second);
            }
        wisp_model_close(model);
    }
}

/* Without a type a session has that of the model's products. */
static void auto_keeps_int8_if_the_model_computes_in_it(void **state) {
    static float logits[2][40 * VOCABULARY];
    int32_t ids[40];
    (void)state;
    make_ids(ids, 40);
    for (int compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++) {
        const wisp_cache_type types[] = {
            WISP_CACHE_AUTO, compute == WISP_COMPUTE_INT8 ? WISP_CACHE_INT8 : WISP_CACHE_F32};
        wisp_model *model = open_model_or_fail(stories, (wisp_compute)compute, NULL);
        for (size_t i = 0; i < 2; i++) {
            wisp_session *session = open_with(model, types[i], 1);
            assert_int_equal(wisp_session_get_cache_type(session), types[1]);
            add(session, ids, 40, logits[i]);
            wisp_session_close(session);
        }
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
        wisp_model_close(model);
    }
}

/* Kernel sets pack keys and values differently; the saved bytes are those of no set. */
static void any_kernel_set_loads_a_state(void **state) {
    static float logits[KV_PAGE * VOCABULARY];
    int32_t ids[70];
    wisp_error error;
    (void)state;
    make_ids(ids, 70);
    for (int type = WISP_CACHE_F16; type <= WISP_CACHE_F32; type++) {
        wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_F32, NULL);
        wisp_session *session = open_with(model, (wisp_cache_type)type, 1);
        size_t size;
        add(session, ids, 70, logits);
        unsigned char *bytes = save(session, &size);
        wisp_session_close(session);
        wisp_model_close(model);
        for (size_t set = 0; wisp_kernels_name(set); set++) {
            size_t same;
            model = open_model_or_fail(stories, WISP_COMPUTE_F32, wisp_kernels_name(set));
            session = open_with(model, (wisp_cache_type)type, 1);
            assert_int_equal(wisp_session_load_bytes(session, bytes, size, &error), WISP_OK);
            unsigned char *again = save(session, &same);
            assert_int_equal(same, size);
            assert_memory_equal(again, bytes, size);
            free(again);
            wisp_session_close(session);
            wisp_model_close(model);
        }
        free(bytes);
    }
}

/* All texts of a batch are saved, and each is known to a prompt that begins with it. */
static void all_texts_are_saved(void **state) {
    static const char *const prompts[] = {"Once upon a time", "The little dog", "Tom and Sue"};
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    wisp_session *first = open_with(model, WISP_CACHE_F16, 1);
    wisp_session *second = open_with(model, WISP_CACHE_F16, 1);
    const wisp_generate_options options = {.max_tokens = 10};
    wisp_request requests[3];
    wisp_generation result;
    wisp_error error;
    size_t size;
    (void)state;
    for (size_t i = 0; i < 3; i++)
        requests[i] = (wisp_request){.prompt = wisp_text_of(prompts[i]), .options = &options};
    assert_int_equal(wisp_generate_batch(first, requests, 3, 3, NULL, &error), WISP_OK);
    unsigned char *bytes = save(first, &size);
    assert_int_equal(wisp_session_load_bytes(second, bytes, size, &error), WISP_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(wisp_generate(second, wisp_text_of(prompts[i]), &options, &result, &error),
                         WISP_OK);
        assert_int_equal(result.reused_tokens, result.prompt_tokens - 1);
    }
    free(bytes);
    wisp_session_close(first);
    wisp_session_close(second);
    wisp_model_close(model);
}

static void files_are_saved_and_loaded(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_with(model, WISP_CACHE_INT8, 1);
    const wisp_generate_options options = {.max_tokens = 10};
    wisp_generation result;
    wisp_error error;
    char path[300];
    (void)state;
    snprintf(path, sizeof path, "%s", temporary_path("state.wisp"));
    assert_int_equal(wisp_session_load(session, path, &error), WISP_ERROR_NOT_FOUND);
    assert_string_equal(error.file, path);
    /* A session that has no text yet is saved, too. */
    assert_int_equal(wisp_session_save(session, path, &error), WISP_OK);
    assert_int_equal(wisp_session_load(session, path, &error), WISP_OK);
    assert_int_equal(wisp_generate(session, wisp_text_of("One day"), &options, NULL, &error),
                     WISP_OK);
    assert_int_equal(wisp_session_save(session, path, &error), WISP_OK);
    wisp_session_close(session);
    session = open_with(model, WISP_CACHE_INT8, 1);
    assert_int_equal(wisp_session_load(session, path, &error), WISP_OK);
    assert_int_equal(wisp_generate(session, wisp_text_of("One day"), &options, &result, &error),
                     WISP_OK);
    assert_int_equal(result.reused_tokens, result.prompt_tokens - 1);
    assert_int_equal(wisp_session_save(session, "no/such/folder/state", &error), WISP_ERROR_IO);
    wisp_session_close(session);

    /* A model that generates nothing has no state. */
    wisp_model *encoder = open_model_or_fail("models/wisp-default.gguf", WISP_COMPUTE_AUTO, NULL);
    session = open_with(encoder, WISP_CACHE_F32, 1);
    assert_int_equal(wisp_session_save(session, path, &error), WISP_ERROR_UNSUPPORTED);
    assert_int_equal(wisp_session_load(session, path, &error), WISP_ERROR_UNSUPPORTED);
    wisp_session_close(session);
    wisp_model_close(encoder);
    wisp_model_close(model);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Tokens that fit the pages of a text allocate nothing, and a page takes the bytes that its type
 * says. */
static void a_text_grows_by_pages(void **state) {
    enum { LAYERS = 5, KV_HEADS = 4, HEAD_SIZE = 8 };
    static float logits[KV_PAGE * VOCABULARY];
    static const uint64_t value_bytes[] = {
        [WISP_CACHE_F16] = 2, [WISP_CACHE_INT8] = 1, [WISP_CACHE_F32] = 4};
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_F32, "scalar");
    int32_t ids[2 * KV_PAGE];
    (void)state;
    make_ids(ids, 2 * KV_PAGE);
    assert_true(allocations_are_watched());
    for (int type = WISP_CACHE_F16; type <= WISP_CACHE_F32; type++) {
        wisp_session *session = open_with(model, (wisp_cache_type)type, 1);
        wisp_stats none, page;
        wisp_session_get_stats(session, &none);
        add(session, ids, KV_PAGE - 10, logits);
        add(session, ids, 1, logits);
        wisp_session_get_stats(session, &page);
        const uint64_t scale = type == WISP_CACHE_INT8 ? sizeof(float) : 0;
        const uint64_t bytes =
            2ull * LAYERS * KV_HEADS * KV_PAGE * (HEAD_SIZE * value_bytes[type] + scale);
        assert_true(page.workspace_bytes - none.workspace_bytes > bytes);

        allocations_watch();
        for (size_t t = 1; t < 10; t++)
            add(session, ids + t, 1, logits);
        assert_int_equal(allocations_seen().calls, 0);
        add(session, ids + 10, 1, logits);
        assert_int_equal(session->generation->sequences[0].cache.length, KV_PAGE + 1);
        const struct allocations seen = allocations_seen();
        assert_true(seen.calls > 0 && seen.bytes > bytes);
        for (size_t t = 11; t < 20; t++)
            add(session, ids + t, 1, logits);
        assert_int_equal(allocations_seen().calls, seen.calls);
        wisp_session_close(session);
    }
    wisp_model_close(model);
}

/* Whichever allocation fails, the session keeps its text. */
static void a_load_without_memory_changes_nothing(void **state) {
    static float logits[KV_PAGE * VOCABULARY], before[VOCABULARY], after[VOCABULARY];
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    wisp_session *saved = open_with(model, WISP_CACHE_F32, 1);
    wisp_session *session = open_with(model, WISP_CACHE_F32, 1);
    wisp_error error;
    int32_t ids[40];
    size_t size;
    uint64_t n = 0;
    (void)state;
    make_ids(ids, 40);
    add(saved, ids, 33, logits);
    unsigned char *bytes = save(saved, &size);
    add(session, ids, 9, logits);
    add(session, ids + 20, 1, before);
    for (;; n++) {
        sequence_rewind(&session->generation->sequences[0], 9, false);
        allocations_watch();
        allocations_fail_after(n, n % 2 == 1);
        const wisp_status status = wisp_session_load_bytes(session, bytes, size, &error);
        allocations_succeed();
        if (status == WISP_OK)
            break;
        assert_int_equal(status, WISP_ERROR_MEMORY);
        assert_int_equal(session->generation->sequences[0].past.count, 9);
        add(session, ids + 20, 1, after);
        assert_memory_equal(before, after, sizeof before);
    }
    assert_true(n > 3);
    assert_int_equal(session->generation->sequences[0].past.count, 33);
    free(bytes);
    wisp_session_close(saved);
    wisp_session_close(session);
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaded_texts_go_on_with_the_same_bits),
        cmocka_unit_test(auto_keeps_int8_if_the_model_computes_in_it),
        cmocka_unit_test(any_kernel_set_loads_a_state),
        cmocka_unit_test(all_texts_are_saved),
        cmocka_unit_test(files_are_saved_and_loaded),
        cmocka_unit_test(a_text_grows_by_pages),
        cmocka_unit_test(a_load_without_memory_changes_nothing),
    };
    return cmocka_run_group_tests_name("session_state", tests, NULL, tear_down_temporary_folder);
}
