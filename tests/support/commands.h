/* SPDX-License-Identifier: Apache-2.0
 * Every command of the program, with models and texts to run it on, for tests in which the system
 * fails it. A command runs in a folder of its own, and whatever happens to it, its outcome is
 * whole, absent, or an error, which command_check sees. */
#ifndef TESTS_COMMANDS_H
#define TESTS_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "support/builder.h"

enum { COMMAND_ARGUMENTS = 16, COMMAND_OUTPUTS = 3 };

struct command {
    const char *name;
    const char *arguments[COMMAND_ARGUMENTS];
    const char *input;                    /* a file that is standard input; NULL: none */
    const char *outputs[COMMAND_OUTPUTS]; /* files that it writes, in the folder `out` */
    bool piped;                           /* standard output is a pipe and not a file */
    bool figures;        /* what it writes has times, which differ from run to run */
    size_t header;       /* bytes at the start of the output that are written again at the end */
    const char *closing; /* ends the output also after an error; NULL: nothing */
};

enum { COMMANDS = 31 };
extern const struct command commands[COMMANDS];

/* Make the folder, and run each command once to know what it writes; remove the folder. For
 * cmocka's groups. */
int commands_set_up(void **state);
int commands_tear_down(void **state);

/* Returns the path of the program. With `refusing` it is the one whose allocations can be refused
 * (tests/malformed/refuse.c), which is built without sanitizers only. */
const char *command_program(bool refusing);

/* A run of a command. */
struct command_run {
    const struct command *command;
    bool refusing;                  /* runs the program that refuses allocations */
    bool existing;                  /* the outputs exist before, with other contents */
    void (*prepare)(void *context); /* is called in the new process. May be NULL */
    void *context;
    bool leaves; /* a temporary file may stay, because its deletion was refused */
    /* The ends to read of the pipes for standard output, if the command is piped, and for
     * messages. Closed by command_check. */
    int output, messages;
};

/* Puts the outputs into their state before the run, and starts the program. */
pid_t command_start(struct command_run *run);

/* Waits for its end and returns its status, as waitpid gives it. */
int command_wait(pid_t pid);

/* Prints and counts the outcome of the run as wrong unless it fits its status: if the exit code
 * is 0 standard output and all files are whole; else there is a message, standard output is the
 * beginning of the whole one, and each file is whole or as it was. Beside them there is no file,
 * unless the program was killed. `what` says what was done to it. Returns whether the exit code was
 * 0. */
bool command_check(struct command_run *run, int status, const char *what);

/* Checks the files only, if standard output went elsewhere. */
void command_check_files(struct command_run *run, int status, const char *what);

/* Appends the standard input of a command. */
void command_input(const struct command *command, struct bytes *input);

/* Returns whether this is the whole standard output of a command without times. */
bool command_wrote(const struct command *command, const struct bytes *output);

/* Prints that a run is wrong, and counts it. The test fails at its end, so that one run of the test
 * shows all. */
void command_wrong(const struct command_run *run, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fails the test if an outcome since the last call was wrong. */
void commands_expect_right(void);

/* Runs a command to its end, which must be good. */
void command_run_whole(const struct command *command, bool existing, const char *what);

#endif
