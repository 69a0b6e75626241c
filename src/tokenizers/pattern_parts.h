/* SPDX-License-Identifier: Apache-2.0
 * A compiled pattern: pattern_compile.c makes it, and pattern.c matches it. */
#ifndef WISP_TOKENIZERS_PATTERN_PARTS_H
#define WISP_TOKENIZERS_PATTERN_PARTS_H

#include <stdbool.h>

#include "text/unicode_classes.h"

/* A set of characters. */
struct pattern_set {
    uint64_t ascii[2]; /* a bit for each ASCII character, with everything below applied */
    unsigned kinds;    /* 1 << enum unicode_kind */
    bool inverted;     /* the set has what kinds and ranges do not have */
    enum { HAN_TOO, HAN_ALONE, HAN_NOT } han; /* characters of the script Han */
    const struct pattern_range *ranges;
};

struct pattern_range {
    uint32_t first, last;
    const struct pattern_range *next;
};

enum pattern_type {
    PATTERN_SET,
    PATTERN_GROUP,
    PATTERN_NOT_AHEAD /* (?!...) */
};

struct pattern_node {
    enum pattern_type type;
    bool possessive; /* gives nothing back */
    uint32_t least, most;
    const struct pattern_set *set; /* PATTERN_SET */
    const struct pattern *choices; /* of others */
    const struct pattern_node *next;
};

/* One of several alternatives. */
struct pattern {
    uint64_t first[2]; /* the ASCII characters that a match may begin with; others always may */
    const struct pattern_node *nodes;
    const struct pattern *next;
};

#define PATTERN_ANY_KIND 0xFFFFu
#define PATTERN_LETTERS                                                                            \
    (1u << KIND_UPPER | 1u << KIND_LOWER | 1u << KIND_TITLE | 1u << KIND_OTHER_LETTER)
#define PATTERN_NUMBERS (1u << KIND_DIGIT | 1u << KIND_OTHER_NUMBER)

#endif
