/* SPDX-License-Identifier: Apache-2.0
 * The parser of GBNF; grammar_builder.c makes the grammar.
 * Compiled for size in WebAssembly. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/grammar_machine.h"
#include "schema/grammar_builder.h"

enum { MOST_DEPTH = 64, MOST_REPEATS = 100000, MOST_RANGES = 512, MOST_NAME = 128 };

struct parser {
    const char *begin, *at, *end;
    struct grammar_builder *builder;
    wisp_error *error;
};

static wisp_status complain_at(const struct parser *p, const char *at, const char *message) {
    size_t line = 1, column = 1;
    for (const char *c = p->begin; c < at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    return fail(p->error, WISP_ERROR_FORMAT, NULL, "grammar", "line %zu, column %zu: %s", line,
                column, message);
}

static bool is_next(const struct parser *p, char c) {
    return p->at < p->end && *p->at == c;
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* Skips spaces and comments, and line ends too if `lines` says so. */
static void skip_space(struct parser *p, bool lines) {
    while (p->at < p->end) {
        if (*p->at == '#')
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        else if (*p->at == ' ' || *p->at == '\t' || (lines && (*p->at == '\n' || *p->at == '\r')))
            p->at++;
        else
            return;
    }
}

/* ---- characters ----------------------------------------------------------------------------- */

static wisp_status parse_hex(struct parser *p, size_t digits, uint32_t *value) {
    *value = 0;
    for (size_t i = 0; i < digits; i++, p->at++) {
        const char c = p->at < p->end ? *p->at : 'x';
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return complain_at(p, p->at, "expected a hexadecimal digit");
        *value = *value * 16 + (uint32_t)digit;
    }
    if (*value > 0x10FFFF || (*value >= 0xD800 && *value <= 0xDFFF))
        return complain_at(p, p->at, "the number is not a character");
    return WISP_OK;
}

/* Reads a character of a literal or set. */
static wisp_status parse_character(struct parser *p, uint32_t *c) {
    static const char from[] = "nrt\\\"[]-^", to[] = "\n\r\t\\\"[]-^";
    if (p->at == p->end || *p->at == '\n')
        return complain_at(p, p->at, "the line ends within quotes or brackets");
    if (*p->at != '\\') {
        p->at += utf8_decode(p->at, (size_t)(p->end - p->at), c);
        return *c == UTF8_INVALID ? complain_at(p, p->at, "ill-formed UTF-8") : WISP_OK;
    }
    const char escape = ++p->at < p->end ? *p->at : '\0';
    const char *known = escape ? strchr(from, escape) : NULL;
    if (known) {
        *c = (unsigned char)to[known - from];
        p->at++;
        return WISP_OK;
    }
    const size_t digits = escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
    if (digits == 0)
        return complain_at(p, p->at, "an unknown escape");
    p->at++;
    return parse_hex(p, digits, c);
}

static wisp_status parse_literal(struct parser *p, struct symbols *sequence) {
    for (p->at++; !is_next(p, '"');) {
        uint32_t c = 0;
        char bytes[4];
        TRY(parse_character(p, &c));
        const size_t n = utf8_encode(c, bytes);
        for (size_t i = 0; i < n; i++)
            TRY(symbols_add(sequence, SYMBOL_BYTE, (unsigned char)bytes[i], p->error));
    }
    p->at++;
    return WISP_OK;
}

static wisp_status parse_set(struct parser *p, struct symbols *sequence) {
    struct code_range ranges[MOST_RANGES] = {{0}};
    size_t n = 0;
    p->at++;
    const bool negated = is_next(p, '^');
    p->at += negated;
    while (!is_next(p, ']')) {
        const char *start = p->at;
        if (n == MOST_RANGES)
            return complain_at(p, start, "the set has too many characters");
        TRY(parse_character(p, &ranges[n].low));
        ranges[n].high = ranges[n].low;
        if (is_next(p, '-') && p->at + 1 < p->end && p->at[1] != ']') {
            p->at++;
            TRY(parse_character(p, &ranges[n].high));
            if (ranges[n].high < ranges[n].low)
                return complain_at(p, start, "the range ends before it begins");
        }
        n++;
    }
    p->at++;
    return builder_add_set(p->builder, sequence, ranges, n, negated, p->error);
}

/* ---- repetitions ---------------------------------------------------------------------------- */

