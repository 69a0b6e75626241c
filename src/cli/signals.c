/* SPDX-License-Identifier: Apache-2.0
 * How Ctrl-C and its like reach the commands. A module of WebAssembly has wasm/program/signals.c
 * instead. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"

static wisp_session *watched;
static volatile sig_atomic_t interrupted, terminated;
/* The handler writes to the pipe and wait_readable polls it, so that a signal that comes just
 * before the wait is noticed. */
static int wake_pipe[2] = {-1, -1};

static void on_interrupt(int number) {
    const int code = errno;
    if (number == SIGINT)
        interrupted = 1;
    else
        terminated = 1;
    if (watched)
        wisp_session_cancel(watched);
    if (write(wake_pipe[1], "", 1) < 0)
        errno = code; /* the pipe is full or not open: nobody waits for it */
}

void watch_signals(wisp_session *session) {
    watched = session;
    if (wake_pipe[0] < 0 && pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return; /* Ctrl-C ends the program as by default */
    /* SA_RESETHAND restores the default after the first signal, so that the second one ends the
     * program. Without SA_RESTART a waiting read returns. */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    /* Under nohup the signal is ignored, and stays so. */
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool was_interrupted(void) {
    return interrupted != 0 || terminated != 0;
}

bool go_on_after_interrupt(void) {
    char bytes[16];
    while (read(wake_pipe[0], bytes, sizeof bytes) > 0)
        continue;
    interrupted = 0;
    watch_signals(watched);
    return !was_interrupted();
}

bool wait_readable(int descriptor) {
    struct pollfd waiting[2] = {{.fd = descriptor, .events = POLLIN},
                                {.fd = wake_pipe[0], .events = POLLIN}};
    while (poll(waiting, 2, -1) < 0 && errno == EINTR && !was_interrupted())
        continue;
    return !was_interrupted();
}
