/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizers/charsmap.h"

#include <string.h>

#include "base/byte_order.h"

/* MAX_REPLACEMENT bounds how many bytes a replacement adds to a text, MAX_REPLACED how far a search
 * goes in a malformed map, whose units may lead back to themselves. The longest sequence that
 * Unicode replaces has a few dozen bytes. */
enum { MAX_REPLACEMENT = 256, MAX_REPLACED = 256 };

/* A unit has the byte by which its parent leads to it (bits 0 to 7; bit 31 marks values), whether a
 * replacement ends there (bit 8) and the place of its children, relative to its own by exclusive or
 * (bits 10 to 30, times 256 if bit 9 is set). The first child then is the place of the replacement.
 */
static uint32_t label_of(uint32_t unit) {
    return unit & (UINT32_C(1) << 31 | 0xFF);
}

static uint32_t offset_of(uint32_t unit) {
    return unit >> 10 << ((unit & UINT32_C(1) << 9) >> 6);
}

static bool is_end(uint32_t unit) {
    return unit >> 8 & 1;
}

wisp_status charsmap_read(struct charsmap *map, struct arena *arena, const unsigned char *bytes,
                          size_t length, const char *file, const char *field, wisp_error *error) {
    uint32_t *units;
    if (length == 0)
        return WISP_OK;
    const uint32_t trie_bytes = length >= 4 ? load_u32(bytes) : 0;
    if (trie_bytes < 4 || trie_bytes % 4 != 0 || trie_bytes > length - 4)
        return fail(error, WISP_ERROR_FORMAT, file, field,
                    "%lu bytes of a trie in a map of %zu bytes", (unsigned long)trie_bytes, length);
    map->n_units = trie_bytes / 4;
    map->text_bytes = length - 4 - trie_bytes;
    if (map->text_bytes == 0 || bytes[length - 1] != 0)
        return fail(error, WISP_ERROR_FORMAT, file, field, "the replacements do not end with a 0");
    const char *texts = (const char *)bytes + 4 + trie_bytes;
    for (size_t at = 0, n; at < map->text_bytes; at += n + 1)
        if ((n = strlen(texts + at)) > MAX_REPLACEMENT)
            return fail(error, WISP_ERROR_UNSUPPORTED, file, field,
                        "a replacement of %zu bytes, which is more than %d", n, MAX_REPLACEMENT);
    ARENA_TAKE(arena, units, map->n_units, error);
    for (size_t i = 0; i < map->n_units; i++)
        units[i] = load_u32(bytes + 4 + 4 * i);
    map->units = units;
    map->texts = arena_copy_text(arena, texts, map->text_bytes);
    return map->texts ? WISP_OK : fail_memory(error, map->text_bytes);
}

size_t charsmap_find(const struct charsmap *map, const char *at, const char *end, wisp_text *text) {
    size_t longest = 0;
    if (!map->units)
        return 0;
    size_t node = offset_of(map->units[0]);
    for (size_t length = 1; at + length <= end && length <= MAX_REPLACED; length++) {
        const unsigned char byte = (unsigned char)at[length - 1];
        node ^= byte;
        /* No key of a map holds a byte 0, but units that are not in use may have it for a label. */
        if (byte == 0 || node >= map->n_units || label_of(map->units[node]) != byte)
            break;
        const uint32_t unit = map->units[node];
        node ^= offset_of(unit);
        if (!is_end(unit) || node >= map->n_units)
            continue;
        const size_t place = map->units[node] & 0x7FFFFFFF;
        if (place >= map->text_bytes)
            continue;
        longest = length;
        *text = (wisp_text){map->texts + place, strlen(map->texts + place)};
    }
    return longest;
}
