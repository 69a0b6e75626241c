/* SPDX-License-Identifier: Apache-2.0
 * Grammars as bytes, by which a program that compiles them hands them to one that follows them, on
 * the same machine. */
#ifndef WISP_GRAMMAR_GRAMMAR_BYTES_H
#define WISP_GRAMMAR_GRAMMAR_BYTES_H

#include "grammar/grammar.h"

/* Writes a grammar. The bytes are the arena's. */
wisp_status grammar_to_bytes(const struct wisp_grammar *grammar, struct arena *arena,
                             wisp_text *bytes, wisp_error *error);

/* Reads a grammar, which is zeros, and checks that nothing in it points outside of it. Fails with
 * WISP_ERROR_FORMAT. The caller releases the grammar's arena, also after an error. */
wisp_status grammar_from_bytes(wisp_text bytes, struct wisp_grammar *grammar, wisp_error *error);

#endif
