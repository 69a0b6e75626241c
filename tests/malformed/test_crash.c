/* SPDX-License-Identifier: Apache-2.0
 * Kills the program, interrupts it, or lets the system refuse it, at every system call of a
 * conversion in turn, and kills it at every one of three quantisations. Afterwards the output must
 * be either the earlier file or the whole new model. The program is build/wisp, or the one that
 * WISP_PROGRAM names. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <sys/user.h>
#endif

#include <cmocka.h>

#include "support/folder.h"
#include "support/opening.h"
#include "support/sampling.h"

static char input[128], output[128], folder[128];
static struct bytes old, new; /* the two files that `output` may be */
static bool quantises;        /* to BITNET_T158, rather than converts */
static char texts[128];       /* by these, if there is a name */

/* ---- the folder ----------------------------------------------------------------------------- */

static void read_whole(const char *path, struct bytes *bytes) {
    char chunk[4096];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, file)) > 0;)
        bytes_put(bytes, chunk, n);
    fclose(file);
}

static bool same(const struct bytes *a, const struct bytes *b) {
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

/* Removes temporary files and returns how many there were. */
static size_t clear_leftovers(void) {
    size_t found = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[512];
        const char *name = entry->d_name, *end = strrchr(name, '.');
        if (*name == '.' || strcmp(name, "out.gguf") == 0)
            continue;
        assert_string_equal(end, ".tmp");
        snprintf(path, sizeof path, "%s/%s", folder, name);
        assert_int_equal(unlink(path), 0);
        found++;
    }
    closedir(listing);
    return found;
}

enum outcome { STILL_OLD, ALREADY_NEW };

static enum outcome look_at_output(void) {
    struct bytes now = {0};
    read_whole(output, &now);
    const bool is_new = same(&now, &new);
    if (!is_new && !same(&now, &old))
        fail_msg("the output is neither as before nor complete: %zu bytes", now.size);
    bytes_release(&now);
    return is_new ? ALREADY_NEW : STILL_OLD;
}

/* ---- the traced program --------------------------------------------------------------------- */

static const char *program(void) {
    const char *given = getenv("WISP_PROGRAM");
    return given ? given : "build/wisp";
}

/* Runs in the child process, whose messages are discarded. */
static _Noreturn void become_program(bool traced) {
    const int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* which would itself trace the program */
    if (traced && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(126);
    if (texts[0])
        execl(program(), program(), "quantize", "--type", "bitnet_t158", "--data", texts, "-t", "1",
              input, output, (char *)NULL);
    else if (quantises)
        execl(program(), program(), "quantize", "--type", "bitnet_t158", input, output,
              (char *)NULL);
    else
        execl(program(), program(), "convert", input, output, (char *)NULL);
    _exit(127);
}

/* Starts the program, stopped before its first instruction. Returns 0 if the system allows no
 * tracing. */
static pid_t start(void) {
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        become_program(true);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 126)
        return 0;
    if (!WIFSTOPPED(status))
        fail_msg("%s does not run: WISP_PROGRAM names another", program());
    ptrace(PTRACE_SETOPTIONS, child, NULL,
           (void *)(uintptr_t)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    return child;
}

/* Lets the program run until it enters or leaves a system call, and passes on signals. Returns
 * false when it has ended. */
static bool next_stop(pid_t child, int *status) {
    uintptr_t number = 0;
    for (;;) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, (void *)number), 0);
        assert_int_equal(waitpid(child, status, 0), child);
        if (!WIFSTOPPED(*status))
            return false;
        number = (uintptr_t)WSTOPSIG(*status);
        if (number == (SIGTRAP | 0x80))
            return true;
    }
}

static void put_old_output(void) {
    write_file(output, old.data, old.size);
    clear_leftovers();
}

/* ---- killed --------------------------------------------------------------------------------- */

/* Kills the program at stop `n`. Returns false when the program ends before. */
static bool kill_at(pid_t child, unsigned n) {
    int status;
    for (unsigned i = 0; i <= n; i++)
        if (!next_stop(child, &status)) {
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            return false;
        }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    return true;
}

