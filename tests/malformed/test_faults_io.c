/* SPDX-License-Identifier: Apache-2.0
 * Makes reading and writing fail at every place in turn. The error must report it. If a model
 * was to be written, the earlier file must be whole, with nothing left beside it. */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/allocations.h"
#include "support/folder.h"
#include "support/opening.h"

/* ---- reading -------------------------------------------------------------------------------- */

/* A source whose read number `fails_at` fails after it has written half of the bytes. */
struct source {
    struct bytes file;
    uint64_t reads, fails_at;
    int closed;
};

static int read_or_fail(void *context, uint64_t offset, void *buffer, size_t length) {
    struct source *source = context;
    const bool fails = source->reads++ == source->fails_at;
    memcpy(buffer, source->file.data + offset, fails ? length / 2 : length);
    return fails ? -1 : 0;
}

static void close_source(void *context) {
    struct source *source = context;
    source->closed++;
}

static void make_file(struct bytes *out, const struct tiny_shape *shape) {
    struct gguf file;
    gguf_make(&file, shape);
    gguf_write_bytes(&file, out);
    gguf_release(&file);
}

/* Returns the number of reads that opening and embedding make. */
static uint64_t fail_every_read(const struct tiny_shape *shape, bool lasting) {
    struct source source = {0};
    struct opening opening;
    make_file(&source.file, shape);
    const wisp_source given = {.size = source.file.size,
                               .lasting = lasting,
                               .read = read_or_fail,
                               .close = close_source,
                               .context = &source,
                               .name = "tiny.gguf"};
    do {
        source.reads = 0;
        source.closed = 0;
        opening = open_source(&given, source.file.size);
        assert_int_equal(source.closed, 1);
        if (opening.status != WISP_OK) {
            expect_outcome(&opening, WISP_ERROR_IO, NULL, "reading");
            assert_string_equal(opening.error.file, "tiny.gguf");
            assert_int_equal(source.reads, source.fails_at + 1);
        }
    } while (source.fails_at++, opening.status != WISP_OK);
    assert_true(source.fails_at > 20);
    bytes_release(&source.file);
    return source.reads;
}

static void every_read_fails(void **state) {
    const uint64_t reads = fail_every_read(*state, false);
    /* The one read of the token embedding becomes a read for each token of the text. */
    assert_true(fail_every_read(*state, true) > reads);
}

static void no_way_to_read(void **state) {
    struct source source = {0};
    const wisp_source given = {.size = 100, .close = close_source, .context = &source};
    (void)state;
    const struct opening opening = open_source(&given, 100);
    expect_outcome(&opening, WISP_ERROR_ARGUMENT, NULL, "without data or read");
    assert_int_equal(source.closed, 1);
}

/* ---- a folder to write to ------------------------------------------------------------------- */

static char input[128], output[128], folder[128];
static struct bytes old; /* the contents of `output` before */

static void read_whole(const char *path, struct bytes *bytes) {
    char chunk[4096];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, file)) > 0;)
        bytes_put(bytes, chunk, n);
    fclose(file);
}

/* The folder must contain the old output and nothing else. */
static void expect_untouched(void) {
    struct bytes now = {0};
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;)
        if (*entry->d_name != '.')
            assert_string_equal(entry->d_name, "out.gguf");
    closedir(listing);
    read_whole(output, &now);
    assert_int_equal(now.size, old.size);
    assert_memory_equal(now.data, old.data, now.size);
    bytes_release(&now);
}

static wisp_status convert(const char *to, const wisp_convert_options *options, wisp_error *error) {
    *error = (wisp_error){0};
    allocations_watch();
    const wisp_status status = wisp_convert(input, to, options, error);
    assert_int_equal(allocations_seen().live, 0);
    return status;
}

