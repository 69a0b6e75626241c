/* SPDX-License-Identifier: Apache-2.0
 * src/cli/line_editor.c for the module: Node's readline edits lines (js/program/cli-program.js). */
#include "cli/line_editor.h"

#include <unistd.h>

#include "cli/cli.h"

#define IMPORT(name) __attribute__((import_module("wisp"), import_name(name)))

/* Reads a line, of which as much as fits becomes `line`. Returns its length, or a number below 0 at
 * the end of the input and after a signal. */
IMPORT("line") int host_line(const char *prompt, char *line, size_t capacity);

bool line_editor_works(void) {
    return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
}

int line_editor_read(struct line_editor *editor, const char *prompt, wisp_text *line) {
    static char typed[(1 << 16) + 1];
    (void)editor; /* JavaScript has the lines before */
    const int length = host_line(prompt, typed, sizeof typed - 1);
    *line = (wisp_text){0};
    if (was_interrupted())
        return EXIT_INTERRUPTED;
    if (length >= 0) {
        typed[length] = '\0';
        *line = (wisp_text){typed, (size_t)length};
    }
    return EXIT_GOOD;
}

void line_editor_release(struct line_editor *editor) {
    (void)editor;
}
