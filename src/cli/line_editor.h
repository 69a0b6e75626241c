/* SPDX-License-Identifier: Apache-2.0
 * Lines that are typed at a terminal: editing them, and the lines before. */
#ifndef WISP_CLI_LINE_EDITOR_H
#define WISP_CLI_LINE_EDITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wisp.h"

enum { MOST_TYPED_AHEAD = 256 };

/* It starts as zeros. */
struct line_editor {
    char **lines; /* [capacity]: those that were entered, the latest last */
    uint32_t n, capacity;
    char ahead[MOST_TYPED_AHEAD]; /* [n_ahead]: bytes of keys that no line has taken */
    size_t n_ahead;
};

/* Returns whether lines can be edited: standard input and standard error are a terminal that moves
 * its cursor. */
bool line_editor_works(void);

/* Reads a line. Returns an exit code, after complaining if it is neither EXIT_GOOD nor
 * EXIT_INTERRUPTED, with which a signal ends it. The editor keeps *line, whose bytes end with a 0
 * and are NULL at the end of the input. */
int line_editor_read(struct line_editor *editor, const char *prompt, wisp_text *line);

void line_editor_release(struct line_editor *editor);

#endif
