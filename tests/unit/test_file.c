/* SPDX-License-Identifier: Apache-2.0
 * Files that are written whole or not at all. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/file.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static wisp_status write_text(const char *path, const char *text) {
    struct file_writer writer;
    wisp_error error;
    const wisp_status status = file_writer_open(&writer, path, &error);
    if (status != WISP_OK)
        return status;
    assert_int_equal(file_write(&writer, text, strlen(text), &error), WISP_OK);
    return file_writer_commit(&writer, &error);
}

static void expect_text(const char *path, const char *text) {
    char read[64] = "";
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t length = fread(read, 1, sizeof read - 1, file);
    fclose(file);
    assert_int_equal(length, strlen(text));
    assert_string_equal(read, text);
}

static void a_link_stays_a_link(void **state) {
    (void)state;
    struct stat info;
    const char *file = temporary_path("linked"), *link = temporary_path("link");
    write_file(file, "old", 3);
    assert_int_equal(symlink("linked", link), 0);
    assert_int_equal(write_text(link, "new"), WISP_OK);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    expect_text(file, "new");
    unlink(file);
    assert_int_equal(write_text(link, "lost"), WISP_ERROR_IO);
    assert_int_equal(lstat(link, &info), 0);
}

static void devices_are_refused(void **state) {
    (void)state;
    struct stat info;
    const char *link = temporary_path("device");
    assert_int_equal(symlink("/dev/null", link), 0);
    assert_int_equal(write_text("/dev/null", "x"), WISP_ERROR_IO);
    assert_int_equal(write_text(link, "x"), WISP_ERROR_IO);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

static void mode_and_owner_are_kept(void **state) {
    (void)state;
    struct stat info;
    const char *file = temporary_path("private");
    write_file(file, "old", 3);
    assert_int_equal(chmod(file, 0600), 0);
    const bool may_give = chown(file, 12345, 23456) == 0;
    assert_int_equal(write_text(file, "new"), WISP_OK);
    assert_int_equal(stat(file, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    if (may_give) {
        assert_int_equal(info.st_uid, 12345);
        assert_int_equal(info.st_gid, 23456);
    }
    expect_text(file, "new");
}

/* Code that writes text calls the stream's functions directly, and may miss their errors. */
static void a_write_that_failed_fails_the_commit(void **state) {
    (void)state;
    const char *file = temporary_path("limited");
    struct file_writer writer;
    wisp_error error;
    struct rlimit before, limit;
    static const char block[8192];
    write_file(file, "old", 3);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 10000;
    assert_int_equal(file_writer_open(&writer, file, &error), WISP_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 8; i++)
        fwrite(block, 1, sizeof block, writer.stream);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    fputs("the end", writer.stream);
    assert_int_equal(file_writer_commit(&writer, &error), WISP_ERROR_IO);
    expect_text(file, "old");
}

/* Looking whether a file can be written leaves the folder as it was. */
static void outputs_are_checked(void **state) {
    (void)state;
    char new_file[128], old_file[128];
    wisp_error error;
    snprintf(new_file, sizeof new_file, "%s", temporary_path("new"));
    snprintf(old_file, sizeof old_file, "%s", temporary_path("old"));
    write_file(old_file, "old", 3);
    assert_int_equal(file_check_output(new_file, &error), WISP_OK);
    assert_false(file_exists(new_file));
    assert_int_equal(file_check_output(old_file, &error), WISP_OK);
    expect_text(old_file, "old");
    const char *lost = temporary_path("no/folder/new");
    assert_int_equal(file_check_output(lost, &error), WISP_ERROR_IO);
    assert_string_equal(error.file, lost);
    assert_int_equal(file_check_output("/dev/null", &error), WISP_ERROR_IO);
    assert_int_equal(file_check_output(temporary_path("."), &error), WISP_ERROR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_stays_a_link),
        cmocka_unit_test(devices_are_refused),
        cmocka_unit_test(mode_and_owner_are_kept),
        cmocka_unit_test(a_write_that_failed_fails_the_commit),
        cmocka_unit_test(outputs_are_checked),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, tear_down_temporary_folder);
}
