/* SPDX-License-Identifier: Apache-2.0
 * Matches a pattern by trying alternatives in order, and going back within runs of a set. No
 * recursion is deeper than the pattern is long. */
#include "tokenizers/pattern.h"

#include <stddef.h>

#include "tokenizers/characters.h"

/* Script=Han of Unicode 16. */
static bool is_han(uint32_t c) {
    static const uint32_t ranges[][2] = {
        {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
        {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
        {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
        {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
        {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
        {0x30000, 0x3134A}, {0x31350, 0x323AF}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && c >= ranges[i][0]; i++)
        if (c <= ranges[i][1])
            return true;
    return false;
}

bool pattern_set_finds(const struct pattern_set *set, uint32_t c) {
    if (set->han != HAN_TOO && is_han(c) != (set->han == HAN_ALONE))
        return false;
    bool found = set->kinds >> unicode_kind(c) & 1;
    for (const struct pattern_range *range = set->ranges; range && !found; range = range->next)
        found = c >= range->first && c <= range->last;
    return found != set->inverted;
}

/* Returns where the character at `at` ends if the set has it, or NULL. */
static inline const char *step(const struct pattern_set *set, const char *at, const char *end) {
    const char *next;
    if (at == end)
        return NULL;
    const uint32_t c = character_at(at, &next);
    const bool found = c < 0x80 ? set->ascii[c >> 6] >> (c & 63) & 1 : pattern_set_finds(set, c);
    return found ? next : NULL;
}

static const char *match_choices(const struct pattern *choice, const char *at, const char *end);

static const char *match_nodes(const struct pattern_node *node, const char *at, const char *end);

/* Matches a run of a set, and what follows it. */
static const char *match_run(const struct pattern_node *node, const char *at, const char *end) {
    uint32_t count = 0;
    for (const char *next; count < node->most && (next = step(node->set, at, end)); count++)
        at = next;
    if (count < node->least)
        return NULL;
    if (!node->next || node->possessive)
        return match_nodes(node->next, at, end);
    for (;; at = character_before(at)) {
        const char *matched = match_nodes(node->next, at, end);
        if (matched || count-- == node->least)
            return matched;
    }
}

static const char *match_group(const struct pattern_node *node, const char *at, const char *end) {
    uint32_t count = 0;
    for (; count < node->most; count++) {
        const char *next = match_choices(node->choices, at, end);
        if (!next || next == at)
            break;
        at = next;
    }
    return count < node->least ? NULL : at;
}

static const char *match_nodes(const struct pattern_node *node, const char *at, const char *end) {
    bool good = true;
    for (; node && good && at; node = node->next)
        switch (node->type) {
        case PATTERN_SET:
            return match_run(node, at, end);
        case PATTERN_GROUP:
            at = match_group(node, at, end);
            break;
        case PATTERN_NOT_AHEAD:
            good = match_choices(node->choices, at, end) == NULL;
            break;
        }
    return good ? at : NULL;
}

static const char *match_choices(const struct pattern *choice, const char *at, const char *end) {
    const unsigned char first = at < end ? (unsigned char)*at : 0xFF;
    for (; choice; choice = choice->next) {
        if (first < 0x80 && !(choice->first[first >> 6] >> (first & 63) & 1))
            continue;
        const char *matched = match_nodes(choice->nodes, at, end);
        if (matched)
            return matched;
    }
    return NULL;
}

const char *pattern_match(const struct pattern *pattern, const char *at, const char *end) {
    const char *matched = match_choices(pattern, at, end);
    return matched == at ? NULL : matched;
}
