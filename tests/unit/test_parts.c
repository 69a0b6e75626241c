/* SPDX-License-Identifier: Apache-2.0
 * Models in several GGUF files, as llama-gguf-split writes them: the first has all metadata, and
 * the others say which part they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/builder.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { PARTS = 3, ROW = 8, PATH_BYTES = 512 };

/* Returns a name as a string, which the next call changes. */
static const char *text_of(struct bytes name) {
    static char text[128];
    snprintf(text, sizeof text, "%.*s", (int)name.size, (const char *)name.data);
    return text;
}

/* Writes every third tensor of a tiny model, and returns the path, which the next call changes. */
static const char *write_part(unsigned part, unsigned no) {
    static struct gguf file;
    static char path[PATH_BYTES];
    char name[64];
    gguf_make(&file, &tiny_shape);
    for (size_t i = 0, kept = 0; kept < file.n_tensors; i++)
        if (i % PARTS == part)
            kept++;
        else
            gguf_drop_tensor(&file, text_of(file.tensors[kept].name));
    while (part > 0 && file.n_keys > 0)
        gguf_drop_key(&file, text_of(file.keys[0].name));
    gguf_set_u32(&file, "split.no", no);
    gguf_set_u32(&file, "split.count", PARTS);
    gguf_settle(&file);
    snprintf(name, sizeof name, "m-%05u-of-%05u.gguf", part + 1, (unsigned)PARTS);
    snprintf(path, sizeof path, "%s", write_made(&file, name));
    return path;
}

static void row_of(const char *path, float *row) {
    const wisp_text text = wisp_text_of("hello world");
    wisp_model *model = open_model_or_fail(path, WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    assert_int_equal(wisp_model_dimensions(model), ROW);
    embed_or_fail(session, &text, 1, row);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void parts_are_the_model(void **state) {
    char first[PATH_BYTES];
    float wanted[ROW], row[ROW];
    wisp_error error;
    (void)state;
    row_of(write_tiny(&tiny_shape, "whole.gguf"), wanted);
    for (unsigned part = PARTS; part-- > 0;)
        snprintf(first, sizeof first, "%s", write_part(part, part));
    row_of(first, row);
    assert_memory_equal(row, wanted, sizeof row);
    const char *joined = temporary_path("joined.gguf");
    assert_int_equal(wisp_convert(first, joined, NULL, &error), WISP_OK);
    row_of(joined, row);
    assert_memory_equal(row, wanted, sizeof row);
}

static void expect_refused(const char *path, wisp_status status, const char *says) {
    wisp_model *model;
    wisp_error error;
    assert_int_equal(wisp_model_open(path, NULL, &model, &error), status);
    if (!strstr(error.message, says))
        fail_msg("%s", error.message);
}

static void parts_are_checked(void **state) {
    char first[PATH_BYTES];
    (void)state;
    for (unsigned part = PARTS; part-- > 0;)
        snprintf(first, sizeof first, "%s", write_part(part, part));
    expect_refused(write_part(1, 1), WISP_ERROR_UNSUPPORTED, "name the first");
    write_part(1, 2);
    expect_refused(first, WISP_ERROR_FORMAT, "split.no: 2, and its place needs 1");
    unlink(write_part(1, 1));
    expect_refused(first, WISP_ERROR_NOT_FOUND, "No such file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_model),
        cmocka_unit_test(parts_are_checked),
    };
    return cmocka_run_group_tests_name("parts", tests, NULL, tear_down_temporary_folder);
}
