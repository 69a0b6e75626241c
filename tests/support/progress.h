/* SPDX-License-Identifier: Apache-2.0
 * A progress callback that stops a long call, for tests of cancelling. */
#ifndef TESTS_PROGRESS_H
#define TESTS_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

/* The number of calls of the callback so far, and the number of calls that it lets go on. */
struct stopping {
    size_t calls, most;
};

/* The callback; `context` is a struct stopping. */
bool stop_after(void *context, size_t done, size_t total);

#endif