static wisp_status parse_number(struct parser *p, uint32_t *number) {
    const char *start = p->at;
    *number = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        *number = *number * 10 + (uint32_t)(*p->at - '0');
        if (*number > MOST_REPEATS)
            return complain_at(p, start, "the number of repetitions is too large");
    }
    return p->at == start ? complain_at(p, start, "expected a number") : WISP_OK;
}

/* Reads what follows an item, whose symbols begin at `item` in the sequence. */
static wisp_status parse_repetition(struct parser *p, struct symbols *sequence, size_t item) {
    const char *start = p->at;
    uint32_t least = 0, most = REPEAT_FOREVER;
    if (p->at == p->end || *p->at == '\0' || !strchr("*+?{", *p->at))
        return WISP_OK;
    switch (*p->at++) {
    case '+':
        least = 1;
        break;
    case '?':
        most = 1;
        break;
    case '{':
        skip_space(p, false);
        TRY(parse_number(p, &least));
        most = least;
        skip_space(p, false);
        if (is_next(p, ',')) {
            p->at++;
            most = REPEAT_FOREVER;
            skip_space(p, false);
            if (!is_next(p, '}'))
                TRY(parse_number(p, &most));
            skip_space(p, false);
        }
        if (!is_next(p, '}'))
            return complain_at(p, p->at, "expected }");
        p->at++;
        if (most < least)
            return complain_at(p, start, "the most repetitions are fewer than the least");
        break;
    default: /* '*' */
        break;
    }
    return builder_repeat(p->builder, sequence, item, least, most, p->error);
}

/* ---- rules ---------------------------------------------------------------------------------- */

static wisp_status parse_name(struct parser *p, wisp_text *name) {
    *name = (wisp_text){p->at, 0};
    for (; p->at < p->end && is_name(*p->at); p->at++)
        name->length++;
    if (name->length == 0)
        return complain_at(p, p->at, "expected a name");
    if (name->length > MOST_NAME)
        return complain_at(p, name->bytes, "the name is too long");
    return WISP_OK;
}

static wisp_status parse_alternatives(struct parser *p, uint32_t rule, unsigned depth);

/* Reads one item with its repetitions. Sets *found to false if none begins here. */
static wisp_status parse_item(struct parser *p, struct symbols *sequence, unsigned depth,
                              bool *found) {
    const size_t item = sequence->n;
    uint32_t rule;
    *found = p->at < p->end && (strchr("\"[(.", *p->at) || is_name(*p->at)) && *p->at != '\0';
    if (!*found)
        return WISP_OK;
    if (*p->at == '"') {
        TRY(parse_literal(p, sequence));
    } else if (*p->at == '[') {
        TRY(parse_set(p, sequence));
    } else if (*p->at == '.') {
        p->at++;
        TRY(builder_add_set(p->builder, sequence, NULL, 0, true, p->error));
    } else if (*p->at == '(') {
        const char *start = p->at++;
        if (depth == MOST_DEPTH)
            return complain_at(p, start, "groups are nested too deep");
        TRY(builder_new_rule(p->builder, &rule, p->error));
        TRY(parse_alternatives(p, rule, depth + 1));
        if (!is_next(p, ')'))
            return complain_at(p, p->at, "expected )");
        p->at++;
        TRY(symbols_add(sequence, SYMBOL_RULE, rule, p->error));
    } else {
        wisp_text name;
        TRY(parse_name(p, &name));
        TRY(builder_named_rule(p->builder, name, &rule, p->error));
        TRY(symbols_add(sequence, SYMBOL_RULE, rule, p->error));
    }
    skip_space(p, depth > 0);
    return parse_repetition(p, sequence, item);
}

static wisp_status parse_alternatives(struct parser *p, uint32_t rule, unsigned depth) {
    for (;;) {
        struct symbols sequence = {0};
        wisp_status status;
        bool found;
        skip_space(p, depth > 0);
        do {
            status = parse_item(p, &sequence, depth, &found);
            skip_space(p, depth > 0);
        } while (status == WISP_OK && found);
        if (status == WISP_OK)
            status = builder_add_alternative(p->builder, rule, &sequence, p->error);
        free(sequence.list);
        TRY(status);
        const char *end = p->at;
        skip_space(p, true); /* a line may begin with | */
        if (!is_next(p, '|')) {
            p->at = end;
            return WISP_OK;
        }
        p->at++;
        skip_space(p, true);
    }
}

