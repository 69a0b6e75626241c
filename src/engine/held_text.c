/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/held_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/utf8.h"

wisp_status held_text_add(struct held_text *held, wisp_text text, wisp_error *error) {
    if (text.length > held->capacity - held->length) {
        const size_t capacity = 2 * (held->length + text.length) + 64;
        char *bytes = realloc(held->bytes, capacity);
        if (!bytes)
            return fail_memory(error, capacity);
        held->bytes = bytes;
        held->capacity = capacity;
    }
    if (text.length > 0)
        memcpy(held->bytes + held->length, text.bytes, text.length);
    held->length += text.length;
    return WISP_OK;
}

bool held_text_cut(struct held_text *held) {
    for (size_t i = 0; i < held->length; i++)
        for (size_t k = 0; k < held->stops; k++) {
            const size_t n = strlen(held->stop[k]);
            if (n > 0 && n <= held->length - i && memcmp(held->bytes + i, held->stop[k], n) == 0) {
                held->length = i;
                return true;
            }
        }
    return false;
}

/* Returns whether n bytes are whole characters. */
static bool is_well_formed(const char *bytes, size_t n) {
    uint32_t c = 0;
    for (size_t at = 0; at < n && c != UTF8_INVALID;)
        at += utf8_decode(bytes + at, n - at, &c);
    return c != UTF8_INVALID;
}

wisp_status held_text_take(struct held_text *held, size_t n, wisp_text *text, wisp_error *error) {
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t rest;
    *text = (wisp_text){held->bytes, n};
    if (is_well_formed(held->bytes, n))
        return WISP_OK;
    const size_t room = 3 * n + sizeof replacement;
    if (room > held->repaired_capacity) {
        char *larger = realloc(held->repaired, room);
        if (!larger)
            return fail_memory(error, room);
        held->repaired = larger;
        held->repaired_capacity = room;
    }
    text->bytes = held->repaired;
    text->length = utf8_repair(held->bytes, n, held->repaired, &rest);
    if (rest > 0) {
        memcpy(held->repaired + text->length, replacement, sizeof replacement - 1);
        text->length += sizeof replacement - 1;
    }
    return WISP_OK;
}

size_t held_text_ready(const struct held_text *held) {
    size_t ready = held->length;
    for (size_t back = 1; back <= 3 && back <= held->length; back++) {
        const unsigned char c = (unsigned char)held->bytes[held->length - back];
        if ((c & 0xC0) == 0x80)
            continue;
        if (c >= 0xC0 && back < (c >= 0xF0 ? 4u : c >= 0xE0 ? 3u : 2u))
            ready = held->length - back;
        break;
    }
    for (size_t k = 0; k < held->stops; k++) {
        const size_t n = strlen(held->stop[k]);
        for (size_t i = held->length > n ? held->length - n : 0; i < ready; i++)
            if (memcmp(held->bytes + i, held->stop[k], smaller(n, held->length - i)) == 0)
                ready = i;
    }
    return ready;
}

void held_text_drop(struct held_text *held, size_t n) {
    held->length -= n;
    if (held->length > 0)
        memmove(held->bytes, held->bytes + n, held->length);
}

void held_text_release(struct held_text *held) {
    free(held->bytes);
    free(held->repaired);
    *held = (struct held_text){0};
}
