/* SPDX-License-Identifier: Apache-2.0
 * What the runners in C share: the driver's commands (bench/README.md), answers, and the clock. */
#ifndef WISP_BENCH_PROTOCOL_H
#define WISP_BENCH_PROTOCOL_H

#include <stdbool.h>

/* One line of the driver's: absent fields are "". */
struct command {
    char verb[16];
    char workload[64];
    char to[4096];
};

/* Waits for the next command; false when there are no more. */
bool next_command(struct command *command);

/* Seconds on a clock that never goes backwards. */
double seconds_now(void);

/* Prints one line at once, as printf does. */
__attribute__((format(printf, 1, 2))) void answer(const char *format, ...);

/* Answers {"error": message} and ends the process. */
_Noreturn void give_up(const char *message);

/* Makes one call and answers how long it took. */
void answer_warmed(void (*call)(void *context), void *context);

/* Times one call, or as many as fit a short while, and answers the median. */
void answer_timed(void (*call)(void *context), void *context);

#endif
