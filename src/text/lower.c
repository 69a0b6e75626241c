/* SPDX-License-Identifier: Apache-2.0 */
#include "text/lower.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "text/reader.h"
#include "text/unicode.h"

static bool is_letter(uint32_t c) {
    return c != READER_NONE && unicode_is_word(c) && c != '_' && !(c >= '0' && c <= '9');
}

/* Returns whether the sigma that was just read ends a word of several letters. */
static bool ends_word(struct reader reader) {
    struct reader before = reader;
    before.at -= 2; /* a sigma's bytes */
    const uint32_t previous = reader_previous(&before);
    const uint32_t next = reader_at_end(&reader) ? READER_NONE : reader_next(&reader);
    return is_letter(previous) && !is_letter(next);
}

wisp_status text_lower(wisp_text text, bool by_words, char **copy, wisp_text *lowered,
                       wisp_error *error) {
    static const uint32_t sigma = 0x3A3, last_sigma = 0x3C2;
    const size_t most = 2 * text.length; /* bytes: a capital of two becomes three at most */
    char *at = *copy = malloc(most + 1);
    if (!at)
        return fail_memory(error, most + 1);
    for (struct reader reader = reader_of(text); !reader_at_end(&reader);) {
        uint32_t characters[2] = {reader_next(&reader)};
        const bool has_lower = unicode_flags(characters[0]) & UNICODE_HAS_LOWER;
        const bool is_last = by_words && characters[0] == sigma && ends_word(reader);
        const size_t count = has_lower ? unicode_lower(characters[0], characters) : 1;
        characters[0] = is_last ? last_sigma : characters[0];
        for (size_t i = 0; i < count; i++)
            at += utf8_encode(characters[i], at);
    }
    *lowered = (wisp_text){*copy, (size_t)(at - *copy)};
    return WISP_OK;
}
