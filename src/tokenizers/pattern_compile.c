/* SPDX-License-Identifier: Apache-2.0
 * Compiles regular expressions. Source of the syntax: Oniguruma's documentation.
 * Compiled for size in WebAssembly. */
#include "tokenizers/pattern_compile.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizers/pattern.h"

struct parser {
    struct arena *arena;
    const char *at;
    bool any_case; /* within (?i:...) */
    bool no_memory;
};

static void *take(struct parser *p, size_t bytes) {
    void *memory = arena_allocate(p->arena, bytes);
    p->no_memory |= !memory;
    return memory;
}

static bool skip(struct parser *p, const char *text) {
    const size_t length = strlen(text);
    if (strncmp(p->at, text, length) != 0)
        return false;
    p->at += length;
    return true;
}

/* ---- sets ----------------------------------------------------------------------------------- */

static bool add_range(struct parser *p, struct pattern_set *set, uint32_t first, uint32_t last) {
    struct pattern_range *range = take(p, sizeof *range);
    if (!range)
        return false;
    *range = (struct pattern_range){first, last, set->ranges};
    set->ranges = range;
    return true;
}

/* Adds a character, and what it is in another case if that does not matter. U+017F is an s. */
static bool add_character(struct parser *p, struct pattern_set *set, uint32_t c) {
    const uint32_t letter = c | 0x20;
    if (!p->any_case || letter < 'a' || letter > 'z' || c >= 0x80)
        return add_range(p, set, c, c);
    if (letter == 's' && !add_range(p, set, 0x17F, 0x17F))
        return false;
    return letter != 'k' && add_range(p, set, letter, letter) &&
           add_range(p, set, letter - 0x20, letter - 0x20);
}

/* Returns 0 at the end. */
static uint32_t read_character(struct parser *p) {
    uint32_t c = 0;
    if (*p->at)
        p->at += utf8_decode(p->at, strlen(p->at), &c);
    return c;
}

