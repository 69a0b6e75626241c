/* SPDX-License-Identifier: Apache-2.0
 * The ids of tokens by their texts, while a tokenizer is read. */
#ifndef WISP_HUGGINGFACE_SORTED_TOKENS_H
#define WISP_HUGGINGFACE_SORTED_TOKENS_H

#include "base/status.h"

/* Sorts pointers to `count` elements of `tokens` by their texts. Two equal texts are a format error
 * of the file's "vocab". */
wisp_status hf_sort_texts(const wisp_text **sorted, size_t count, const wisp_text *tokens,
                          const char *file, wisp_error *error);

/* Returns the index in `tokens` of a text among those that were sorted, or -1. */
int32_t hf_find_text(const wisp_text *const *sorted, size_t count, const wisp_text *tokens,
                     wisp_text text);

#endif
