/* SPDX-License-Identifier: Apache-2.0
 * Kills every command of the program at random moments, and gives it full disks, limits on the
 * size of files, and pipes that are slow or closed. What it has written then is whole, absent or
 * cut short with an error (support/commands.h), and the next run works. Output is written in large
 * pieces.
 *
 * WISP_KILLS is the number of kills; make campaign sets 1000. */
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/builder.h"
#include "support/commands.h"
#include "support/rng.h"
#include "support/sampling.h"

/* ---- kill -9 -------------------------------------------------------------------------------- */

static uint64_t microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void pause_for(uint64_t time) {
    struct timespec left = {.tv_sec = (time_t)(time / 1000000),
                            .tv_nsec = (long)(time % 1000000 * 1000)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

static size_t kills_wanted(void) {
    const char *given = getenv("WISP_KILLS");
    return given ? strtoul(given, NULL, 10) : 20;
}

/* Each kill comes within the time that the command took last. */
static void killed_at_random(void **state) {
    uint64_t took[COMMANDS] = {0};
    struct rng rng = {rng_seed()};
    size_t killed = 0;
    (void)state;
    for (size_t i = 0; i < kills_wanted(); i++) {
        const size_t c = rng_below(&rng, COMMANDS);
        struct command_run run = {.command = &commands[c], .existing = rng_coin(&rng)};
        char what[64];
        if (took[c] == 0) {
            const uint64_t start = microseconds();
            command_run_whole(run.command, run.existing, "before any kill");
            took[c] = microseconds() - start;
        }
        const uint64_t moment = rng_below(&rng, (size_t)took[c] + 1);
        snprintf(what, sizeof what, "killed after %llu us", (unsigned long long)moment);
        const pid_t child = command_start(&run);
        pause_for(moment);
        kill(child, SIGKILL);
        const int status = command_wait(child);
        killed += WIFSIGNALED(status);
        command_check(&run, status, what);
        command_run_whole(run.command, run.existing, "after a kill");
    }
    commands_expect_right();
    print_message("             %zu of %zu were killed before their end\n", killed, kills_wanted());
}

/* ---- no space ------------------------------------------------------------------------------- */

static void limit_files(void *context) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = *(const size_t *)context;
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN); /* the write fails with EFBIG */
}

/* No file may grow beyond a limit, from nothing to all that the command writes. */
static void every_limit(void **state) {
    static const size_t limits[] = {0, 1, 100, 128, 129, 1000, 4096, 10000, 20000, 100000};
    (void)state;
    for (size_t c = 0; c < COMMANDS; c++)
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
            size_t limit = limits[i];
            struct command_run run = {.command = &commands[c],
                                      .existing = i & 1,
                                      .prepare = limit_files,
                                      .context = &limit};
            char what[64];
            snprintf(what, sizeof what, "files of at most %zu bytes", limit);
            command_check(&run, command_wait(command_start(&run)), what);
        }
    commands_expect_right();
}

/* Standard output is a device without space. */
static void put_full(void *context) {
    (void)context;
    if (dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO) < 0)
        _exit(126);
}

static void no_space(void **state) {
    (void)state;
    for (size_t c = 0; c < COMMANDS; c++) {
        struct command_run run = {.command = &commands[c], .prepare = put_full};
        const int status = command_wait(command_start(&run));
        /* Only convert writes nothing there. */
        const bool writes = strcmp(commands[c].arguments[0], "convert") != 0;
        if (writes != (WIFEXITED(status) && WEXITSTATUS(status) == 1))
            command_wrong(&run, "no space for standard output", "status %d", status);
        command_check_files(&run, status, "no space for standard output");
    }
    commands_expect_right();
}

/* ---- pipes ---------------------------------------------------------------------------------- */

/* Standard output is a pipe that nobody reads. */
static void put_closed(void *context) {
    int ends[2];
    (void)context;
    if (pipe(ends) != 0 || close(ends[0]) != 0 || dup2(ends[1], STDOUT_FILENO) < 0)
        _exit(126);
    close(ends[1]);
}

