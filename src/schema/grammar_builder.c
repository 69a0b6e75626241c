/* SPDX-License-Identifier: Apache-2.0
 * Characters become sequences of byte sets, one for each length of UTF-8 and run of continuation
 * bytes; the method is that of RE2.
 * Compiled for size in WebAssembly. */
#include "schema/grammar_builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/utf8.h"

enum {
    MOST_SYMBOLS = 1 << 20,
    MOST_NAMES = 1 << 14,
    MOST_SETS = MOST_NAMES,
    SLOTS = 2 * MOST_NAMES, /* of hash tables that are never full */
    LAST_CHARACTER = 0x10FFFF
};

/* Makes room for one more item of a list. */
static wisp_status grow(void **list, uint32_t n, uint32_t *capacity, size_t item_bytes,
                        wisp_error *error) {
    if (n < *capacity)
        return WISP_OK;
    if (n >= MOST_SYMBOLS)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "grammar", "is too large");
    const uint32_t more = 2 * *capacity + 16;
    void *moved = realloc(*list, more * item_bytes);
    if (!moved)
        return fail_memory(error, more * item_bytes);
    *list = moved;
    *capacity = more;
    return WISP_OK;
}

wisp_status symbols_add(struct symbols *symbols, enum symbol_kind kind, uint32_t value,
                        wisp_error *error) {
    if (symbols->n >= MOST_SYMBOLS)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "grammar", "is too large");
    if (symbols->n == symbols->capacity) {
        const size_t capacity = 2 * symbols->capacity + 8;
        struct symbol *list = realloc(symbols->list, capacity * sizeof *list);
        if (!list)
            return fail_memory(error, capacity * sizeof *list);
        symbols->list = list;
        symbols->capacity = capacity;
    }
    symbols->list[symbols->n++] =
        (struct symbol){.kind = (unsigned)kind & 7u, .value = value & 0x1FFFFFFFu};
    return WISP_OK;
}

/* ---- rules ---------------------------------------------------------------------------------- */

wisp_status builder_new_rule(struct grammar_builder *b, uint32_t *rule, wisp_error *error) {
    TRY(grow((void **)&b->names, b->rules, &b->rule_capacity, sizeof *b->names, error));
    b->names[b->rules] = (struct rule_name){0};
    *rule = b->rules++;
    return WISP_OK;
}

wisp_status builder_named_rule(struct grammar_builder *b, wisp_text name, uint32_t *rule,
                               wisp_error *error) {
    uint32_t *slot;
    if (!b->name_slots && !(b->name_slots = calloc(SLOTS, sizeof *b->name_slots)))
        return fail_memory(error, SLOTS * sizeof *b->name_slots);
    for (uint64_t at = checksum(name.bytes, name.length);; at++) {
        slot = &b->name_slots[at % SLOTS];
        if (*slot == 0)
            break;
        *rule = *slot - 1;
        if (b->names[*rule].text.length == name.length &&
            memcmp(b->names[*rule].text.bytes, name.bytes, name.length) == 0)
            return WISP_OK;
    }
    if (b->named == MOST_NAMES)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "grammar", "has more than %d rules",
                    MOST_NAMES);
    TRY(builder_new_rule(b, rule, error));
    b->named++;
    b->names[*rule].text = name;
    *slot = *rule + 1;
    return WISP_OK;
}

wisp_status builder_add_alternative(struct grammar_builder *b, uint32_t rule,
                                    const struct symbols *sequence, wisp_error *error) {
    TRY(grow((void **)&b->alternative, b->alternatives, &b->alternative_capacity,
             sizeof *b->alternative, error));
    b->alternative[b->alternatives++] =
        (struct alternative){.rule = rule, .first = (uint32_t)b->symbols.n};
    for (size_t i = 0; i < sequence->n; i++)
        TRY(symbols_add(&b->symbols, sequence->list[i].kind, sequence->list[i].value, error));
    return symbols_add(&b->symbols, SYMBOL_END, 0, error);
}

/* ---- sets of characters --------------------------------------------------------------------- */

