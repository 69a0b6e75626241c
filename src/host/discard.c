/* SPDX-License-Identifier: Apache-2.0 */
#include "host/discard.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void discard_pages(void *block, size_t bytes) {
    const long size = sysconf(_SC_PAGESIZE);
    const uintptr_t page = size > 0 ? (uintptr_t)size : 4096, start = (uintptr_t)block;
    const uintptr_t first = (start + page - 1) / page * page, end = (start + bytes) / page * page;
    if (first < end) /* if this fails the memory stays, which does no harm */
        madvise((unsigned char *)block + (first - start), end - first, MADV_DONTNEED);
}