static void expect_failure(const char *to, const wisp_convert_options *options, wisp_status wanted,
                           const char *says) {
    wisp_error error;
    const wisp_status status = convert(to, options, &error);
    if (status != wanted)
        fail_msg("%s instead of %s: %s", wisp_status_name(status), wisp_status_name(wanted),
                 error.message);
    assert_string_equal(error.file, to);
    if (!strstr(error.message, says))
        fail_msg("\"%s\" does not say \"%s\"", error.message, says);
    expect_untouched();
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Files may grow to `limit` bytes; a write past it fails as on a full disk. */
static void limit_files(rlim_t limit) {
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &now), 0);
    now.rlim_cur = limit;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
}

static void every_write_fails(void **state) {
    enum { STEP = 256 };
    struct stat written;
    wisp_error error;
    (void)state;
    const char *fits = temporary_path("fits.gguf");
    assert_int_equal(convert(fits, NULL, &error), WISP_OK);
    assert_int_equal(stat(fits, &written), 0);
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    for (off_t limit = 0; limit < written.st_size; limit += STEP) {
        limit_files((rlim_t)limit);
        const wisp_status status = convert(output, NULL, &error);
        limit_files(RLIM_INFINITY);
        assert_int_equal(status, WISP_ERROR_IO);
        assert_string_equal(error.file, output);
        assert_non_null(strstr(error.message, "File too large"));
        expect_untouched();
    }
    signal(SIGXFSZ, before);
}

static void no_folder(void **state) {
    (void)state;
    expect_failure(temporary_path("nowhere/out.gguf"), NULL, WISP_ERROR_IO, "No such file");
    expect_failure(temporary_path("tiny.gguf/out.gguf"), NULL, WISP_ERROR_IO, "Not a directory");
    char long_name[300];
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    wisp_error error;
    assert_int_equal(convert(long_name, NULL, &error), WISP_ERROR_IO);
}

static void unwritable_folder(void **state) {
    const bool root = geteuid() == 0;
    (void)state;
    assert_int_equal(chmod(folder, 0555), 0);
    assert_int_equal(chmod(temporary_path("."), 0755), 0);
    if (root) /* who may write anywhere */
        assert_int_equal(seteuid(65534), 0);
    expect_failure(output, NULL, WISP_ERROR_IO, "Permission denied");
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(folder, 0777), 0);
}

static void output_that_is_no_file(void **state) {
    struct stat device;
    (void)state;
    expect_failure(folder, NULL, WISP_ERROR_IO, "not a regular file");
    expect_failure("/dev/null", NULL, WISP_ERROR_IO, "not a regular file");
    assert_int_equal(stat("/dev/null", &device), 0);
    assert_true(S_ISCHR(device.st_mode));
}

/* Becomes a folder while the model is written, so that renaming fails. */
static bool make_output_a_folder(void *context, size_t done, size_t total) {
    if (done == total)
        make_folder(context);
    return true;
}

static void rename_fails(void **state) {
    char path[160];
    (void)state;
    snprintf(path, sizeof path, "%s/late", folder);
    const wisp_convert_options options = {.progress = make_output_a_folder,
                                          .progress_context = path};
    wisp_error error;
    assert_int_equal(convert(path, &options, &error), WISP_ERROR_IO);
    assert_string_equal(error.file, path);
    assert_int_equal(rmdir(path), 0);
    expect_untouched();
}

static bool stop_at(void *context, size_t done, size_t total) {
    const size_t *wanted = context;
    assert_true(done <= total);
    return done < *wanted;
}

static void cancelled_at_every_tensor(void **state) {
    size_t tensors = 0;
    wisp_error error;
    (void)state;
    for (;; tensors++) {
        const wisp_convert_options options = {.progress = stop_at, .progress_context = &tensors};
        const wisp_status status = convert(output, &options, &error);
        if (status == WISP_OK)
            break;
        assert_int_equal(status, WISP_ERROR_CANCELLED);
        expect_untouched();
    }
    assert_true(tensors > 30);
    write_file(output, old.data, old.size);
}

