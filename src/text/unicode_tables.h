/* SPDX-License-Identifier: Apache-2.0
 * The types of the generated tables, for unicode.c only: all others use text/unicode.h. Mappings
 * are sorted by code point and hold its lower 16 bits; the entries of plane p are
 * [planes[p], planes[p + 1]). */
#ifndef WISP_TEXT_UNICODE_TABLES_H
#define WISP_TEXT_UNICODE_TABLES_H

#include <stdint.h>

enum {
    UNICODE_LIMIT = 0x1F000, /* flags of code points from here on are in unicode_rare */
    UNICODE_RARE = 6,
    UNICODE_RANK_RUNS = 25,
    UNICODE_RANKS = 6,
    UNICODE_SEVERAL = 42,
    UNICODE_WORD = 1673,
    UNICODE_PLANES = 17
};

/* A run of code points and its flags or rank. */
struct unicode_rare {
    uint32_t first, last, value;
};

/* Every `step`th code point from first to last maps to itself + add. */
struct unicode_shift {
    uint16_t first, last, add, step;
};

/* The values of code points first to last are unicode_strip_values[start] and following. */
struct unicode_slice {
    uint16_t first, last, start;
};

/* A code point that is stripped to several; a third that does not exist is 0. */
struct unicode_parts {
    uint32_t from, to[3];
};

/* Flags: a block has four bits for each of its 128 code points, which pick one of unicode_kinds. */
extern const uint8_t unicode_kinds[];
extern const uint8_t unicode_index[UNICODE_LIMIT / 128];
extern const uint8_t unicode_blocks[];
extern const struct unicode_rare unicode_rare[UNICODE_RARE];
extern const struct unicode_rare unicode_ranks[UNICODE_RANK_RUNS];

extern const uint16_t unicode_lower_planes[UNICODE_PLANES + 1];
extern const struct unicode_shift unicode_lower_runs[];

/* Values of stripping. If the bit in unicode_strip_far is set, a value is in plane 2; otherwise
 * values of keys in plane 1 are in plane 1, and all others in plane 0. */
extern const uint16_t unicode_strip_planes[UNICODE_PLANES + 1];
extern const struct unicode_slice unicode_strip_runs[];
extern const uint16_t unicode_strip_values[];
extern const uint8_t unicode_strip_far[];
extern const struct unicode_parts unicode_strip_several[UNICODE_SEVERAL];

/* The lengths of the runs of code points that are not of words and that are, by turns: in base 128,
 * the low digits first; all bytes but the last have the high bit. */
extern const uint8_t unicode_word[UNICODE_WORD];

#endif
