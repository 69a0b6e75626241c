/* SPDX-License-Identifier: Apache-2.0
 * Wrong arguments of the public API: NULL if something is required, values that an enumeration
 * does not have, and numbers out of range give WISP_ERROR_ARGUMENT that names the argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static wisp_error error;

static void expect_refused(wisp_status status, const char *argument) {
    assert_int_equal(status, WISP_ERROR_ARGUMENT);
    assert_int_equal(error.status, WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, argument);
    error = (wisp_error){0};
}

static void enumerations_out_of_range(void **state) {
    (void)state;
    static const int wrong[] = {-1, 4, 77, INT32_MIN, INT32_MAX};
    const char *path = tiny_model("enumerations.gguf", "gelu");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const wisp_model_options compute = {.compute = (wisp_compute)wrong[i]};
        const wisp_model_options predictor = {.predictor =
                                                  (wisp_predictor)(wrong[i] == 4 ? 7 : wrong[i])};
        wisp_model *model;
        expect_refused(wisp_model_open(path, &compute, &model, &error), "compute");
        assert_null(model);
        expect_refused(wisp_model_open(path, &predictor, &model, &error), "predictor");
        assert_null(model);
        assert_null(wisp_compute_name((size_t)wrong[i]));
        assert_string_equal(wisp_status_name((wisp_status)(wrong[i] == 4 ? 9 : wrong[i])),
                            "unknown");
    }
    assert_null(wisp_predictor_name(7));
    assert_null(wisp_predictor_name(SIZE_MAX));
    assert_null(wisp_stage_name(SIZE_MAX));
}

static void models_and_files_of_null(void **state) {
    (void)state;
    const char *path = tiny_model("null.gguf", "gelu");
    const wisp_source neither = {.size = 10, .name = "neither"};
    wisp_model *model;
    wisp_file *file;
    float values[TINY_TOKENS * HIDDEN];
    size_t n;
    expect_refused(wisp_model_open(NULL, NULL, &model, &error), "path");
    assert_null(model);
    expect_refused(wisp_model_open(path, NULL, NULL, &error), "model");
    expect_refused(wisp_model_open_parts(NULL, 1, NULL, &model, &error), "paths");
    expect_refused(wisp_model_open_parts(&(const char *){NULL}, 1, NULL, &model, &error), "paths");
    expect_refused(wisp_model_open_parts(&(const char *){"m"}, 0, NULL, &model, &error), "n");
    expect_refused(wisp_model_open_parts(&(const char *){"m"}, 1, NULL, NULL, &error), "model");
    expect_refused(wisp_model_open_source(NULL, NULL, &model, &error), "source");
    assert_null(model);
    expect_refused(wisp_model_open_source(&neither, NULL, NULL, &error), "model");
    assert_int_equal(wisp_model_open_source(&neither, NULL, &model, &error), WISP_ERROR_ARGUMENT);
    expect_refused(wisp_file_open(NULL, &file, &error), "path");
    assert_null(file);
    expect_refused(wisp_file_open(path, NULL, &error), "file");
    assert_int_equal(wisp_file_open(path, &file, &error), WISP_OK);
    expect_refused(wisp_file_read_tensor(NULL, 0, values, &error), "file");
    expect_refused(wisp_file_read_tensor(file, 0, NULL, &error), "values");
    expect_refused(wisp_file_read_part(NULL, 0, 0, values, 1, &error), "file");
    expect_refused(wisp_file_read_part(file, 0, 0, NULL, 1, &error), "buffer");
    assert_int_equal(wisp_file_read_part(file, 0, 0, NULL, 0, &error), WISP_OK);
    expect_refused(wisp_file_get_neurons(NULL, &n, &n, &error), "file");
    expect_refused(wisp_file_get_neurons(file, NULL, &n, &error), "layers");
    expect_refused(wisp_file_get_neurons(file, &n, NULL, &error), "neurons");
    expect_refused(wisp_file_read_frequencies(NULL, 0, values, &error), "file");
    expect_refused(wisp_file_read_frequencies(file, 0, NULL, &error), "frequencies");
    wisp_file_close(file);
    wisp_file_close(NULL);
}

static void sessions_of_null(void **state) {
    (void)state;
    const wisp_text none = {NULL, 5}, empty = {NULL, 0}, texts[] = {wisp_text_of("a"), none};
    float rows[2 * HIDDEN];
    int32_t ids[8];
    size_t count;
    wisp_session *session;
    wisp_model *model =
        open_model_or_fail(tiny_model("session.gguf", "gelu"), WISP_COMPUTE_AUTO, NULL);
    expect_refused(wisp_session_open(NULL, NULL, &session, &error), "model");
    assert_null(session);
    expect_refused(wisp_session_open(model, NULL, NULL, &error), "session");
    session = open_session_or_fail(model, 1);
    expect_refused(wisp_embed(NULL, texts, 1, NULL, rows, &error), "session");
    expect_refused(wisp_embed(session, NULL, 1, NULL, rows, &error), "texts");
    expect_refused(wisp_embed(session, texts, 1, NULL, NULL, &error), "rows");
    expect_refused(wisp_embed(session, texts, 2, NULL, rows, &error), "texts");
    assert_int_equal(wisp_embed(session, &empty, 1, NULL, rows, &error), WISP_OK);
    assert_int_equal(wisp_embed(session, NULL, 0, NULL, NULL, &error), WISP_OK);
    expect_refused(wisp_tokenize(NULL, texts[0], ids, 8, &count, &error), "model");
    expect_refused(wisp_tokenize(model, texts[0], NULL, 8, &count, &error), "ids");
    expect_refused(wisp_tokenize(model, texts[0], ids, 8, NULL, &error), "count");
    expect_refused(wisp_tokenize(model, none, ids, 8, &count, &error), "texts");
    assert_int_equal(wisp_tokenize(model, empty, NULL, 0, &count, &error), WISP_OK);
    expect_refused(wisp_count_tokens(NULL, texts[0], &count, &error), "model");
    expect_refused(wisp_count_tokens(model, texts[0], NULL, &error), "count");
    expect_refused(wisp_count_tokens(model, none, &count, &error), "texts");
    assert_int_equal(wisp_count_tokens(model, empty, &count, &error), WISP_OK);
    expect_refused(wisp_session_set_sparsity(NULL, 0.5f, &error), "session");
    expect_refused(wisp_session_write_trace(NULL, "x", &error), "session");
    expect_refused(wisp_session_write_trace(session, NULL, &error), "path");
    wisp_session_close(session);
    wisp_model_close(model);
}

static void conversion_and_calibration(void **state) {
    (void)state;
    const char *path = tiny_model("calibrated.gguf", "gelu");
    const char *output = temporary_path("refused.gguf");
    const wisp_text texts[] = {{NULL, 1}};
    const wisp_calibrate_options threads = {.threads = 1025}, most = {.threads = UINT32_MAX};
    expect_refused(wisp_convert(NULL, output, NULL, &error), "input");
    expect_refused(wisp_convert(path, NULL, NULL, &error), "output");
    expect_refused(wisp_calibrate(NULL, output, NULL, 0, NULL, &error), "input");
    expect_refused(wisp_calibrate(path, NULL, NULL, 0, NULL, &error), "output");
    expect_refused(wisp_calibrate(path, output, NULL, 1, NULL, &error), "texts");
    expect_refused(wisp_calibrate(path, output, texts, 1, NULL, &error), "texts");
    expect_refused(wisp_calibrate(path, output, NULL, 0, &threads, &error), "threads");
    expect_refused(wisp_calibrate(path, output, NULL, 0, &most, &error), "threads");
}

static void names_of_null(void **state) {
    (void)state;
    wisp_compute compute = WISP_COMPUTE_F32;
    wisp_predictor predictor = WISP_PREDICTOR_DENSE;
    assert_false(wisp_compute_find(NULL, &compute));
    assert_false(wisp_predictor_find(NULL, &predictor));
    assert_int_equal(compute, WISP_COMPUTE_F32);
    assert_int_equal(predictor, WISP_PREDICTOR_DENSE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enumerations_out_of_range),  cmocka_unit_test(models_and_files_of_null),
        cmocka_unit_test(sessions_of_null),           cmocka_unit_test(names_of_null),
        cmocka_unit_test(conversion_and_calibration),
    };
    return cmocka_run_group_tests_name("arguments", tests, NULL, tear_down_temporary_folder);
}
