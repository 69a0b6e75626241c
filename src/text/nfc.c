/* SPDX-License-Identifier: Apache-2.0
 * Most characters are in the form and stay as they are. Those that may change ("unsure") are in
 * segments, each with the character before it; a segment is decomposed, ordered and composed.
 * Source: Unicode Standard Annex #15; The Unicode Standard, sections 3.11 and 3.12. */
#include "text/nfc.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/unicode_nfc.h"

/* Hangul syllables are composed by arithmetic (section 3.12). */
enum {
    SYLLABLES = 0xAC00,
    LEADS = 0x1100,
    VOWELS = 0x1161,
    TRAILS = 0x11A7, /* if there is no trail */
    LEAD_COUNT = 19,
    VOWEL_COUNT = 21,
    TRAIL_COUNT = 28,
    SYLLABLE_COUNT = LEAD_COUNT * VOWEL_COUNT * TRAIL_COUNT
};

enum { NONE = 0 };                          /* U+0000 is in no pair */
static const uint64_t LOW = (1u << 21) - 1; /* the bits of a code point */

/* ---- tables --------------------------------------------------------------------------------- */

static bool is_unsure(uint32_t c) {
    if (c < 0x300 || c >= UNICODE_NFC_LIMIT)
        return false;
    const size_t block = unicode_nfc_unsure_index[c >> 7];
    return unicode_nfc_unsure_blocks[block * 16 + (c >> 3 & 15)] >> (c & 7) & 1;
}

/* Returns a code point of a table of n, whose bytes are apart. */
static uint32_t join_bytes(const uint8_t *low, size_t n) {
    return low[0] | (uint32_t)low[n] << 8 | (uint32_t)low[2 * n] << 16;
}

static unsigned combining_class(uint32_t c) {
    size_t low = 0, high = UNICODE_NFC_CLASSES;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const uint32_t first = join_bytes(unicode_nfc_class_firsts + middle, UNICODE_NFC_CLASSES);
        if (c < first)
            high = middle;
        else if (c > first + unicode_nfc_class_more[middle])
            low = middle + 1;
        else
            return unicode_nfc_classes[middle];
    }
    return 0;
}

static uint32_t part_at(enum nfc_part part, size_t i) {
    return join_bytes(unicode_nfc_parts + 3 * (size_t)part * UNICODE_NFC_PARTS + i,
                      UNICODE_NFC_PARTS);
}

/* Returns where a code point is in unicode_nfc_parts, or UNICODE_NFC_PARTS. */
static size_t find_parts(uint32_t c) {
    size_t low = 0, high = UNICODE_NFC_PARTS;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const uint32_t whole = part_at(NFC_WHOLE, middle);
        if (whole == c)
            return middle;
        if (whole < c)
            low = middle + 1;
        else
            high = middle;
    }
    return UNICODE_NFC_PARTS;
}

/* Returns the code point that two are composed to, or NONE. */
static uint32_t compose_pair(uint32_t first, uint32_t second) {
    if (first - LEADS < LEAD_COUNT && second - VOWELS < VOWEL_COUNT)
        return SYLLABLES + ((first - LEADS) * VOWEL_COUNT + second - VOWELS) * TRAIL_COUNT;
    if (first - SYLLABLES < SYLLABLE_COUNT && (first - SYLLABLES) % TRAIL_COUNT == 0 &&
        second - TRAILS - 1 < TRAIL_COUNT - 1)
        return first + second - TRAILS;
    const uint64_t pair = (uint64_t)first << 21 | second;
    size_t low = 0, high = UNICODE_NFC_PAIRS;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const size_t at = unicode_nfc_pairs[middle];
        const uint64_t found = (uint64_t)part_at(NFC_FIRST, at) << 21 | part_at(NFC_SECOND, at);
        if (found == pair)
            return part_at(NFC_WHOLE, at);
        if (found < pair)
            low = middle + 1;
        else
            high = middle;
    }
    return NONE;
}

/* ---- a segment ------------------------------------------------------------------------------ */

/* The code points of a segment. An entry is combining class << 56 | index in the segment << 21 |
 * code point, so that sorting by class keeps the order within a class. */
struct segment {
    uint64_t *entries;
    size_t count;
};

static uint32_t code_point(uint64_t entry) {
    return (uint32_t)(entry & LOW);
}

static unsigned class_of(uint64_t entry) {
    return (unsigned)(entry >> 56);
}

static void add(struct segment *s, uint32_t c) {
    s->entries[s->count] = (uint64_t)combining_class(c) << 56 | (uint64_t)s->count << 21 | c;
    s->count++;
}

