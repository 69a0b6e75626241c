/* SPDX-License-Identifier: Apache-2.0
 * A file of a Hugging Face folder that may be absent, but is there and cannot be opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/folder.h"
#include "support/opening.h"

#include <cmocka.h>

/* Opens the folder after its file `name` became a symbolic link to itself, which the system neither
 * follows nor calls absent. */
static void expect_error(const char *name) {
    struct folder folder;
    wisp_model *model = NULL;
    wisp_error error = {0};
    char path[512], file[600];
    snprintf(path, sizeof path, "%s", temporary_path("model"));
    snprintf(file, sizeof file, "%s/%s", path, name);
    folder_make(&folder, &tiny_shape);
    folder_write(&folder, path);
    folder_release(&folder);
    unlink(file);
    assert_int_equal(symlink(name, file), 0);
    const wisp_status status = wisp_model_open(path, NULL, &model, &error);
    wisp_model_close(model);
    assert_int_equal(status, WISP_ERROR_IO);
    assert_string_equal(error.file, file);
}

static void unreadable_is_not_absent(void **state) {
    (void)state;
    expect_error("modules.json");
    expect_error("tokenizer_config.json");
    expect_error("sentence_bert_config.json");
    expect_error("config_sentence_transformers.json");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(unreadable_is_not_absent)};
    return cmocka_run_group_tests_name("missing files", tests, NULL, tear_down_temporary_folder);
}
