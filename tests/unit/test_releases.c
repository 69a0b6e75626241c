/* SPDX-License-Identifier: Apache-2.0
 * Files that released versions wrote open, and give the embeddings that those versions computed.
 * tests/oracle/make_release_goldens.py writes them. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { ROW = 32, MOST_TEXTS = 8 };

/* Rows have length 1, and the first bounds are on the largest difference of their values. If
 * kernels or the mathematical functions of the C library round otherwise, floats differ a little,
 * an int8 value becomes its neighbour now and then, and a predictor near its threshold chooses
 * another neuron: the cosine bounds that. Files with Q4_0 layers have it too, since 0.1.0 rounded
 * those layers to int8 once more. Narrow products have other int8 values throughout, and the
 * low-rank predictor of a tiny model then chooses several other neurons. */
static const double MOST_DIFFERENCE = 1e-5, LEAST_COSINE = 0.995, LEAST_COSINE_NARROW = 0.98;

/* Says whether scalar kernels round as on the machine that wrote the goldens. */
#if defined(__x86_64__) && defined(__GLIBC__)
static const bool rounds_alike = true;
#else
static const bool rounds_alike = false;
#endif

struct release {
    char folder[512];
    struct arena arena;
    char *text;
    wisp_text *texts;
    size_t n;
};

static const char *text_of(const struct json *object, const char *key) {
    const struct json *value = json_get(object, key);
    assert_true(json_is(value, JSON_STRING));
    return value->text;
}

static void read_rows(const struct json *rows, float *values) {
    for (const struct json *row = rows->first; row; row = row->next) {
        assert_int_equal(row->count, ROW);
        for (const struct json *number = row->first; number; number = number->next) {
            double value;
            assert_true(json_to_double(number, &value));
            *values++ = (float)value;
        }
    }
}

static double largest_difference(const float *a, const float *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* Embeds with one set of kernels and compares with the rows of the release. */
static void check_mode(const struct release *r, const char *path, const struct json *mode,
                       const char *kernels) {
    float expected[MOST_TEXTS * ROW], rows[MOST_TEXTS * ROW];
    wisp_model_options options = {.kernels = kernels};
    wisp_model *model;
    wisp_error error;
    assert_true(wisp_compute_find(text_of(mode, "compute"), &options.compute));
    assert_true(wisp_predictor_find(text_of(mode, "predictor"), &options.predictor));
    const struct json *stored = json_get(mode, "rows");
    assert_int_equal(stored->count, r->n);
    read_rows(stored, expected);
    if (wisp_model_open(path, &options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session *session = open_session_or_fail(model, 1);
    if (wisp_embed(session, r->texts, r->n, NULL, rows, &error) != WISP_OK)
        fail_msg("%s", error.message);
    const bool f32 = options.compute == WISP_COMPUTE_F32;
    const bool same = rounds_alike && strcmp(kernels, "scalar") == 0 && !strstr(path, "q4_0");
    const double difference = largest_difference(rows, expected, r->n * ROW);
    double least = 1;
    for (size_t i = 0; i < r->n; i++)
        least = fmin(least, cosine(rows + i * ROW, expected + i * ROW, ROW));
    print_message("%s %s %s %s: differs by %.2g, least cosine %.6f\n", path,
                  text_of(mode, "compute"), text_of(mode, "predictor"), kernels, difference, least);
    const bool narrow = !f32 && !kernels_find(kernels)->gemm_int8;
    assert_true(least >= (narrow ? LEAST_COSINE_NARROW : LEAST_COSINE));
    if (f32 || same)
        assert_true(difference <= MOST_DIFFERENCE);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void check_release(const char *name) {
    char path[GOLDEN_PATH_BYTES], inside[512];
    struct release r = {.n = 0};
    snprintf(inside, sizeof inside, "releases/%s", name);
    snprintf(r.folder, sizeof r.folder, "%s", data_path(inside, path));
    snprintf(path, sizeof path, "%s/goldens.json", r.folder);
    const struct json *root = read_json_file(path, &r.arena, &r.text);
    r.texts = texts_of_json(json_get(root, "texts"), &r.n);
    assert_true(r.n > 0 && r.n <= MOST_TEXTS);
    const struct json *files = json_get(root, "files");
    assert_true(json_is(files, JSON_ARRAY) && files->count > 0);
    for (const struct json *file = files->first; file; file = file->next) {
        const char *kernels;
        snprintf(path, sizeof path, "%s/%s", r.folder, text_of(file, "file"));
        const struct json *modes = json_get(file, "modes");
        assert_true(json_is(modes, JSON_ARRAY) && modes->count > 0);
        for (const struct json *mode = modes->first; mode; mode = mode->next)
            for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++)
                check_mode(&r, path, mode, kernels);
    }
    free(r.texts);
    free(r.text);
    arena_release(&r.arena);
}

static void files_of_every_release_embed_as_they_did(void **state) {
    char path[GOLDEN_PATH_BYTES];
    size_t releases = 0;
    (void)state;
    DIR *folder = opendir(data_path("releases", path));
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') {
            check_release(entry->d_name);
            releases++;
        }
    closedir(folder);
    assert_true(releases > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_every_release_embed_as_they_did),
    };
    return cmocka_run_group_tests_name("releases", tests, NULL, NULL);
}
