/* SPDX-License-Identifier: Apache-2.0
 * Aligned blocks, for packed weights and workspaces. */
#ifndef WISP_BASE_MEMORY_H
#define WISP_BASE_MEMORY_H

#include <stddef.h>

/* A cache line, and the widest vector of any kernel set. */
#define MEMORY_ALIGNMENT 64

/* At least one byte, aligned to MEMORY_ALIGNMENT; NULL when there is no memory. */
void *memory_allocate(size_t bytes);

void memory_free(void *block);

#endif
