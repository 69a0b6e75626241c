/* SPDX-License-Identifier: Apache-2.0
 * The machine of a grammar: it has read a text, and knows which bytes may come next.
 *
 * It is a pushdown automaton that follows all derivations at a time. A derivation is an item: the
 * symbol that comes next and the stack of symbols to return to. Equal stacks are one node, and
 * stacks share their nodes, so that an ambiguous grammar needs little memory. A rule that ends with
 * another one leaves nothing on the stack. */
#ifndef WISP_TEXT_GRAMMAR_STATE_H
#define WISP_TEXT_GRAMMAR_STATE_H

#include "text/grammar.h"

/* Rules within rules are followed this deep; what would be deeper is not part of the language. */
enum { GRAMMAR_MOST_DEPTH = 1024 };

/* The symbol that comes next is a byte or set. */
struct grammar_item {
    uint32_t at;    /* an index of the grammar's symbols; GRAMMAR_END: the text is complete */
    uint32_t stack; /* a node; 0 is the empty stack */
};

#define GRAMMAR_END UINT32_MAX

struct grammar_node;
struct grammar_mark;

/* All items after a text. A state has a stack of such lists, for texts that go on from one
 * another. */
struct grammar_state {
    const struct wisp_grammar *grammar;
    struct grammar_node *nodes; /* [n_nodes]; the first is the empty stack */
    uint32_t n_nodes, node_capacity;
    uint32_t *buckets; /* [bucket_count]: the newest node of each chain; 0: none */
    uint32_t bucket_count;
    struct grammar_item *items; /* of all lists */
    size_t n_items, item_capacity;
    size_t *lists; /* [n_lists + 1]: list i is items[lists[i] .. lists[i + 1]) */
    size_t n_lists, list_capacity;
    struct grammar_mark *marks; /* [mark_count]: items that the current step has met */
    uint32_t mark_count, step;
    struct grammar_item *work; /* [work_capacity]: items to follow */
    size_t work_capacity;
};

/* Begins a text. The grammar must outlive the state. The caller releases it with
 * grammar_state_release, also after an error. */
wisp_status grammar_state_open(struct grammar_state *state, const struct wisp_grammar *grammar,
                               wisp_error *error);

/* Adds the list of items after the newest list's text and one more byte. It is empty where the byte
 * may not come there. Fails where the grammar has too many derivations. */
wisp_status grammar_state_push(struct grammar_state *state, unsigned char byte, wisp_error *error);

/* Removes the newest lists, until n are left. */
void grammar_state_pop(struct grammar_state *state, size_t n);

/* Reads text and forgets all lists but the newest. Sets *accepted to false, and changes nothing,
 * where the text may not come there. */
wisp_status grammar_state_read(struct grammar_state *state, wisp_text text, bool *accepted,
                               wisp_error *error);

/* Returns the items of the newest list. */
const struct grammar_item *grammar_state_items(const struct grammar_state *state, size_t *n);

/* Tell whether the text is complete, and whether more may follow. */
bool grammar_state_is_complete(const struct grammar_state *state);
bool grammar_state_goes_on(const struct grammar_state *state);

/* Returns the number of nodes so far. grammar_state_forget removes the newest nodes until n are
 * left; no item may refer to those that it removes. */
static inline uint32_t grammar_state_nodes(const struct grammar_state *state) {
    return state->n_nodes;
}
void grammar_state_forget(struct grammar_state *state, uint32_t n);

void grammar_state_release(struct grammar_state *state);

#endif
