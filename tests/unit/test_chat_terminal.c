/* SPDX-License-Identifier: Apache-2.0
 * wisp generate --chat on a pseudo-terminal: Ctrl-C ends a reply and not the program, Ctrl-C at the
 * prompt and Ctrl-D end it, and a mistake does not. Keys edit the line, unless the terminal cannot
 * move its cursor. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "support/builder.h"
#include "support/commands.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { PIPE_BYTES = 4096 };

/* A conversation: standard input and error are the terminal, standard output is a pipe. */
struct talk {
    pid_t pid;
    int terminal, output;
    struct bytes shown, said; /* on the terminal, and of the output, so far */
};

/* `kind` is that of the terminal: one named "dumb" moves no cursor. */
static void start(struct talk *talk, const char *kind, bool fill) {
    int output[2];
    char filling[PIPE_BYTES] = {0};
    *talk = (struct talk){.terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
    assert_true(talk->terminal >= 0 && grantpt(talk->terminal) == 0 &&
                unlockpt(talk->terminal) == 0);
    const char *name = ptsname(talk->terminal);
    assert_non_null(name);
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    if (fill) { /* but for one byte, which the first piece of the reply takes */
        assert_true(fcntl(output[1], F_SETPIPE_SZ, PIPE_BYTES) == PIPE_BYTES);
        assert_int_equal(write(output[1], filling, PIPE_BYTES - 1), PIPE_BYTES - 1);
    }
    talk->pid = fork();
    assert_true(talk->pid >= 0);
    if (talk->pid == 0) {
        setsid();
        const int in = open(name, O_RDWR); /* the controlling terminal */
        if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(in, STDERR_FILENO) < 0 ||
            dup2(output[1], STDOUT_FILENO) < 0)
            _exit(125);
        setenv("TERM", kind, 1);
        execl(command_program(false), "wisp", "generate", "--chat", "--chat-format", "plain", "-m",
              "models/wisp-stories.gguf", "-t", "1", "-n", "200", (char *)NULL);
        _exit(127);
    }
    close(output[1]);
    talk->output = output[0];
}

static void type(const struct talk *talk, const char *text) {
    assert_int_equal(write(talk->terminal, text, strlen(text)), (ssize_t)strlen(text));
}

/* Reads more. Returns false at the end, and if nothing comes for a minute: then the program waits
 * for input, and the test would wait for ever. */
static bool read_more(int descriptor, struct bytes *bytes) {
    char chunk[512];
    struct pollfd ready = {.fd = descriptor, .events = POLLIN};
    const ssize_t n = poll(&ready, 1, 60000) > 0 ? read(descriptor, chunk, sizeof chunk) : 0;
    if (n > 0)
        bytes_put(bytes, chunk, (size_t)n);
    return n > 0;
}

/* Returns the place after `text` in what was read from `from` on, reading until it is there. */
static size_t expect(int descriptor, struct bytes *bytes, size_t from, const char *text) {
    for (;;) {
        const unsigned char *found =
            bytes->size > from ? memmem(bytes->data + from, bytes->size - from, text, strlen(text))
                               : NULL;
        if (found)
            return (size_t)(found - bytes->data) + strlen(text);
        if (!read_more(descriptor, bytes))
            fail_msg("no \"%s\"", text);
    }
}