static void closed_pipe(void **state) {
    (void)state;
    for (size_t c = 0; c < COMMANDS; c++) {
        struct command_run run = {.command = &commands[c], .prepare = put_closed};
        const int status = command_wait(command_start(&run));
        if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGPIPE
                                : WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 141)
            command_wrong(&run, "closed output", "status %d", status);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
            strcmp(commands[c].arguments[0], "convert") != 0)
            command_wrong(&run, "closed output", "exit code 0");
        command_check_files(&run, status, "closed output");
    }
    commands_expect_right();
}

/* The standard input and output of a command. */
struct pipes {
    int input[2], output[2];
};

static void put_pipes(void *context) {
    const struct pipes *pipes = context;
    dup2(pipes->input[0], STDIN_FILENO);
    dup2(pipes->output[1], STDOUT_FILENO);
}

/* Feeds the command its input, and reads its output, byte by byte, in turn. */
static void feed(const struct pipes *pipes, const struct bytes *input, struct bytes *output) {
    size_t given = 0;
    char byte;
    close(pipes->input[0]);
    close(pipes->output[1]);
    fcntl(pipes->output[0], F_SETFL, O_NONBLOCK);
    for (; given < input->size; given++) {
        if (write(pipes->input[1], input->data + given, 1) != 1)
            break;
        if (read(pipes->output[0], &byte, 1) == 1)
            bytes_put(output, &byte, 1);
    }
    close(pipes->input[1]);
    fcntl(pipes->output[0], F_SETFL, 0);
    while (read(pipes->output[0], &byte, 1) == 1)
        bytes_put(output, &byte, 1);
    close(pipes->output[0]);
}

/* A pipe of one page, fed and read byte by byte, gives the same output as a file. */
static void slow_pipes(void **state) {
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    (void)state;
    for (size_t c = 0; c < COMMANDS; c++) {
        if (!commands[c].input || commands[c].figures)
            continue;
        struct pipes pipes;
        struct bytes input = {0}, output = {0};
        struct command_run run = {.command = &commands[c], .prepare = put_pipes, .context = &pipes};
        assert_int_equal(pipe2(pipes.input, O_CLOEXEC), 0);
        assert_int_equal(pipe2(pipes.output, O_CLOEXEC), 0);
        fcntl(pipes.output[0], F_SETPIPE_SZ, 4096);
        command_input(&commands[c], &input);
        const pid_t child = command_start(&run);
        feed(&pipes, &input, &output);
        const int status = command_wait(child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !command_wrote(&commands[c], &output))
            command_wrong(&run, "slow pipes", "status %d, %zu bytes", status, output.size);
        command_check_files(&run, status, "slow pipes");
        bytes_release(&input);
        bytes_release(&output);
    }
    signal(SIGPIPE, before);
    commands_expect_right();
}

/* Standard output is a socket of which each write is read by itself. */
static void put_packets(void *context) {
    if (dup2(*(const int *)context, STDOUT_FILENO) < 0)
        _exit(126);
}

/* A command that does not flush what it prints writes it at once, up to 64 KB: lines do not mix
 * with messages. */
static void written_at_once(void **state) {
    static char packet[1 << 17];
    size_t longest = 0;
    (void)state;
    for (size_t c = 0; c < COMMANDS; c++) {
        if (strcmp(commands[c].arguments[0], "inspect") != 0)
            continue;
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        struct command_run run = {
            .command = &commands[c], .prepare = put_packets, .context = &ends[1]};
        const pid_t child = command_start(&run);
        close(ends[1]);
        struct bytes output = {0};
        for (ssize_t n; (n = recv(ends[0], packet, sizeof packet, 0)) > 0;) {
            if (output.size % 65536 != 0)
                command_wrong(&run, "packets", "a write ended after %zu bytes", output.size);
            bytes_put(&output, packet, (size_t)n);
        }
        close(ends[0]);
        if (command_wait(child) != 0 || !command_wrote(&commands[c], &output))
            command_wrong(&run, "packets", "%zu bytes", output.size);
        longest = output.size > longest ? output.size : longest;
        bytes_release(&output);
    }
    commands_expect_right();
    assert_true(longest > BUFSIZ);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_random), cmocka_unit_test(every_limit),
        cmocka_unit_test(no_space),         cmocka_unit_test(closed_pipe),
        cmocka_unit_test(slow_pipes),       cmocka_unit_test(written_at_once),
    };
    return cmocka_run_group_tests(tests, commands_set_up, commands_tear_down);
}
