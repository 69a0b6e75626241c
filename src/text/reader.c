/* SPDX-License-Identifier: Apache-2.0 */
#include "text/reader.h"

#include "base/utf8.h"
#include "text/unicode.h"

enum { REPLACEMENT = 0xFFFD };

uint32_t reader_next(struct reader *reader) {
    uint32_t code_point;
    if (reader->at == reader->end)
        return READER_NONE;
    reader->at += utf8_decode(reader->at, (size_t)(reader->end - reader->at), &code_point);
    return code_point == UTF8_INVALID ? REPLACEMENT : code_point;
}

/* A lead byte always starts a code point. So the bytes from the last lead byte to the reader are
 * either one whole code point, or ill-formed. */
uint32_t reader_previous(const struct reader *reader) {
    const size_t before = reader_position(reader);
    if (before == 0)
        return READER_NONE;
    for (size_t n = 1; n <= 4 && n <= before; n++) {
        const char *start = reader->at - n;
        uint32_t code_point;
        if ((*start & 0xC0) == 0x80)
            continue;
        if (utf8_decode(start, n, &code_point) == n && code_point != UTF8_INVALID)
            return code_point;
        break;
    }
    return REPLACEMENT;
}

bool reader_is_word(uint32_t code_point) {
    return code_point != READER_NONE && unicode_is_word(code_point);
}