wisp_status builder_byte_set(struct grammar_builder *b, const struct byte_set *set, uint32_t *index,
                             wisp_error *error) {
    uint32_t *slot;
    if (!b->set_slots && !(b->set_slots = calloc(SLOTS, sizeof *b->set_slots)))
        return fail_memory(error, SLOTS * sizeof *b->set_slots);
    for (uint64_t at = checksum(set, sizeof *set);; at++) {
        slot = &b->set_slots[at % SLOTS];
        if (*slot == 0)
            break;
        *index = *slot - 1;
        if (memcmp(&b->sets[*index], set, sizeof *set) == 0)
            return WISP_OK;
    }
    if (b->n_sets == MOST_SETS)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "grammar",
                    "has more than %d sets of bytes", MOST_SETS);
    TRY(grow((void **)&b->sets, b->n_sets, &b->set_capacity, sizeof *b->sets, error));
    b->sets[b->n_sets] = *set;
    *index = b->n_sets++;
    *slot = *index + 1;
    return WISP_OK;
}

static void set_bytes(struct byte_set *set, unsigned low, unsigned high) {
    for (unsigned i = low; i <= high; i++)
        set->bits[i / 8] |= (uint8_t)(1u << i % 8);
}

/* Characters above ASCII as bytes: each of n bytes is in a range. */
struct byte_sequence {
    uint8_t low[4], high[4], n;
};

/* A set of characters: those of ASCII, and sequences in the order of their characters. */
struct byte_sequences {
    struct byte_set ascii;
    struct byte_sequence *list;
    uint32_t n, capacity;
};

/* Adds the characters from low to high, whose UTF-8 has the same number of bytes and which are
 * above ASCII. */
static wisp_status add_range(struct byte_sequences *s, uint32_t low, uint32_t high,
                             wisp_error *error) {
    char first[4], last[4];
    const size_t n = utf8_encode(low, first);
    for (size_t i = 1; i < n; i++) {
        const uint32_t mask = (UINT32_C(1) << 6 * i) - 1;
        if ((low & ~mask) == (high & ~mask))
            continue;
        if ((low & mask) != 0) {
            TRY(add_range(s, low, low | mask, error));
            return add_range(s, (low | mask) + 1, high, error);
        }
        if ((high & mask) != mask) {
            TRY(add_range(s, low, (high & ~mask) - 1, error));
            return add_range(s, high & ~mask, high, error);
        }
    }
    utf8_encode(high, last);
    TRY(grow((void **)&s->list, s->n, &s->capacity, sizeof *s->list, error));
    struct byte_sequence *sequence = &s->list[s->n++];
    *sequence = (struct byte_sequence){.n = (uint8_t)n};
    memcpy(sequence->low, first, n);
    memcpy(sequence->high, last, n);
    return WISP_OK;
}

static wisp_status add_characters(struct byte_sequences *s, uint32_t low, uint32_t high,
                                  wisp_error *error) {
    /* Ranges of equal length in UTF-8, without surrogates. */
    static const struct code_range lengths[] = {
        {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, LAST_CHARACTER}};
    if (low < 0x80)
        set_bytes(&s->ascii, low, high < 0x80 ? high : 0x7F);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const uint32_t from = low > lengths[i].low ? low : lengths[i].low;
        const uint32_t to = high < lengths[i].high ? high : lengths[i].high;
        if (from <= to)
            TRY(add_range(s, from, to, error));
    }
    return WISP_OK;
}

static bool is_same_byte(const struct byte_sequence *a, const struct byte_sequence *b, size_t at) {
    return a->n == b->n && a->low[at] == b->low[at] && a->high[at] == b->high[at];
}

static wisp_status add_sequences(struct grammar_builder *b, const struct byte_sequence *list,
                                 uint32_t n, size_t at, uint32_t rule, wisp_error *error);

/* Adds an alternative for n sequences that have the byte `at` in common. */
static wisp_status add_common(struct grammar_builder *b, const struct byte_sequence *list,
                              uint32_t n, size_t at, uint32_t rule, wisp_error *error) {
    struct symbols symbols = {0};
    wisp_status status = WISP_OK;
    uint32_t rest;
    do {
        struct byte_set set = {{0}};
        uint32_t index;
        set_bytes(&set, list->low[at], list->high[at]);
        status = builder_byte_set(b, &set, &index, error);
        if (status == WISP_OK)
            status = symbols_add(&symbols, SYMBOL_SET, index, error);
    } while (++at < list->n && n == 1 && status == WISP_OK);
    if (n > 1 && status == WISP_OK) {
        status = builder_new_rule(b, &rest, error);
        if (status == WISP_OK)
            status = add_sequences(b, list, n, at, rest, error);
        if (status == WISP_OK)
            status = symbols_add(&symbols, SYMBOL_RULE, rest, error);
    }
    if (status == WISP_OK)
        status = builder_add_alternative(b, rule, &symbols, error);
    free(symbols.list);
    return status;
}

/* Adds alternatives for the bytes of n sequences from `at` on: one for each first byte, so that few
 * have to be followed at a time. */
