/* SPDX-License-Identifier: Apache-2.0
 * Automata of the numbers of JSON, by their value. */
#ifndef WISP_SCHEMA_NUMBERS_H
#define WISP_SCHEMA_NUMBERS_H

#include "schema/automaton.h"

/* How a number compares with another. */
enum number_order { NUMBER_LESS = 1, NUMBER_EQUAL = 2, NUMBER_GREATER = 4 };

/* All numbers, or the whole ones that have neither fraction nor exponent. Digits are bounded, so
 * that a model does not write them for ever. */
wisp_status numbers_all(struct arena *arena, bool whole, struct automaton **made,
                        wisp_error *error);

/* Numbers that compare with a number of JSON in one of the orders. Those with an exponent are among
 * them if one digit, which is not 0, is before the point. */
wisp_status numbers_compared(struct arena *arena, wisp_text number, unsigned orders,
                             struct automaton **made, wisp_error *error);

/* Numbers without exponents that are a multiple of a positive number, or are not if `negated`. */
wisp_status numbers_multiple(struct arena *arena, wisp_text number, bool negated,
                             struct automaton **made, wisp_error *error);

#endif
