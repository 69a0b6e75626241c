/* SPDX-License-Identifier: Apache-2.0
 * The parts of a regular expression. */
#ifndef WISP_SCHEMA_REGEX_TREE_H
#define WISP_SCHEMA_REGEX_TREE_H

#include "base/arena.h"

enum regex_kind {
    REGEX_SET,    /* one character of a set */
    REGEX_ALL,    /* all children, one after another */
    REGEX_ANY,    /* one of the children */
    REGEX_REPEAT, /* the child from `least` to `most` times */
    REGEX_BEGIN,
    REGEX_END,
    REGEX_AHEAD, /* the child follows, or does not if `negated` */
};

struct regex_range {
    uint32_t low, high;
};

struct regex_set {
    const struct regex_range *ranges; /* [n], in order and apart from each other */
    uint32_t n;
};

struct regex {
    enum regex_kind kind;
    bool negated;
    uint32_t set;         /* an index */
    uint32_t least, most; /* most UINT32_MAX: any number */
    struct regex *first;  /* child */
    struct regex *next;   /* of the same parent */
};

/* An expression and its sets. */
struct regex_tree {
    struct regex *root;
    struct regex_set *sets; /* [n_sets] */
    uint32_t n_sets, set_capacity;
};

wisp_status regex_parse(struct arena *arena, wisp_text pattern, struct regex_tree *tree,
                        wisp_error *error);

#endif