static void bad_requests(void **state) {
    wisp_error error;
    (void)state;
    const wisp_convert_options unknown = {.type = "q9_9"}, unwritten = {.type = "q6_k"};
    assert_int_equal(convert(output, &unknown, &error), WISP_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "q9_9"));
    assert_int_equal(convert(output, &unwritten, &error), WISP_ERROR_ARGUMENT);
    expect_untouched();
}

/* A value that is not finite would be written as a finite one, or make a file that does not open.
 */
static void value_that_is_not_finite(void **state) {
    const wisp_convert_options options = {.type = "f16"};
    struct gguf file;
    struct bytes bytes = {0};
    wisp_error error;
    (void)state;
    const char *path = temporary_path("nan.gguf");
    gguf_make(&file, &tiny_shape);
    bytes_set_u32(&gguf_tensor(&file, "blk.1.ffn_up.weight")->data, 20, 0x7FC00000);
    gguf_write_bytes(&file, &bytes);
    write_file(path, bytes.data, bytes.size);
    assert_int_equal(wisp_convert(path, output, &options, &error), WISP_ERROR_FORMAT);
    assert_string_equal(error.file, path);
    assert_string_equal(error.field, "blk.1.ffn_up.weight");
    expect_untouched();
    bytes_release(&bytes);
    gguf_release(&file);
}

/* 65520 is the least that rounds to infinity. */
static void value_too_large_for_f16(void **state) {
    static const uint32_t bits[] = {0x477FEFFF, 0x477FF000, 0xC77FF000};
    const wisp_convert_options options = {.type = "f16"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct gguf file;
        struct bytes bytes = {0};
        wisp_error error = {0};
        const char *path = temporary_path("large.gguf"), *to = temporary_path("larger.gguf");
        gguf_make(&file, &tiny_shape);
        bytes_set_u32(&gguf_tensor(&file, "blk.1.ffn_up.weight")->data, 20, bits[i]);
        gguf_write_bytes(&file, &bytes);
        write_file(path, bytes.data, bytes.size);
        assert_int_equal(wisp_convert(path, to, &options, &error),
                         i == 0 ? WISP_OK : WISP_ERROR_UNSUPPORTED);
        assert_string_equal(error.field, i == 0 ? "" : "blk.1.ffn_up.weight");
        bytes_release(&bytes);
        gguf_release(&file);
    }
}

/* One long row takes no more memory than its values. */
static void long_row(void **state) {
    enum { VALUES = 1 << 20, BLOCK = 32, BLOCK_BYTES = 18, Q4_0 = 2 };
    const wisp_convert_options options = {.type = "f16"};
    struct gguf file;
    struct bytes bytes = {0};
    wisp_error error;
    (void)state;
    const char *path = temporary_path("long.gguf");
    gguf_make(&file, &tiny_shape);
    gguf_repeat_tensor(&file, "blk.1.ffn_up.bias");
    struct gguf_tensor *tensor = &file.tensors[file.n_tensors - 1];
    tensor->name.data[0] = 'x';
    tensor->type = Q4_0;
    tensor->dims[0] = VALUES;
    while (tensor->data.size < VALUES / BLOCK * BLOCK_BYTES)
        bytes_put(&tensor->data, "", 1);
    tensor->data.size = VALUES / BLOCK * BLOCK_BYTES;
    gguf_write_bytes(&file, &bytes);
    write_file(path, bytes.data, bytes.size);
    allocations_watch();
    assert_int_equal(wisp_convert(path, temporary_path("longer.gguf"), &options, &error), WISP_OK);
    assert_true(allocations_seen().largest <= VALUES * sizeof(float) + 64);
    bytes_release(&bytes);
    gguf_release(&file);
}

/* ---- a full disk ---------------------------------------------------------------------------- */

/* The exit codes by which the child reports its result. */
enum { DISK_GOOD, DISK_NOT_POSSIBLE, DISK_WRONG_STATUS, DISK_WRONG_MESSAGE, DISK_LEFT_OVER };

