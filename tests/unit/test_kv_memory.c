/* SPDX-License-Identifier: Apache-2.0
 * Keys and values beyond a limit of memory: a text has the same bits at any limit, nothing is left
 * behind, and a file that fails costs its session's texts alone. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/generation.h"
#include "support/builder.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char stories[] = "models/wisp-stories.gguf";

enum { VOCABULARY = 512, TOKENS = 500, MORE = 8, MOST_LOGITS = VOCABULARY * TOKENS };

static char folder[300];

static void make_ids(int32_t *ids, size_t n, size_t vocabulary) {
    for (size_t t = 0; t < n; t++)
        ids[t] = (int32_t)((t * t * 31 + t * 7 + 3) % vocabulary);
}

static size_t block_bytes(const wisp_model *model, wisp_cache_type type) {
    const wisp_session_options options = {.threads = 1, .cache_type = type};
    wisp_session *session;
    assert_int_equal(wisp_session_open(model, &options, &session, NULL), WISP_OK);
    assert_int_equal(generation_open(session, 1, NULL), WISP_OK);
    const size_t bytes = kv_slice_bytes(&session->generation->sequences[0].cache.shape);
    wisp_session_close(session);
    return bytes;
}

/* bytes 0: without a limit. attention NULL: full. */
static wisp_session *open_policy(const wisp_model *model, wisp_cache_type type, uint32_t threads,
                                 uint64_t bytes, const char *attention) {
    const wisp_session_options options = {
        .threads = threads, .cache_type = type, .attention = attention};
    wisp_session *session;
    wisp_error error;
    assert_int_equal(wisp_session_open(model, &options, &session, &error), WISP_OK);
    if (bytes > 0 && wisp_session_limit_kv_memory(session, bytes, folder, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return session;
}

static wisp_session *open_with(const wisp_model *model, wisp_cache_type type, uint32_t threads,
                               uint64_t bytes) {
    return open_policy(model, type, threads, bytes, NULL);
}

/* Adds ids to a sequence of the session, and writes the logits that follow each. */
static wisp_status try_add(wisp_session *session, size_t sequence, const int32_t *ids, size_t n,
                           float *logits, wisp_error *error) {
    const float *rows;
    const wisp_status opened = generation_open(session, sequence + 1, error);
    if (opened != WISP_OK)
        return opened;
    const struct addition addition = {&session->generation->sequences[sequence], ids, n, false};
    const wisp_status status = generation_pass(session, &addition, 1, true, &rows, error);
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    if (status == WISP_OK)
        memcpy(logits, rows, n * vocabulary * sizeof *rows);
    return status;
}

static void add(wisp_session *session, size_t sequence, const int32_t *ids, size_t n,
                float *logits) {
    wisp_error error;
    if (try_add(session, sequence, ids, n, logits, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

static int make_folder_of_files(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s", temporary_path("keys"));
    make_folder(folder);
    return 0;
}

static size_t files_in_folder(void) {
    size_t n = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        fail_msg("there is no folder %s", folder);
        return 0;
    }
    for (const struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(dir);
    return n;
}

/* ---- the same bits -------------------------------------------------------------------------- */

static void any_limit_has_the_same_bits(void **state) {
    static const size_t blocks[] = {1, 2, 3, 5, 7, 9, 10, 1000};
    static float whole[MOST_LOGITS], limited[MOST_LOGITS];
    int32_t ids[TOKENS];
    (void)state;
    make_ids(ids, TOKENS, VOCABULARY);
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    for (int type = WISP_CACHE_F16; type <= WISP_CACHE_F32; type++) {
        const size_t bytes = block_bytes(model, (wisp_cache_type)type);
        wisp_session *session = open_with(model, (wisp_cache_type)type, 1, 0);
        add(session, 0, ids, TOKENS, whole);
        wisp_session_close(session);
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
            for (uint32_t threads = 1; threads <= 3; threads += 2) {
                session = open_with(model, (wisp_cache_type)type, threads, blocks[i] * bytes);
                for (size_t done = 0, n; done < TOKENS; done += n) {
                    n = done < 200 ? 200 : done < 480 ? 70 : 1;
                    add(session, 0, ids + done, n, limited + done * VOCABULARY);
                }
                assert_memory_equal(limited, whole, sizeof whole);
                wisp_kv_stats stats;
                assert_true(wisp_session_get_kv_stats(session, &stats));
                assert_true(stats.resident_bytes <= blocks[i] * bytes);
                if (blocks[i] < 10)
                    assert_true(stats.read_bytes > 0 && stats.written_bytes > 0);
                else
                    assert_int_equal(stats.read_bytes, 0);
                wisp_session_close(session);
            }
    }
    wisp_model_close(model);
}

/* Adds TOKENS ids in parts, the last ones one by one. */
static void add_in_parts(wisp_session *session, const int32_t *ids, float *logits) {
    for (size_t done = 0, n; done < TOKENS; done += n) {
        n = done < 300 ? 300 : done < 440 ? 70 : 1;
        add(session, 0, ids + done, n, logits + done * VOCABULARY);
    }
}

/* A policy looks at the same keys wherever these are, on any number of threads. Those that leave
 * out nothing have the bits of full attention. */
static void policies_have_the_same_bits_at_any_limit(void **state) {
    static const char *const texts[] = {"full",
                                        "mass,mass=1000",
                                        "full/quest,tokens=512",
                                        "minference,budget=100/full",
                                        "local,window=64,sinks=1",
                                        "mass,mass=700",
                                        "full/quest,tokens=64",
                                        "minference,budget=20/full"};
    enum { WHOLE = 4 };
    static float full[MOST_LOGITS], resident[MOST_LOGITS], limited[MOST_LOGITS];
    int32_t ids[TOKENS];
    (void)state;
    make_ids(ids, TOKENS, VOCABULARY);
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    for (int type = WISP_CACHE_F16; type <= WISP_CACHE_F32; type++)
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            wisp_session *session = open_policy(model, (wisp_cache_type)type, 1, 0, texts[i]);
            wisp_layer_stats layer;
            add_in_parts(session, ids, i == 0 ? full : resident);
            assert_true(wisp_session_get_layer_stats(session, 4, &layer));
            assert_true(i < WHOLE ? layer.keys_seen == layer.keys_visible
                                  : layer.keys_seen < layer.keys_visible);
            wisp_session_close(session);
            if (i > 0)
                assert_int_equal(memcmp(full, resident, sizeof full) == 0, i < WHOLE);
            for (uint32_t threads = 1; threads <= 3; threads += 2) {
                const uint64_t bytes = 3 * block_bytes(model, (wisp_cache_type)type);
                wisp_kv_stats stats;
                session = open_policy(model, (wisp_cache_type)type, threads, bytes, texts[i]);
                add_in_parts(session, ids, limited);
                assert_memory_equal(limited, i == 0 ? full : resident, sizeof limited);
                assert_true(wisp_session_get_kv_stats(session, &stats));
                assert_int_equal(stats.chosen_blocks > 0, strstr(texts[i], "quest") != NULL);
                assert_true(stats.recurring_blocks <= stats.chosen_blocks);
                wisp_session_close(session);
            }
        }
    wisp_model_close(model);
}

/* Short convolutions lie between layers with keys and values. */
static void models_with_convolutions_have_limits(void **state) {
    enum { LONG = 3 * KV_PAGE };
    static float whole[LONG * LFM2_TOKENS], limited[LONG * LFM2_TOKENS];
    struct gguf file;
    struct bytes bytes = {0};
    wisp_model *model;
    wisp_error error;
    int32_t ids[LONG];
    (void)state;
    gguf_make_lfm2(&file);
    gguf_write_bytes(&file, &bytes);
    gguf_release(&file);
    const wisp_source source = {.size = bytes.size, .data = bytes.data, .name = "lfm2.gguf"};
    assert_int_equal(wisp_model_open_source(&source, NULL, &model, &error), WISP_OK);
    make_ids(ids, LONG, LFM2_TOKENS);
    wisp_session *session = open_with(model, WISP_CACHE_F32, 1, 0);
    add(session, 0, ids, LONG, whole);
    wisp_session_close(session);
    session = open_with(model, WISP_CACHE_F32, 2, 2 * block_bytes(model, WISP_CACHE_F32));
    for (size_t done = 0; done < LONG; done += 96)
        add(session, 0, ids + done, 96, limited + done * LFM2_TOKENS);
    assert_memory_equal(limited, whole, sizeof whole);
    wisp_session_close(session);
    wisp_model_close(model);
    bytes_release(&bytes);
}

/* Texts of a batch, beams, which copy from each other, saved states and the prompt cache. */
static void texts_copies_and_states_have_the_same_bits(void **state) {
    enum { TEXTS = 3, PROMPT = 300 };
    static float after[2][MORE * VOCABULARY];
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    const size_t limit = 3 * block_bytes(model, WISP_CACHE_F16);
    int32_t ids[TEXTS][PROMPT];
    wisp_generation results[2][TEXTS];
    unsigned char *saved[2];
    size_t sizes[2];
    char prompts[300];
    (void)state;
    snprintf(prompts, sizeof prompts, "%s", temporary_path("prompts"));
    for (size_t i = 0; i < TEXTS; i++) {
        make_ids(ids[i], PROMPT, VOCABULARY);
        ids[i][100 * i] ^= 1;
    }
    for (size_t k = 0; k < 2; k++) {
        const wisp_generate_options options = {.max_tokens = 20};
        wisp_session *session = open_with(model, WISP_CACHE_F16, 2, k * limit);
        wisp_request requests[TEXTS];
        wisp_error error;
        for (size_t i = 0; i < TEXTS; i++)
            requests[i] = (wisp_request){.ids = ids[i], .n_ids = PROMPT, .options = &options};
        if (k > 0)
            assert_int_equal(wisp_session_use_prompt_cache(session, prompts, 0, &error), WISP_OK);
        assert_int_equal(wisp_generate_batch(session, requests, TEXTS, TEXTS, results[k], &error),
                         WISP_OK);
        const wisp_status copied = sequence_copy(session, &session->generation->sequences[1],
                                                 &session->generation->sequences[0], 290, &error);
        assert_int_equal(copied, WISP_OK);
        add(session, 1, ids[0], MORE, after[k]);
        assert_int_equal(wisp_session_save_bytes(session, NULL, 0, &sizes[k], &error), WISP_OK);
        saved[k] = malloc(sizes[k]);
        assert_non_null(saved[k]);
        assert_int_equal(wisp_session_save_bytes(session, saved[k], sizes[k], &sizes[k], &error),
                         WISP_OK);
        wisp_session_close(session);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(saved[0], saved[1], sizes[0]);
    assert_memory_equal(after[0], after[1], sizeof after[0]);

    /* A state goes into a session with a limit, and comes out again. */
    wisp_session *session = open_with(model, WISP_CACHE_F16, 1, limit);
    wisp_error error;
    size_t size;
    assert_int_equal(wisp_session_load_bytes(session, saved[0], sizes[0], &error), WISP_OK);
    memset(saved[1], 0, sizes[1]);
    assert_int_equal(wisp_session_save_bytes(session, saved[1], sizes[1], &size, &error), WISP_OK);
    assert_memory_equal(saved[0], saved[1], sizes[0]);
    wisp_session_close(session);

    /* The prompts that the session with a limit has written are known to one without. */
    session = open_with(model, WISP_CACHE_F16, 1, 0);
    const wisp_generate_options options = {.max_tokens = 1};
    const wisp_request request = {.ids = ids[2], .n_ids = PROMPT, .options = &options};
    wisp_generation result;
    assert_int_equal(wisp_session_use_prompt_cache(session, prompts, 0, &error), WISP_OK);
    assert_int_equal(wisp_generate_batch(session, &request, 1, 1, &result, &error), WISP_OK);
    assert_int_equal(result.reused_tokens, 256);
    wisp_session_close(session);
    free(saved[0]);
    free(saved[1]);
    wisp_model_close(model);
}

/* A text that is cut and goes on otherwise. */
static void rewound_texts_have_the_same_bits(void **state) {
    static float whole[MOST_LOGITS], limited[MOST_LOGITS];
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    int32_t ids[TOKENS];
    (void)state;
    make_ids(ids, TOKENS, VOCABULARY);
    for (size_t k = 0; k < 2; k++) {
        float *logits = k ? limited : whole;
        wisp_session *session =
            open_with(model, WISP_CACHE_F32, 1, k * 2 * block_bytes(model, WISP_CACHE_F32));
        add(session, 0, ids, 400, logits);
        for (size_t n = 380; n > 20; n -= 90) {
            sequence_rewind(&session->generation->sequences[0], n, false);
            add(session, 0, ids + n / 2, 60, logits + n * VOCABULARY);
        }
        wisp_session_close(session);
    }
    assert_memory_equal(limited, whole, 400 * VOCABULARY * sizeof *whole);
    wisp_model_close(model);
}

/* ---- the file ------------------------------------------------------------------------------- */

static void nothing_is_left_behind(void **state) {
    static float logits[MOST_LOGITS];
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    int32_t ids[TOKENS];
    int ready[2];
    (void)state;
    make_ids(ids, TOKENS, VOCABULARY);
    wisp_session *session = open_with(model, WISP_CACHE_F32, 1, block_bytes(model, WISP_CACHE_F32));
    add(session, 0, ids, TOKENS, logits);
    assert_int_equal(files_in_folder(), 0);
    wisp_session_close(session);
    assert_int_equal(files_in_folder(), 0);
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        session = open_with(model, WISP_CACHE_F32, 1, block_bytes(model, WISP_CACHE_F32));
        add(session, 0, ids, TOKENS, logits);
        _exit(write(ready[1], "x", 1) != 1 || pause());
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(files_in_folder(), 0);
    close(ready[0]);
    close(ready[1]);
    wisp_model_close(model);
}

/* Returns the descriptor of the file without a name that lies in the folder. */
static int find_file(void) {
    for (int file = 3; file < 100; file++) {
        char link[64], path[400];
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        const ssize_t n = readlink(link, path, sizeof path - 1);
        if (n > 0 && strncmp(path, folder, strlen(folder)) == 0)
            return file;
    }
    fail_msg("there is no file in %s", folder);
    return -1;
}

enum fault { CUT, CHANGED, FULL };

/* A file that was cut or changed, or cannot grow: the call fails, and the next one begins anew. */
static void faults_are_typed_errors(void **state) {
    static float whole[MOST_LOGITS], limited[MOST_LOGITS];
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    const size_t limit = 2 * block_bytes(model, WISP_CACHE_F32);
    int32_t ids[TOKENS];
    struct rlimit before;
    (void)state;
    make_ids(ids, TOKENS, VOCABULARY);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
    wisp_session *other = open_with(model, WISP_CACHE_F32, 1, 0);
    add(other, 0, ids, TOKENS, whole);
    for (enum fault fault = CUT; fault <= FULL; fault++)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            wisp_session *session = open_with(model, WISP_CACHE_F32, threads, limit);
            wisp_error error = {0};
            if (fault == FULL)
                assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
            else
                add(session, 0, ids, 300, limited);
            if (fault == CUT)
                assert_int_equal(ftruncate(find_file(), 0), 0);
            for (off_t at = 0; fault == CHANGED && at < (off_t)(20 * limit); at += 4096)
                assert_int_equal(pwrite(find_file(), "changed", 7, at), 7);
            const size_t first = fault == FULL ? 0 : 300;
            const wisp_status status = try_add(session, 0, ids + first, 200, limited, &error);
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
            if (status != WISP_ERROR_IO || error.status != WISP_ERROR_IO ||
                strcmp(error.file, folder) != 0 ||
                !strstr(error.message, fault == FULL ? "cannot write" : "cut or changed"))
                fail_msg("fault %d: status %d, %s", (int)fault, (int)status, error.message);
            assert_int_equal(session->generation->sequences[0].past.count, 0);
            for (size_t done = 0; done < TOKENS; done += 250)
                add(session, 0, ids + done, 250, limited + done * VOCABULARY);
            assert_memory_equal(limited, whole, sizeof whole);
            wisp_session_close(session);
        }
    /* Another session has its text still. */
    assert_int_equal(other->generation->sequences[0].past.count, TOKENS);
    wisp_session_close(other);
    wisp_model_close(model);
}

static void a_child_cannot_use_the_file(void **state) {
    static float logits[MOST_LOGITS];
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    int32_t ids[TOKENS];
    int status;
    (void)state;
    make_ids(ids, TOKENS, VOCABULARY);
    wisp_session *session = open_with(model, WISP_CACHE_F32, 1, block_bytes(model, WISP_CACHE_F32));
    add(session, 0, ids, 10, logits);
    const pid_t child = fork();
    if (child == 0) {
        wisp_error error;
        const wisp_generate_options options = {.max_tokens = 4};
        const wisp_request request = {.ids = ids, .n_ids = 300, .options = &options};
        _exit(wisp_generate_batch(session, &request, 1, 1, NULL, &error) != WISP_ERROR_UNSUPPORTED);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    add(session, 0, ids + 10, 300, logits);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void what_cannot_be_done_is_refused(void **state) {
    static float logits[MOST_LOGITS];
    static const int32_t ids[] = {1, 2, 3};
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    const size_t bytes = block_bytes(model, WISP_CACHE_F32);
    wisp_session *session = open_with(model, WISP_CACHE_F32, 1, 0);
    char least[32];
    wisp_error error;
    (void)state;
    assert_int_equal(wisp_session_limit_kv_memory(session, bytes - 1, folder, &error),
                     WISP_ERROR_ARGUMENT);
    snprintf(least, sizeof least, "block of %zu:", bytes);
    assert_non_null(strstr(error.message, least));
    assert_int_equal(wisp_session_limit_kv_memory(session, bytes, "no/such/folder", &error),
                     WISP_ERROR_IO);
    assert_int_equal(wisp_session_limit_kv_memory(session, bytes, folder, &error), WISP_OK);
    assert_int_equal(wisp_session_limit_kv_memory(session, bytes, folder, &error),
                     WISP_ERROR_ARGUMENT);
    wisp_session_close(session);
    session = open_with(model, WISP_CACHE_F32, 1, 0);
    add(session, 0, ids, 3, logits);
    assert_int_equal(wisp_session_limit_kv_memory(session, bytes, folder, &error),
                     WISP_ERROR_ARGUMENT);
    wisp_kv_stats stats;
    assert_false(wisp_session_get_kv_stats(session, &stats));
    wisp_session_close(session);
    wisp_model_close(model);

    model = open_model_or_fail("models/wisp-default.gguf", WISP_COMPUTE_AUTO, NULL);
    session = open_with(model, WISP_CACHE_F32, 1, 0);
    assert_int_equal(wisp_session_limit_kv_memory(session, 1000000, folder, &error),
                     WISP_ERROR_UNSUPPORTED);
    wisp_session_close(session);
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_limit_has_the_same_bits),
        cmocka_unit_test(policies_have_the_same_bits_at_any_limit),
        cmocka_unit_test(models_with_convolutions_have_limits),
        cmocka_unit_test(texts_copies_and_states_have_the_same_bits),
        cmocka_unit_test(rewound_texts_have_the_same_bits),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(faults_are_typed_errors),
        cmocka_unit_test(a_child_cannot_use_the_file),
        cmocka_unit_test(what_cannot_be_done_is_refused),
    };
    return cmocka_run_group_tests_name("kv_memory", tests, make_folder_of_files,
                                       tear_down_temporary_folder);
}
