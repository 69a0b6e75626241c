/* SPDX-License-Identifier: Apache-2.0 */
#include "grammar/grammar_machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/list.h"
#include "base/random.h"
#include "grammar/grammar_members.h"

enum { MOST_SETS = 1 << 16, MOST_SET_ITEMS = 1 << 22 };

static wisp_status follow_state(struct machine *m, struct machine_item item, wisp_error *error) {
    const struct wisp_grammar *g = m->grammar;
    const uint32_t state = item.at - AT_STATE;
    const struct grammar_automaton *a = &g->automata[g->states[state].automaton];
    const uint32_t *row = a->next + (size_t)(state - a->first) * a->classes;
    TRY(machine_find(m, item.at, item.stack, error));
    for (uint32_t c = 0; c < a->classes; c++) {
        uint32_t above;
        if (row[c] == 0 || a->wide[c] == UINT32_MAX)
            continue;
        TRY(machine_push(m, AT_STATE + row[c], item.stack, &above, error));
        TRY(machine_follow_rule(m, a->wide[c], above, error));
    }
    return g->states[state].tag ? machine_return(m, item.stack, error) : WISP_OK;
}

static wisp_status follow_symbol(struct machine *m, struct machine_item item, wisp_error *error) {
    const struct symbol *symbol = m->grammar->symbols + item.at;
    uint32_t stack = item.stack;
    if (symbol->kind == SYMBOL_BYTE || symbol->kind == SYMBOL_SET)
        return machine_find(m, item.at, stack, error);
    if (symbol->kind == SYMBOL_END)
        return machine_return(m, stack, error);
    if (symbol[1].kind != SYMBOL_END) { /* a rule that ends with another leaves nothing behind */
        if (m->nodes[stack].depth == GRAMMAR_MOST_DEPTH)
            return WISP_OK;
        TRY(machine_push(m, item.at + 1, stack, &stack, error));
    }
    if (symbol->kind == SYMBOL_RULE)
        return machine_follow_rule(m, symbol->value, stack, error);
    return symbol->kind == SYMBOL_STATE ? machine_follow(m, AT_STATE + symbol->value, stack, error)
                                        : members_begin(m, symbol->value, stack, error);
}

/* Follows all work to the items that match a byte. */
static wisp_status follow_all(struct machine *m, wisp_error *error) {
    while (m->n_work > 0) {
        const struct machine_item item = m->work[--m->n_work];
        TRY(item.at < AT_STATE   ? follow_symbol(m, item, error)
            : item.at < AT_PLACE ? follow_state(m, item, error)
                                 : members_follow(m, item, error));
    }
    return WISP_OK;
}

/* ---- sets ----------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    const struct machine_item *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static uint64_t hash_of_items(const struct machine_item *items, uint32_t n, bool ends) {
    return n == 1 ? machine_hash(items->at, items->stack) + ends
                  : random_mix(checksum(items, n * sizeof *items) + n) + ends;
}

static uint32_t run_of(const struct machine *m, struct machine_item item) {
    return item.at < AT_STATE   ? 0
           : item.at < AT_PLACE ? m->grammar->states[item.at - AT_STATE].run
                                : members_run(m, item.at - AT_PLACE);
}

/* Finds or makes the set of the items that were found. */
static wisp_status end_set(struct machine *m, uint32_t *set, wisp_error *error) {
    bool emptied;
    if (m->n_found == 0 && !m->ends) {
        *set = 0;
        return WISP_OK;
    }
    if (m->n_found > 1)
        qsort(m->found, m->n_found, sizeof *m->found, by_place);
    TRY(list_grow(&m->sets, m->n_sets, 1, &m->set_capacity, sizeof *m->sets, error));
    TRY(machine_grow_buckets(&m->set_buckets, m->n_sets, &emptied, error));
    for (uint32_t i = 1; i < m->n_sets && emptied; i++) {
        struct machine_set *s = &m->sets[i];
        uint32_t *bucket =
            machine_bucket(&m->set_buckets, hash_of_items(m->items + s->first, s->n, s->ends));
        s->chain = *bucket;
        *bucket = i;
    }
    uint32_t *bucket =
        machine_bucket(&m->set_buckets, hash_of_items(m->found, m->n_found, m->ends));
    for (*set = *bucket; *set; *set = m->sets[*set].chain) {
        const struct machine_set *s = &m->sets[*set];
        if (s->n == m->n_found && s->ends == m->ends &&
            memcmp(m->items + s->first, m->found, s->n * sizeof *m->found) == 0)
            return WISP_OK;
    }
    if (m->n_sets == MOST_SETS || m->n_items > MOST_SET_ITEMS)
        return machine_too_many(error);
    struct machine_set made = {.first = m->n_items,
                               .n = m->n_found,
                               .least = UINT32_MAX,
                               .base = UINT32_MAX,
                               .chain = *bucket,
                               .ends = m->ends};
    TRY(list_grow(&m->items, m->n_items, m->n_found, &m->item_capacity, sizeof *m->items, error));
    for (uint32_t i = 0; i < m->n_found; i++) {
        const uint32_t depth = m->nodes[m->found[i].stack].depth, run = run_of(m, m->found[i]);
        m->items[m->n_items++] = m->found[i];
        made.least = depth < made.least ? depth : made.least;
        made.run = run > made.run ? run : made.run;
    }
    *set = m->n_sets++;
    m->sets[*set] = made;
    *bucket = *set;
    return WISP_OK;
}

