/* SPDX-License-Identifier: Apache-2.0
 * Files on Windows: names of UTF-8, what others may do with open files, locks, owners, and what
 * src/host makes of these. Runs in a new folder below that of the program's temporary files. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/digest_files.h"
#include "host/file.h"
#include "host/input_file.h"
#include "host/lock.h"
#include "host/own_file.h"
#include "host/processors.h"
#include "host/row_file.h"
#include "host/scratch_file.h"
#include "windows/owner.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static char top[PATH_MAX / 2];

static const char *in_top(const char *name) {
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", top, name);
    return path;
}

static void write_text(const char *path, const char *text) {
    struct file_writer writer;
    wisp_error error;
    if (file_writer_open(&writer, path, &error) != WISP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(file_write(&writer, text, strlen(text), &error), WISP_OK);
    assert_int_equal(file_writer_commit(&writer, &error), WISP_OK);
}

static void expect_text(const char *path, const char *text) {
    struct file_bytes bytes;
    wisp_error error;
    assert_int_equal(file_read(path, &bytes, &error), WISP_OK);
    assert_int_equal(bytes.size, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.size);
    free(bytes.data);
}

/* Returns how many files a folder has, but for "." and "..", and whether `name` is one. */
static size_t count(const char *path, const char *name, bool *found) {
    size_t n = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    *found = false;
    for (const struct dirent *item; (item = readdir(folder));) {
        n += strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0;
        *found |= strcmp(item->d_name, name) == 0;
    }
    closedir(folder);
    return n;
}

static void names_are_utf8(void **state) {
    static const char folder[] = "\xce\xb1\xce\xb2",
                      name[] = "\xe6\x96\x87\xe5\xad\x97 \xf0\x9f\x90\xa6.txt";
    char path[512], marked[PATH_MAX];
    struct file_mark mark;
    bool found;
    (void)state;
    assert_int_equal(mkdir(in_top(folder), 0777), 0);
    snprintf(path, sizeof path, "%s/%s/%s", top, folder, name);
    write_text(path, "one");
    expect_text(path, "one");
    assert_int_equal(count(in_top(folder), name, &found), 1);
    assert_true(found);
    assert_true(file_mark(path, &mark));
    snprintf(marked, sizeof marked, "/%s/%s", folder, name);
    assert_string_equal(mark.path + strlen(mark.path) - strlen(marked), marked);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    fclose(stream);
    assert_int_equal(unlink(path), 0);
    assert_false(file_exists(path));
    assert_int_equal(rmdir(in_top(folder)), 0);
    assert_int_equal(open("\xff", O_RDONLY), -1);
    assert_int_equal(errno, EILSEQ);
}

static void paths_may_be_long_and_have_backslashes(void **state) {
    char path[1024], name[101], backward[1024];
    wisp_error error;
    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(path, sizeof path, "%s/%s/%s/%s/file", top, name, name, name);
    assert_int_equal(file_make_folders(path, 0777, &error), WISP_OK);
    write_text(path, "deep");
    expect_text(path, "deep");
    snprintf(backward, sizeof backward, "%s", path);
    for (char *c = backward; *c; c++)
        *c = *c == '/' ? '\\' : *c;
    expect_text(backward, "deep");
    snprintf(backward, sizeof backward, "%s\\%s\\short", top, name);
    write_text(backward, "shallow"); /* Wine 8 does not say what a long path leads to */
    write_text(backward, "shallower");
    expect_text(backward, "shallower");
}

static void folders_of_paths(void **state) {
    static const struct {
        const char *path, *folder;
    } known[] = {{"a/b", "a"},    {"a\\b/c", "a\\b"},         {"file", "."},
                 {"/file", "/"},  {"C:\\a", "C:\\"},          {"C:a", "C:"},
                 {"a//b//", "a"}, {"\\\\s\\d\\f", "\\\\s\\d"}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s", known[i].path);
        assert_string_equal(dirname(path), known[i].folder);
    }
}

