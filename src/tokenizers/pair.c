/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizers/pair.h"

#include <string.h>

#include "base/checked.h"

enum { SPECIAL_TOKENS = 2 }; /* of one text: one before it and one after it */

/* Cuts two lengths to `room` together. Source: truncate_encodings of Hugging Face's tokenizers. */
static void cut(size_t *first, size_t *second, size_t room) {
    size_t *less = *first <= *second ? first : second, *more = less == first ? second : first;
    if (*first + *second <= room)
        return;
    *more = *less > room ? *less : larger(*less, room - *less);
    if (*less + *more > room) {
        *less = room / 2;
        *more = room - *less;
    }
}

wisp_status tokenizer_encode_pair(const struct tokenizer *tokenizer, wisp_text first,
                                  wisp_text second, size_t separators, size_t max_tokens,
                                  int32_t *ids, int32_t *other, struct token_pair *pair,
                                  wisp_error *error) {
    size_t a, b;
    bool cut_a, cut_b;
    TRY(tokenizer_encode(tokenizer, (wisp_text){"", 0}, max_tokens, ids, &a, NULL, error));
    if (a != SPECIAL_TOKENS)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "tokenizer.ggml.model",
                    "a text has %zu special tokens, but pairs of texts need 2", a);
    TRY(tokenizer_encode(tokenizer, first, max_tokens, ids, &a, &cut_a, error));
    TRY(tokenizer_encode(tokenizer, second, max_tokens, other, &b, &cut_b, error));
    const int32_t last = other[b - 1];
    const size_t all_a = a - SPECIAL_TOKENS, all_b = b - SPECIAL_TOKENS;
    size_t kept_a = all_a, kept_b = all_b;
    cut(&kept_a, &kept_b, max_tokens - separators - SPECIAL_TOKENS);
    size_t at = 1 + kept_a;
    for (size_t i = 0; i < separators; i++)
        ids[at++] = last;
    pair->second = at;
    memcpy(ids + at, other + 1, kept_b * sizeof *ids);
    at += kept_b;
    ids[at++] = last;
    pair->count = at;
    pair->truncated = cut_a || cut_b || kept_a < all_a || kept_b < all_b;
    return WISP_OK;
}
