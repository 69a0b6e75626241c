/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

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
