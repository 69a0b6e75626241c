/* SPDX-License-Identifier: Apache-2.0
 * Two texts as one sequence of tokens, for models that score pairs of texts. */
#ifndef WISP_TOKENIZERS_PAIR_H
#define WISP_TOKENIZERS_PAIR_H

#include "tokenizers/tokenizer.h"

struct token_pair {
    size_t count;   /* ids in all */
    size_t second;  /* the first id that belongs to the second text */
    bool truncated; /* ids were left out */
};

/* Writes the first special token, the ids of `first`, `separators` times the last special token,
 * the ids of `second` and the last special token to ids [max_tokens]. If that is too long, the
 * longer text is cut, or both to halves, as Hugging Face's tokenizers do (truncation
 * "longest_first"). `other` [max_tokens] is working memory. max_tokens is at least separators + 2.
 * Fails if the tokenizer has no such tokens, or memory is short. */
wisp_status tokenizer_encode_pair(const struct tokenizer *tokenizer, wisp_text first,
                                  wisp_text second, size_t separators, size_t max_tokens,
                                  int32_t *ids, int32_t *other, struct token_pair *pair,
                                  wisp_error *error);

#endif
