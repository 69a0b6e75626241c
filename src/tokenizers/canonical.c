/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizers/canonical.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/lower.h"
#include "text/reader.h"
#include "text/unicode.h"

/* Returns whether a character is white space. transformers, in Python, counts four more as such
 * than Hugging Face's tokenizers, and U+2581, which stands for a space. */
static bool is_space(const struct codec *codec, uint32_t c) {
    const bool more = c == 0x2581 || (c >= 0x1C && c <= 0x1F);
    return (codec->marks_texts && more) || (unicode_flags(c) & UNICODE_SPACE);
}

static bool is_punctuation(uint32_t c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

/* Drops punctuation and folds white space of `text`, and writes the result to `out`. Returns its
 * length. Behind U+2581 a text may begin with a space, but does not end with one. */
static size_t fold(const struct codec *codec, wisp_text text, char *out) {
    bool space = false;
    size_t length = 0;
    if (codec->marks_texts) {
        memcpy(out, SPELLED_SPACE, SPELLED_SPACE_BYTES);
        length = SPELLED_SPACE_BYTES;
    }
    for (struct reader reader = reader_of(text); !reader_at_end(&reader);) {
        const char *at = reader.at;
        const uint32_t c = reader_next(&reader);
        if (is_punctuation(c))
            continue;
        if (is_space(codec, c)) {
            space = true;
            continue;
        }
        if (space)
            out[length++] = ' ';
        space = false;
        memcpy(out + length, at, (size_t)(reader.at - at));
        length += (size_t)(reader.at - at);
    }
    if (space && !codec->marks_texts)
        out[length++] = ' ';
    return length;
}

wisp_status canonical_text(const struct codec *codec, wisp_text text, char **copy,
                           wisp_text *canonical, wisp_error *error) {
    char *lowered = NULL;
    *copy = NULL;
    if (codec->lowers)
        TRY(text_lower(text, codec->marks_texts, &lowered, &text, error));
    *copy = lowered;
    *canonical = text;
    if (!codec->drops_punctuation)
        return WISP_OK;
    const size_t most = text.length + SPELLED_SPACE_BYTES;
    *copy = malloc(most);
    if (*copy)
        *canonical = (wisp_text){*copy, fold(codec, text, *copy)};
    free(lowered);
    return *copy ? WISP_OK : fail_memory(error, most);
}
