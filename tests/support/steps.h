/* SPDX-License-Identifier: Apache-2.0
 * Counts the instructions that a call executes, by stopping after each. The count is that of any
 * machine with the same code, whatever else runs there. */
#ifndef WISP_TESTS_STEPS_H
#define WISP_TESTS_STEPS_H

#include <stddef.h>

/* Returns the number of instructions of `call`. A copy of this process makes it, so that nothing
 * changes here. Ends the program if the system does not let a process trace its child. */
size_t steps_of(void (*call)(const void *), const void *context);

#endif
