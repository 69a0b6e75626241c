/* SPDX-License-Identifier: Apache-2.0 */
#include "grammar/grammar_work.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

enum { MARKS = 1 << 14, FIRST_BUCKETS = 1 << 6 };

/* Marks are a hash table of the items that a step has met. Those of earlier steps count as empty
 * slots. */
struct machine_mark {
    uint32_t at, stack, step;
};

wisp_status machine_too_many(wisp_error *error) {
    return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "grammar",
                "a text has too many derivations (the limit is %d at once): the grammar is too "
                "ambiguous",
                GRAMMAR_MOST_ITEMS);
}

wisp_status machine_grow_buckets(struct machine_buckets *b, uint32_t n, bool *emptied,
                                 wisp_error *error) {
    *emptied = n >= b->count;
    if (!*emptied)
        return WISP_OK;
    const uint32_t count = b->count ? 4 * b->count : FIRST_BUCKETS;
    uint32_t *first = calloc(count, sizeof *first);
    if (!first)
        return fail_memory(error, count * sizeof *first);
    free(b->first);
    b->first = first;
    b->count = count;
    return WISP_OK;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

wisp_status machine_push(struct machine *m, uint32_t at, uint32_t below, uint32_t *node,
                         wisp_error *error) {
    bool emptied;
    if (m->n_nodes >= MACHINE_MOST_NODES)
        return machine_too_many(error);
    TRY(list_grow(&m->nodes, m->n_nodes, 1, &m->node_capacity, sizeof *m->nodes, error));
    TRY(machine_grow_buckets(&m->node_buckets, m->n_nodes, &emptied, error));
    for (uint32_t i = 1; i < m->n_nodes && emptied; i++) {
        uint32_t *bucket =
            machine_bucket(&m->node_buckets, machine_hash(m->nodes[i].at, m->nodes[i].below));
        m->nodes[i].chain = *bucket;
        *bucket = i;
    }
    uint32_t *bucket = machine_bucket(&m->node_buckets, machine_hash(at, below));
    for (*node = *bucket; *node; *node = m->nodes[*node].chain)
        if (m->nodes[*node].at == at && m->nodes[*node].below == below)
            return WISP_OK;
    *node = m->n_nodes++;
    m->nodes[*node] =
        (struct machine_node){at, below, m->nodes[below].depth + 1, *bucket, UINT32_MAX};
    *bucket = *node;
    return WISP_OK;
}

/* ---- following items ------------------------------------------------------------------------ */

wisp_status machine_open_work(struct machine *m, wisp_error *error) {
    m->marks = calloc(MARKS, sizeof *m->marks);
    return m->marks ? WISP_OK : fail_memory(error, MARKS * sizeof *m->marks);
}

void machine_begin(struct machine *m) {
    m->n_work = m->n_found = m->met = 0;
    m->ends = false;
    if (++m->step == 0) { /* marks of 2^32 steps ago would count */
        memset(m->marks, 0, MARKS * sizeof *m->marks);
        m->step = 1;
    }
}

/* Returns whether the step meets the item for the first time. */
static bool is_new(struct machine *m, uint32_t at, uint32_t stack) {
    uint32_t place = (uint32_t)machine_hash(at, stack) & (MARKS - 1);
    for (; m->marks[place].step == m->step; place = (place + 1) & (MARKS - 1))
        if (m->marks[place].at == at && m->marks[place].stack == stack)
            return false;
    m->marks[place] = (struct machine_mark){at, stack, m->step};
    m->met++;
    return true;
}

wisp_status machine_find(struct machine *m, uint32_t at, uint32_t stack, wisp_error *error) {
    TRY(list_grow(&m->found, m->n_found, 1, &m->found_capacity, sizeof *m->found, error));
    m->found[m->n_found++] = (struct machine_item){at, stack};
    return WISP_OK;
}

wisp_status machine_follow(struct machine *m, uint32_t at, uint32_t stack, wisp_error *error) {
    if (!is_new(m, at, stack))
        return WISP_OK;
    if (m->met > GRAMMAR_MOST_ITEMS)
        return machine_too_many(error);
    TRY(list_grow(&m->work, m->n_work, 1, &m->work_capacity, sizeof *m->work, error));
    m->work[m->n_work++] = (struct machine_item){at, stack};
    return WISP_OK;
}

wisp_status machine_follow_rule(struct machine *m, uint32_t rule, uint32_t stack,
                                wisp_error *error) {
    const struct wisp_grammar *g = m->grammar;
    for (uint32_t a = g->first[rule]; a < g->first[rule + 1]; a++)
        TRY(machine_follow(m, g->start[a], stack, error));
    return WISP_OK;
}

wisp_status machine_return(struct machine *m, uint32_t stack, wisp_error *error) {
    if (stack != 0)
        return machine_follow(m, m->nodes[stack].at, m->nodes[stack].below, error);
    m->ends = true;
    return WISP_OK;
}
