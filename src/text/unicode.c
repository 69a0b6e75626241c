/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "text/unicode.h"

#include "text/unicode_tables.h"

_Static_assert((int)UNICODE_MAX_RANK == (int)UNICODE_RANKS, "the header and the tables agree");

/* Hangul syllables decompose by arithmetic (Unicode, section 3.12). */
enum {
    HANGUL_FIRST = 0xAC00,
    HANGUL_LAST = 0xD7A3,
    HANGUL_LEADS = 0x1100,
    HANGUL_VOWELS = 0x1161,
    HANGUL_TRAILS = 0x11A7,
    HANGUL_TRAIL_COUNT = 28, /* counting that there is none */
    HANGUL_VOWEL_COUNT = 21
};

static uint32_t rare_value(const struct unicode_rare *runs, size_t count, uint32_t code_point) {
    for (size_t i = 0; i < count; i++)
        if (code_point >= runs[i].first && code_point <= runs[i].last)
            return runs[i].value;
    return 0;
}

unsigned unicode_flags(uint32_t code_point) {
    if (code_point >= UNICODE_LIMIT)
        return rare_value(unicode_rare, UNICODE_RARE, code_point);
    const size_t block = unicode_index[code_point >> 7], pair = code_point >> 1 & 63;
    return unicode_kinds[unicode_blocks[block * 64 + pair] >> (code_point & 1) * 4 & 15];
}

unsigned unicode_rank(uint32_t code_point) {
    return rare_value(unicode_ranks, UNICODE_RANK_RUNS, code_point);
}

/* Returns the entry whose range includes the code point, or NULL. Entries have `words` 16-bit
 * numbers, of which the first two are the first and the last code point of the range. */
static const uint16_t *find(const uint16_t *entries, size_t words, const uint16_t *planes,
                            uint32_t code_point) {
    const uint16_t key = (uint16_t)code_point;
    size_t low = planes[code_point >> 16], high = planes[(code_point >> 16) + 1];
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const uint16_t *entry = entries + middle * words;
        if (key < entry[0])
            high = middle;
        else if (key > entry[1])
            low = middle + 1;
        else
            return entry;
    }
    return NULL;
}

bool unicode_is_word(uint32_t code_point) {
    bool is_word = false;
    for (size_t at = 0; at < UNICODE_WORD; is_word = !is_word) {
        uint32_t length = 0;
        for (unsigned shift = 0, more = 0x80; more; shift += 7) {
            /* cppcheck-suppress shiftTooManyBits; the table's numbers end within 32 bits */
            length |= (uint32_t)(unicode_word[at] & 0x7F) << shift;
            more = unicode_word[at++] & 0x80;
        }
        if (code_point < length)
            return is_word;
        code_point -= length;
    }
    return false;
}

size_t unicode_lower(uint32_t code_point, uint32_t lower[2]) {
    lower[0] = code_point;
    if (code_point == 0x130) { /* the only one whose lower case is two */
        lower[0] = 'i';
        lower[1] = 0x307;
        return 2;
    }
    const uint16_t *found =
        find(&unicode_lower_runs->first, sizeof *unicode_lower_runs / sizeof(uint16_t),
             unicode_lower_planes, code_point);
    if (!found)
        return 1;
    const struct unicode_shift *run = (const struct unicode_shift *)found;
    if (((uint16_t)code_point - run->first) % run->step == 0)
        lower[0] = (code_point & 0xFF0000) | (uint16_t)(code_point + run->add);
    return 1;
}

static size_t strip_hangul(uint32_t code_point, uint32_t left[3]) {
    const uint32_t index = code_point - HANGUL_FIRST;
    const uint32_t trail = index % HANGUL_TRAIL_COUNT;
    left[0] = HANGUL_LEADS + index / (HANGUL_TRAIL_COUNT * HANGUL_VOWEL_COUNT);
    left[1] = HANGUL_VOWELS + index / HANGUL_TRAIL_COUNT % HANGUL_VOWEL_COUNT;
    left[2] = HANGUL_TRAILS + trail;
    return trail ? 3 : 2;
}

static size_t strip_several(uint32_t code_point, uint32_t left[3]) {
    left[0] = code_point;
    for (size_t i = 0; i < UNICODE_SEVERAL; i++) {
        const struct unicode_parts *parts = &unicode_strip_several[i];
        if (parts->from != code_point)
            continue;
        for (size_t j = 0; j < 3; j++)
            left[j] = parts->to[j];
        return parts->to[2] ? 3 : 2;
    }
    return 1;
}

size_t unicode_strip(uint32_t code_point, uint32_t left[3]) {
    if (code_point >= HANGUL_FIRST && code_point <= HANGUL_LAST)
        return strip_hangul(code_point, left);
    const uint16_t *found =
        find(&unicode_strip_runs->first, sizeof *unicode_strip_runs / sizeof(uint16_t),
             unicode_strip_planes, code_point);
    if (!found)
        return strip_several(code_point, left);
    const struct unicode_slice *run = (const struct unicode_slice *)found;
    const size_t at = run->start + (size_t)((uint16_t)code_point - run->first);
    const uint32_t plane = code_point >> 16;
    left[0] = unicode_strip_values[at];
    if (plane == 1)
        left[0] |= 0x10000;
    else if (unicode_strip_far[at / 8] >> at % 8 & 1)
        left[0] |= 0x20000;
    return 1;
}
