/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizers/added_tokens.h"

#include <stdlib.h>

#include "base/utf8.h"

static int compare(const void *a, const void *b) {
    const struct added_token *x = a, *y = b;
    const size_t shorter = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->text, y->text, shorter);
    if (order != 0)
        return order;
    return (x->length > y->length) - (x->length < y->length);
}

const struct added_token *added_tokens_index(struct added_tokens *set) {
    if (set->count == 0)
        return NULL;
    qsort(set->tokens, set->count, sizeof *set->tokens, compare);
    for (size_t i = 0; i < set->count; i++) {
        const struct added_token *token = &set->tokens[i];
        const unsigned char first = (unsigned char)token->text[0];
        if (i + 1 < set->count && compare(token, token + 1) == 0)
            return token;
        if (first < 0x80)
            set->starts[first] = true;
        else
            set->starts_non_ascii = true;
        set->strips_left |= (token->flags & ADDED_STRIP_LEFT) != 0;
    }
    return NULL;
}

/* Returns the index of the first token of the walk whose next byte is at least `byte`. A token that
 * has no next byte comes before those that have one. */
static size_t first_with(const struct added_tokens *set, const struct added_walk *walk, int byte) {
    size_t low = walk->low, high = walk->high;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct added_token *token = &set->tokens[middle];
        const int here =
            token->length == walk->depth ? -1 : (int)(unsigned char)token->text[walk->depth];
        if (here < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool added_walk_step(const struct added_tokens *set, struct added_walk *walk, uint32_t code_point) {
    char bytes[4];
    const size_t count = utf8_encode(code_point, bytes);
    for (size_t i = 0; i < count; i++) {
        const int byte = (unsigned char)bytes[i];
        const size_t low = first_with(set, walk, byte), high = first_with(set, walk, byte + 1);
        if (low == high)
            return false;
        *walk = (struct added_walk){low, high, walk->depth + 1};
    }
    return true;
}
