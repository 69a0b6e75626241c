/* SPDX-License-Identifier: Apache-2.0
 * Regular expressions of ECMA 262, as JSON Schema's pattern has them. */
#ifndef WISP_SCHEMA_REGEX_H
#define WISP_SCHEMA_REGEX_H

#include "schema/automaton.h"

/* Makes the automaton of all texts in which the expression is found. Errors are
 * WISP_ERROR_UNSUPPORTED for what no automaton can follow (references back, \b, looking behind,
 * most of looking ahead) and WISP_ERROR_FORMAT for what is not an expression. */
wisp_status regex_compile(struct arena *arena, wisp_text pattern, struct automaton **made,
                          wisp_error *error);

#endif
