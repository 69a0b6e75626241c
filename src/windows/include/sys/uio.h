/* SPDX-License-Identifier: Apache-2.0
 * Reads to several places. mingw-w64 has no such header. */
#ifndef WISP_WINDOWS_SYS_UIO_H
#define WISP_WINDOWS_SYS_UIO_H

#include <unistd.h>

struct iovec {
    void *iov_base;
    size_t iov_len;
};

/* Fills the parts in order. May end early, and does at the end of the file. */
static inline ssize_t preadv(int file, const struct iovec *parts, int n, off_t offset) {
    ssize_t total = 0;
    for (int i = 0; i < n; i++) {
        const ssize_t got = pread(file, parts[i].iov_base, parts[i].iov_len, offset + total);
        if (got < 0)
            return total > 0 ? total : -1;
        total += got;
        if ((size_t)got < parts[i].iov_len)
            break;
    }
    return total;
}

#endif
