/* SPDX-License-Identifier: Apache-2.0 */
#include "text/grammar_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

enum { MOST_NODES = 1 << 22, MOST_ITEMS = 1 << 12, MARKS = 1 << 14, FIRST_BUCKETS = 1 << 10 };

struct grammar_node {
    uint32_t at;    /* the symbol to go on with */
    uint32_t below; /* the rest of the stack */
    uint32_t depth;
    uint32_t chain; /* the next node of its bucket; 0: none */
};

/* Marks are a hash table of the items that a step has met. Those of earlier steps count as empty
 * slots. */
struct grammar_mark {
    uint32_t at, stack, step;
};

static uint32_t hash_of(uint32_t at, uint32_t stack) {
    return (uint32_t)random_mix((uint64_t)at << 32 | stack);
}

static wisp_status too_many(wisp_error *error) {
    return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "grammar",
                "a text has too many derivations: the grammar is too ambiguous");
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static wisp_status grow_nodes(struct grammar_state *s, wisp_error *error) {
    if (s->n_nodes >= MOST_NODES)
        return too_many(error);
    const uint32_t capacity = 2 * s->node_capacity + FIRST_BUCKETS;
    struct grammar_node *nodes = realloc(s->nodes, capacity * sizeof *nodes);
    if (!nodes)
        return fail_memory(error, capacity * sizeof *nodes);
    s->nodes = nodes;
    s->node_capacity = capacity;
    uint32_t count = FIRST_BUCKETS;
    while (count < capacity)
        count *= 2;
    uint32_t *buckets = calloc(count, sizeof *buckets);
    if (!buckets)
        return fail_memory(error, count * sizeof *buckets);
    free(s->buckets);
    s->buckets = buckets;
    s->bucket_count = count;
    /* In order, so that the newest node of a chain stays its first. */
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        uint32_t *bucket = &buckets[hash_of(nodes[i].at, nodes[i].below) & (count - 1)];
        nodes[i].chain = *bucket;
        *bucket = i;
    }
    return WISP_OK;
}

/* Finds or makes the stack with symbol `at` on `below`. */
static wisp_status push_node(struct grammar_state *s, uint32_t at, uint32_t below, uint32_t *node,
                             wisp_error *error) {
    const uint32_t hash = hash_of(at, below);
    for (*node = s->buckets[hash & (s->bucket_count - 1)]; *node; *node = s->nodes[*node].chain)
        if (s->nodes[*node].at == at && s->nodes[*node].below == below)
            return WISP_OK;
    if (s->n_nodes == s->node_capacity)
        TRY(grow_nodes(s, error));
    uint32_t *bucket = &s->buckets[hash & (s->bucket_count - 1)];
    *node = s->n_nodes++;
    s->nodes[*node] = (struct grammar_node){at, below, s->nodes[below].depth + 1, *bucket};
    *bucket = *node;
    return WISP_OK;
}

void grammar_state_forget(struct grammar_state *s, uint32_t n) {
    while (s->n_nodes > n) {
        const struct grammar_node *last = &s->nodes[--s->n_nodes];
        s->buckets[hash_of(last->at, last->below) & (s->bucket_count - 1)] = last->chain;
    }
}

/* ---- items ---------------------------------------------------------------------------------- */

/* Returns whether the step meets the item for the first time, and counts it in *met then. */
static bool is_new(struct grammar_state *s, struct grammar_item item, uint32_t *met) {
    uint32_t place = hash_of(item.at, item.stack) & (s->mark_count - 1);
    for (; s->marks[place].step == s->step; place = (place + 1) & (s->mark_count - 1))
        if (s->marks[place].at == item.at && s->marks[place].stack == item.stack)
            return false;
    s->marks[place] = (struct grammar_mark){item.at, item.stack, s->step};
    ++*met;
    return true;
}

static wisp_status grow_items(struct grammar_state *s, wisp_error *error) {
    const size_t capacity = 2 * s->item_capacity + 64;
    struct grammar_item *items = realloc(s->items, capacity * sizeof *items);
    if (!items)
        return fail_memory(error, capacity * sizeof *items);
    s->items = items;
    s->item_capacity = capacity;
    return WISP_OK;
}

static wisp_status add_item(struct grammar_state *s, struct grammar_item item, wisp_error *error) {
    if (s->n_items == s->item_capacity)
        TRY(grow_items(s, error));
    s->items[s->n_items++] = item;
    return WISP_OK;
}

static wisp_status add_work(struct grammar_state *s, size_t *n, struct grammar_item item,
                            uint32_t *met, wisp_error *error) {
    if (!is_new(s, item, met))
        return WISP_OK;
    if (*met > MOST_ITEMS)
        return too_many(error);
    if (*n == s->work_capacity) {
        const size_t capacity = 2 * s->work_capacity + 64;
        struct grammar_item *work = realloc(s->work, capacity * sizeof *work);
        if (!work)
            return fail_memory(error, capacity * sizeof *work);
        s->work = work;
        s->work_capacity = capacity;
    }
    s->work[(*n)++] = item;
    return WISP_OK;
}

/* Follows an item through rules that begin and end, up to the items that match a byte, which it
 * adds to the newest list. An item that the step has met before is not followed again. */
