/* SPDX-License-Identifier: Apache-2.0
 * Files of open models that other programs truncate, overwrite, rename or replace: the process
 * survives, and every embedding is that of the model that was opened, or an error. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "host/input_file.h"
#include "support/folder.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const wisp_text food = {"the man is eat food", 19}, play = {"red guit play", 13};

/* A time of modification that no file gets by being written now. */
static const struct timespec long_ago[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};

static void set_times(const char *path) {
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
}

/* Writes bytes into a file that exists, without changing its length. */
static void overwrite(const char *path, uint64_t offset, const void *bytes, size_t n) {
    const int file = open(path, O_WRONLY);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, bytes, n, (off_t)offset), n);
    close(file);
}

/* Returns where the stored embedding of a token begins in the file. */
static uint64_t place_of_token(const char *path, uint64_t token) {
    wisp_file *file;
    wisp_error error;
    wisp_tensor tensor;
    uint64_t place = 0;
    assert_int_equal(wisp_file_open(path, &file, &error), WISP_OK);
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++)
        if (strcmp(tensor.name, "token_embd.weight") == 0)
            place = tensor.offset + token * tensor.bytes / tensor.shape[0];
    assert_true(place > 0);
    wisp_file_close(file);
    return place;
}

static uint64_t token_of(const char *word) {
    uint64_t token = 0;
    while (strcmp(tiny_tokens[token], word) != 0)
        token++;
    return token;
}

