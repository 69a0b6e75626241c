/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_TOKENIZERS_TOKEN_LIST_H
#define WISP_TOKENIZERS_TOKEN_LIST_H

#include <stdbool.h>

#include "base/status.h"

/* A list of token ids that grows. It starts as zeros, but perhaps with a bound; free(ids) releases
 * it. */
struct token_list {
    int32_t *ids;
    size_t count, capacity;
    size_t most;  /* ids that it may get; 0: any number */
    bool is_full; /* more were to be added */
};

/* Appends an id. On failure the list keeps its ids. One more than `most` is WISP_ERROR_ARGUMENT. */
wisp_status token_list_add(struct token_list *list, int32_t id, wisp_error *error);

#endif