static int finish(struct talk *talk) {
    int status;
    while (read_more(talk->output, &talk->said))
        continue;
    assert_int_equal(waitpid(talk->pid, &status, 0), talk->pid);
    close(talk->terminal);
    close(talk->output);
    bytes_release(&talk->shown);
    bytes_release(&talk->said);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void control_c_ends_a_reply(void **state) {
    struct talk talk;
    int full = 0;
    start(&talk, *state, true);
    size_t at = expect(talk.terminal, &talk.shown, 0, "> ");
    type(&talk, "Once upon a time\n");
    /* Until the pipe is full. The program is then within the reply, and waits to write more. */
    while (full < PIPE_BYTES) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert_int_equal(ioctl(talk.output, FIONREAD, &full), 0);
    }
    type(&talk, "\x03");
    at = expect(talk.terminal, &talk.shown, at, "^C"); /* the signal has been sent */
    size_t said = expect(talk.output, &talk.said, PIPE_BYTES - 1, "\n");
    assert_true(said < PIPE_BYTES + 100); /* not all 200 tokens */
    at = expect(talk.terminal, &talk.shown, at, "> ");
    type(&talk, "/wrong\n");
    at = expect(talk.terminal, &talk.shown, at, "unknown command");
    at = expect(talk.terminal, &talk.shown, at, "> ");
    type(&talk, "/load\n");
    at = expect(talk.terminal, &talk.shown, at, "unknown command");
    type(&talk, "/load missing.json\n");
    at = expect(talk.terminal, &talk.shown, at, "missing.json: cannot open");
    type(&talk, "/help\n");
    at = expect(talk.terminal, &talk.shown, at, "/save FILE");
    type(&talk, "One day\n");
    expect(talk.output, &talk.said, said, "\n");
    expect(talk.terminal, &talk.shown, at, "> ");
    type(&talk, "\x04");
    assert_int_equal(finish(&talk), 0);
}

static void control_c_at_the_prompt_ends_the_program(void **state) {
    struct talk talk;
    start(&talk, *state, false);
    expect(talk.terminal, &talk.shown, 0, "> ");
    type(&talk, "\x03");
    assert_int_equal(finish(&talk), 130);
    assert_int_equal(talk.said.size, 0);
}

static void a_request_to_terminate_ends_the_program(void **state) {
    struct talk talk;
    start(&talk, *state, false);
    expect(talk.terminal, &talk.shown, 0, "> ");
    assert_int_equal(kill(talk.pid, SIGTERM), 0);
    assert_int_equal(finish(&talk), 130);
}

/* Each key does its work on the line that is edited. */
static void keys_edit_the_line(void **state) {
    static const struct {
        const char *typed, *sent; /* without the key that enters the line */
    } lines[] = {
        {"wrld\x02\x02\x02o\x05s\x01/", "/worlds"},
        {"/left right\x17up\033[D\033[D\033OC\x7f!", "/left !p"},
        {"/a b c\033[1;5D\033[1;5D\x0b", "/a "},
        {"\x10\x10\x0e!", "/a !"}, /* the lines before */
        {"\033[A\033[B/\xC3\xBC\xE6\x97\xA5\x7f\033[H\033[C\033[3~", "/"},
        {"nothing\x15/\033[5~\t\x07z", "/ z"}, /* keys that do nothing */
        {"/first\r/second", "/second"},        /* two at once */
    };
    struct talk talk;
    size_t at = 0;
    start(&talk, *state, false);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char complaint[100];
        at = expect(talk.terminal, &talk.shown, at, "> ");
        type(&talk, lines[i].typed);
        type(&talk, "\r");
        snprintf(complaint, sizeof complaint, "wisp: %s: unknown command", lines[i].sent);
        at = expect(talk.terminal, &talk.shown, at, complaint);
    }
    expect(talk.terminal, &talk.shown, at, "> ");
    type(&talk, "\x04");
    assert_int_equal(finish(&talk), 0);
}

int main(void) {
    static char able[] = "xterm", unable[] = "dumb";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(control_c_ends_a_reply, able),
        cmocka_unit_test_prestate(control_c_ends_a_reply, unable),
        cmocka_unit_test_prestate(control_c_at_the_prompt_ends_the_program, able),
        cmocka_unit_test_prestate(control_c_at_the_prompt_ends_the_program, unable),
        cmocka_unit_test_prestate(a_request_to_terminate_ends_the_program, able),
        cmocka_unit_test_prestate(a_request_to_terminate_ends_the_program, unable),
        cmocka_unit_test_prestate(keys_edit_the_line, able),
    };
    return cmocka_run_group_tests_name("chat on a terminal", tests, NULL, NULL);
}