static wisp_model *open_path_or_fail(const char *path, bool in_memory) {
    const wisp_model_options options = {.in_memory = in_memory};
    wisp_model *model;
    wisp_error error;
    if (wisp_model_open(path, &options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return model;
}

/* Embeds with a new session, which has kept no rows. Returns the row, for the caller to free. */
static float *embed_anew(const wisp_model *model, wisp_text text) {
    float *row = malloc(wisp_model_dimensions(model) * sizeof *row);
    wisp_session *session = open_session_or_fail(model, 1);
    assert_non_null(row);
    embed_or_fail(session, &text, 1, row);
    wisp_session_close(session);
    return row;
}

static void expect_row(const wisp_model *model, wisp_text text, const float *wanted) {
    float *row = embed_anew(model, text);
    assert_memory_equal(row, wanted, wisp_model_dimensions(model) * sizeof *row);
    free(row);
}

static void expect_changed(const wisp_model *model, wisp_text text, const char *path) {
    float *row = malloc(wisp_model_dimensions(model) * sizeof *row);
    wisp_session *session = open_session_or_fail(model, 2);
    wisp_error error;
    assert_non_null(row);
    assert_int_equal(wisp_embed(session, &text, 1, NULL, row, &error), WISP_ERROR_IO);
    assert_string_equal(error.file, path);
    assert_string_equal(error.field, "token_embd.weight");
    assert_non_null(strstr(error.message, "the file changed after it was opened"));
    wisp_session_close(session);
    free(row);
}

/* `file` holds the weights of the model at `path`. */
static void check_truncation(const char *path, const char *file) {
    size_t size;
    void *bytes = read_file(file, &size);
    wisp_model *model = open_path_or_fail(path, false);
    float *row = embed_anew(model, food);
    assert_int_equal(truncate(file, 0), 0);
    expect_changed(model, food, file);
    assert_int_equal(truncate(file, (off_t)size), 0); /* now full of zeros */
    expect_changed(model, food, file);
    overwrite(file, 0, bytes, size);
    expect_row(model, food, row);
    free(row);
    wisp_model_close(model);
    free(bytes);
}

static void truncation_is_an_error(void **state) {
    (void)state;
    struct folder folder;
    const char *path = tiny_model("cut.gguf", "gelu");
    check_truncation(path, path);
    char weights[512];
    folder_make(&folder, &tiny_shape);
    folder_write(&folder, temporary_path("cut"));
    folder_release(&folder);
    snprintf(weights, sizeof weights, "%s/model.safetensors", temporary_path("cut"));
    check_truncation(temporary_path("cut"), weights);
}

/* A session that has read the rows of a text's tokens needs the file no more for that text. */
static void kept_rows_stay_right(void **state) {
    (void)state;
    const char *path = tiny_model("kept.gguf", "gelu");
    wisp_model *model = open_path_or_fail(path, false);
    wisp_session *session = open_session_or_fail(model, 1);
    wisp_error error;
    float before[HIDDEN], after[HIDDEN];
    embed_or_fail(session, &food, 1, before);
    assert_int_equal(truncate(path, 100), 0);
    embed_or_fail(session, &food, 1, after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(wisp_embed(session, &play, 1, NULL, after, &error), WISP_ERROR_IO);
    embed_or_fail(session, &food, 1, after);
    assert_memory_equal(before, after, sizeof before);
    wisp_session_close(session);
    wisp_model_close(model);
}

/* The size and the time of modification stay, as some programs that copy files leave them. */
static void overwriting_is_an_error(void **state) {
    (void)state;
    const char *path = tiny_model("over.gguf", "gelu");
    const uint64_t at = place_of_token(path, token_of("food"));
    set_times(path);
    wisp_model *model = open_path_or_fail(path, false);
    float *eating = embed_anew(model, food), *playing = embed_anew(model, play);
    size_t size;
    unsigned char *bytes = read_file(path, &size);
    bytes[at] ^= 1;
    overwrite(path, 0, bytes, size);
    set_times(path);
    expect_changed(model, food, path);
    expect_row(model, play, playing);
    bytes[at] ^= 1;
    overwrite(path, 0, bytes, size);
    expect_row(model, food, eating);
    free(bytes);
    free(eating);
    free(playing);
    wisp_model_close(model);
}

/* A new file under the old one's name, and another mode, are not changes of the open file. */
static void replacing_changes_nothing(void **state) {
    (void)state;
    const char *path = tiny_model("first.gguf", "gelu"), *other = tiny_model("other.gguf", "relu");
    wisp_model *model = open_path_or_fail(path, false);
    float *row = embed_anew(model, food);
    assert_int_equal(chmod(path, 0600), 0);
    expect_row(model, food, row);
    assert_int_equal(rename(other, path), 0);
    expect_row(model, food, row);
    assert_int_equal(unlink(path), 0);
    expect_row(model, food, row);
    free(row);
    wisp_model_close(model);
}

static size_t open_files(void) {
    size_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static void in_memory_needs_no_file(void **state) {
    (void)state;
    wisp_model_info file_info, memory_info;
    const char *path = tiny_model("memory.gguf", "gelu");
    const size_t files = open_files();
    wisp_model *model = open_path_or_fail(path, false);
    float *row = embed_anew(model, food);
    assert_int_equal(open_files(), files + 1);
    wisp_model_get_info(model, &file_info);
    wisp_model_close(model);
    assert_int_equal(open_files(), files);
    model = open_path_or_fail(path, true);
    assert_int_equal(open_files(), files);
    wisp_model_get_info(model, &memory_info);
    assert_true(memory_info.resident_bytes > file_info.resident_bytes);
    assert_int_equal(truncate(path, 0), 0);
    expect_row(model, food, row);
    wisp_model_close(model);
    free(row);
}

static int closed;

static void count_close(void *context) {
    (void)context;
    closed++;
}

/* With in_memory a source in memory is copied too, and may go away. */
static void in_memory_copies_a_source(void **state) {
    (void)state;
    size_t size;
    unsigned char *bytes = read_file(tiny_model("source.gguf", "gelu"), &size);
    const wisp_source source = {.size = size, .data = bytes, .close = count_close};
    const wisp_model_options options = {.in_memory = true};
    wisp_model *model;
    wisp_error error;
    closed = 0;
    assert_int_equal(wisp_model_open_source(&source, NULL, &model, &error), WISP_OK);
    float *row = embed_anew(model, food);
    assert_int_equal(closed, 0);
    wisp_model_close(model);
    assert_int_equal(closed, 1);
    assert_int_equal(wisp_model_open_source(&source, &options, &model, &error), WISP_OK);
    assert_int_equal(closed, 2);
    memset(bytes, 0xff, size);
    free(bytes);
    expect_row(model, food, row);
    wisp_model_close(model);
    assert_int_equal(closed, 2);
    free(row);
}

/* ---- changes while a file is read ----------------------------------------------------------- */

static int read_start(const wisp_source *source) {
    char start[4];
    return source->read(source->context, 0, start, sizeof start);
}

static void a_file_that_changes_while_it_is_read(void **state) {
    (void)state;
    const char *path = tiny_model("reading.gguf", "gelu");
    wisp_source source;
    wisp_error error;
    set_times(path);
    assert_int_equal(file_source_open(path, &source, &error), WISP_OK);
    assert_int_equal(read_start(&source), 0);
    assert_int_equal(link(path, temporary_path("another-name")), 0);
    assert_int_equal(read_start(&source), 0);
    overwrite(path, source.size - 1, "x", 1);
    assert_int_equal(read_start(&source), WISP_SOURCE_CHANGED);
    file_source_loaded(&source);
    assert_int_equal(read_start(&source), 0);
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(read_start(&source), WISP_SOURCE_CHANGED);
    source.close(source.context);
}

static void what_shows_a_file_notices(void **state) {
    (void)state;
    const char *path = tiny_model("shown.gguf", "gelu");
    wisp_file *file;
    wisp_file_part part;
    wisp_error error;
    char start[4];
    float values[TINY_TOKENS * HIDDEN];
    set_times(path);
    assert_int_equal(wisp_file_open(path, &file, &error), WISP_OK);
    assert_true(wisp_file_get_part(file, 0, &part));
    assert_int_equal(wisp_file_read_part(file, 0, 0, start, sizeof start, &error), WISP_OK);
    assert_memory_equal(start, "GGUF", sizeof start);
    assert_int_equal(wisp_file_read_part(file, 0, part.size - 3, start, sizeof start, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_file_read_part(file, 0, UINT64_MAX, start, sizeof start, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_file_read_part(file, 1, 0, start, sizeof start, &error),
                     WISP_ERROR_ARGUMENT);
    overwrite(path, part.size - 1, "x", 1);
    assert_int_equal(wisp_file_read_part(file, 0, 0, start, sizeof start, &error), WISP_ERROR_IO);
    assert_int_equal(wisp_file_read_tensor(file, 0, values, &error), WISP_ERROR_IO);
    assert_non_null(strstr(error.message, "the file changed after it was opened"));
    wisp_file_close(file);
}

static bool change_input(void *context, size_t done, size_t total) {
    (void)total;
    if (done == 1)
        assert_int_equal(truncate(context, 4096), 0);
    return true;
}

static void a_conversion_notices(void **state) {
    (void)state;
    const char *path = tiny_model("input.gguf", "gelu"), *output = temporary_path("output.gguf");
    char *name = strdup(path);
    const wisp_convert_options options = {
        .type = "f32", .progress = change_input, .progress_context = name};
    wisp_error error;
    set_times(path);
    assert_int_equal(wisp_convert(path, output, &options, &error), WISP_ERROR_IO);
    assert_string_equal(error.file, name);
    assert_int_equal(access(output, F_OK), -1);
    free(name);
}

static void change_model(void *context, uint32_t layer, const wisp_calibrated_layer *found) {
    (void)found;
    if (layer == 0)
        overwrite(context, 0, "GGUF", 4);
}

/* Calibration reads the model again when it writes the result, minutes later. */
static void a_calibration_notices(void **state) {
    (void)state;
    struct texts texts;
    const char *path = tiny_model("model.gguf", "gelu"),
               *output = temporary_path("calibrated.gguf");
    char *name = strdup(path);
    const wisp_calibrate_options options = {
        .sparsity = 0.5f, .rank = 8, .layer = change_model, .context = name};
    wisp_error error;
    make_texts(&texts);
    set_times(path);
    assert_int_equal(wisp_calibrate(path, output, texts.text, TEXTS, &options, &error),
                     WISP_ERROR_IO);
    assert_non_null(strstr(error.message, "the file changed while the model was calibrated"));
    assert_int_equal(access(output, F_OK), -1);
    free(name);
}

/* ---- checksums ------------------------------------------------------------------------------ */

static void checksums_tell_every_bit(void **state) {
    (void)state;
    unsigned char bytes[70] = {0};
    for (size_t length = 1; length <= sizeof bytes; length++) {
        const uint64_t whole = checksum(bytes, length);
        assert_true(whole != checksum(bytes, length - 1));
        for (size_t bit = 0; bit < 8 * length; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            assert_true(checksum(bytes, length) != whole);
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncation_is_an_error),
        cmocka_unit_test(kept_rows_stay_right),
        cmocka_unit_test(overwriting_is_an_error),
        cmocka_unit_test(replacing_changes_nothing),
        cmocka_unit_test(in_memory_needs_no_file),
        cmocka_unit_test(in_memory_copies_a_source),
        cmocka_unit_test(a_file_that_changes_while_it_is_read),
        cmocka_unit_test(what_shows_a_file_notices),
        cmocka_unit_test(a_conversion_notices),
        cmocka_unit_test(a_calibration_notices),
        cmocka_unit_test(checksums_tell_every_bit),
    };
    return cmocka_run_group_tests_name("changed_file", tests, NULL, tear_down_temporary_folder);
}
