/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_write.h"

#include <string.h>

#include "base/status.h"
#include "base/utf8.h"

/* Writes what stands for a character to `escape`, and returns its bytes; 0: the character itself.
 */
static size_t escape_of(uint32_t c, char escape[6]) {
    static const char characters[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
    const char *found = c > 0 && c < 128 ? strchr(characters, (int)c) : NULL;
    if (c == UTF8_INVALID) {
        memcpy(escape, replacement, sizeof replacement - 1);
        return sizeof replacement - 1;
    }
    if (!found && !utf8_controls_terminal(c))
        return 0;
    escape[0] = '\\';
    escape[1] = found ? letters[found - characters] : 'u';
    for (int i = 0; i < 4 && !found; i++)
        escape[2 + i] = "0123456789abcdef"[c >> (12 - 4 * i) & 15];
    return found ? 2 : 6;
}

wisp_status json_write_string(const struct byte_sink *sink, wisp_text text, wisp_error *error) {
    size_t written = 0;
    TRY(sink->write(sink->context, "\"", 1, error));
    for (size_t at = 0, length; at < text.length; at += length) {
        char escape[6];
        uint32_t c;
        length = utf8_decode(text.bytes + at, text.length - at, &c);
        const size_t bytes = escape_of(c, escape);
        if (bytes == 0)
            continue;
        TRY(sink->write(sink->context, text.bytes + written, at - written, error));
        TRY(sink->write(sink->context, escape, bytes, error));
        written = at + length;
    }
    if (text.length > written)
        TRY(sink->write(sink->context, text.bytes + written, text.length - written, error));
    return sink->write(sink->context, "\"", 1, error);
}
