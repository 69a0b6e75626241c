/* SPDX-License-Identifier: Apache-2.0 */
#include "support/steps.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* The child raises it before the call and after. */
enum { MARK = SIGUSR1 };

_Noreturn static void fail(const char *what) {
    perror(what);
    exit(EXIT_FAILURE);
}

_Noreturn static void be_traced(void (*call)(const void *), const void *context) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(EXIT_FAILURE);
    raise(MARK);
    call(context);
    raise(MARK);
    _exit(EXIT_SUCCESS);
}

/* Returns the signal at which the child stops. */
static int next_stop(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        fail("the traced process");
    return WSTOPSIG(status);
}

static size_t all_steps(void (*call)(const void *), const void *context) {
    fflush(stdout);
    const pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0)
        be_traced(call, context);
    size_t steps = 0;
    for (int stop = next_stop(child); stop != MARK || steps == 0; stop = next_stop(child)) {
        steps += stop == SIGTRAP;
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0)
            fail("ptrace");
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return steps;
}

static void do_nothing(const void *context) {
    (void)context;
}

size_t steps_of(void (*call)(const void *), const void *context) {
    static size_t around; /* what the marks take */
    if (around == 0)
        around = all_steps(do_nothing, NULL);
    return all_steps(call, context) - around;
}
