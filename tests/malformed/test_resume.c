/* SPDX-License-Identifier: Apache-2.0
 * `wisp embed --output --resume` is killed at any system call, again and again, and in the middle
 * of what it writes. The next run goes on, and the file has in the end the bytes that one run
 * writes. make test runs a sample. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/commands.h"
#include "support/golden.h"
#include "support/rng.h"
#include "support/sampling.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) &&                 \
    !defined(__SANITIZE_THREAD__)

#include <sys/user.h>
#include <sys/wait.h>

/* Three batches (cli/input.h), the last of them smaller. */
enum { LINES = 2500, NO_KILL = INT32_MAX };

static char folder[64], input[80], output[80], progress[96];
static const char *model;

static int make_input(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/wisp-resume-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(input, sizeof input, "%s/lines.ndjson", folder);
    snprintf(output, sizeof output, "%s/rows", folder);
    snprintf(progress, sizeof progress, "%s.progress", output);
    model = tiny_model("resume.gguf", "gelu");
    FILE *file = fopen(input, "w");
    assert_non_null(file);
    for (int i = 0; i < LINES; i++)
        fprintf(file, i % 500 == 7 ? "{\"id\":%d}\n" : "{\"id\":%d,\"text\":\"a man %d\"}\n", i,
                i * 7919 % 1000);
    return fclose(file);
}

static void remove_output(void) {
    unlink(output);
    unlink(progress);
}

static int remove_all(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command); /* temporary files of killed runs are there, too */
}

/* ---- runs ----------------------------------------------------------------------------------- */

static pid_t start_run(const char *format) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    const int null = open("/dev/null", O_RDWR);
    if (dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
        ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(126);
    execl(command_program(false), "wisp", "embed", "-m", model, "-t", "1", "--input", "ndjson",
          "--keep-going", "--format", format, "--output", output, "--resume", input, (char *)NULL);
    _exit(127);
}

/* Lets the program run until it enters or leaves a system call. Returns false when it has ended. */
static bool next_stop(pid_t child, int *status) {
    for (;;) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
        *status = command_wait(child);
        if (!WIFSTOPPED(*status))
            return false;
        if (WSTOPSIG(*status) == (SIGTRAP | 0x80))
            return true;
    }
}

/* Lets a write that the program is about to make write some of its bytes only. */
static void cut_write(pid_t child, struct rng *rng, int *status) {
    struct user_regs_struct registers;
    assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &registers), 0);
    if (registers.orig_rax != SYS_write || registers.rdx < 2)
        return;
    registers.rdx = rng_range(rng, 1, (size_t)registers.rdx);
    assert_int_equal(ptrace(PTRACE_SETREGS, child, NULL, &registers), 0);
    next_stop(child, status);
}

/* Runs the program and kills it at system call `n`. Returns whether it ended before. */
static bool run_until(const char *format, int n, struct rng *rng) {
    const pid_t child = start_run(format);
    int status = command_wait(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 126)
        skip();
    assert_true(WIFSTOPPED(status));
    ptrace(PTRACE_SETOPTIONS, child, NULL,
           (void *)(uintptr_t)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    for (int i = 0; i <= n; i++)
        if (!next_stop(child, &status) || (i < n && !next_stop(child, &status))) {
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 4); /* lines without a text */
            return true;
        }
    cut_write(child, rng, &status);
    kill(child, SIGKILL);
    command_wait(child);
    return false;
}

/* ---- tests ---------------------------------------------------------------------------------- */

struct whole {
    void *bytes;
    size_t size;
};

static void expect_whole(const struct whole *whole, const char *format, int n) {
    size_t size;
    void *made = read_file(output, &size);
    if (size != whole->size || memcmp(made, whole->bytes, size) != 0)
        fail_msg("%s, killed at call %d: %zu bytes that differ from the %zu of one run", format, n,
                 size, whole->size);
    free(made);
}

/* Kills a run at call n, and the runs after it at calls further on, and lets the last one end. */
static void kill_at(const char *format, int n, const struct whole *whole, struct rng *rng) {
    bool ended = run_until(format, n, rng);
    for (int kills = 0; !ended && kills < 3; kills++)
        ended = run_until(format, n + (int)rng_below(rng, 60), rng);
    if (!ended)
        assert_true(run_until(format, NO_KILL, rng));
    expect_whole(whole, format, n);
    /* A run after the end changes nothing. */
    if (n % 16 == 0) {
        assert_true(run_until(format, NO_KILL, rng));
        expect_whole(whole, format, n);
    }
}

static void killed_at_calls(void **state) {
    const char *format = *state;
    struct sampling sampling = sampling_of("system calls of a bulk run", 24);
    if (sampling.mean_stride == 1) /* all of them take minutes, and are much alike */
        sampling = (struct sampling){.rng = {rng_seed()}, .mean_stride = 6};
    struct whole whole;
    assert_true(run_until(format, NO_KILL, &sampling.rng));
    whole.bytes = read_file(output, &whole.size);
    assert_true(whole.size > LINES * 8);
    int kills = 0;
    for (int n = 0;; n += (int)sampling_stride(&sampling), kills++) {
        remove_output();
        if (run_until(format, n, &sampling.rng))
            break;
        kill_at(format, n, &whole, &sampling.rng);
    }
    print_message("             %s: killed at %d calls\n", format, kills);
    assert_true(kills > 3);
    free(whole.bytes);
    remove_output();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(killed_at_calls, (void *)(uintptr_t)"npy"),
        cmocka_unit_test_prestate(killed_at_calls, (void *)(uintptr_t)"ndjson"),
        cmocka_unit_test_prestate(killed_at_calls, (void *)(uintptr_t)"f32"),
    };
    return cmocka_run_group_tests(tests, make_input, remove_all);
}

#else

int main(void) {
    puts("skipped: a bulk run that is killed: this needs x86-64, glibc and no sanitizer");
    return 0;
}

#endif
