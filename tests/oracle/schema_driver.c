/* SPDX-License-Identifier: Apache-2.0
 * Matches texts with JSON Schemas, for tests/oracle/schemas.py.
 *
 * Reads from standard input a schema, the number of its texts and these, until the input ends; each
 * text is its length and its bytes. Numbers are 32-bit little-endian. Writes a line for each
 * schema: the status, a tab, for each text 1 if it is valid and 0 if it is not, a tab and the
 * error. */
#include <stdio.h>
#include <stdlib.h>

#include "grammar/grammar_state.h"

static uint32_t read_number(void) {
    unsigned char bytes[4];
    if (fread(bytes, 1, 4, stdin) != 4)
        exit(0);
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* The caller frees the bytes. */
static wisp_text read_text(void) {
    const uint32_t length = read_number();
    char *bytes = malloc((size_t)length + 1);
    if (!bytes || fread(bytes, 1, length, stdin) != length)
        exit(1);
    return (wisp_text){bytes, length};
}

static wisp_status match(const wisp_grammar *grammar, wisp_text text, bool *valid,
                         wisp_error *error) {
    struct grammar_state state;
    wisp_status status = grammar_state_open(&state, grammar, error);
    if (status == WISP_OK)
        status = grammar_state_read(&state, text, valid, error);
    if (status == WISP_OK)
        *valid = *valid && grammar_state_is_complete(&state);
    grammar_state_release(&state);
    return status;
}

int main(void) {
    for (;;) {
        const wisp_text schema = read_text();
        const uint32_t n = read_number();
        wisp_grammar *grammar = NULL;
        wisp_error error = {0};
        wisp_status status = wisp_grammar_open_schema(schema, &grammar, &error);
        printf("%d\t", (int)status);
        for (uint32_t i = 0; i < n; i++) {
            const wisp_text text = read_text();
            bool valid = false;
            if (status == WISP_OK)
                status = match(grammar, text, &valid, &error);
            putchar(status == WISP_OK ? (valid ? '1' : '0') : '-');
            free((char *)(uintptr_t)text.bytes);
        }
        putchar('\t');
        for (const char *c = error.message; *c; c++)
            putchar(*c == '\n' || *c == '\t' ? ' ' : *c);
        putchar('\n');
        wisp_grammar_close(grammar);
        free((char *)(uintptr_t)schema.bytes);
    }
}
