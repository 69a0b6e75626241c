/* SPDX-License-Identifier: Apache-2.0 */
#include "support/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "kernels/kernels.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char *joined(const char *variable, const char *fallback, const char *name,
                          char path[GOLDEN_PATH_BYTES]) {
    const char *folder = getenv(variable);
    snprintf(path, GOLDEN_PATH_BYTES, "%s/%s", folder ? folder : fallback, name);
    return path;
}

const char *shared_path(const char *name, char path[GOLDEN_PATH_BYTES]) {
    return joined("WISP_SHARED", "../shared", name, path);
}

const char *data_path(const char *name, char path[GOLDEN_PATH_BYTES]) {
    return joined("WISP_TEST_DATA", "tests/data", name, path);
}

bool shared_is_there(void) {
    char path[GOLDEN_PATH_BYTES];
    struct stat info;
    if (stat(shared_path("models", path), &info) == 0)
        return true;
    if (getenv("CI"))
        fail_msg("%s is missing, and CI skips nothing", path);
    printf("skipped: %s is not there (set WISP_SHARED)\n", path);
    return false;
}

void *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s", path);
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
    fclose(file);
    bytes[size] = '\0';
    if (length)
        *length = (size_t)size;
    return bytes;
}

void expect_same_files(const char *a, const char *b) {
    size_t sizes[2];
    char *bytes[2] = {read_file(a, &sizes[0]), read_file(b, &sizes[1])};
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    free(bytes[0]);
    free(bytes[1]);
}

float *read_floats(const char *path, size_t *count) {
    size_t length;
    float *values = read_file(path, &length);
    assert_int_equal(length % sizeof *values, 0);
    *count = length / sizeof *values;
    swap_file_numbers(values, *count, sizeof *values);
    return values;
}

const struct json *read_json_file(const char *path, struct arena *arena, char **text) {
    size_t length;
    wisp_error error;
    const struct json *root = NULL;
    *text = read_file(path, &length);
    if (json_parse(arena, *text, length, path, &root, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return root;
}

wisp_text *texts_of_json(const struct json *array, size_t *n) {
    wisp_text *texts = calloc(array->count + 1, sizeof *texts);
    assert_non_null(texts);
    *n = 0;
    for (const struct json *item = array->first; item; item = item->next) {
        assert_true(json_is(item, JSON_STRING));
        texts[(*n)++] = (wisp_text){item->text, item->text_length};
    }
    return texts;
}

wisp_model *open_model_or_fail(const char *path, wisp_compute compute, const char *kernels) {
    const wisp_model_options options = {.compute = compute, .kernels = kernels};
    wisp_model *model = NULL;
    wisp_error error = {0};
    if (wisp_model_open(path, &options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return model;
}

bool computes_bf16(const char *kernels) {
    const struct bf16_kernels *bf16 = kernels_find(kernels)->bf16;
    return bf16 && bf16->runs();
}

const char *compute_of_floats(void) {
    const struct kernels *set = kernels_find(NULL);
    return computes_bf16(set->name) && set->bf16->fastest ? "bf16" : "f32";
}

void convert_data_or_fail(const char *name, const wisp_convert_options *options, char *file) {
    char path[GOLDEN_PATH_BYTES];
    wisp_error error;
    close(mkstemp(file));
    if (wisp_convert(data_path(name, path), file, options, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

/* Checks the model of a folder, opened from `file` if that is not NULL. */
static void check_golden(const struct golden_check *check, const char *folder, const char *file) {
    char path[GOLDEN_PATH_BYTES], name[256];
    struct arena arena = {0};
    char *text;
    snprintf(name, sizeof name, "%s/golden.json", folder);
    const struct json *golden = read_json_file(data_path(name, path), &arena, &text);
    const char *opened = file ? file : data_path(folder, path), *kernels;
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++) {
        const double f32 = check->worst(opened, golden, WISP_COMPUTE_F32, kernels);
        const double int8 = check->worst(opened, golden, WISP_COMPUTE_INT8, kernels);
        print_message("%s, %s: error f32 %.2g, int8 %.2g\n", folder, kernels, f32, int8);
        assert_true(f32 <= check->f32);
        assert_true(int8 <= check->int8);
    }
    free(text);
    arena_release(&arena);
}

void check_golden_folders(const struct golden_check *check, const char *const *models, size_t n) {
    for (size_t i = 0; i < n; i++)
        check_golden(check, models[i], NULL);
}

void check_golden_files(const struct golden_check *check, const char *const *models, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char file[] = "/tmp/wisp-test-XXXXXX";
        convert_data_or_fail(models[i], NULL, file);
        check_golden(check, models[i], file);
        unlink(file);
    }
}

wisp_session *open_session_or_fail(const wisp_model *model, uint32_t threads) {
    const wisp_session_options options = {.threads = threads};
    wisp_session *session = NULL;
    wisp_error error = {0};
    if (wisp_session_open(model, &options, &session, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return session;
}

double cosine(const float *a, const float *b, size_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}
