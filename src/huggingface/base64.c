/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/base64.h"

#include <string.h>

bool hf_base64_decode(struct arena *arena, wisp_text text, wisp_text *bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *out = arena_allocate(arena, text.length / 4 * 3 + 1);
    uint32_t held = 0;
    size_t length = 0, padding = 0;
    *bytes = (wisp_text){out, 0};
    if (text.length % 4 != 0)
        return false;
    for (size_t i = 0; out && i < text.length; i++) {
        const char *digit = text.bytes[i] ? strchr(digits, text.bytes[i]) : NULL;
        padding += text.bytes[i] == '=' && i + 2 >= text.length;
        if (digit ? padding > 0 : text.bytes[i] != '=' || i + 2 < text.length)
            return false;
        held = held << 6 | (digit ? (uint32_t)(digit - digits) : 0);
        if (i % 4 != 3)
            continue;
        for (unsigned shift = 24; shift > 0 && length < text.length / 4 * 3; shift -= 8)
            out[length++] = (char)(held >> (shift - 8) & 0xFF);
        held = 0;
    }
    bytes->length = length - padding;
    return true;
}
