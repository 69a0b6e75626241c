/* SPDX-License-Identifier: Apache-2.0
 * Makes every system call of every command of the program fail in turn, or do less than it was
 * asked for, and every allocation. Whatever the command then writes is whole, absent or cut short
 * with an error (support/commands.h). make test runs a sample.
 *
 * The program is build/native/wisp-refusing: wisp with refuse.c. The sanitizers' programs are left
 * out: they fail if the system refuses what they need for themselves. */
#include <errno.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/commands.h"
#include "support/refuse.h"
#include "support/sampling.h"

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) &&                 \
    !defined(__SANITIZE_THREAD__)

#include <sys/user.h>

/* ---- tracing -------------------------------------------------------------------------------- */

/* The ways in which a system call fails. */
enum fault {
    REFUSED,     /* it returns an error that it may return */
    FULL,        /* a write finds no space */
    INTERRUPTED, /* a signal without a handler comes first: EINTR */
    SHORT,       /* it reads or writes one byte */
    FAULTS
};

static const char *const fault_names[FAULTS] = {"refused", "no space", "interrupted", "short"};

static struct user_regs_struct registers_of(pid_t child) {
    struct user_regs_struct registers;
    assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &registers), 0);
    return registers;
}

static void set_registers(pid_t child, const struct user_regs_struct *registers) {
    assert_int_equal(ptrace(PTRACE_SETREGS, child, NULL, registers), 0);
}

/* Lets the program run until its first thread enters or leaves a system call, and passes on
 * signals. Returns false when it has ended. */
static bool next_stop(pid_t child, int *status) {
    uintptr_t number = 0;
    for (;;) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, (void *)number), 0);
        *status = command_wait(child);
        if (!WIFSTOPPED(*status))
            return false;
        number = (uintptr_t)WSTOPSIG(*status);
        if (number == (SIGTRAP | 0x80))
            return true;
    }
}

static void run_to_end(pid_t child, int *status) {
    while (next_stop(child, status))
        continue;
}

static void let_trace(void *context) {
    (void)context;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(126);
}

/* Starts the command and lets it run to the first system call of main. Returns 0 if the system
 * allows no tracing. */