static wisp_status follow(struct grammar_state *s, struct grammar_item from, uint32_t *met,
                          wisp_error *error) {
    const struct wisp_grammar *g = s->grammar;
    size_t n = 0;
    TRY(add_work(s, &n, from, met, error));
    while (n > 0) {
        const struct grammar_item item = s->work[--n];
        const struct symbol symbol = g->symbols[item.at];
        if (symbol.kind == SYMBOL_BYTE || symbol.kind == SYMBOL_SET) {
            TRY(add_item(s, item, error));
        } else if (symbol.kind == SYMBOL_END) {
            const struct grammar_node *top = &s->nodes[item.stack];
            if (item.stack != 0)
                TRY(add_work(s, &n, (struct grammar_item){top->at, top->below}, met, error));
            else if (is_new(s, (struct grammar_item){GRAMMAR_END, 0}, met))
                TRY(add_item(s, (struct grammar_item){GRAMMAR_END, 0}, error));
        } else {
            uint32_t stack = item.stack;
            if (g->symbols[item.at + 1].kind != SYMBOL_END) {
                if (s->nodes[stack].depth == GRAMMAR_MOST_DEPTH)
                    continue;
                TRY(push_node(s, item.at + 1, item.stack, &stack, error));
            }
            for (uint32_t a = g->first[symbol.value]; a < g->first[symbol.value + 1]; a++)
                TRY(add_work(s, &n, (struct grammar_item){g->start[a], stack}, met, error));
        }
    }
    return WISP_OK;
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* Begins a list after the newest. */
static wisp_status begin_list(struct grammar_state *s, wisp_error *error) {
    if (s->n_lists + 2 > s->list_capacity) {
        const size_t capacity = 2 * s->list_capacity + 64;
        size_t *lists = realloc(s->lists, capacity * sizeof *lists);
        if (!lists)
            return fail_memory(error, capacity * sizeof *lists);
        s->lists = lists;
        s->list_capacity = capacity;
    }
    if (s->n_lists == 0)
        s->lists[0] = 0;
    if (++s->step == 0) { /* marks of 2^32 steps ago would count */
        memset(s->marks, 0, s->mark_count * sizeof *s->marks);
        s->step = 1;
    }
    return WISP_OK;
}

wisp_status grammar_state_open(struct grammar_state *s, const struct wisp_grammar *grammar,
                               wisp_error *error) {
    *s = (struct grammar_state){.grammar = grammar, .n_nodes = 0, .mark_count = MARKS};
    s->marks = calloc(s->mark_count, sizeof *s->marks);
    if (!s->marks)
        return fail_memory(error, s->mark_count * sizeof *s->marks);
    TRY(grow_nodes(s, error));
    TRY(grow_items(s, error));
    s->nodes[s->n_nodes++] = (struct grammar_node){0};
    TRY(begin_list(s, error));
    uint32_t met = 0;
    for (uint32_t a = grammar->first[grammar->root]; a < grammar->first[grammar->root + 1]; a++)
        TRY(follow(s, (struct grammar_item){grammar->start[a], 0}, &met, error));
    s->lists[++s->n_lists] = s->n_items;
    return WISP_OK;
}

wisp_status grammar_state_push(struct grammar_state *s, unsigned char byte, wisp_error *error) {
    const struct wisp_grammar *g = s->grammar;
    uint32_t met = 0;
    TRY(begin_list(s, error));
    const size_t begin = s->lists[s->n_lists - 1], end = s->lists[s->n_lists];
    for (size_t i = begin; i < end; i++) {
        const struct grammar_item item = s->items[i];
        if (item.at == GRAMMAR_END)
            continue;
        const struct symbol symbol = g->symbols[item.at];
        if (symbol.kind == SYMBOL_BYTE ? symbol.value == byte
                                       : set_has(&g->sets[symbol.value], byte)) {
            const wisp_status status =
                follow(s, (struct grammar_item){item.at + 1, item.stack}, &met, error);
            if (status != WISP_OK) {
                s->n_items = end;
                return status;
            }
        }
    }
    s->lists[++s->n_lists] = s->n_items;
    return WISP_OK;
}

void grammar_state_pop(struct grammar_state *s, size_t n) {
    s->n_lists = n;
    s->n_items = s->lists[n];
}

wisp_status grammar_state_read(struct grammar_state *s, wisp_text text, bool *accepted,
                               wisp_error *error) {
    const size_t before = s->n_lists;
    *accepted = true;
    for (size_t i = 0; i < text.length && *accepted; i++) {
        const wisp_status status = grammar_state_push(s, (unsigned char)text.bytes[i], error);
        if (status != WISP_OK) {
            grammar_state_pop(s, before);
            return status;
        }
        *accepted = s->lists[s->n_lists] > s->lists[s->n_lists - 1];
    }
    if (!*accepted) {
        grammar_state_pop(s, before);
        return WISP_OK;
    }
    const size_t begin = s->lists[s->n_lists - 1], n = s->n_items - begin;
    memmove(s->items, s->items + begin, n * sizeof *s->items);
    s->n_items = s->lists[1] = n;
    s->n_lists = 1;
    return WISP_OK;
}

const struct grammar_item *grammar_state_items(const struct grammar_state *s, size_t *n) {
    const size_t begin = s->lists[s->n_lists - 1];
    *n = s->lists[s->n_lists] - begin;
    return s->items + begin;
}

bool grammar_state_is_complete(const struct grammar_state *s) {
    size_t n;
    const struct grammar_item *items = grammar_state_items(s, &n);
    for (size_t i = 0; i < n; i++)
        if (items[i].at == GRAMMAR_END)
            return true;
    return false;
}

bool grammar_state_goes_on(const struct grammar_state *s) {
    size_t n;
    grammar_state_items(s, &n);
    return n > (size_t)grammar_state_is_complete(s);
}

void grammar_state_release(struct grammar_state *s) {
    free(s->nodes);
    free(s->buckets);
    free(s->items);
    free(s->lists);
    free(s->marks);
    free(s->work);
    *s = (struct grammar_state){0};
}
