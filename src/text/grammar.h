/* SPDX-License-Identifier: Apache-2.0
 * Grammars of texts, in GBNF: the notation that llama.cpp has for them.
 *
 *     root   ::= "[" (number ("," number)*)? "]"   # the rule that a text has to match
 *     number ::= "-"? [0-9]{1,3}
 *
 * A rule has alternatives, separated by |, of literals "...", sets of characters [a-z] or [^a-z],
 * any character ., names of rules and groups ( ). After each of these may stand *, +, ?, {m}, {m,}
 * or {m,n}. Literals and sets have the escapes \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH. A
 * rule ends with its line, but not within a group or before and after a |.
 *
 * A grammar is compiled to symbols that match bytes, so that a token may end within a character. It
 * does not change afterwards, and threads may share it. */
#ifndef WISP_TEXT_GRAMMAR_H
#define WISP_TEXT_GRAMMAR_H

#include "base/arena.h"
#include "base/status.h"

/* A symbol matches one byte or the text of a rule, or ends an alternative. */
enum symbol_kind { SYMBOL_END, SYMBOL_BYTE, SYMBOL_SET, SYMBOL_RULE };

struct symbol {
    uint32_t kind : 2, value : 30; /* the byte, or the index of the set or rule */
};

struct byte_set {
    uint8_t bits[32];
};

/* Rule r has the alternatives [first[r], first[r + 1]), whose symbols begin at start[alternative].
 * The text matches rule `root`. */
struct wisp_grammar {
    struct arena arena; /* owns the arrays */
    const struct symbol *symbols;
    const uint32_t *start, *first;
    const struct byte_set *sets;
    uint32_t root, rules, alternatives;
};

static inline bool set_has(const struct byte_set *set, unsigned char byte) {
    return set->bits[byte / 8] >> byte % 8 & 1;
}

#endif