static bool put_line(const char *path, const char *line) {
    FILE *file = fopen(path, "w");
    const bool put = file && fputs(line, file) >= 0;
    return file && fclose(file) == 0 && put;
}

/* Gives the process its own name spaces, in which it may mount file systems. */
static bool leave_the_system(void) {
    char users[32], groups[32];
    snprintf(users, sizeof users, "0 %u 1", (unsigned)geteuid());
    snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && put_line("/proc/self/setgroups", "deny") &&
           put_line("/proc/self/uid_map", users) && put_line("/proc/self/gid_map", groups);
}

static bool is_empty(const char *path) {
    size_t entries = 0;
    DIR *listing = opendir(path);
    for (const struct dirent *entry; listing && (entry = readdir(listing)) != NULL;)
        entries += *entry->d_name != '.';
    return listing && closedir(listing) == 0 && entries == 0;
}

/* Writes to a file system of 8 KB. */
static int fill_disk(const char *at) {
    char path[160];
    wisp_error error;
    if (!leave_the_system() || mount("none", at, "tmpfs", 0, "size=8k") != 0)
        return DISK_NOT_POSSIBLE;
    snprintf(path, sizeof path, "%s/x.gguf", at);
    if (wisp_convert(input, path, NULL, &error) != WISP_ERROR_IO)
        return DISK_WRONG_STATUS;
    if (!strstr(error.message, "No space left"))
        return DISK_WRONG_MESSAGE;
    return is_empty(at) ? DISK_GOOD : DISK_LEFT_OVER;
}

static void disk_full(void **state) {
    int code;
    (void)state;
    make_folder(temporary_path("disk"));
    const pid_t child = fork();
    if (child == 0)
        _exit(fill_disk(temporary_path("disk")));
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code));
    if (WEXITSTATUS(code) == DISK_NOT_POSSIBLE)
        skip();
    assert_int_equal(WEXITSTATUS(code), DISK_GOOD);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int set_up(void **state) {
    struct bytes file = {0};
    (void)state;
    make_file(&file, &tiny_shape);
    snprintf(input, sizeof input, "%s", temporary_path("tiny.gguf"));
    snprintf(folder, sizeof folder, "%s", temporary_path("out"));
    snprintf(output, sizeof output, "%s", temporary_path("out/out.gguf"));
    make_folder(folder);
    write_file(input, file.data, file.size);
    bytes_put(&old, "what stood here before", 22);
    write_file(output, old.data, old.size);
    bytes_release(&file);
    return 0;
}

static int tidy(void **state) {
    (void)state;
    bytes_release(&old);
    remove_temporary_folder();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        {.name = "every read fails",
         .test_func = every_read_fails,
         .initial_state = (void *)(uintptr_t)&tiny_shape},
        {.name = "every read fails, q8_0",
         .test_func = every_read_fails,
         .initial_state = (void *)(uintptr_t)&tiny_shape_q8_0},
        {.name = "every read fails, nomic",
         .test_func = every_read_fails,
         .initial_state = (void *)(uintptr_t)&tiny_nomic},
        {.name = "every read fails, rows",
         .test_func = every_read_fails,
         .initial_state = (void *)(uintptr_t)&tiny_rows},
        cmocka_unit_test(no_way_to_read),
        cmocka_unit_test(every_write_fails),
        cmocka_unit_test(no_folder),
        cmocka_unit_test(unwritable_folder),
        cmocka_unit_test(output_that_is_no_file),
        cmocka_unit_test(rename_fails),
        cmocka_unit_test(cancelled_at_every_tensor),
        cmocka_unit_test(bad_requests),
        cmocka_unit_test(value_that_is_not_finite),
        cmocka_unit_test(value_too_large_for_f16),
        cmocka_unit_test(long_row),
        cmocka_unit_test(disk_full),
    };
    return cmocka_run_group_tests(tests, set_up, tidy);
}
