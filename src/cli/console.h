/* SPDX-License-Identifier: Apache-2.0
 * How the program answers: standard streams, messages, text from files, exit codes. */
#ifndef WISP_CLI_CONSOLE_H
#define WISP_CLI_CONSOLE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "wisp.h"

enum exit_code {
    EXIT_GOOD = 0,
    EXIT_FAILED = 1,        /* reading, writing or memory */
    EXIT_USAGE = 2,         /* the command line is wrong */
    EXIT_MODEL = 3,         /* the model is missing, malformed or not supported */
    EXIT_INPUT = 4,         /* a line of the input is malformed */
    EXIT_INTERRUPTED = 130, /* Ctrl-C, as shells report it */
    EXIT_CLOSED_PIPE = 141  /* the reader of the output has closed it, as shells report it */
};

/* Writes to standard output. If that would not block, as a pipe that another program has set to
 * O_NONBLOCK, it waits. After an error it writes nothing more. */
extern FILE *program_output;

/* Prepares the standard streams. If a standard descriptor is closed, it opens /dev/null in the
 * direction in which the program does not use it: no other file gets the descriptor's number then,
 * and using it is an error. Returns false if that is not possible. */
bool console_open(void);

/* Flushes program_output. Returns EXIT_GOOD, EXIT_CLOSED_PIPE, or EXIT_FAILED after complaining
 * once. */
int finish_output(void);

/* Tells whether `info` describes the regular file that standard output writes to. */
bool is_output_file(const struct stat *info);

/* Writes at most `most` characters of a text that may hold anything. Characters that control a
 * terminal or reorder its text become escapes such as \u001b, and ill-formed UTF-8 becomes U+FFFD.
 * Returns the number of bytes of `text` that were taken. */
size_t print_text(FILE *stream, wisp_text text, size_t most);

/* Writes a text as print_text does to program_output, in a column of `width` characters. */
void print_padded(wisp_text text, size_t most, size_t width);

/* Writes a text as a string of JSON (base/json_write.h). */
void print_json_string(FILE *stream, wisp_text text);

/* Closes a stream that open_memstream opened with this text. Returns false if there was no
 * memory for all of it. glibc's fclose succeeds if it cannot cut the text to its length, but the
 * text is then NULL. */
bool close_memstream(FILE *stream, char *const *text);

/* Complains that there is no memory. Returns EXIT_FAILED. */
int complain_of_memory(void);

/* Says at a terminal that the program waits for input there. */
void say_that_input_is_awaited(void);

/* --quiet was given: progress and remarks are not printed. */
extern bool program_is_quiet;

/* Print "wisp: ..." to stderr: what keeps a command from its work, and what does not. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void remark(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns what the last complaint or remark said, until the next one. */
wisp_text last_complaint(void);

#endif
