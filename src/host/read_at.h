/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_HOST_READ_AT_H
#define WISP_HOST_READ_AT_H

#include <errno.h>
#include <unistd.h>

#include "wisp.h"

/* Reads `length` bytes of a file from `offset` on. Returns 0, or WISP_SOURCE_CHANGED if the file
 * ends before the last of them, or -1 and errno. */
static inline int read_at(int descriptor, uint64_t offset, void *buffer, size_t length) {
    unsigned char *to = buffer;
    while (length > 0) {
        const ssize_t n = pread(descriptor, to, length, (off_t)offset);
        if (n == 0)
            return WISP_SOURCE_CHANGED;
        if (n < 0 && errno != EINTR)
            return -1;
        if (n < 0)
            continue;
        to += n;
        offset += (uint64_t)n;
        length -= (size_t)n;
    }
    return 0;
}

#endif