/* AddressSanitizer makes many calls of its own; one in so many is enough there. */
#ifdef __SANITIZE_ADDRESS__
enum { AT_EVERY = 16 };
#else
enum { AT_EVERY = 1 };
#endif

static void killed_at_every_call(void **state) {
    struct sampling sampling =
        sampling_of("system calls at which the program is killed", AT_EVERY > 1 ? 1 : 4);
    size_t found[2] = {0}, leftovers = 0;
    (void)state;
    for (unsigned n = 0;; n += AT_EVERY * (unsigned)sampling_stride(&sampling)) {
        put_old_output();
        const pid_t child = start();
        if (child == 0)
            skip();
        const bool killed = kill_at(child, n);
        found[look_at_output()]++;
        leftovers += clear_leftovers();
        if (!killed)
            break;
    }
    /* Some kills must have come before the new model was in place, and some after. */
    assert_true(found[STILL_OLD] > 0 && found[ALREADY_NEW] > 0 && leftovers > 0);
}

/* ---- interrupted and refused ---------------------------------------------------------------- */

#if defined(__x86_64__)

static void run_to_end(pid_t child, int *status) {
    while (next_stop(child, status))
        continue;
}

static struct user_regs_struct registers_of(pid_t child) {
    struct user_regs_struct registers;
    assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &registers), 0);
    return registers;
}

/* Lets the program run until it has set up its signal handlers, of which the last is SIGTERM's. */
static bool go_to_main(pid_t child) {
    int status;
    for (unsigned seen = 0; seen < 2;) { /* entered and left */
        if (!next_stop(child, &status))
            return false;
        const struct user_regs_struct registers = registers_of(child);
        seen += registers.orig_rax == SYS_rt_sigaction && registers.rdi == SIGTERM;
    }
    return true;
}

/* Runs to the program's call number `n` since main. Returns false when it ends before. */
static bool go_to_call(pid_t child, unsigned n, int *status) {
    assert_true(go_to_main(child));
    for (unsigned i = 0; i <= 2 * n; i++)
        if (!next_stop(child, status))
            return false;
    return true;
}

static void interrupted_at_every_call(void **state) {
    size_t interrupted = 0;
    (void)state;
    for (unsigned n = 0;; n++) {
        int status;
        put_old_output();
        const pid_t child = start();
        if (child == 0)
            skip();
        if (!go_to_call(child, n, &status))
            break;
        assert_int_equal(kill(child, SIGTERM), 0);
        run_to_end(child, &status);
        assert_true(WIFEXITED(status));
        const enum outcome outcome = look_at_output();
        assert_int_equal(WEXITSTATUS(status), outcome == ALREADY_NEW ? 0 : 130);
        assert_int_equal(clear_leftovers(), 0);
        interrupted += outcome == STILL_OLD;
    }
    assert_true(interrupted > 0);
}

/* AddressSanitizer fails if the system refuses memory that it needs for itself. */
#if !defined(__SANITIZE_ADDRESS__)

static void set_registers(pid_t child, unsigned long long call, unsigned long long result) {
    struct user_regs_struct registers = registers_of(child);
    registers.orig_rax = call;
    registers.rax = result;
    assert_int_equal(ptrace(PTRACE_SETREGS, child, NULL, &registers), 0);
}

/* Replaces the call that the program is about to make by an error. */
static bool refuse(pid_t child, int error, int *status) {
    set_registers(child, (unsigned long long)-1, 0);
    if (!next_stop(child, status))
        return false;
    set_registers(child, (unsigned long long)-1, (unsigned long long)-error);
    return true;
}

/* brk returns the current break instead of an error. */
static bool cannot_fail(long call) {
    return call == SYS_exit_group || call == SYS_brk;
}

