/* SPDX-License-Identifier: Apache-2.0 */
#include "grammar/grammar_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

static wisp_status add_item(struct grammar_state *s, struct grammar_item item, wisp_error *error) {
    for (uint32_t i = s->lists[s->n_lists]; i < s->n_items; i++)
        if (s->items[i].set == item.set && s->items[i].stack == item.stack)
            return WISP_OK;
    if (s->n_items - s->lists[s->n_lists] == GRAMMAR_MOST_ITEMS)
        return machine_too_many(error);
    TRY(list_grow(&s->items, s->n_items, 1, &s->item_capacity, sizeof *s->items, error));
    s->items[s->n_items++] = item;
    return WISP_OK;
}

/* Adds a set on a stack to the list that is being made and, if its text may end, what comes
 * after that. */
static wisp_status add_set(struct grammar_state *s, uint32_t set, uint32_t stack,
                           wisp_error *error) {
    struct machine *m = &s->machine;
    while (set != 0) {
        const struct machine_set *made = &m->sets[set];
        const bool ends = made->ends;
        if (made->n > 0 && made->least + m->nodes[stack].depth <= GRAMMAR_MOST_DEPTH)
            TRY(add_item(s, (struct grammar_item){set, stack}, error));
        if (!ends)
            return WISP_OK;
        if (stack == 0)
            return add_item(s, (struct grammar_item){GRAMMAR_END, 0}, error);
        TRY(machine_enter(m, stack, &set, error));
        stack = m->nodes[stack].below;
    }
    return WISP_OK;
}

/* Ends the list that is being made. */
static wisp_status end_list(struct grammar_state *s, wisp_error *error) {
    TRY(list_grow(&s->lists, s->n_lists, 2, &s->list_capacity, sizeof *s->lists, error));
    s->lists[++s->n_lists] = s->n_items;
    return WISP_OK;
}

wisp_status grammar_state_open(struct grammar_state *s, const struct wisp_grammar *grammar,
                               wisp_error *error) {
    uint32_t set;
    *s = (struct grammar_state){.n_lists = 0};
    TRY(machine_open(&s->machine, grammar, &set, error));
    TRY(list_grow(&s->lists, 0, 2, &s->list_capacity, sizeof *s->lists, error));
    s->lists[0] = 0;
    TRY(add_set(s, set, 0, error));
    return end_list(s, error);
}

wisp_status grammar_state_push(struct grammar_state *s, unsigned char byte, wisp_error *error) {
    const uint32_t begin = s->lists[s->n_lists - 1], end = s->lists[s->n_lists];
    for (uint32_t i = begin; i < end; i++) {
        const struct grammar_item item = s->items[i];
        uint32_t next = 0;
        if (item.set == GRAMMAR_END)
            continue;
        wisp_status status = machine_step(&s->machine, item.set, byte, &next, error);
        if (status == WISP_OK)
            status = add_set(s, next, item.stack, error);
        if (status != WISP_OK) {
            s->n_items = end;
            return status;
        }
    }
    return end_list(s, error);
}

void grammar_state_pop(struct grammar_state *s, uint32_t n) {
    s->n_lists = n;
    s->n_items = s->lists[n];
}

/* Puts a stack on another one. */
static wisp_status put_on(struct machine *m, uint32_t node, uint32_t below, uint32_t *stack,
                          wisp_error *error) {
    uint32_t n = m->nodes[node].depth;
    for (*stack = below; n > 0; n--) {
        uint32_t at = node;
        for (uint32_t i = 1; i < n; i++)
            at = m->nodes[at].below;
        TRY(machine_push(m, m->nodes[at].at, *stack, stack, error));
    }
    return WISP_OK;
}

