/* SPDX-License-Identifier: Apache-2.0
 * The shapes of the generated tables; text/unicode.h is what to use. Sets and mappings are sorted
 * by code point and hold the lower 16 bits; what belongs to plane p is in [planes[p],
 * planes[p + 1]). */
#ifndef WISP_TEXT_UNICODE_TABLES_H
#define WISP_TEXT_UNICODE_TABLES_H

#include <stdint.h>

enum {
    UNICODE_LIMIT = 0x1F000, /* from here on unicode_rare says it all */
    UNICODE_RARE = 6,
    UNICODE_RANK_RUNS = 25,
    UNICODE_RANKS = 6,
    UNICODE_SEVERAL = 42,
    UNICODE_PLANES = 17
};

/* A run of code points and its flags or rank. */
struct unicode_rare {
    uint32_t first, last, value;
};

struct unicode_range {
    uint16_t first, last;
};

/* Every `step`th code point from first to last maps to itself + add. */
struct unicode_shift {
    uint16_t first, last, add, step;
};

/* Code points first to last have their values from unicode_strip_values[start] on. */
struct unicode_slice {
    uint16_t first, last, start;
};

/* What is left of a code point where that is more than one; 0 fills up. */
struct unicode_parts {
    uint32_t from, to[3];
};

/* Flags: four bits for each code point in a block of 128 pick one of unicode_kinds. */
extern const uint8_t unicode_kinds[];
extern const uint8_t unicode_index[UNICODE_LIMIT / 128];
extern const uint8_t unicode_blocks[];
extern const struct unicode_rare unicode_rare[UNICODE_RARE];
extern const struct unicode_rare unicode_ranks[UNICODE_RANK_RUNS];

extern const uint16_t unicode_lower_planes[UNICODE_PLANES + 1];
extern const struct unicode_shift unicode_lower_runs[];

/* Values are in the plane of their key, but in plane 2 where the bit in _far is set, and in plane 0
 * for the other keys of plane 2. */
extern const uint16_t unicode_strip_planes[UNICODE_PLANES + 1];
extern const struct unicode_slice unicode_strip_runs[];
extern const uint16_t unicode_strip_values[];
extern const uint8_t unicode_strip_far[];
extern const struct unicode_parts unicode_strip_several[UNICODE_SEVERAL];

extern const uint16_t unicode_word_planes[UNICODE_PLANES + 1];
extern const struct unicode_range unicode_word[];

#endif