static pid_t start_traced(struct command_run *run) {
    int status;
    run->prepare = let_trace;
    const pid_t child = command_start(run);
    status = command_wait(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 126)
        return 0;
    if (!WIFSTOPPED(status))
        fail_msg("%s does not run", command_program(true));
    ptrace(PTRACE_SETOPTIONS, child, NULL,
           (void *)(uintptr_t)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    for (int seen = 0; seen < 2;) { /* entered and left */
        assert_true(next_stop(child, &status));
        const struct user_regs_struct registers = registers_of(child);
        seen += registers.orig_rax == SYS_close && (int)registers.rdi == REFUSE_MARK;
    }
    return child;
}

/* ---- system calls --------------------------------------------------------------------------- */

static bool moves_bytes(long call) {
    return call == SYS_read || call == SYS_write || call == SYS_pread64 || call == SYS_pwrite64;
}

/* brk returns the break instead of an error, and getpid always succeeds: a program that is told
 * another process id takes itself for a fork. glibc ends the program if a futex or a signal mask
 * fails, which does not happen. Without the tiles that arch_prctl asks for, another kernel set
 * computes, whose floats may have other bits. */
static bool cannot_fail(long call) {
    return call == SYS_exit_group || call == SYS_exit || call == SYS_brk || call == SYS_getpid ||
           call == SYS_futex || call == SYS_rt_sigprocmask || call == SYS_rt_sigreturn ||
           call == SYS_rt_sigaction || call == SYS_arch_prctl;
}

/* Returns the error that the fault gives the call, or 0 if it gives it none. */
static int error_of(enum fault fault, long call) {
    if (cannot_fail(call))
        return 0;
    if (fault == INTERRUPTED)
        return moves_bytes(call) || call == SYS_poll || call == SYS_openat || call == SYS_clone3
                   ? EINTR
                   : 0;
    if (fault == FULL)
        return call == SYS_write || call == SYS_fsync || call == SYS_rename ? ENOSPC : 0;
    switch (call) {
    case SYS_mmap:
    case SYS_mprotect:
        return ENOMEM;
    case SYS_clone:
    case SYS_clone3:
        return EAGAIN;
    case SYS_openat:
        return EMFILE;
    default:
        return EIO;
    }
}

/* Does that to the call that the program is about to make. Returns false if the fault does not
 * befall this call. */
static bool befall(pid_t child, enum fault fault, int *status, bool *ended) {
    struct user_regs_struct registers = registers_of(child);
    const long call = (long)registers.orig_rax;
    const int error = fault == SHORT ? 0 : error_of(fault, call);
    *ended = false;
    if (fault == SHORT && (!moves_bytes(call) || registers.rdx < 2))
        return false;
    if (fault != SHORT && error == 0)
        return false;
    if (fault == SHORT) {
        registers.rdx = 1;
        set_registers(child, &registers);
        return true;
    }
    registers.orig_rax = (unsigned long long)-1;
    set_registers(child, &registers);
    *ended = !next_stop(child, status);
    if (*ended)
        return true;
    registers = registers_of(child);
    registers.rax = (unsigned long long)-error;
    set_registers(child, &registers);
    return true;
}

/* Counts over all commands: what became of them. */
static size_t good, failed;

/* Lets the fault befall call number `n`. Returns false if the command makes fewer. */
static bool fault_at(const struct command *command, enum fault fault, size_t n) {
    struct command_run run = {.command = command, .refusing = true, .existing = n & 1};
    char what[64];
    int status;
    bool ended;
    const pid_t child = start_traced(&run);
    if (child == 0)
        skip();
    for (size_t i = 0; i <= 2 * n; i++)
        if (!next_stop(child, &status)) {
            assert_true(command_check(&run, status, "not faulted"));
            return false;
        }
    const long call = (long)registers_of(child).orig_rax;
    run.leaves = call == SYS_unlink;
    const bool befell = befall(child, fault, &status, &ended);
    if (!ended)
        run_to_end(child, &status);
    snprintf(what, sizeof what, "call %zu (number %ld) %s", n, call, fault_names[fault]);
    const bool is_good = command_check(&run, status, what);
    if (is_good)
        good++;
    else
        failed++;
    if (!befell && !is_good)
        command_wrong(&run, what, "fails without a fault");
    /* A program must go on after less was read or written than it asked for. */
    if (befell && fault == SHORT && !is_good)
        command_wrong(&run, what, "fails");
    return true;
}

/* Errors befall every call if everything runs. The other faults, of which commands take little
 * notice, befall one call in three, so that CI takes less than an hour. */
static void every_call(void **state) {
    struct sampling sampling = sampling_of("system calls of the commands", 48);
    const enum fault fault = *(const enum fault *)*state;
    if (fault != REFUSED && sampling.mean_stride == 1)
        sampling = (struct sampling){.rng = {rng_seed()}, .mean_stride = 3};
    good = failed = 0;
    for (size_t c = 0; c < COMMANDS; c++)
        for (size_t n = sampling_stride(&sampling) - 1; fault_at(&commands[c], fault, n);
             n += sampling_stride(&sampling))
            continue;
    commands_expect_right();
    print_message("             %s: %zu went on, %zu failed\n", fault_names[fault], good, failed);
}

/* ---- allocations ---------------------------------------------------------------------------- */

struct refusal {
    size_t n;
    bool onwards;
    int report[2];
};

static void ask_for_refusal(void *context) {
    const struct refusal *refusal = context;
    char text[32];
    snprintf(text, sizeof text, "%zu%s", refusal->n, refusal->onwards ? "+" : "");
    setenv("WISP_REFUSE", text, 1);
    snprintf(text, sizeof text, "%d", dup(refusal->report[1])); /* which exec does not close */
    setenv("WISP_REFUSE_REPORT", text, 1);
}

/* Returns false if the command makes fewer allocations. */
static bool refuse_allocation(const struct command *command, size_t n, bool onwards) {
    struct refusal refusal = {.n = n, .onwards = onwards};
    struct command_run run = {.command = command,
                              .refusing = true,
                              .existing = n & 1,
                              .prepare = ask_for_refusal,
                              .context = &refusal};
    char what[64], byte;
    assert_int_equal(pipe2(refusal.report, O_CLOEXEC), 0);
    const int status = command_wait(command_start(&run));
    close(refusal.report[1]);
    const bool refused = read(refusal.report[0], &byte, 1) == 1;
    close(refusal.report[0]);
    snprintf(what, sizeof what, "allocation %zu refused%s", n, onwards ? ", and all after" : "");
    const bool is_good = command_check(&run, status, what);
    if (!refused && !is_good)
        command_wrong(&run, what, "fails without a fault");
    if (refused && is_good)
        good++;
    else if (refused)
        failed++;
    return refused;
}

/* Each of the first hundred allocations, and of later ones, which are more and more alike, fewer
 * and fewer. */
static void every_allocation(void **state) {
    struct sampling sampling = sampling_of("allocations of the commands", 40);
    (void)state;
    good = failed = 0;
    for (int onwards = 0; onwards < 2; onwards++)
        for (size_t c = 0; c < COMMANDS; c++)
            for (size_t n = sampling_stride(&sampling) - 1;
                 refuse_allocation(&commands[c], n, onwards != 0);
                 n += sampling_stride(&sampling) * (1 + n / 100))
                continue;
    commands_expect_right();
    print_message("             allocations: %zu went on, %zu failed\n", good, failed);
}

int main(void) {
    static const enum fault faults[FAULTS] = {REFUSED, FULL, INTERRUPTED, SHORT};
    struct CMUnitTest tests[FAULTS + 1];
    for (size_t i = 0; i < FAULTS; i++)
        tests[i] = (struct CMUnitTest){.name = fault_names[i],
                                       .test_func = every_call,
                                       .initial_state = (void *)(uintptr_t)&faults[i]};
    tests[FAULTS] = (struct CMUnitTest)cmocka_unit_test(every_allocation);
    return cmocka_run_group_tests(tests, commands_set_up, commands_tear_down);
}

#else

int main(void) {
    puts("skipped: faults in every command: this needs x86-64, glibc and no sanitizer");
    return 0;
}

#endif
