/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

size_t utf8_decode(const char *bytes, size_t length, uint32_t *code_point) {
    const unsigned char *b = (const unsigned char *)bytes;
    const unsigned char lead = b[0];
    if (lead < 0x80) {
        *code_point = lead;
        return 1;
    }
    *code_point = UTF8_INVALID;
    if (lead < 0xC2 || lead > 0xF4)
        return 1;
    const size_t needed = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    /* The range of the second byte excludes overlong forms, surrogates and numbers above 0x10FFFF.
     */
    unsigned char low = 0x80, high = 0xBF;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    uint32_t value = lead & (0x7Fu >> needed);
    for (size_t i = 1; i < needed; i++) {
        if (i >= length || b[i] < low || b[i] > high)
            return i;
        value = value << 6 | (b[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    *code_point = value;
    return needed;
}

size_t utf8_mark(const char *bytes, size_t length) {
    static const char mark[] = "\xEF\xBB\xBF";
    const size_t n = sizeof mark - 1;
    return length >= n && memcmp(bytes, mark, n) == 0 ? n : 0;
}

size_t utf8_encode(uint32_t code_point, char *out) {
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        out[0] = (char)(0xC0 | code_point >> 6);
        out[1] = (char)(0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point < 0x10000) {
        out[0] = (char)(0xE0 | code_point >> 12);
        out[1] = (char)(0x80 | (code_point >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code_point & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code_point >> 18);
    out[1] = (char)(0x80 | (code_point >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code_point >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code_point & 0x3F));
    return 4;
}

size_t utf8_repair(const char *bytes, size_t n, char *out, size_t *rest) {
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t length = 0;
    *rest = 0;
    for (size_t at = 0, taken; at < n; at += taken) {
        uint32_t c;
        taken = utf8_decode(bytes + at, n - at, &c);
        const unsigned char lead = (unsigned char)bytes[at];
        if (c == UTF8_INVALID && at + taken == n && lead >= 0xC2 && lead <= 0xF4 &&
            taken < (lead >= 0xF0   ? 4u
                     : lead >= 0xE0 ? 3u
                                    : 2u)) {
            *rest = taken;
            return length;
        }
        const char *from = c == UTF8_INVALID ? replacement : bytes + at;
        const size_t size = c == UTF8_INVALID ? sizeof replacement - 1 : taken;
        if (out)
            memcpy(out + length, from, size);
        length += size;
    }
    return length;
}

bool utf8_controls_terminal(uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}