/* Windows 10 replaces it; systems and file systems that cannot say so, and harm neither file. */
static void an_open_file_is_replaced_or_stays(void **state) {
    struct file_writer writer;
    wisp_error error;
    char byte;
    bool found;
    (void)state;
    assert_int_equal(mkdir(in_top("folder"), 0777), 0);
    write_text(in_top("folder/kept"), "old");
    const int file = open(in_top("folder/kept"), O_RDONLY);
    assert_true(file >= 0);
    const char *path = in_top("folder/kept");
    assert_int_equal(file_writer_open(&writer, path, &error), WISP_OK);
    assert_int_equal(file_write(&writer, "new", 3, &error), WISP_OK);
    const wisp_status status = file_writer_commit(&writer, &error);
    if (status != WISP_OK)
        assert_non_null(strstr(error.message, "Permission denied"));
    expect_text(in_top("folder/kept"), status == WISP_OK ? "new" : "old");
    assert_int_equal(pread(file, &byte, 1, 0), 1);
    assert_int_equal(byte, 'o');
    close(file);
    write_text(in_top("folder/kept"), "newer");
    expect_text(in_top("folder/kept"), "newer");
    assert_int_equal(count(in_top("folder"), "kept", &found), 1);
    assert_true(found);
}

static void an_open_file_can_be_deleted(void **state) {
    char byte;
    bool found;
    struct stat info;
    (void)state;
    assert_int_equal(mkdir(in_top("deleted"), 0777), 0);
    write_text(in_top("deleted/file"), "old");
    const int file = open(in_top("deleted/file"), O_RDONLY);
    assert_int_equal(unlink(in_top("deleted/file")), 0);
    assert_int_equal(stat(in_top("deleted/file"), &info), -1);
    assert_int_equal(errno, ENOENT);
    write_text(in_top("deleted/file"), "new");
    assert_int_equal(pread(file, &byte, 1, 2), 1);
    assert_int_equal(byte, 'd');
    assert_int_equal(pread(file, &byte, 1, 3), 0);
    close(file);
    assert_int_equal(count(in_top("deleted"), "file", &found), 1);
    assert_true(found);
}

