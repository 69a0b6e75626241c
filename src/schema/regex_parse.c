/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "schema/regex_tree.h"

enum { MOST_DEPTH = 64, MOST_RANGES = 1024, MOST_REPEATS = 65535, LAST_CODE = 0x10FFFF };

/* A set while it is read. */
struct ranges {
    struct regex_range list[MOST_RANGES];
    uint32_t n;
};

struct parser {
    struct arena *arena;
    struct ranges *ranges, *others; /* too large for the stack of groups */
    const char *begin, *at, *end;
    struct regex_tree *tree;
    wisp_error *error;
};

static const struct regex_range digits[] = {{'0', '9'}};
static const struct regex_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct regex_range spaces[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const struct regex_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static wisp_status invalid(const struct parser *p, const char *message) {
    return fail(p->error, WISP_ERROR_FORMAT, NULL, NULL, "character %zu: %s",
                (size_t)(p->at - p->begin) + 1, message);
}

static wisp_status unsupported(const struct parser *p, const char *what) {
    return fail(p->error, WISP_ERROR_UNSUPPORTED, NULL, NULL,
                "character %zu: %s cannot be followed", (size_t)(p->at - p->begin) + 1, what);
}

static bool is_next(const struct parser *p, char c) {
    return p->at < p->end && *p->at == c;
}

static bool accept(struct parser *p, const char *text) {
    const size_t n = strlen(text);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, text, n) != 0)
        return false;
    p->at += n;
    return true;
}

static wisp_status new_node(struct parser *p, enum regex_kind kind, struct regex **node) {
    ARENA_TAKE(p->arena, *node, 1, p->error);
    (*node)->kind = kind;
    return WISP_OK;
}

/* ---- sets ----------------------------------------------------------------------------------- */

static int by_low(const void *a, const void *b) {
    const struct regex_range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

static wisp_status add_range(struct parser *p, struct ranges *r, uint32_t low, uint32_t high) {
    if (r->n == MOST_RANGES)
        return unsupported(p, "a set of more than 1024 ranges");
    r->list[r->n++] = (struct regex_range){low, high};
    return WISP_OK;
}

static void merge(struct ranges *r) {
    uint32_t n = 0;
    qsort(r->list, r->n, sizeof *r->list, by_low);
    for (uint32_t i = 0; i < r->n; i++) {
        if (n > 0 && r->list[i].low <= r->list[n - 1].high + 1) {
            if (r->list[i].high > r->list[n - 1].high)
                r->list[n - 1].high = r->list[i].high;
        } else {
            r->list[n++] = r->list[i];
        }
    }
    r->n = n;
}

/* Adds the characters that are in none of n ranges, which are in order. */
static wisp_status add_others(struct parser *p, struct ranges *r, const struct regex_range *ranges,
                              uint32_t n) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (ranges[i].low > next)
            TRY(add_range(p, r, next, ranges[i].low - 1));
        next = ranges[i].high + 1;
    }
    return next <= LAST_CODE ? add_range(p, r, next, LAST_CODE) : WISP_OK;
}

static wisp_status new_set(struct parser *p, struct ranges *r, bool negated, struct regex **node) {
    struct regex_tree *t = p->tree;
    struct regex_range *copy;
    merge(r);
    if (negated) {
        p->others->n = 0;
        TRY(add_others(p, p->others, r->list, r->n));
        r = p->others;
    }
    if (t->n_sets == t->set_capacity) {
        struct regex_set *sets;
        ARENA_TAKE(p->arena, sets, 2 * (size_t)t->n_sets + 8, p->error);
        if (t->n_sets)
            memcpy(sets, t->sets, t->n_sets * sizeof *sets);
        t->sets = sets;
        t->set_capacity = 2 * t->n_sets + 8;
    }
    ARENA_TAKE(p->arena, copy, r->n + 1, p->error);
    memcpy(copy, r->list, r->n * sizeof *copy);
    TRY(new_node(p, REGEX_SET, node));
    (*node)->set = t->n_sets;
    t->sets[t->n_sets++] = (struct regex_set){copy, r->n};
    return WISP_OK;
}

/* Adds what \d, \W and the like stand for. Sets *found to false for other letters. */
static wisp_status add_letter_set(struct parser *p, struct ranges *r, char letter, bool *found) {
    static const struct {
        char letter;
        const struct regex_range *ranges;
        uint32_t n;
    } sets[] = {{'d', digits, 1}, {'w', words, 4}, {'s', spaces, 10}};
    *found = true;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (letter == sets[i].letter - 'a' + 'A')
            return add_others(p, r, sets[i].ranges, sets[i].n);
        for (uint32_t k = 0; k < sets[i].n && letter == sets[i].letter; k++)
            TRY(add_range(p, r, sets[i].ranges[k].low, sets[i].ranges[k].high));
        if (letter == sets[i].letter)
            return WISP_OK;
    }
    *found = false;
    return WISP_OK;
}

