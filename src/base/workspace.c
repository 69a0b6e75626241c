/* SPDX-License-Identifier: Apache-2.0 */
#include "base/workspace.h"

#include <assert.h>
#include <stdint.h>

#include "base/checked.h"
#include "base/memory.h"

wisp_status workspace_reserve(struct workspace *space, size_t bytes, wisp_error *error) {
    space->used = 0;
    if (bytes <= space->capacity)
        return WISP_OK;
    /* The old block is freed first, so that memory never holds both: that of WebAssembly does not
     * shrink. */
    workspace_release(space);
    space->base = memory_allocate(bytes);
    if (!space->base)
        return fail_memory(error, bytes);
    space->capacity = bytes;
    return WISP_OK;
}

/* Computes the bytes that rows x row_length items occupy, rounded up to MEMORY_ALIGNMENT. Returns
 * false if they do not fit a size_t. */
static bool part_bytes(size_t rows, size_t row_length, size_t item_bytes, size_t *bytes) {
    uint64_t total;
    return checked_multiply(rows, row_length, &total) &&
           checked_multiply(total, item_bytes, &total) &&
           checked_align(total, MEMORY_ALIGNMENT, &total) && checked_size(total, bytes);
}

void *workspace_take(struct workspace *space, size_t rows, size_t row_length, size_t item_bytes) {
    size_t bytes = 0;
    const bool fits = part_bytes(rows, row_length, item_bytes, &bytes);
    if (!space->base) {
        if (!fits || __builtin_add_overflow(space->used, bytes, &space->used))
            space->used = SIZE_MAX;
        return NULL;
    }
    assert(fits && bytes <= space->capacity - space->used);
    void *result = (unsigned char *)space->base + space->used;
    space->used += bytes;
    return result;
}

struct workspace workspace_part(struct workspace *space, size_t bytes) {
    void *base = workspace_take(space, 1, bytes, 1);
    return (struct workspace){.base = base, .capacity = bytes};
}

void workspace_release(struct workspace *space) {
    memory_free(space->base);
    *space = (struct workspace){0};
}
