/* SPDX-License-Identifier: Apache-2.0 */
#include "text/reader.h"

#include "base/utf8.h"
#include "text/unicode.h"

enum { REPLACEMENT = 0xFFFD, SIGMA = 0x3A3, SMALL_SIGMA = 0x3C3, FINAL_SIGMA = 0x3C2, DOT = 0x307 };

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

static bool cased_before(const char *begin, const char *at) {
    uint32_t code_point;
    while (at > begin) {
        at -= step_back(begin, at, &code_point);
        if (!unicode_is_case_ignorable(code_point))
            return unicode_is_cased(code_point);
    }
    return false;
}

static bool cased_after(const char *at, const char *end) {
    uint32_t code_point;
    while (at < end) {
        at += step_forward(at, end, &code_point);
        if (!unicode_is_case_ignorable(code_point))
            return unicode_is_cased(code_point);
    }
    return false;
}

/* Unicode's Final_Sigma. Each look ends at the next sigma at the latest, so all looks together are
 * linear in the text. */
static uint32_t lower_sigma(const struct reader *reader, const char *sigma) {
    const bool final = cased_before(reader->begin, sigma) && !cased_after(reader->at, reader->end);
    return final ? FINAL_SIGMA : SMALL_SIGMA;
}

uint32_t reader_next(struct reader *reader) {
    if (reader->dot_pending) {
        reader->dot_pending = false;
        return DOT;
    }
    if (reader->at == reader->end)
        return READER_NONE;
    const char *start = reader->at;
    uint32_t code_point, lower[2];
    reader->at += step_forward(start, reader->end, &code_point);
    if (!reader->lowercase)
        return code_point;
    if (code_point == SIGMA)
        return lower_sigma(reader, start);
    reader->dot_pending = unicode_lower(code_point, lower) == 2;
    return lower[0];
}

uint32_t reader_previous(const struct reader *reader) {
    uint32_t code_point, lower[2];
    if (reader->at == reader->begin)
        return READER_NONE;
    step_back(reader->begin, reader->at, &code_point);
    if (!reader->lowercase)
        return code_point;
    const size_t count = unicode_lower(code_point, lower);
    return lower[reader->dot_pending ? 0 : count - 1];
}