static wisp_status step_item(struct machine *m, struct machine_item item, unsigned char byte,
                             wisp_error *error) {
    const struct wisp_grammar *g = m->grammar;
    if (item.at >= AT_PLACE)
        return members_step(m, item, byte, error);
    if (item.at >= AT_STATE) {
        const uint32_t state = item.at - AT_STATE;
        const struct grammar_automaton *a = &g->automata[g->states[state].automaton];
        if (byte >= 128 || a->ascii[byte] == 0)
            return WISP_OK;
        const uint32_t next = a->next[(size_t)(state - a->first) * a->classes + a->ascii[byte] - 1];
        return next ? machine_follow(m, AT_STATE + next, item.stack, error) : WISP_OK;
    }
    const struct symbol symbol = g->symbols[item.at];
    const bool matches =
        symbol.kind == SYMBOL_BYTE ? symbol.value == byte : set_has(&g->sets[symbol.value], byte);
    return matches ? machine_follow(m, item.at + 1, item.stack, error) : WISP_OK;
}

wisp_status machine_step(struct machine *m, uint32_t set, unsigned char byte, uint32_t *next,
                         wisp_error *error) {
    enum { ROW = 256 };
    if (m->sets[set].next && m->sets[set].next[byte] != UINT32_MAX) {
        *next = m->sets[set].next[byte];
        return WISP_OK;
    }
    if (!m->sets[set].next) {
        m->sets[set].next = malloc(ROW * sizeof *m->sets[set].next);
        if (!m->sets[set].next)
            return fail_memory(error, ROW * sizeof *m->sets[set].next);
        memset(m->sets[set].next, 0xFF, ROW * sizeof *m->sets[set].next);
    }
    machine_begin(m);
    const uint32_t first = m->sets[set].first, n = m->sets[set].n;
    for (uint32_t i = 0; i < n; i++) {
        TRY(step_item(m, m->items[first + i], byte, error));
        TRY(follow_all(m, error));
    }
    TRY(end_set(m, next, error));
    m->sets[set].next[byte] = *next;
    return WISP_OK;
}

wisp_status machine_enter(struct machine *m, uint32_t node, uint32_t *set, wisp_error *error) {
    if (m->nodes[node].entry == UINT32_MAX) {
        machine_begin(m);
        TRY(machine_follow(m, m->nodes[node].at, 0, error));
        TRY(follow_all(m, error));
        TRY(end_set(m, set, error));
        m->nodes[node].entry = *set;
    }
    *set = m->nodes[node].entry;
    return WISP_OK;
}

/* Returns the node that the stacks of two nodes have in common. */
static uint32_t common_node(const struct machine *m, uint32_t a, uint32_t b) {
    while (m->nodes[a].depth > m->nodes[b].depth)
        a = m->nodes[a].below;
    while (m->nodes[b].depth > m->nodes[a].depth)
        b = m->nodes[b].below;
    while (a != b) {
        a = m->nodes[a].below;
        b = m->nodes[b].below;
    }
    return a;
}

/* Finds a node's stack without the part that is `base`. */
static wisp_status without_base(struct machine *m, uint32_t node, uint32_t base, uint32_t *above,
                                wisp_error *error) {
    enum { MOST = GRAMMAR_MOST_DEPTH + 1 };
    uint32_t at[MOST], n = 0;
    for (; node != base && n < MOST; node = m->nodes[node].below)
        at[n++] = m->nodes[node].at;
    for (*above = 0; n > 0; n--)
        TRY(machine_push(m, at[n - 1], *above, above, error));
    return WISP_OK;
}

wisp_status machine_split(struct machine *m, uint32_t set, uint32_t *above, uint32_t *base,
                          wisp_error *error) {
    if (m->sets[set].base == UINT32_MAX) {
        const uint32_t first = m->sets[set].first, n = m->sets[set].n;
        uint32_t common = n > 0 ? m->items[first].stack : 0;
        for (uint32_t i = 1; i < n && common != 0; i++)
            common = common_node(m, common, m->items[first + i].stack);
        m->sets[set].above = set;
        if (common != 0) {
            uint32_t made;
            machine_begin(m);
            for (uint32_t i = 0; i < n; i++) {
                uint32_t stack;
                TRY(without_base(m, m->items[first + i].stack, common, &stack, error));
                TRY(machine_find(m, m->items[first + i].at, stack, error));
            }
            TRY(end_set(m, &made, error));
            m->sets[set].above = made;
        }
        m->sets[set].base = common;
    }
    *above = m->sets[set].above;
    *base = m->sets[set].base;
    return WISP_OK;
}