static void add_decomposed(struct segment *s, uint32_t c) {
    uint32_t seconds[8]; /* the longest decomposition has 4 code points */
    size_t count = 0;
    for (size_t at; (at = find_parts(c)) < UNICODE_NFC_PARTS; c = part_at(NFC_FIRST, at)) {
        const uint32_t second = part_at(NFC_SECOND, at);
        if (second != 0)
            seconds[count++] = second;
    }
    add(s, c);
    while (count > 0)
        add(s, seconds[--count]);
}

static int compare(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts each run of combining code points by class. */
static void put_in_order(struct segment *s) {
    for (size_t i = 0, end; i < s->count; i = end) {
        bool sorted = true;
        for (end = i + 1; end < s->count && class_of(s->entries[end]) > 0; end++)
            sorted = sorted && class_of(s->entries[end - 1]) <= class_of(s->entries[end]);
        const size_t start = i + (class_of(s->entries[i]) == 0);
        if (!sorted)
            qsort(s->entries + start, end - start, sizeof *s->entries, compare);
    }
}

static void compose(struct segment *s) {
    size_t starter = SIZE_MAX, out = 0;
    for (size_t i = 0; i < s->count; i++) {
        const uint64_t entry = s->entries[i];
        /* A starter is composed with what follows it, unless something of no lower class is between
         * the two. */
        if (starter != SIZE_MAX &&
            (starter == out - 1 || class_of(s->entries[out - 1]) < class_of(entry))) {
            const uint32_t composed =
                compose_pair(code_point(s->entries[starter]), code_point(entry));
            if (composed != NONE) {
                s->entries[starter] = composed;
                continue;
            }
        }
        if (class_of(entry) == 0)
            starter = out;
        s->entries[out++] = entry;
    }
    s->count = out;
}

/* ---- a text --------------------------------------------------------------------------------- */

/* Returns where the next unsure character begins, and in *before the character before it. */
static size_t find_unsure(wisp_text text, size_t at, size_t *before) {
    *before = at;
    while (at < text.length) {
        uint32_t c;
        const size_t taken = utf8_decode(text.bytes + at, text.length - at, &c);
        if (is_unsure(c))
            break;
        *before = at;
        at += taken;
    }
    return at;
}

/* Adds the characters from `at` on, up to the next that is not unsure, and returns where it begins.
 */
static size_t read_segment(wisp_text text, size_t at, size_t unsure, struct segment *s) {
    while (at < text.length) {
        uint32_t c;
        const size_t taken = utf8_decode(text.bytes + at, text.length - at, &c);
        if (at >= unsure && !is_unsure(c))
            break;
        add_decomposed(s, c);
        at += taken;
    }
    return at;
}

/* Normalises from the first unsure character on. `out` has room for three times the text. */
static size_t normalize(wisp_text text, struct segment *s, char *out) {
    size_t length = 0;
    for (size_t at = 0, before, next; at < text.length; at = next) {
        const size_t unsure = find_unsure(text, at, &before);
        const size_t plain = unsure == text.length ? text.length : before;
        memcpy(out + length, text.bytes + at, plain - at);
        length += plain - at;
        s->count = 0;
        next = read_segment(text, plain, unsure, s);
        put_in_order(s);
        compose(s);
        for (size_t i = 0; i < s->count; i++)
            length += utf8_encode(code_point(s->entries[i]), out + length);
    }
    return length;
}

wisp_status nfc_normalize(wisp_text text, char **copy, wisp_text *normalized, wisp_error *error) {
    size_t before;
    *copy = NULL;
    *normalized = text;
    if (find_unsure(text, 0, &before) == text.length)
        return WISP_OK;
    /* A character of n bytes decomposes to at most 1.5 n code points of together 3 n bytes. */
    const uint64_t bytes = (uint64_t)text.length * 3 + text.length * 2 * sizeof(uint64_t);
    if (text.length > SIZE_MAX / 2 / sizeof(uint64_t) / 2 || text.length >= UINT32_MAX)
        return fail_memory(error, bytes);
    struct segment s = {.entries = malloc(text.length * 2 * sizeof *s.entries)};
    *copy = malloc(text.length * 3);
    if (!s.entries || !*copy) {
        free(s.entries);
        free(*copy);
        *copy = NULL;
        return fail_memory(error, bytes);
    }
    *normalized = (wisp_text){*copy, normalize(text, &s, *copy)};
    free(s.entries);
    return WISP_OK;
}
