/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

wisp_status list_grow(void *list, uint32_t n, uint32_t more, uint32_t *capacity, size_t item_bytes,
                      wisp_error *error) {
    void *old;
    if (more <= *capacity - n)
        return WISP_OK;
    const uint32_t wanted = 2 * (n + more) + 16;
    memcpy(&old, list, sizeof old); /* a pointer to any type */
    void *moved = realloc(old, wanted * item_bytes);
    if (!moved)
        return fail_memory(error, wanted * item_bytes);
    memcpy(list, &moved, sizeof moved);
    *capacity = wanted;
    return WISP_OK;
}