static void errors_have_their_numbers(void **state) {
    struct file_bytes bytes;
    struct file_writer writer;
    wisp_error error;
    (void)state;
    assert_int_equal(file_read(in_top("none"), &bytes, &error), WISP_ERROR_NOT_FOUND);
    assert_int_equal(file_read(top, &bytes, &error), WISP_ERROR_IO);
    assert_non_null(strstr(error.message, "not a regular file"));
    assert_int_equal(file_writer_open(&writer, top, &error), WISP_ERROR_IO);
    assert_int_equal(file_writer_open(&writer, in_top("none/file"), &error), WISP_ERROR_IO);
    assert_int_equal(file_check_output(in_top("none/file"), &error), WISP_ERROR_IO);
    assert_int_equal(file_check_output(in_top("file"), &error), WISP_OK);
    assert_int_equal(mkdir(top, 0777), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(unlink(top), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(open(in_top("file"), O_RDONLY | O_DIRECTORY), -1);
}

static void a_change_is_noticed(void **state) {
    wisp_source source;
    wisp_error error;
    char bytes[8];
    struct file_mark before, after;
    (void)state;
    write_text(in_top("source"), "12345678");
    assert_true(file_mark(in_top("source"), &before));
    assert_int_equal(file_source_open(in_top("source"), &source, &error), WISP_OK);
    assert_int_equal(source.read(source.context, 0, bytes, 8), 0);
    const int file = open(in_top("source"), O_WRONLY);
    const struct timespec later[2] = {{.tv_sec = 2000000000}, {.tv_sec = 2000000000}};
    assert_int_equal(pwrite(file, "x", 1, 3), 1);
    close(file);
    assert_int_equal(utimensat(AT_FDCWD, in_top("source"), later, 0), 0);
    assert_int_equal(source.read(source.context, 0, bytes, 8), WISP_SOURCE_CHANGED);
    assert_int_equal(file_source_check(&source, 0, 8, &error), WISP_ERROR_IO);
    source.close(source.context);
    assert_true(file_mark(in_top("source"), &after));
    assert_false(file_mark_same(&before, &after));
    assert_int_equal(after.seconds, 2000000000);
}

static bool give_up(void) {
    return true;
}

static void locks_exclude(void **state) {
    struct file_lock lock;
    wisp_error error;
    char byte;
    (void)state;
    write_text(in_top("locked"), "l");
    assert_int_equal(file_lock_take(&lock, in_top("locked"), give_up, &error), WISP_OK);
    assert_true(lock.descriptor >= 0);
    const int file = open(in_top("locked"), O_RDWR);
    assert_int_equal(flock(file, LOCK_SH | LOCK_NB), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    assert_int_equal(pread(file, &byte, 1, 0), 1); /* locks are asked for, and forbid nothing */
    struct file_lock second;
    assert_int_equal(file_lock_take(&second, in_top("locked"), give_up, &error),
                     WISP_ERROR_CANCELLED);
    file_lock_release(&lock);
    assert_int_equal(flock(file, LOCK_SH | LOCK_NB), 0);
    assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(flock(file, LOCK_UN), 0);
    close(file);
}

static void folders_of_caches_are_of_this_user(void **state) {
    struct owner_rights rights;
    wisp_error error;
    (void)state;
    assert_int_equal(own_folder_open(in_top("own/deep"), "another", &error), WISP_OK);
    const int folder = open(in_top("own/deep"), O_RDONLY);
    assert_true(owner_look(windows_handle(folder), &rights));
    assert_true(rights.is_own);
    assert_false(rights.others_can_write);
    close(folder);
    write_text(in_top("plain"), "p");
    assert_int_equal(own_folder_open(in_top("plain"), "another", &error), WISP_ERROR_IO);
    const int file = own_file_open(in_top("own/file"), O_RDWR | O_CREAT);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(own_file_open(in_top("own"), O_RDONLY), -1);
    assert_int_equal(errno, EPERM);
}

/* The list of a new folder lets everybody write. */
static void a_folder_that_others_can_write_to_is_refused(void **state) {
    SECURITY_DESCRIPTOR open_to_all;
    wisp_error error;
    (void)state;
    InitializeSecurityDescriptor(&open_to_all, SECURITY_DESCRIPTOR_REVISION);
    SetSecurityDescriptorDacl(&open_to_all, TRUE, NULL, FALSE);
    assert_int_equal(mkdir(in_top("shared"), 0777), 0);
    assert_true(SetFileSecurityA(in_top("shared"), DACL_SECURITY_INFORMATION, &open_to_all));
    assert_int_equal(own_folder_open(in_top("shared"), "another", &error), WISP_ERROR_IO);
    assert_non_null(strstr(error.message, "others can write to it"));
}

static void files_of_caches(void **state) {
    static const unsigned char digest[DIGEST_BYTES] = {1, 2, 3}, next[DIGEST_BYTES] = {4};
    struct digest_files files;
    unsigned char bytes[64];
    size_t length;
    bool found;
    wisp_error error;
    (void)state;
    assert_int_equal(digest_files_open(&files, in_top("digests"), 100, "another", &error), WISP_OK);
    assert_int_equal(digest_files_write(&files, digest, "abc", 3, &error), WISP_OK);
    assert_int_equal(digest_files_write(&files, digest, "abc", 3, &error), WISP_OK);
    assert_int_equal(
        digest_files_read(&files, digest, bytes, sizeof bytes, &length, &found, &error), WISP_OK);
    assert_true(found && length == 3 && memcmp(bytes, "abc", 3) == 0);
    assert_int_equal(digest_files_read(&files, next, bytes, sizeof bytes, &length, &found, &error),
                     WISP_OK);
    assert_false(found);
    assert_int_equal(digest_files_write(&files, next, "defg", 4, &error), WISP_OK);
    digest_files_use(&files, next, 0);
    files.bytes = 5;
    digest_files_use(&files, digest, 100000); /* long ago */
    assert_int_equal(digest_files_make_room(&files), 1);
    assert_false(digest_files_has(&files, digest));
    assert_true(digest_files_has(&files, next));
    assert_int_equal(count(in_top("digests"), "", &found), 1);
}

static void rows_of_caches(void **state) {
    static const unsigned char digest[ROW_KEY_BYTES] = {9}, key[ROW_KEY_BYTES] = {7, 7};
    enum { ROW = 32, BYTES = 1 << 20 };
    unsigned char entry[ROW_KEY_BYTES + ROW] = {7, 7}, read[ROW_KEY_BYTES + ROW];
    struct row_file file, same, other;
    wisp_error error;
    (void)state;
    memset(entry + ROW_KEY_BYTES, 5, ROW);
    assert_int_equal(row_file_open(&file, in_top("rows"), digest, ROW, BYTES, "another", &error),
                     WISP_OK);
    assert_false(row_file_read(&file, key, read));
    assert_true(row_file_write(&file, entry));
    assert_int_equal(row_file_open(&same, in_top("rows"), digest, ROW, BYTES, "another", &error),
                     WISP_OK);
    assert_true(row_file_read(&same, key, read));
    assert_memory_equal(read, entry, sizeof entry);
    /* One of another size takes its name, and whoever has the old one keeps it. */
    assert_int_equal(
        row_file_open(&other, in_top("rows"), digest, ROW, BYTES / 2, "another", &error), WISP_OK);
    assert_false(row_file_read(&other, key, read));
    assert_true(row_file_read(&file, key, read));
    row_file_close(&file);
    row_file_close(&same);
    row_file_close(&other);
}

static void a_scratch_file_goes_with_its_descriptor(void **state) {
    int file;
    char byte;
    bool found;
    wisp_error error;
    (void)state;
    assert_int_equal(mkdir(in_top("scratch"), 0700), 0);
    assert_int_equal(scratch_file_open(in_top("scratch"), &file, &error), WISP_OK);
    assert_int_equal(pwrite(file, "s", 1, (off_t)5 << 30), 1);
    assert_int_equal(pread(file, &byte, 1, (off_t)5 << 30), 1);
    close(file);
    assert_int_equal(count(in_top("scratch"), "", &found), 0);
    assert_int_equal(scratch_file_open(in_top("none"), &file, &error), WISP_ERROR_IO);
}

static void processors_are_counted(void **state) {
    (void)state;
    assert_true(processors_allowed() >= 1);
    assert_int_equal(wisp_usable_threads(), processors_allowed());
}

static int make_top(void **state) {
    char temporary[MAX_PATH];
    (void)state;
    GetTempPathA(sizeof temporary, temporary);
    int failed = -1;
    for (unsigned i = 0; failed && i < 1000; i++) {
        snprintf(top, sizeof top, "%swisp-%lx-%u", temporary, GetCurrentProcessId(), i);
        failed = mkdir(top, 0777);
    }
    return failed;
}

static void remove_all(const char *path) {
    DIR *folder = opendir(path);
    for (const struct dirent *item; folder && (item = readdir(folder));) {
        char inside[2 * PATH_MAX];
        snprintf(inside, sizeof inside, "%s/%s", path, item->d_name);
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0 &&
            unlink(inside) != 0)
            remove_all(inside);
    }
    if (folder)
        closedir(folder);
    rmdir(path);
}

/* Fails if something is still open. */
static int remove_top(void **state) {
    (void)state;
    remove_all(top);
    return file_exists(top);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_utf8),
        cmocka_unit_test(paths_may_be_long_and_have_backslashes),
        cmocka_unit_test(folders_of_paths),
        cmocka_unit_test(an_open_file_is_replaced_or_stays),
        cmocka_unit_test(an_open_file_can_be_deleted),
        cmocka_unit_test(errors_have_their_numbers),
        cmocka_unit_test(a_change_is_noticed),
        cmocka_unit_test(locks_exclude),
        cmocka_unit_test(folders_of_caches_are_of_this_user),
        cmocka_unit_test(a_folder_that_others_can_write_to_is_refused),
        cmocka_unit_test(files_of_caches),
        cmocka_unit_test(rows_of_caches),
        cmocka_unit_test(a_scratch_file_goes_with_its_descriptor),
        cmocka_unit_test(processors_are_counted),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