/* Reads up to `most` hexadecimal digits; false if fewer than `least` follow. */
static bool read_hex(struct parser *p, size_t least, size_t most, uint32_t *value) {
    const char *start = p->at;
    size_t n = 0;
    *value = 0;
    for (; n < most && p->at < p->end; n++, p->at++) {
        const char c = *p->at;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            break;
        *value = *value * 16 + (uint32_t)digit;
    }
    if (n < least)
        p->at = start;
    return n >= least;
}

/* Reads the four digits after \u, and a low surrogate after a high one. */
static bool read_unicode(struct parser *p, uint32_t *code) {
    uint32_t low;
    if (accept(p, "{"))
        return read_hex(p, 1, 6, code) && accept(p, "}");
    if (!read_hex(p, 4, 4, code))
        return false;
    const char *after = p->at;
    if (*code >= 0xD800 && *code < 0xDC00 && accept(p, "\\u")) {
        if (read_hex(p, 4, 4, &low) && low >= 0xDC00 && low < 0xE000)
            *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
        else
            p->at = after;
    }
    return true;
}

/* Reads what follows a backslash, if it is one character. */
static wisp_status read_escape(struct parser *p, bool in_set, uint32_t *code) {
    static const char from[] = "tnrfv0", to[] = "\t\n\r\f\v\0";
    if (p->at == p->end)
        return invalid(p, "the expression ends with a backslash");
    const char c = *p->at++;
    const char *known = memchr(from, c, sizeof from - 1);
    *code = (unsigned char)c;
    if (known)
        *code = (unsigned char)to[known - from];
    else if (c == 'b' && in_set)
        *code = '\b';
    else if (c == 'b' || c == 'B')
        return unsupported(p, "a word's border");
    else if (c == 'p' || c == 'P')
        return unsupported(p, "a property of Unicode");
    else if (c == 'k' || (c >= '1' && c <= '9'))
        return unsupported(p, "a reference back");
    else if (c == 'c' && p->at < p->end)
        *code = (unsigned char)*p->at++ % 32;
    else if (c == 'x' && !read_hex(p, 2, 2, code))
        *code = 'x';
    else if (c == 'u' && !read_unicode(p, code))
        *code = 'u';
    else if ((unsigned char)c >= 0x80) {
        p->at--;
        p->at += utf8_decode(p->at, (size_t)(p->end - p->at), code);
    }
    return *code > LAST_CODE ? invalid(p, "no character has this number") : WISP_OK;
}

/* Reads a character or a set of one letter within brackets. */
static wisp_status read_member(struct parser *p, struct ranges *r, uint32_t *code, bool *is_set) {
    *is_set = false;
    if (p->at == p->end)
        return invalid(p, "] is missing");
    if (!accept(p, "\\")) {
        p->at += utf8_decode(p->at, (size_t)(p->end - p->at), code);
        return *code == UTF8_INVALID ? invalid(p, "ill-formed UTF-8") : WISP_OK;
    }
    if (p->at < p->end)
        TRY(add_letter_set(p, r, *p->at, is_set));
    if (*is_set)
        p->at++;
    return *is_set ? WISP_OK : read_escape(p, true, code);
}

static wisp_status parse_brackets(struct parser *p, struct regex **node) {
    struct ranges *r = p->ranges;
    r->n = 0;
    const bool negated = accept(p, "^");
    while (!accept(p, "]")) {
        uint32_t low = 0, high = 0;
        bool is_set, ends_with_set;
        TRY(read_member(p, r, &low, &is_set));
        if (!is_next(p, '-') || p->at + 1 >= p->end || p->at[1] == ']') {
            if (!is_set)
                TRY(add_range(p, r, low, low));
            continue;
        }
        p->at++;
        TRY(read_member(p, r, &high, &ends_with_set));
        if (!is_set && !ends_with_set && high < low)
            return invalid(p, "the range ends before it begins");
        if (!is_set && !ends_with_set) {
            TRY(add_range(p, r, low, high));
            continue;
        }
        TRY(add_range(p, r, '-', '-')); /* beside a set, it stands for itself */
        if (!is_set)
            TRY(add_range(p, r, low, low));
        if (!ends_with_set)
            TRY(add_range(p, r, high, high));
    }
    return new_set(p, r, negated, node);
}

/* ---- expressions ---------------------------------------------------------------------------- */

static wisp_status parse_choice(struct parser *p, unsigned depth, struct regex **node);