/* Reads what follows a backslash as one character; 0 if it is something else. */
static uint32_t read_escaped(struct parser *p) {
    static const char letters[] = "rntvf", meant[] = "\r\n\t\v\f";
    const char c = *p->at;
    const char *letter = c ? strchr(letters, c) : NULL;
    if (!letter && ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')))
        return 0;
    if (letter)
        p->at++;
    return letter ? (uint32_t)meant[letter - letters] : c ? read_character(p) : 0;
}

/* Reads a class such as \s or \p{L} into kinds. Returns false if there is none. */
static bool read_kinds(struct parser *p, unsigned *kinds) {
    static const struct {
        const char *name;
        unsigned kinds;
    } classes[] = {{"\\p{L}", PATTERN_LETTERS},
                   {"\\p{N}", PATTERN_NUMBERS},
                   {"\\p{M}", 1u << KIND_MARK},
                   {"\\p{P}", 1u << KIND_CONNECTOR | 1u << KIND_PUNCTUATION},
                   {"\\p{S}", 1u << KIND_SYMBOL},
                   {"\\p{Lu}", 1u << KIND_UPPER},
                   {"\\p{Ll}", 1u << KIND_LOWER},
                   {"\\p{Lt}", 1u << KIND_TITLE},
                   {"\\p{Lm}\\p{Lo}", 1u << KIND_OTHER_LETTER},
                   {"\\s", 1u << KIND_BLANK},
                   {"\\d", 1u << KIND_DIGIT},
                   {"\\S", PATTERN_ANY_KIND & ~(1u << KIND_BLANK)}};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (skip(p, classes[i].name)) {
            *kinds |= classes[i].kinds;
            return true;
        }
    return false;
}

/* Reads one element of a class in brackets: a class, a character, or a range of characters. */
static bool read_element(struct parser *p, struct pattern_set *set) {
    if (read_kinds(p, &set->kinds))
        return true;
    const uint32_t first = skip(p, "\\") ? read_escaped(p) : read_character(p);
    if (first == 0 || first == UTF8_INVALID)
        return false;
    if (*p->at != '-' || p->at[1] == ']')
        return add_character(p, set, first);
    p->at++;
    const uint32_t last = skip(p, "\\") ? read_escaped(p) : read_character(p);
    return last != UTF8_INVALID && last >= first && !p->any_case && add_range(p, set, first, last);
}

/* Reads a class in brackets, after the first. A class within it adds to it. */
static bool read_brackets(struct parser *p, struct pattern_set *set) {
    while (*p->at && *p->at != ']') {
        if (skip(p, "&&[^\\p{Han}]"))
            set->han = HAN_NOT;
        else if (*p->at == '[' ? !skip(p, "[") || *p->at == '^' || !read_brackets(p, set)
                               : !read_element(p, set))
            return false;
    }
    return skip(p, "]");
}

static const struct pattern_set *read_set(struct parser *p) {
    struct pattern_set *set = take(p, sizeof *set);
    bool good = set != NULL;
    if (!good)
        return NULL;
    *set = (struct pattern_set){0};
    if (skip(p, "[\\p{Han}]")) {
        set->kinds = PATTERN_ANY_KIND;
        set->han = HAN_ALONE;
    } else if (skip(p, "[")) {
        set->inverted = skip(p, "^");
        good = read_brackets(p, set);
    } else if (!read_kinds(p, &set->kinds)) {
        const uint32_t c = skip(p, "\\") ? read_escaped(p) : read_character(p);
        good = c != 0 && c != UTF8_INVALID && add_character(p, set, c);
    }
    for (uint32_t c = 0; c < 0x80; c++)
        set->ascii[c >> 6] |= (uint64_t)pattern_set_finds(set, c) << (c & 63);
    return good ? set : NULL;
}

/* ---- alternatives --------------------------------------------------------------------------- */

static const struct pattern *read_choices(struct parser *p);

static bool read_number(struct parser *p, uint32_t *number) {
    const char *start = p->at;
    for (*number = 0; *p->at >= '0' && *p->at <= '9' && *number < 10000; p->at++)
        *number = *number * 10 + (uint32_t)(*p->at - '0');
    return p->at > start;
}

static bool read_quantifier(struct parser *p, struct pattern_node *node) {
    node->least = node->most = 1;
    if (skip(p, "{")) {
        if (!read_number(p, &node->least))
            return false;
        node->most = node->least;
        return (!skip(p, ",") || read_number(p, &node->most)) && skip(p, "}");
    }
    if (*p->at == '\0' || !strchr("?*+", *p->at))
        return true;
    node->least = *p->at == '+';
    node->most = *p->at == '?' ? 1 : UINT32_MAX;
    p->at++;
    node->possessive = skip(p, "+");
    return *p->at != '?'; /* lazy ones are not supported */
}

/* Reads a group or an assertion, after its parenthesis. */
static bool read_group(struct parser *p, struct pattern_node *node) {
    const bool before = p->any_case;
    node->type = PATTERN_GROUP;
    if (skip(p, "?i:"))
        p->any_case = true;
    else if (skip(p, "?!"))
        node->type = PATTERN_NOT_AHEAD;
    else if (!skip(p, "?:") && *p->at == '?')
        return false;
    node->choices = read_choices(p);
    p->any_case = before;
    return node->choices && skip(p, ")");
}

static bool read_node(struct parser *p, struct pattern_node *node) {
    *node = (struct pattern_node){0};
    const bool good = skip(p, "(") ? read_group(p, node) : (node->set = read_set(p)) != NULL;
    return good && read_quantifier(p, node);
}

/* Adds the ASCII characters that a match of these nodes may begin with. */
static void find_first(const struct pattern_node *node, uint64_t first[2]) {
    for (; node; node = node->next) {
        const bool any = node->type != PATTERN_SET && node->type != PATTERN_GROUP;
        for (int half = 0; half < 2; half++) {
            if (any)
                first[half] = UINT64_MAX;
            else if (node->type == PATTERN_SET)
                first[half] |= node->set->ascii[half];
            for (const struct pattern *c = node->type == PATTERN_GROUP ? node->choices : NULL; c;
                 c = c->next)
                first[half] |= c->first[half];
        }
        if (any || node->least > 0)
            return;
    }
    first[0] = first[1] = UINT64_MAX; /* a match may be empty */
}

static struct pattern *read_choice(struct parser *p) {
    struct pattern *choice = take(p, sizeof *choice);
    if (!choice)
        return NULL;
    const struct pattern_node **link = &choice->nodes;
    *choice = (struct pattern){0};
    while (*p->at && *p->at != '|' && *p->at != ')') {
        struct pattern_node *node = take(p, sizeof *node);
        if (!node || !read_node(p, node))
            return NULL;
        *link = node;
        link = &node->next;
    }
    find_first(choice->nodes, choice->first);
    return choice;
}

static const struct pattern *read_choices(struct parser *p) {
    const struct pattern *first = NULL, **link = &first;
    do {
        struct pattern *choice = read_choice(p);
        if (!choice)
            return NULL;
        *link = choice;
        link = &choice->next;
    } while (skip(p, "|"));
    return first;
}

const struct pattern *pattern_compile(struct arena *arena, const char *regex,
                                      const char **refused) {
    struct parser p = {.arena = arena, .at = regex};
    const struct pattern *pattern = read_choices(&p);
    *refused = p.no_memory ? NULL : p.at;
    return pattern && *p.at == '\0' ? pattern : NULL;
}
