/* SPDX-License-Identifier: Apache-2.0 */
#include "support/guarded.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __wasm__
#include <sys/mman.h>
#include <unistd.h>
#endif

/* The number of canary bytes that are checked on each side. */
enum { MARGIN = 512 };

/* Four of these bytes at an aligned address are a NaN that no instruction produces. */
static unsigned char canary_at(const unsigned char *p) {
    static const unsigned char nan[4] = {0xed, 0xfe, 0xf1, 0x7f};
    return nan[(uintptr_t)p & 3];
}

static void lay_canaries(unsigned char *from, const unsigned char *to) {
    for (; from < to && ((uintptr_t)from & 3) != 0; from++)
        *from = canary_at(from);
    unsigned char four[4];
    for (size_t i = 0; i < 4; i++)
        four[i] = canary_at((const unsigned char *)(uintptr_t)i);
    for (; to - from >= 4; from += 4)
        memcpy(from, four, 4);
    for (; from < to; from++)
        *from = canary_at(from);
}

bool guarded_untouched(const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        if (p[i] != canary_at(p + i))
            return false;
    return true;
}

#ifdef __wasm__

void guarded_open(struct guarded *g, size_t capacity) {
    g->margin = MARGIN;
    g->low = malloc(capacity + 2 * MARGIN);
    if (!g->low) {
        fprintf(stderr, "no memory for a buffer of %zu bytes\n", capacity);
        exit(1);
    }
    g->high = g->low + capacity + 2 * MARGIN;
}

void guarded_close(struct guarded *g) {
    free(g->low);
}

#else

void guarded_open(struct guarded *g, size_t capacity) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t inside = (capacity + MARGIN + page - 1) / page * page;
    unsigned char *start =
        mmap(NULL, inside + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect(start, page, PROT_NONE) != 0 ||
        mprotect(start + page + inside, page, PROT_NONE) != 0) {
        perror("guarded_open");
        exit(1);
    }
    g->margin = 0;
    g->low = start + page;
    g->high = g->low + inside;
}

void guarded_close(struct guarded *g) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    munmap(g->low - page, (size_t)(g->high - g->low) + 2 * page);
}

#endif

/* Returns the canary bytes that are checked around the data. */
static unsigned char *first_canary(const struct guarded *g) {
    return g->data - g->low > MARGIN ? g->data - MARGIN : g->low;
}

static unsigned char *last_canary(const struct guarded *g) {
    unsigned char *end = g->data + g->bytes;
    return g->high - end > MARGIN ? end + MARGIN : g->high;
}

void *guarded_place(struct guarded *g, size_t bytes, enum guarded_side side) {
    if (bytes > (size_t)(g->high - g->low) - 2 * g->margin) {
        fprintf(stderr, "a buffer of %zu bytes does not fit\n", bytes);
        exit(1);
    }
    g->bytes = bytes;
    if (side == GUARDED_START)
        g->data = g->low + g->margin;
    else
        g->data = g->high - g->margin - bytes;
    if (side == GUARDED_LOOSE)
        g->data -= 1 + ((uintptr_t)g->data & 1);
    lay_canaries(first_canary(g), last_canary(g));
    return g->data;
}

bool guarded_intact(const struct guarded *g) {
    const unsigned char *end = g->data + g->bytes, *first = first_canary(g);
    return guarded_untouched(first, (size_t)(g->data - first)) &&
           guarded_untouched(end, (size_t)(last_canary(g) - end));
}
