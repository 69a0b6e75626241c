/* SPDX-License-Identifier: Apache-2.0 */
#include "host/discard.h"

#include "windows/system.h"

void discard_pages(void *block, size_t bytes) {
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    const uintptr_t page = system.dwPageSize, start = (uintptr_t)block;
    const uintptr_t first = (start + page - 1) / page * page, end = (start + bytes) / page * page;
    if (first >= end)
        return;
    /* The first call says that the contents do not matter. Unlocking pages that are not locked
     * takes them from the process. If these fail the memory stays, which does no harm. */
    void *pages = (unsigned char *)block + (first - start);
    if (VirtualAlloc(pages, end - first, MEM_RESET, PAGE_READWRITE))
        VirtualUnlock(pages, end - first);
}
