/* SPDX-License-Identifier: Apache-2.0
 * Allocates aligned blocks, for packed weights and workspaces. */
#ifndef WISP_BASE_MEMORY_H
#define WISP_BASE_MEMORY_H

#include <stddef.h>

/* The bytes of a cache line, and of the longest vector of any kernel set. */
#define MEMORY_ALIGNMENT 64

/* Returns uninitialised memory, aligned to MEMORY_ALIGNMENT, or NULL if there is none. For 0
 * bytes it returns a block of one. */
void *memory_allocate(size_t bytes);

/* Frees a block that memory_allocate returned; NULL is allowed. */
void memory_free(void *block);

/* Returns memory of zeros, aligned to MEMORY_ALIGNMENT, or NULL if there is none. The system
 * provides only those parts of a large block that are written. memory_free_zeros frees it, and
 * accepts NULL. */
void *memory_allocate_zeros(size_t bytes);
void memory_free_zeros(void *block);

#endif
