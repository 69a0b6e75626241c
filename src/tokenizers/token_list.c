/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizers/token_list.h"

#include <stdlib.h>

#include "base/checked.h"

enum { LEAST_CAPACITY = 64 };

wisp_status token_list_add(struct token_list *list, int32_t id, wisp_error *error) {
    if (list->most > 0 && list->count == list->most) {
        list->is_full = true;
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "text", "more than %zu tokens", list->most);
    }
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : LEAST_CAPACITY;
        int32_t *ids = realloc(list->ids, array_bytes(capacity, sizeof *ids));
        if (!ids)
            return fail_memory(error, capacity * sizeof *ids);
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return WISP_OK;
}