static wisp_status parse_group(struct parser *p, unsigned depth, struct regex **node) {
    bool ahead = false, negated = false;
    if (depth == MOST_DEPTH)
        return unsupported(p, "a group that is nested so deep");
    if (accept(p, "?=")) {
        ahead = true;
    } else if (accept(p, "?!")) {
        ahead = negated = true;
    } else if (accept(p, "?<=") || accept(p, "?<!")) {
        return unsupported(p, "looking behind");
    } else if (accept(p, "?<") || accept(p, "?P<")) {
        while (p->at < p->end && *p->at != '>')
            p->at++;
        accept(p, ">");
    } else if (!accept(p, "?:") && is_next(p, '?')) {
        return unsupported(p, "a group of this kind");
    }
    TRY(parse_choice(p, depth + 1, node));
    if (!accept(p, ")"))
        return invalid(p, ") is missing");
    if (ahead) {
        struct regex *child = *node;
        TRY(new_node(p, REGEX_AHEAD, node));
        (*node)->first = child;
        (*node)->negated = negated;
    }
    return WISP_OK;
}

/* Reads one character, set, group or border. */
static wisp_status parse_atom(struct parser *p, unsigned depth, struct regex **node) {
    struct ranges *r = p->ranges;
    uint32_t code = 0;
    bool is_set = false;
    r->n = 0;
    if (accept(p, "^"))
        return new_node(p, REGEX_BEGIN, node);
    if (accept(p, "$"))
        return new_node(p, REGEX_END, node);
    if (accept(p, "("))
        return parse_group(p, depth, node);
    if (accept(p, "["))
        return parse_brackets(p, node);
    if (accept(p, ".")) {
        TRY(add_others(p, r, line_ends, 3));
        return new_set(p, r, false, node);
    }
    if (p->at < p->end && strchr("*+?", *p->at))
        return invalid(p, "nothing comes before the repetition");
    TRY(read_member(p, r, &code, &is_set));
    if (!is_set && code == '\b')
        return unsupported(p, "a word's border");
    if (!is_set)
        TRY(add_range(p, r, code, code));
    return new_set(p, r, false, node);
}

static bool read_number(struct parser *p, uint32_t *number) {
    const char *start = p->at;
    *number = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        *number = *number > MOST_REPEATS ? *number : *number * 10 + (uint32_t)(*p->at - '0');
    return p->at > start;
}

/* Reads {m}, {m,} or {m,n}. Braces with other things in them stand for themselves. */
static bool read_braces(struct parser *p, uint32_t *least, uint32_t *most) {
    const char *start = p->at;
    if (accept(p, "{") && read_number(p, least)) {
        *most = *least;
        if (accept(p, ",") && !read_number(p, most))
            *most = UINT32_MAX;
        if (accept(p, "}"))
            return true;
    }
    p->at = start;
    return false;
}

static wisp_status parse_repeats(struct parser *p, struct regex **node) {
    uint32_t least = 0, most = UINT32_MAX;
    if (accept(p, "+"))
        least = 1;
    else if (accept(p, "?"))
        most = 1;
    else if (!accept(p, "*") && !read_braces(p, &least, &most))
        return WISP_OK;
    if (most < least)
        return invalid(p, "the most repetitions are fewer than the least");
    if (least > MOST_REPEATS || (most > MOST_REPEATS && most != UINT32_MAX))
        return unsupported(p, "so many repetitions");
    accept(p, "?"); /* how much a match takes does not matter */
    struct regex *child = *node;
    if (child->kind == REGEX_AHEAD)
        return unsupported(p, "looking ahead repeatedly");
    TRY(new_node(p, REGEX_REPEAT, node));
    (*node)->first = child;
    (*node)->least = least;
    (*node)->most = most;
    return WISP_OK;
}

static wisp_status parse_sequence(struct parser *p, unsigned depth, struct regex **node) {
    TRY(new_node(p, REGEX_ALL, node));
    struct regex **last = &(*node)->first;
    while (p->at < p->end && *p->at != '|' && *p->at != ')') {
        TRY(parse_atom(p, depth, last));
        TRY(parse_repeats(p, last));
        last = &(*last)->next;
    }
    return WISP_OK;
}

static wisp_status parse_choice(struct parser *p, unsigned depth, struct regex **node) {
    struct regex *first;
    TRY(parse_sequence(p, depth, &first));
    *node = first;
    if (!is_next(p, '|'))
        return WISP_OK;
    TRY(new_node(p, REGEX_ANY, node));
    (*node)->first = first;
    for (struct regex **last = &first->next; accept(p, "|"); last = &(*last)->next)
        TRY(parse_sequence(p, depth, last));
    return WISP_OK;
}

wisp_status regex_parse(struct arena *arena, wisp_text pattern, struct regex_tree *tree,
                        wisp_error *error) {
    struct parser p = {.arena = arena,
                       .begin = pattern.bytes,
                       .at = pattern.bytes,
                       .end = pattern.bytes + pattern.length,
                       .tree = tree,
                       .error = error};
    *tree = (struct regex_tree){0};
    ARENA_TAKE(arena, p.ranges, 1, error);
    ARENA_TAKE(arena, p.others, 1, error);
    TRY(parse_choice(&p, 0, &tree->root));
    return p.at < p.end ? invalid(&p, ") has no (") : WISP_OK;
}