/* Makes the bottom of stacks and the set that nothing is in. */
static wisp_status open_tables(struct machine *m, wisp_error *error) {
    bool emptied;
    TRY(list_grow(&m->nodes, 0, 1, &m->node_capacity, sizeof *m->nodes, error));
    TRY(list_grow(&m->sets, 0, 1, &m->set_capacity, sizeof *m->sets, error));
    TRY(machine_grow_buckets(&m->node_buckets, 1, &emptied, error));
    TRY(machine_grow_buckets(&m->set_buckets, 1, &emptied, error));
    m->nodes[m->n_nodes++] = (struct machine_node){.entry = UINT32_MAX};
    m->sets[m->n_sets++] = (struct machine_set){.least = UINT32_MAX};
    return WISP_OK;
}

wisp_status machine_open(struct machine *m, const struct wisp_grammar *grammar, uint32_t *set,
                         wisp_error *error) {
    *m = (struct machine){.grammar = grammar};
    TRY(machine_open_work(m, error));
    TRY(open_tables(m, error));
    TRY(members_open(m, error));
    machine_begin(m);
    TRY(machine_follow_rule(m, grammar->root, 0, error));
    TRY(follow_all(m, error));
    return end_set(m, set, error);
}

wisp_status machine_check(const struct wisp_grammar *grammar, uint32_t *rule, wisp_error *error) {
    enum { MOST_WORK = 1 << 20 };
    struct machine m;
    uint32_t set, work = 0;
    wisp_error cause = {0};
    *rule = UINT32_MAX;
    wisp_status status = machine_open(&m, grammar, &set, &cause);
    if (status == WISP_ERROR_UNSUPPORTED)
        *rule = grammar->root;
    for (uint32_t r = 0; r < grammar->rules && status == WISP_OK && work < MOST_WORK; r++) {
        machine_begin(&m);
        status = machine_follow_rule(&m, r, 0, &cause);
        if (status == WISP_OK)
            status = follow_all(&m, &cause);
        if (status == WISP_ERROR_UNSUPPORTED)
            *rule = r;
        work += m.met + 1;
    }
    machine_release(&m);
    return status == WISP_OK || *rule != UINT32_MAX
               ? WISP_OK
               : fail(error, status, NULL, cause.field, "%s", cause.message);
}

/* ---- forgetting ----------------------------------------------------------------------------- */

bool machine_is_full(const struct machine *m) {
    return m->n_sets > MOST_SETS / 4 || m->n_nodes > MACHINE_MOST_NODES / 2 ||
           m->n_items > MOST_SET_ITEMS / 2;
}

wisp_status machine_forget(struct machine *m, struct machine *old, wisp_error *error) {
    *old = (struct machine){.nodes = m->nodes,
                            .sets = m->sets,
                            .items = m->items,
                            .n_sets = m->n_sets,
                            .node_buckets = m->node_buckets,
                            .set_buckets = m->set_buckets};
    m->nodes = NULL;
    m->sets = NULL;
    m->items = NULL;
    m->n_nodes = m->n_sets = m->n_items = 0;
    m->node_capacity = m->set_capacity = m->item_capacity = 0;
    m->node_buckets = m->set_buckets = (struct machine_buckets){0};
    return open_tables(m, error);
}

static wisp_status keep_stack(struct machine *m, const struct machine *old, uint32_t node,
                              uint32_t *kept, wisp_error *error) {
    enum { MOST = 2 * GRAMMAR_MOST_DEPTH };
    uint32_t at[MOST], n = 0;
    for (; node != 0 && n < MOST; node = old->nodes[node].below)
        at[n++] = old->nodes[node].at;
    for (*kept = 0; n > 0; n--)
        TRY(machine_push(m, at[n - 1], *kept, kept, error));
    return WISP_OK;
}

wisp_status machine_keep(struct machine *m, const struct machine *old, uint32_t *set,
                         uint32_t *stack, wisp_error *error) {
    const struct machine_set from = old->sets[*set];
    machine_begin(m);
    for (uint32_t i = 0; i < from.n; i++) {
        const struct machine_item item = old->items[from.first + i];
        uint32_t above;
        TRY(keep_stack(m, old, item.stack, &above, error));
        TRY(machine_find(m, item.at, above, error));
    }
    m->ends = from.ends;
    TRY(end_set(m, set, error));
    return keep_stack(m, old, *stack, stack, error);
}

void machine_release_old(struct machine *old) {
    for (uint32_t i = 0; i < old->n_sets; i++)
        free(old->sets[i].next);
    free(old->nodes);
    free(old->sets);
    free(old->items);
    free(old->node_buckets.first);
    free(old->set_buckets.first);
}

void machine_release(struct machine *m) {
    machine_release_old(m);
    free(m->marks);
    free(m->work);
    free(m->found);
    members_release(m);
    *m = (struct machine){0};
}