static wisp_status parse_rule(struct parser *p) {
    wisp_text name;
    uint32_t rule;
    const char *start = p->at;
    TRY(parse_name(p, &name));
    skip_space(p, false);
    if (p->end - p->at < 3 || memcmp(p->at, "::=", 3) != 0)
        return complain_at(p, p->at, "expected ::=");
    p->at += 3;
    skip_space(p, true);
    TRY(builder_named_rule(p->builder, name, &rule, p->error));
    if (p->builder->names[rule].defined)
        return complain_at(p, start, "the rule was defined before");
    p->builder->names[rule].defined = true;
    TRY(parse_alternatives(p, rule, 0));
    if (p->at < p->end && *p->at != '\n' && *p->at != '\r')
        return complain_at(p, p->at, "expected a literal, a set, a name or the end of the rule");
    return WISP_OK;
}

static wisp_status read_rules(struct parser *p) {
    for (skip_space(p, true); p->at < p->end; skip_space(p, true))
        TRY(parse_rule(p));
    return WISP_OK;
}

wisp_status gbnf_read(struct grammar_builder *builder, wisp_text text, wisp_error *error) {
    struct parser p = {text.bytes, text.bytes, text.bytes + text.length, builder, error};
    return read_rules(&p);
}

/* Refuses what a text could not be read by. */
static wisp_status check_ways(const struct parser *p, const struct wisp_grammar *grammar) {
    uint32_t rule;
    TRY(machine_check(grammar, &rule, p->error));
    const wisp_text name = rule == UINT32_MAX ? (wisp_text){NULL, 0} : p->builder->names[rule].text;
    return rule == UINT32_MAX
               ? WISP_OK
               : fail(p->error, WISP_ERROR_UNSUPPORTED, NULL, "grammar",
                      "%s%.*s can begin in more than %d ways, and so many are followed at most",
                      name.length > 0 ? "the rule " : "a group", (int)name.length,
                      name.length > 0 ? name.bytes : "", GRAMMAR_MOST_ITEMS);
}

static wisp_status parse_rules(struct parser *p, struct wisp_grammar *grammar) {
    struct grammar_builder *b = p->builder;
    TRY(read_rules(p));
    uint32_t root = UINT32_MAX;
    for (uint32_t r = 0; r < b->rules; r++) {
        const struct rule_name *name = &b->names[r];
        if (name->text.length > 0 && !name->defined)
            return complain_at(p, name->text.bytes, "a rule of this name is not defined");
        if (name->text.length == 4 && memcmp(name->text.bytes, "root", 4) == 0)
            root = r;
    }
    if (root == UINT32_MAX)
        return fail(p->error, WISP_ERROR_FORMAT, NULL, "grammar", "has no rule \"root\"");
    uint32_t recursive;
    grammar->root = root;
    TRY(builder_compile(b, grammar, &recursive, p->error));
    if (recursive == UINT32_MAX)
        return check_ways(p, grammar);
    const wisp_text name = b->names[recursive].text;
    return name.length > 0
               ? complain_at(p, name.bytes, "the rule can begin with itself (left recursion)")
               : fail(p->error, WISP_ERROR_FORMAT, NULL, "grammar",
                      "a group can begin with itself (left recursion)");
}

/* Compiles GBNF. Errors are WISP_ERROR_FORMAT with the line and column. */
static wisp_status compile_gbnf(wisp_text text, struct wisp_grammar **grammar, wisp_error *error) {
    const char *begin = text.length ? text.bytes : "";
    struct grammar_builder builder = {0};
    struct parser p = {.begin = begin,
                       .at = begin + utf8_mark(begin, text.length),
                       .end = begin + text.length,
                       .builder = &builder,
                       .error = error};
    struct wisp_grammar *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    const wisp_status status = parse_rules(&p, made);
    builder_release(&builder);
    if (status == WISP_OK)
        *grammar = made;
    else
        wisp_grammar_close(made);
    return status;
}

wisp_status wisp_grammar_open(wisp_text gbnf, wisp_grammar **grammar, wisp_error *error) {
    TRY(require((const void *)grammar, "grammar", error));
    *grammar = NULL;
    TRY(require_texts(&gbnf, 1, error));
    return compile_gbnf(gbnf, grammar, error);
}
