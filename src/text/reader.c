/* SPDX-License-Identifier: Apache-2.0 */
#include "text/reader.h"

#include "base/utf8.h"

enum { REPLACEMENT = 0xFFFD };

static size_t step_forward(const char *at, const char *end, uint32_t *code_point) {
    const size_t length = utf8_decode(at, (size_t)(end - at), code_point);
    if (*code_point == UTF8_INVALID)
        *code_point = REPLACEMENT;
    return length;
}

/* Decodes the code point that ends at `at` > begin. A lead byte always starts one, so what lies
 * between the last lead byte and `at` is either exactly one code point or ends ill-formed. */
static size_t step_back(const char *begin, const char *at, uint32_t *code_point) {
    for (size_t n = 1; n <= 4 && n <= (size_t)(at - begin); n++) {
        if ((at[-(ptrdiff_t)n] & 0xC0) == 0x80)
            continue;
        if (utf8_decode(at - n, n, code_point) == n && *code_point != UTF8_INVALID)
            return n;
        break;
    }
    *code_point = REPLACEMENT;
    return 1;
}

uint32_t reader_next(struct reader *reader) {
    uint32_t code_point;
    if (reader->at == reader->end)
        return READER_NONE;
    reader->at += step_forward(reader->at, reader->end, &code_point);
    return code_point;
}

uint32_t reader_previous(const struct reader *reader) {
    uint32_t code_point;
    if (reader->at == reader->begin)
        return READER_NONE;
    step_back(reader->begin, reader->at, &code_point);
    return code_point;
}