/* Gives the program's call `n` an error. Returns false when it has no such call. */
static bool refuse_call(unsigned n, size_t found[2]) {
    int status;
    put_old_output();
    const pid_t child = start();
    if (child == 0)
        skip();
    if (!go_to_call(child, n, &status))
        return false;
    const long call = (long)registers_of(child).orig_rax;
    if (cannot_fail(call)) {
        run_to_end(child, &status);
        return true;
    }
    if (refuse(child, call == SYS_write ? ENOSPC : EIO, &status))
        run_to_end(child, &status);
    if (!WIFEXITED(status))
        fail_msg("system call %ld, refused, ends the program by signal %d", call, WTERMSIG(status));
    const enum outcome outcome = look_at_output();
    if ((WEXITSTATUS(status) == 0) != (outcome == ALREADY_NEW))
        fail_msg("system call %ld, refused: exit code %d, and the output is %s", call,
                 WEXITSTATUS(status), outcome == ALREADY_NEW ? "new" : "old");
    assert_int_equal(clear_leftovers(), 0);
    found[outcome]++;
    return true;
}

static void refused_every_call(void **state) {
    size_t found[2] = {0};
    (void)state;
    for (unsigned n = 0; refuse_call(n, found); n++)
        continue;
    assert_true(found[STILL_OLD] > 5);
}

#endif
#endif

/* ---- the whole ------------------------------------------------------------------------------ */

static int set_up(void **state) {
    struct gguf file;
    struct bytes bytes = {0};
    wisp_error error;
    (void)state;
    gguf_make(&file, &tiny_shape);
    gguf_write_bytes(&file, &bytes);
    gguf_release(&file);
    snprintf(input, sizeof input, "%s", temporary_path("tiny.gguf"));
    snprintf(folder, sizeof folder, "%s", temporary_path("out"));
    snprintf(output, sizeof output, "%s", temporary_path("out/out.gguf"));
    make_folder(folder);
    write_file(input, bytes.data, bytes.size);
    bytes_put(&old, "GGUF that stood here before", 27);
    bytes_release(&bytes);
    if (wisp_convert(input, output, NULL, &error) != WISP_OK)
        return -1;
    read_whole(output, &new);
    return 0;
}

static int quantise_model(const char *path) {
    wisp_error error;
    snprintf(input, sizeof input, "%s", path);
    quantises = true;
    if (wisp_quantize(input, output, "bitnet_t158", NULL, &error) != WISP_OK)
        return -1;
    bytes_release(&new);
    new = (struct bytes){0};
    read_whole(output, &new);
    return 0;
}

static int quantise_shards(void **state) {
    (void)state;
    return quantise_model("tests/data/models/mean-shards");
}

static int quantise_file(void **state) {
    (void)state;
    return quantise_model(temporary_path("tiny.gguf"));
}

static int quantise_for_texts(void **state) {
    enum { LINES = 30 };
    static const wisp_quantize_options options = {.seed = 1, .threads = 1};
    wisp_text lines[LINES];
    struct bytes file = {0};
    wisp_error error;
    (void)state;
    for (size_t i = 0; i < LINES; i++) {
        lines[i] = wisp_text_of(i % 2 ? "the cat is" : "a cat sat on the mat");
        bytes_put(&file, lines[i].bytes, lines[i].length);
        bytes_put(&file, "\n", 1);
    }
    snprintf(texts, sizeof texts, "%s", temporary_path("texts.txt"));
    write_file(texts, file.data, file.size);
    bytes_release(&file);
    if (wisp_quantize_for_texts(input, output, "bitnet_t158", lines, LINES, &options, &error) !=
        WISP_OK)
        return -1;
    bytes_release(&new);
    new = (struct bytes){0};
    read_whole(output, &new);
    return 0;
}

static int tidy(void **state) {
    (void)state;
    bytes_release(&old);
    bytes_release(&new);
    remove_temporary_folder();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_every_call),
#if defined(__x86_64__)
        cmocka_unit_test(interrupted_at_every_call),
#if !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(refused_every_call),
#endif
#endif
        {"quantising shards, killed at every call", killed_at_every_call, quantise_shards, NULL,
         NULL},
        {"quantising, killed at every call", killed_at_every_call, quantise_file, NULL, NULL},
        {"quantising for texts, killed at every call", killed_at_every_call, quantise_for_texts,
         NULL, NULL},
    };
    return cmocka_run_group_tests(tests, set_up, tidy);
}
