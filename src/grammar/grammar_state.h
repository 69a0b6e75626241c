/* SPDX-License-Identifier: Apache-2.0
 * The state of a grammar's machine after a text: which bytes may come next.
 *
 * The machine follows all derivations at once. Derivations that return to the same place are one
 * item: a set of the machine and the stack below it. */
#ifndef WISP_GRAMMAR_GRAMMAR_STATE_H
#define WISP_GRAMMAR_GRAMMAR_STATE_H

#include "grammar/grammar_machine.h"

struct grammar_item {
    uint32_t set;   /* of the machine; GRAMMAR_END: the text is complete */
    uint32_t stack; /* a node of the machine; 0 is the empty stack */
};

#define GRAMMAR_END UINT32_MAX

/* All items after a text. A state has a stack of such lists, for texts that go on from one
 * another. */
struct grammar_state {
    struct machine machine;
    struct grammar_item *items; /* of all lists */
    uint32_t n_items, item_capacity;
    uint32_t *lists; /* [n_lists + 1]: list i is items[lists[i] .. lists[i + 1]) */
    uint32_t n_lists, list_capacity;
    uint32_t age; /* how often the machine has forgotten its sets, which have other numbers since */
};

/* Begins a text. The grammar must outlive the state. The caller releases it with
 * grammar_state_release, also after an error. */
wisp_status grammar_state_open(struct grammar_state *state, const struct wisp_grammar *grammar,
                               wisp_error *error);

/* Adds the list of items after the newest list's text and one more byte. It is empty if the byte
 * may not come there. Fails if the grammar has too many derivations. */
wisp_status grammar_state_push(struct grammar_state *state, unsigned char byte, wisp_error *error);

/* Removes the newest lists, until n are left. */
void grammar_state_pop(struct grammar_state *state, uint32_t n);

/* Reads text and forgets all lists but the newest. Sets *accepted to false, and changes nothing,
 * if the text may not come there. */
wisp_status grammar_state_read(struct grammar_state *state, wisp_text text, bool *accepted,
                               wisp_error *error);

/* Returns the items of the newest list. */
const struct grammar_item *grammar_state_items(const struct grammar_state *state, size_t *n);

/* Tell whether the text is complete, and whether more may follow. */
bool grammar_state_is_complete(const struct grammar_state *state);
bool grammar_state_goes_on(const struct grammar_state *state);

/* Returns a number n: any n plain characters (plain_byte) may follow. */
uint32_t grammar_state_run(const struct grammar_state *state);

void grammar_state_release(struct grammar_state *state);

#endif
