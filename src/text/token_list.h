/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_TEXT_TOKEN_LIST_H
#define WISP_TEXT_TOKEN_LIST_H

#include "base/status.h"

/* A list of token ids that grows. It starts as zeros; free(ids) releases it. */
struct token_list {
    int32_t *ids;
    size_t count, capacity;
};

/* Appends an id. On failure the list keeps its ids. */
wisp_status token_list_add(struct token_list *list, int32_t id, wisp_error *error);

#endif
