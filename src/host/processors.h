/* SPDX-License-Identifier: Apache-2.0
 * The processors and the memory that the system lets this process use. Native only. */
#ifndef WISP_HOST_PROCESSORS_H
#define WISP_HOST_PROCESSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the first line of a file of /proc or /sys. Returns false, and an empty line, if there is
 * none. */
bool system_line(const char *path, char *line, size_t capacity);

/* The least limits of a process's control group and of those above it. 0: none. */
struct control_group {
    double processors;
    uint64_t memory; /* bytes; of version 2 only */
};

/* Reads the limits of this process from /proc and /sys below `root`, which is "" but in tests. */
struct control_group control_group_read(const char *root);

/* Returns the number of processors that this process may run on. */
uint32_t processors_allowed(void);

/* Returns how many threads keep busy what may be used: at least 1. A part of a processor takes a
 * thread of its own. */
uint32_t processors_usable(uint32_t allowed, const struct control_group *limits);

#endif
