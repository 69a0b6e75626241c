/* SPDX-License-Identifier: Apache-2.0
 * Matches patterns: regular expressions, as far as pre-tokenizers need them. They are alternatives
 * of sets of characters with quantifiers, groups and negative lookahead, in Oniguruma's syntax and
 * with its tables of characters.
 *
 * An alternative is tried when those before it do not match; quantifiers of single characters are
 * greedy and give back what the rest of the alternative needs. Unlike in other engines, a group
 * gives nothing back once it has matched. The patterns of pretokenizers.c do not need that. */
#ifndef WISP_TOKENIZERS_PATTERN_H
#define WISP_TOKENIZERS_PATTERN_H

#include "tokenizers/pattern_parts.h"

/* Returns where the match that begins at `at` ends, or NULL if there is none. The text, which ends
 * at `end`, is well-formed UTF-8. A match is not empty. */
const char *pattern_match(const struct pattern *pattern, const char *at, const char *end);

/* Returns whether a set has a character, without regard to its bits of ASCII. */
bool pattern_set_finds(const struct pattern_set *set, uint32_t c);

#endif
