/* SPDX-License-Identifier: Apache-2.0
 * The option `portable`: embeddings have the bits of tests/data/golden-portable.f32 with every
 * kernel set that runs here, on one thread and on two. tests/js/portable.test.mjs reads the same
 * file, and tests/oracle/make_portable_golden.sh wrote it with the scalar set. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

/* Rows are stored of the first TEXTS texts of golden-default.jsonl. */
enum { TEXTS = 12, ALL_TEXTS = 40, MOST_SIZE = 384 };

static const char default_model[] = "models/wisp-default.gguf";
static const char *const small_models[] = {"models/cls12",      "models/mean-shards",
                                           "models/prompted",   "models/nomic",
                                           "models/deberta-v3", "models/deberta-v2"};

struct fixture {
    wisp_text texts[ALL_TEXTS];
    float *rows; /* of the default model, then of small_models: [TEXTS, dimensions] each */
    size_t count;
    char *lines;
    struct arena arena;
};

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    char path[GOLDEN_PATH_BYTES];
    wisp_error error;
    assert_non_null(f);
    f->rows = read_floats(data_path("golden-portable.f32", path), &f->count);
    f->lines = read_file(data_path("golden-default.jsonl", path), NULL);
    char *line = f->lines;
    for (size_t i = 0; i < ALL_TEXTS; i++) {
        char *end = strchr(line, '\n');
        const struct json *root;
        assert_non_null(end);
        if (json_parse(&f->arena, line, (size_t)(end - line), path, &root, &error) != WISP_OK)
            fail_msg("%s", error.message);
        const struct json *text = json_get(root, "text");
        assert_true(json_is(text, JSON_STRING));
        f->texts[i] = (wisp_text){text->text, text->text_length};
        line = end + 1;
    }
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    arena_release(&f->arena);
    free(f->lines);
    free(f->rows);
    free(f);
    return 0;
}

/* Embeds n texts. Returns the number of values of a row. */
static size_t embed(const char *path, const wisp_text *texts, size_t n, const char *kernels,
                    uint32_t threads, float *rows) {
    const wisp_model_options options = {.kernels = kernels, .portable = true};
    wisp_model *model;
    wisp_error error;
    if (wisp_model_open(path, &options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session *session = open_session_or_fail(model, threads);
    const size_t size = wisp_model_dimensions(model);
    assert_true(size <= MOST_SIZE);
    if (wisp_embed(session, texts, n, NULL, rows, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session_close(session);
    wisp_model_close(model);
    return size;
}

static void every_kernel_set_gives_the_stored_bits(void **state) {
    const struct fixture *f = *state;
    static float rows[TEXTS * MOST_SIZE];
    const char *kernels;
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++) {
        char path[GOLDEN_PATH_BYTES];
        const size_t n = strcmp(kernels, "scalar") == 0 ? 3 : TEXTS; /* it is slow */
        for (uint32_t threads = 1; threads <= 2; threads++) {
            assert_int_equal(embed(default_model, f->texts, n, kernels, threads, rows), MOST_SIZE);
            if (memcmp(rows, f->rows, n * MOST_SIZE * sizeof *rows) != 0)
                fail_msg("%s on %u threads: other bits with the default model", kernels, threads);
        }
        const float *expected = f->rows + TEXTS * MOST_SIZE;
        for (size_t m = 0; m < sizeof small_models / sizeof *small_models; m++) {
            const size_t size =
                embed(data_path(small_models[m], path), f->texts, TEXTS, kernels, 1, rows);
            if (memcmp(rows, expected, TEXTS * size * sizeof *rows) != 0)
                fail_msg("%s: other bits with %s", kernels, small_models[m]);
            expected += TEXTS * size;
        }
        assert_ptr_equal(expected, f->rows + f->count);
    }
}

/* Embeds n texts with the fastest set, and compares their rows of MOST_SIZE with PyTorch's. */
static void check_accuracy(const char *path, const wisp_text *texts, size_t n,
                           const char *expected_path) {
    size_t count;
    float *expected = read_floats(expected_path, &count), *rows = calloc(count, sizeof *rows);
    double mean = 0, least = 1;
    assert_int_equal(count, n * MOST_SIZE);
    embed(path, texts, n, NULL, 2, rows);
    for (size_t i = 0; i < n; i++) {
        const double c = cosine(rows + i * MOST_SIZE, expected + i * MOST_SIZE, MOST_SIZE);
        mean += c / (double)n;
        least = fmin(least, c);
    }
    print_message("%s: mean %.6f, least %.6f\n", path, mean, least);
    assert_true(mean >= 0.999 && least >= 0.995);
    free(rows);
    free(expected);
}

static void they_are_close_to_pytorch(void **state) {
    const struct fixture *f = *state;
    char path[GOLDEN_PATH_BYTES];
    check_accuracy(default_model, f->texts, ALL_TEXTS, data_path("golden-default.f32", path));
}

static void expect_refused(const char *path, const wisp_model_options *options) {
    wisp_model *model;
    wisp_error error;
    assert_int_equal(wisp_model_open(path, options, &model, &error), WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "portable");
    assert_null(model);
}

static void what_is_not_portable_is_refused(void **state) {
    (void)state;
    const wisp_model_options f32 = {.portable = true, .compute = WISP_COMPUTE_F32};
    const wisp_model_options sparse = {.portable = true, .predictor = WISP_PREDICTOR_EXACT};
    const wisp_model_options plain = {.portable = true};
    expect_refused(default_model, &f32);
    expect_refused(default_model, &sparse);
    expect_refused("models/wisp-stories.gguf", &plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_set_gives_the_stored_bits),
        cmocka_unit_test(they_are_close_to_pytorch),
        cmocka_unit_test(what_is_not_portable_is_refused),
    };
    return cmocka_run_group_tests_name("portable", tests, set_up, tear_down);
}