static wisp_status add_sequences(struct grammar_builder *b, const struct byte_sequence *list,
                                 uint32_t n, size_t at, uint32_t rule, wisp_error *error) {
    for (uint32_t i = 0, same; i < n; i += same) {
        for (same = 1; i + same < n && is_same_byte(&list[i], &list[i + same], at);)
            same++;
        TRY(add_common(b, list + i, same, at, rule, error));
    }
    return WISP_OK;
}

static int by_low(const void *a, const void *b) {
    const struct code_range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* Divides n ranges, or what is in none of them, into sequences. */
static wisp_status divide_ranges(struct byte_sequences *s, struct code_range *ranges, size_t n,
                                 bool negated, wisp_error *error) {
    uint32_t next = 0; /* the first character after the ranges so far */
    if (n > 0)
        qsort(ranges, n, sizeof *ranges, by_low);
    for (size_t i = 0; i < n; i++) {
        const uint32_t low = ranges[i].low > next ? ranges[i].low : next;
        if (negated && low > next)
            TRY(add_characters(s, next, low - 1, error));
        if (!negated && low <= ranges[i].high)
            TRY(add_characters(s, low, ranges[i].high, error));
        if (ranges[i].high + 1 > next)
            next = ranges[i].high + 1;
    }
    return negated && next <= LAST_CHARACTER ? add_characters(s, next, LAST_CHARACTER, error)
                                             : WISP_OK;
}

/* Appends the symbol of a set that is divided. */
static wisp_status add_divided(struct grammar_builder *b, struct symbols *sequence,
                               const struct byte_sequences *s, wisp_error *error) {
    static const struct byte_set none = {{0}};
    struct symbols single = {0};
    uint32_t rule, index;
    if (s->n == 0) { /* no rule is needed: it would have one alternative */
        TRY(builder_byte_set(b, &s->ascii, &index, error));
        return symbols_add(sequence, SYMBOL_SET, index, error);
    }
    TRY(builder_new_rule(b, &rule, error));
    TRY(add_sequences(b, s->list, s->n, 0, rule, error));
    TRY(symbols_add(sequence, SYMBOL_RULE, rule, error));
    if (memcmp(&s->ascii, &none, sizeof none) == 0)
        return WISP_OK;
    TRY(builder_byte_set(b, &s->ascii, &index, error));
    wisp_status status = symbols_add(&single, SYMBOL_SET, index, error);
    if (status == WISP_OK)
        status = builder_add_alternative(b, rule, &single, error);
    free(single.list);
    return status;
}

wisp_status builder_add_set(struct grammar_builder *b, struct symbols *sequence,
                            struct code_range *ranges, size_t n, bool negated, wisp_error *error) {
    struct byte_sequences s = {.n = 0};
    wisp_status status = divide_ranges(&s, ranges, n, negated, error);
    if (status == WISP_OK)
        status = add_divided(b, sequence, &s, error);
    free(s.list);
    return status;
}

/* ---- repetitions ---------------------------------------------------------------------------- */

/* Adds two alternatives to the rule: the item followed by the rule `rest` (UINT32_MAX: by nothing),
 * and the empty text. */
static wisp_status add_optional(struct grammar_builder *b, uint32_t rule, struct symbol item,
                                uint32_t rest, wisp_error *error) {
    struct symbols sequence = {0};
    wisp_status status = symbols_add(&sequence, item.kind, item.value, error);
    if (status == WISP_OK && rest != UINT32_MAX)
        status = symbols_add(&sequence, SYMBOL_RULE, rest, error);
    if (status == WISP_OK)
        status = builder_add_alternative(b, rule, &sequence, error);
    free(sequence.list);
    TRY(status);
    return builder_add_alternative(b, rule, &(struct symbols){0}, error);
}

wisp_status builder_repeat(struct grammar_builder *b, struct symbols *sequence, size_t item,
                           uint32_t least, uint32_t most, wisp_error *error) {
    uint32_t rule;
    if (sequence->n == item) /* an empty literal, as often as one likes, is empty */
        return WISP_OK;
    const struct symbols whole = {sequence->list + item, sequence->n - item, 0};
    struct symbol one = whole.list[0];
    if (whole.n > 1) {
        TRY(builder_new_rule(b, &rule, error));
        TRY(builder_add_alternative(b, rule, &whole, error));
        one = (struct symbol){.kind = SYMBOL_RULE, .value = rule & 0x1FFFFFFFu};
    }
    sequence->n = item;
    for (uint32_t i = 0; i < least; i++)
        TRY(symbols_add(sequence, one.kind, one.value, error));
    if (most == REPEAT_FOREVER) {
        TRY(builder_new_rule(b, &rule, error));
        TRY(add_optional(b, rule, one, rule, error));
        return symbols_add(sequence, SYMBOL_RULE, rule, error);
    }
    uint32_t rest = UINT32_MAX;
    for (uint32_t i = least; i < most; i++, rest = rule) {
        TRY(builder_new_rule(b, &rule, error));
        TRY(add_optional(b, rule, one, rest, error));
    }
    return rest == UINT32_MAX ? WISP_OK : symbols_add(sequence, SYMBOL_RULE, rest, error);
}

/* ---- the finished grammar ------------------------------------------------------------------- */

/* An alternative that matches the empty text if all its symbols from `at` on do. */
struct candidate {
    uint32_t rule, at;
    uint32_t next; /* another that waits for the rule at its `at`; UINT32_MAX: it is the last */
};

struct empty_search {
    const struct wisp_grammar *g;
    bool *empty;                  /* [rules]: they match the empty text */
    struct candidate *candidates; /* [alternatives] */
    uint32_t *waiting;            /* [rules]: the first candidate that waits for the rule */
    uint32_t *found;              /* [n_found]: empty rules whose candidates wait still */
    size_t n_found;
};

/* Moves a candidate past its empty rules. */
static void advance(struct empty_search *s, uint32_t candidate) {
    struct candidate *c = &s->candidates[candidate];
    const struct symbol *symbols = s->g->symbols;
    while (symbols[c->at].kind == SYMBOL_RULE && s->empty[symbols[c->at].value])
        c->at++;
    if (symbols[c->at].kind == SYMBOL_RULE) {
        c->next = s->waiting[symbols[c->at].value];
        s->waiting[symbols[c->at].value] = candidate;
    } else if (symbols[c->at].kind == SYMBOL_END && !s->empty[c->rule]) {
        s->empty[c->rule] = true;
        s->found[s->n_found++] = c->rule;
    }
}

/* Finds the rules that match the empty text, in time that is linear in the grammar's size. */
static void find_empty(struct empty_search *s) {
    const struct wisp_grammar *g = s->g;
    for (uint32_t r = 0; r < g->rules; r++) {
        s->waiting[r] = UINT32_MAX;
        for (uint32_t a = g->first[r]; a < g->first[r + 1]; a++)
            s->candidates[a] = (struct candidate){.rule = r, .at = g->start[a]};
    }
    for (uint32_t a = 0; a < g->alternatives; a++)
        advance(s, a);
    while (s->n_found > 0) {
        uint32_t a = s->waiting[s->found[--s->n_found]];
        while (a != UINT32_MAX) {
            const uint32_t next = s->candidates[a].next;
            advance(s, a);
            a = next;
        }
    }
}

/* A rule on the path of the search for loops: it goes on at symbol `at` of an alternative. */
struct visit {
    uint32_t rule, alternative, at;
};

struct loop_search {
    const struct wisp_grammar *g;
    const bool *empty;
    uint32_t *number, *low; /* [rules]: of Tarjan's search; number 0: not met */
    uint32_t *component;    /* [rules]: UINT32_MAX: none yet */
    uint32_t *open;         /* [rules]: a stack of rules without a component */
    struct visit *path;     /* [rules] */
};

/* Numbers the strongly connected components of the relation "can begin with" (Tarjan, 1972). */
static void find_components(const struct loop_search *s, uint32_t root, uint32_t *numbers,
                            uint32_t *components) {
    const struct wisp_grammar *g = s->g;
    size_t depth = 0, n_open = 0;
    s->path[depth++] = (struct visit){root, g->first[root], UINT32_MAX};
    while (depth > 0) {
        struct visit *v = &s->path[depth - 1];
        if (v->at == UINT32_MAX) { /* it is met for the first time */
            s->number[v->rule] = s->low[v->rule] = ++*numbers;
            s->open[n_open++] = v->rule;
            v->at = 0;
        }
        bool descends = false;
        while (v->alternative < g->first[v->rule + 1] && !descends) {
            const struct symbol *symbol = g->symbols + g->start[v->alternative] + v->at;
            if (symbol->kind != SYMBOL_RULE) {
                v->alternative++;
                v->at = 0;
                continue;
            }
            const uint32_t to = symbol->value;
            if (s->number[to] == 0) {
                s->path[depth++] = (struct visit){to, g->first[to], UINT32_MAX};
                descends = true;
                break; /* comes back to this symbol, which then has a number */
            }
            if (s->component[to] == UINT32_MAX && s->low[to] < s->low[v->rule])
                s->low[v->rule] = s->low[to];
            if (s->empty[to]) {
                v->at++;
            } else {
                v->alternative++;
                v->at = 0;
            }
        }
        if (descends)
            continue;
        if (s->low[v->rule] == s->number[v->rule]) {
            uint32_t member;
            do {
                member = s->open[--n_open];
                s->component[member] = *components;
            } while (member != v->rule);
            ++*components;
        }
        depth--;
    }
}

/* Returns a rule that begins with itself by way of a symbol that others follow, or UINT32_MAX. A
 * rule that only ends with itself adds nothing to a machine's stack. */
static uint32_t find_recursive(const struct loop_search *s) {
    const struct wisp_grammar *g = s->g;
    uint32_t numbers = 0, components = 0;
    for (uint32_t r = 0; r < g->rules; r++)
        s->component[r] = UINT32_MAX;
    for (uint32_t r = 0; r < g->rules; r++)
        if (s->number[r] == 0)
            find_components(s, r, &numbers, &components);
    for (uint32_t r = 0; r < g->rules; r++)
        for (uint32_t a = g->first[r]; a < g->first[r + 1]; a++)
            for (const struct symbol *at = g->symbols + g->start[a]; at->kind == SYMBOL_RULE;
                 at++) {
                if (s->component[at->value] == s->component[r] && at[1].kind != SYMBOL_END)
                    return r;
                if (!s->empty[at->value])
                    break;
            }
    return UINT32_MAX;
}

wisp_status builder_compile(const struct grammar_builder *b, struct wisp_grammar *g,
                            uint32_t *recursive, wisp_error *error) {
    struct symbol *symbols;
    struct byte_set *sets;
    uint32_t *start, *first;
    ARENA_TAKE(&g->arena, symbols, b->symbols.n + 1, error);
    ARENA_TAKE(&g->arena, sets, b->n_sets + 1, error);
    ARENA_TAKE(&g->arena, start, b->alternatives + 1, error);
    ARENA_TAKE(&g->arena, first, b->rules + 2, error);
    if (b->symbols.n > 0)
        memcpy(symbols, b->symbols.list, b->symbols.n * sizeof *symbols);
    if (b->n_sets > 0)
        memcpy(sets, b->sets, b->n_sets * sizeof *sets);
    for (uint32_t a = 0; a < b->alternatives; a++)
        first[b->alternative[a].rule + 2]++;
    for (uint32_t r = 0; r < b->rules; r++)
        first[r + 2] += first[r + 1];
    for (uint32_t a = 0; a < b->alternatives; a++)
        start[first[b->alternative[a].rule + 1]++] = b->alternative[a].first;
    g->symbols = symbols;
    g->sets = sets;
    g->start = start;
    g->first = first;
    g->rules = b->rules;
    g->alternatives = b->alternatives;
    g->n_symbols = (uint32_t)b->symbols.n;
    g->n_sets = b->n_sets;

    const size_t n = b->rules;
    bool *empty = calloc(n + 1, sizeof *empty); /* calloc(0) may be NULL */
    uint32_t *numbers = calloc(4 * n + 1, sizeof *numbers);
    struct visit *path = calloc(n + 1, sizeof *path);
    struct candidate *candidates = calloc((size_t)g->alternatives + 1, sizeof *candidates);
    uint32_t *waiting = calloc(2 * n + 1, sizeof *waiting);
    wisp_status status = WISP_OK;
    if (empty && numbers && path && candidates && waiting) {
        find_empty(&(struct empty_search){.g = g,
                                          .empty = empty,
                                          .candidates = candidates,
                                          .waiting = waiting,
                                          .found = waiting + n});
        *recursive = find_recursive(&(struct loop_search){.g = g,
                                                          .empty = empty,
                                                          .number = numbers,
                                                          .low = numbers + n,
                                                          .component = numbers + 2 * n,
                                                          .open = numbers + 3 * n,
                                                          .path = path});
    } else {
        status = fail_memory(error, 4 * n * sizeof *numbers);
    }
    free(empty);
    free(numbers);
    free(path);
    free(candidates);
    free(waiting);
    return status;
}

void builder_release(struct grammar_builder *b) {
    free(b->symbols.list);
    free(b->alternative);
    free(b->names);
    free(b->sets);
    free(b->name_slots);
    free(b->set_slots);
    *b = (struct grammar_builder){0};
}