/* Replaces the newest list by one whose sets know as little as they can of the stacks below. */
static wisp_status split_items(struct grammar_state *s, wisp_error *error) {
    const uint32_t begin = s->lists[s->n_lists - 1], end = s->lists[s->n_lists];
    for (uint32_t i = begin; i < end; i++) {
        struct grammar_item item = s->items[i];
        if (item.set != GRAMMAR_END) {
            uint32_t base;
            TRY(machine_split(&s->machine, item.set, &item.set, &base, error));
            TRY(put_on(&s->machine, base, item.stack, &item.stack, error));
        }
        TRY(add_item(s, item, error));
    }
    if (s->n_items > end)
        memmove(s->items + begin, s->items + end, (s->n_items - end) * sizeof *s->items);
    s->n_items = s->lists[s->n_lists] = begin + s->n_items - end;
    return WISP_OK;
}

/* Lets the machine forget all sets but those of the lists. */
static wisp_status forget(struct grammar_state *s, wisp_error *error) {
    struct machine old;
    wisp_status status = machine_forget(&s->machine, &old, error);
    for (uint32_t i = 0; i < s->n_items && status == WISP_OK; i++)
        if (s->items[i].set != GRAMMAR_END)
            status = machine_keep(&s->machine, &old, &s->items[i].set, &s->items[i].stack, error);
    machine_release_old(&old);
    s->age++;
    return status;
}

static wisp_status read_byte(struct grammar_state *s, unsigned char byte, uint32_t before,
                             bool *accepted, wisp_error *error) {
    TRY(grammar_state_push(s, byte, error));
    *accepted = s->lists[s->n_lists] > s->lists[s->n_lists - 1];
    TRY(split_items(s, error));
    if (machine_is_full(&s->machine))
        TRY(forget(s, error));
    if (s->n_lists == before + 2) { /* forget what came between */
        const uint32_t from = s->lists[before], at = s->lists[before + 1], n = s->n_items - at;
        memmove(s->items + from, s->items + at, n * sizeof *s->items);
        s->n_items = s->lists[before + 1] = from + n;
        s->n_lists = before + 1;
    }
    return WISP_OK;
}

wisp_status grammar_state_read(struct grammar_state *s, wisp_text text, bool *accepted,
                               wisp_error *error) {
    const uint32_t before = s->n_lists;
    *accepted = true;
    for (size_t i = 0; i < text.length && *accepted; i++) {
        const wisp_status status =
            read_byte(s, (unsigned char)text.bytes[i], before, accepted, error);
        if (status != WISP_OK) {
            grammar_state_pop(s, before);
            return status;
        }
    }
    if (!*accepted) {
        grammar_state_pop(s, before);
        return WISP_OK;
    }
    const uint32_t begin = s->lists[s->n_lists - 1], n = s->n_items - begin;
    if (n > 0)
        memmove(s->items, s->items + begin, n * sizeof *s->items);
    s->n_items = s->lists[1] = n;
    s->n_lists = 1;
    return WISP_OK;
}

const struct grammar_item *grammar_state_items(const struct grammar_state *s, size_t *n) {
    const uint32_t begin = s->lists[s->n_lists - 1];
    *n = s->lists[s->n_lists] - begin;
    return s->items ? s->items + begin : NULL;
}

bool grammar_state_is_complete(const struct grammar_state *s) {
    size_t n;
    const struct grammar_item *items = grammar_state_items(s, &n);
    for (size_t i = 0; i < n; i++)
        if (items[i].set == GRAMMAR_END)
            return true;
    return false;
}

bool grammar_state_goes_on(const struct grammar_state *s) {
    size_t n;
    grammar_state_items(s, &n);
    return n > (size_t)grammar_state_is_complete(s);
}

uint32_t grammar_state_run(const struct grammar_state *s) {
    size_t n;
    const struct grammar_item *items = grammar_state_items(s, &n);
    uint32_t run = 0;
    for (size_t i = 0; i < n; i++)
        if (items[i].set != GRAMMAR_END && s->machine.sets[items[i].set].run > run)
            run = s->machine.sets[items[i].set].run;
    return run;
}

void grammar_state_release(struct grammar_state *s) {
    machine_release(&s->machine);
    free(s->items);
    free(s->lists);
    *s = (struct grammar_state){0};
}
