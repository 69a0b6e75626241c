/* SPDX-License-Identifier: Apache-2.0
 * Is linked into the program that test_command_faults.c runs. It stands in for the allocations of
 * glibc, those that libc makes for itself included, and refuses one of them, or all from one on:
 * WISP_REFUSE=n or WISP_REFUSE=n+. It then writes a byte to the descriptor WISP_REFUSE_REPORT.
 *
 * Before main it makes a system call that no program makes, by which a tracer knows the place. */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/refuse.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* The program exports these, or libc would not call them. */
#define EXPORTED __attribute__((visibility("default")))

static atomic_long left = -1; /* allocations until one is refused; below 0: none is */
static bool onwards, refused;
static int report = -1;

__attribute__((constructor)) static void prepare(void) {
    const char *given = getenv("WISP_REFUSE"), *descriptor = getenv("WISP_REFUSE_REPORT");
    if (given && descriptor) {
        onwards = strchr(given, '+') != NULL;
        report = atoi(descriptor);
        left = atol(given) + 1;
    }
    syscall(SYS_close, REFUSE_MARK);
}

static bool grant(void) {
    if (refused && onwards)
        return errno = ENOMEM, false;
    if (atomic_load(&left) <= 0 || atomic_fetch_sub(&left, 1) != 1)
        return true;
    refused = true;
    if (write(report, "x", 1) != 1)
        abort();
    return errno = ENOMEM, false;
}

EXPORTED void *malloc(size_t size) {
    return grant() ? __libc_malloc(size) : NULL;
}

EXPORTED void *calloc(size_t count, size_t size) {
    return grant() ? __libc_calloc(count, size) : NULL;
}

EXPORTED void *realloc(void *block, size_t size) {
    return grant() ? __libc_realloc(block, size) : NULL;
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size) {
    return grant() ? __libc_memalign(alignment, size) : NULL;
}
