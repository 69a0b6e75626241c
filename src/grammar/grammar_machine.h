/* SPDX-License-Identifier: Apache-2.0
 * The automaton that a grammar is, made while texts are read.
 *
 * A grammar's machine is a pushdown automaton. An item is a place in the grammar and the stack of
 * places to return to. A set has all items after some text, whose stacks end at a bottom that the
 * set does not know; what is below is the context (grammar_state.h). So a set that was made
 * within one string or array serves in all others, and the next set for a byte is found once. */
#ifndef WISP_GRAMMAR_GRAMMAR_MACHINE_H
#define WISP_GRAMMAR_GRAMMAR_MACHINE_H

#include "grammar/grammar_work.h"

/* Makes the set that begins the text. The caller releases the machine, also after an error. */
wisp_status machine_open(struct machine *machine, const struct wisp_grammar *grammar, uint32_t *set,
                         wisp_error *error);
void machine_release(struct machine *machine);

/* Finds a rule whose texts can begin in more ways than a machine follows; UINT32_MAX: there is
 * none, as far as a bounded search sees. */
wisp_status machine_check(const struct wisp_grammar *grammar, uint32_t *rule, wisp_error *error);

/* Finds the set after one more byte. */
wisp_status machine_step(struct machine *machine, uint32_t set, unsigned char byte, uint32_t *next,
                         wisp_error *error);

/* Finds the set after the end of a rule that returns to the node. */
wisp_status machine_enter(struct machine *machine, uint32_t node, uint32_t *set, wisp_error *error);

/* Splits a set: its stacks are those of `above` on `base`. */
wisp_status machine_split(struct machine *machine, uint32_t set, uint32_t *above, uint32_t *base,
                          wisp_error *error);

/* Whether a machine knows so many sets that it is time to forget them. machine_forget leaves what
 * it knew in *old, for machine_keep, which finds a set and the stack below it again; then
 * machine_release_old frees it. */
bool machine_is_full(const struct machine *machine);
wisp_status machine_forget(struct machine *machine, struct machine *old, wisp_error *error);
wisp_status machine_keep(struct machine *machine, const struct machine *old, uint32_t *set,
                         uint32_t *stack, wisp_error *error);
void machine_release_old(struct machine *old);

#endif
