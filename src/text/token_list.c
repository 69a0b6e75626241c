/* SPDX-License-Identifier: Apache-2.0 */
#include "text/token_list.h"

#include <stdlib.h>

enum { LEAST_CAPACITY = 64 };

wisp_status token_list_add(struct token_list *list, int32_t id, wisp_error *error) {
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : LEAST_CAPACITY;
        int32_t *ids = realloc(list->ids, capacity * sizeof *ids);
        if (!ids)
            return fail_memory(error, capacity * sizeof *ids);
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return WISP_OK;
}
