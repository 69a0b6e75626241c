/* SPDX-License-Identifier: Apache-2.0
 * Cold neurons that are read from the file of a model when texts need them: within a budget of
 * memory, and from files that change. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/neurons_read.h"
#include "host/discard.h"
#include "support/cold_split.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { PATH_BYTES = 256 };

/* More memory than any model of these tests takes. */
static const uint64_t MUCH = 1 << 30;

static wisp_model *open_file(const char *path, bool hot_only, uint64_t memory) {
    const wisp_model_options options = {
        .hot_only = hot_only, .memory = memory, .predictor = WISP_PREDICTOR_LOWRANK};
    wisp_model *model;
    wisp_error error;
    if (wisp_model_open(path, &options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return model;
}

/* Embeds texts with all neurons in memory. */
static void embed_with_all(const char *path, const wisp_text *texts, size_t n, float *rows) {
    wisp_model *model = open_file(path, false, 0);
    wisp_session *session = open_session_or_fail(model, 1);
    embed_or_fail(session, texts, n, rows);
    wisp_session_close(session);
    wisp_model_close(model);
}

static uint64_t resident_bytes_of(const wisp_model *model) {
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    return info.resident_bytes;
}

static void memory_is_limited_and_bits_stay(void **state) {
    static float wanted[TEXTS * HIDDEN], rows[TEXTS * HIDDEN];
    struct texts texts;
    char path[PATH_BYTES];
    wisp_error error;
    (void)state;
    make_texts(&texts);
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        snprintf(path, sizeof path, "%s",
                 cold_model("rows.gguf", activations[a], false, BLOCK_Q8_0));
        wisp_model *whole = open_file(path, false, 0);
        wisp_session *reference = open_session_or_fail(whole, 1);
        assert_int_equal(wisp_embed_from_file(reference, texts.text, TEXTS, NULL, wanted, &error),
                         WISP_OK);
        wisp_model *hot = open_file(path, true, 0);
        const uint64_t cold = cold_stats_of(hot).cold_bytes;
        assert_true(resident_bytes_of(hot) + cold <= resident_bytes_of(whole) + cold / 2);
        const uint64_t least = cold_stats_of(hot).least_memory;
        wisp_model_close(hot);
        for (uint32_t i = 0; i < 8; i++) {
            const uint64_t parts[] = {0, cold, cold / 2, 1};
            wisp_model *model = open_file(path, true, i / 2 == 0 ? 0 : least + parts[i / 2] - 1);
            const uint64_t before = resident_bytes_of(model);
            assert_true(i / 2 == 0 || before <= least + parts[i / 2] - 1);
            wisp_session *session = open_session_or_fail(model, i % 2 ? 4 : 1);
            for (int round = 0; round < 2; round++) {
                memset(rows, 0, sizeof rows);
                if (wisp_embed_from_file(session, texts.text, TEXTS, NULL, rows, &error) != WISP_OK)
                    fail_msg("%s", error.message);
                assert_memory_equal(rows, wanted, sizeof rows);
            }
            const wisp_cold_stats stats = cold_stats_of(model);
            assert_true(stats.misses > 0 && stats.ranges > 0 && stats.rows > 0);
            assert_true(stats.range_bytes > 0 && stats.hot_neurons < stats.neurons);
            assert_int_equal(resident_bytes_of(model), before + stats.warm_bytes);
            if (i < 2)
                assert_true(stats.hits > 0 && stats.evictions == 0);
            if (i >= 4) { /* what is left fits, but for groups in which hot neurons stand */
                const uint64_t of_one = cold / (stats.neurons - stats.hot_neurons);
                assert_true(stats.evictions > 0);
                assert_true(stats.warm_bytes <= stats.budget + COLD_LAYERS * 64 * of_one);
            }
            wisp_session_close(session);
            wisp_model_close(model);
        }
        /* The limit may also be set later, but not of a model with all of its neurons. */
        wisp_model *model = open_file(path, true, 0);
        assert_int_equal(wisp_model_limit_memory(model, cold_stats_of(model).least_memory, &error),
                         WISP_OK);
        assert_int_equal(cold_stats_of(model).budget, 0);
        wisp_model_close(model);
        assert_int_equal(wisp_model_limit_memory(whole, MUCH, &error), WISP_ERROR_ARGUMENT);
        assert_int_equal(wisp_model_limit_memory(NULL, MUCH, &error), WISP_ERROR_ARGUMENT);
        wisp_session_close(reference);
        wisp_model_close(whole);
    }
}

/* Groups that are used often stay, also if a pass needs more than the budget holds: a cache that
 * evicts what was used longest ago would hit nothing. */
static void a_small_budget_still_hits(void **state) {
    static float rows[TEXTS * HIDDEN];
    struct texts texts;
    char path[PATH_BYTES];
    wisp_error error;
    (void)state;
    make_texts(&texts);
    snprintf(path, sizeof path, "%s", cold_model("rows.gguf", "relu", false, BLOCK_Q8_0));
    wisp_model *hot = open_file(path, true, 0);
    const uint64_t budget =
        cold_stats_of(hot).least_memory + cold_stats_of(hot).cold_bytes * 6 / 10;
    wisp_model_close(hot);
    wisp_model *model = open_file(path, true, budget);
    wisp_session *session = open_session_or_fail(model, 1);
    for (int round = 0; round < 4; round++)
        assert_int_equal(wisp_embed_from_file(session, texts.text, TEXTS, NULL, rows, &error),
                         WISP_OK);
    const wisp_cold_stats stats = cold_stats_of(model);
    assert_true(stats.evictions > 0 && 5 * stats.hits > stats.misses);
    wisp_session_close(session);
    wisp_model_close(model);
}

/* ---- files that change ---------------------------------------------------------------------- */

static void expect_failure(wisp_session *session, const char *path, const char *says) {
    const wisp_text text = {"the man is eat food", 19};
    float row[HIDDEN];
    wisp_error error;
    assert_int_equal(wisp_embed_from_file(session, &text, 1, NULL, row, &error), WISP_ERROR_IO);
    assert_string_equal(error.file, path);
    if (!strstr(error.message, says))
        fail_msg("%s: it does not say: %s", error.message, says);
    assert_int_equal(wisp_embed_continue(session, &error), WISP_ERROR_ARGUMENT); /* given up */
}

static void files_that_change_are_noticed(void **state) {
    static const struct timespec long_ago[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    const wisp_text text = {"the man is eat food", 19};
    char path[PATH_BYTES], other[PATH_BYTES], says[128];
    float wanted[HIDDEN], row[HIDDEN];
    size_t size;
    wisp_error error;
    (void)state;
    snprintf(path, sizeof path, "%s", cold_model("rows.gguf", "gelu", false, BLOCK_Q8_0));
    snprintf(other, sizeof other, "%s", temporary_path("other.gguf"));
    unsigned char *bytes = read_file(path, &size);
    embed_with_all(path, &text, 1, wanted);

    /* The file is truncated, after and before it is opened. */
    wisp_model *model = open_file(path, true, 0);
    const uint64_t cold = neurons_find_rows(&model->dir, 0)->stored[COLD_ROWS].offset;
    wisp_session *session = open_session_or_fail(model, 2);
    assert_int_equal(truncate(path, (off_t)cold + 1), 0);
    snprintf(says, sizeof says,
             "are missing: the file has become shorter since it was opened, and "
             "ends at byte %llu",
             (unsigned long long)cold + 1);
    expect_failure(session, path, says);
    const wisp_model_options hot_only = {.hot_only = true};
    wisp_model *none;
    assert_int_equal(wisp_model_open(path, &hot_only, &none, &error), WISP_ERROR_FORMAT);
    snprintf(says, sizeof says, "past the end of the file at %llu", (unsigned long long)cold + 1);
    assert_non_null(strstr(error.message, says));
    wisp_session_close(session);
    wisp_model_close(model);

    /* The file is written to, and its bytes stay the same. */
    write_file(path, bytes, size);
    model = open_file(path, true, 0);
    session = open_session_or_fail(model, 1);
    write_file(path, bytes, size);
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    expect_failure(session, path, "the file changed after it was opened");
    wisp_session_close(session);
    wisp_model_close(model);

    /* Another file takes its name: the model keeps its own. */
    model = open_file(path, true, 0);
    session = open_session_or_fail(model, 1);
    write_file(other, "other", 5);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(wisp_embed_from_file(session, &text, 1, NULL, row, &error), WISP_OK);
    assert_memory_equal(row, wanted, sizeof row);
    wisp_session_close(session);
    wisp_model_close(model);

    /* A model that was read into memory has no file to read from. */
    write_file(path, bytes, size);
    const wisp_model_options in_memory = {.hot_only = true, .in_memory = true};
    assert_int_equal(wisp_model_open(path, &in_memory, &model, &error), WISP_OK);
    session = open_session_or_fail(model, 1);
    assert_int_equal(wisp_embed_from_file(session, &text, 1, NULL, row, &error),
                     WISP_ERROR_ARGUMENT);
    wisp_session_close(session);
    wisp_model_close(model);
    free(bytes);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void whole_pages_are_given_back(void **state) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *block = aligned_alloc(page, 4 * page);
    (void)state;
    assert_non_null(block);
    memset(block, 7, 4 * page);
    discard_pages(block + 1, 3 * page);        /* pages 1 and 2 */
    discard_pages(block + 3 * page, page - 1); /* no whole page */
    discard_pages(block + 3 * page + 1, 2);
    assert_int_equal(block[page - 1], 7);
    assert_int_equal(block[3 * page], 7);
    assert_int_equal(block[4 * page - 1], 7);
#ifdef __linux__ /* where pages that were given back are zeros */
    for (size_t i = page; i < 3 * page; i++)
        assert_int_equal(block[i], 0);
#endif
    free(block);
}

/* ---- the choice of hot neurons -------------------------------------------------------------- */

static void hot_neurons_are_chosen(void **state) {
    char plain[PATH_BYTES], calibrated[PATH_BYTES], rows[PATH_BYTES], restored[PATH_BYTES];
    char canonical[PATH_BYTES];
    uint64_t before = 0;
    wisp_error error;
    (void)state;
    snprintf(plain, sizeof plain, "%s", tiny_model("tiny.gguf", "gelu"));
    snprintf(calibrated, sizeof calibrated, "%s", temporary_path("calibrated.gguf"));
    snprintf(rows, sizeof rows, "%s", temporary_path("chosen.gguf"));
    snprintf(restored, sizeof restored, "%s", temporary_path("restored.gguf"));
    snprintf(canonical, sizeof canonical, "%s", temporary_path("canonical.gguf"));
    assert_int_equal(wisp_convert(plain, canonical, NULL, &error), WISP_OK);
    calibrate_or_fail(plain, calibrated, 1);
    for (size_t i = 0; i < 6; i++) {
        static const float shares[] = {0.25f, 0.75f, 1};
        static const uint64_t bytes[] = {0, 1, 2000, 1 << 20};
        const wisp_convert_options options = {.hot = i < 3 ? shares[i] : 0,
                                              .hot_bytes = i < 3 ? 0 : bytes[i - 2]},
                                   to_plain = {.plain = true};
        assert_int_equal(wisp_convert(calibrated, rows, &options, &error), WISP_OK);
        wisp_model *model = open_file(rows, i < 3, 0);
        const struct neuron_rows *layer[] = {neurons_find_rows(&model->dir, 0),
                                             neurons_find_rows(&model->dir, 1)};
        const uint64_t hot = layer[0]->stored[HOT_ROWS].bytes + layer[1]->stored[HOT_ROWS].bytes;
        const uint64_t all = 2 * layer[0]->shape.intermediate_size * layer[0]->shape.row_bytes;
        if (i == 2 || i == 5)
            assert_true(i == 5 ? hot == all : hot > before);
        else if (i < 3)
            assert_true(hot > before && hot < all);
        else /* all that there is room for */
            assert_true(hot <= bytes[i - 2] && hot + layer[0]->shape.row_bytes > bytes[i - 2]);
        before = hot;
        wisp_model_close(model);
        size_t size, as_before;
        assert_int_equal(wisp_convert(rows, restored, &to_plain, &error), WISP_OK);
        void *a = read_file(canonical, &as_before), *b = read_file(restored, &size);
        assert_int_equal(size, as_before);
        assert_memory_equal(a, b, size);
        free(a);
        free(b);
    }
    const wisp_convert_options both = {.hot = 0.5f, .hot_bytes = 5}, much = {.hot = 1.5f},
                               none = {.hot = 0.5f, .plain = true}, some = {.hot = 0.5f};
    assert_int_equal(wisp_convert(calibrated, rows, &both, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_convert(calibrated, rows, &much, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_convert(calibrated, rows, &none, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_convert(plain, rows, &some, &error), WISP_ERROR_NOT_FOUND);
    assert_string_equal(error.field, "wisp.sparse.order");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_limited_and_bits_stay),
        cmocka_unit_test(a_small_budget_still_hits),
        cmocka_unit_test(files_that_change_are_noticed),
        cmocka_unit_test(whole_pages_are_given_back),
        cmocka_unit_test(hot_neurons_are_chosen),
    };
    return cmocka_run_group_tests_name("cold neurons from a file", tests, NULL,
                                       tear_down_temporary_folder);
}
