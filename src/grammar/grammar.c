/* SPDX-License-Identifier: Apache-2.0 */
#include "grammar/grammar.h"

#include <stdlib.h>

void wisp_grammar_close(wisp_grammar *grammar) {
    if (!grammar)
        return;
    arena_release(&grammar->arena);
    free(grammar);
}
