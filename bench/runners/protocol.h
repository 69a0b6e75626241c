/* SPDX-License-Identifier: Apache-2.0
 * Helpers of the runners in C: they read the driver's commands (bench/README.md), print answers,
 * and tell the time. */
#ifndef WISP_BENCH_PROTOCOL_H
#define WISP_BENCH_PROTOCOL_H

#include <stdbool.h>

/* One command of the driver. Absent fields are "". */
struct command {
    char verb[16];
    char workload[64];
    char to[4096];
};

/* Waits for the next command. Returns false when there are no more. */
bool next_command(struct command *command);

/* Returns the seconds of a clock that never goes backwards. */
double seconds_now(void);

/* Prints one line as printf does, and flushes it. */
__attribute__((format(printf, 1, 2))) void answer(const char *format, ...);

/* Answers {"error": message} and ends the process. */
_Noreturn void give_up(const char *message);

/* Makes one call and answers with its time in seconds. */
void answer_warmed(void (*call)(void *context), void *context);

/* Times one long call, or several short ones, and answers with the median. */
void answer_timed(void (*call)(void *context), void *context);

#endif
