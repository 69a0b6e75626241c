/* SPDX-License-Identifier: Apache-2.0
 * Runs templates as a filter, for tests/oracle/jinja.py.
 *
 *     jinja_driver DATE
 *
 * Reads a template and a JSON object of variables, each after the number of its bytes, until the
 * input ends. Writes for each pair the wisp_status, and the text or else the message of the error
 * after the number of its bytes. The variables bos_token and eos_token count as the template's own.
 * Numbers are 32-bit and little-endian. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/utf8.h"
#include "jinja/jinja.h"

enum { MAX_VARIABLES = 64 };

static bool read_number(uint32_t *value) {
    unsigned char bytes[4];
    if (fread(bytes, 1, 4, stdin) != 4)
        return false;
    *value = load_u32(bytes);
    return true;
}

static char *read_text(struct arena *arena, uint32_t *length) {
    char *text = read_number(length) ? arena_allocate(arena, (size_t)*length + 1) : NULL;
    return text && fread(text, 1, *length, stdin) == *length ? text : NULL;
}

static void write_number(uint32_t value) {
    for (int i = 0; i < 4; i++)
        putchar((int)(value >> 8 * i & 0xFF));
}

static void write_text(const char *text, size_t length) {
    write_number((uint32_t)length);
    fwrite(text, 1, length, stdout);
}

static void write_value(struct arena *arena, struct value text) {
    char *bytes = arena_allocate(arena, 4 * (size_t)text.n + 1);
    size_t length = 0;
    for (uint32_t i = 0; bytes && i < text.n; i++)
        length += utf8_encode(text.as.text[i] & ~JINJA_GIVEN, bytes + length);
    write_text(bytes, length);
}

static wisp_status run(struct arena *arena, wisp_text source, wisp_text variables, const char *date,
                       struct value *text, wisp_error *error) {
    struct jinja_variable list[MAX_VARIABLES];
    struct jinja_call call = {.source = source, .variables = list, .date = date};
    const struct json *root;
    TRY(json_parse(arena, variables.bytes, variables.length, NULL, &root, error));
    for (const struct json *each = root->first; each && call.n < MAX_VARIABLES; each = each->next) {
        const size_t length = strlen(each->key);
        const bool own = length > 6 && strcmp(each->key + length - 6, "_token") == 0;
        list[call.n].name = each->key;
        TRY(value_from_json(arena, each, own ? 0 : JINJA_GIVEN, &list[call.n++].value, error));
    }
    return jinja_run(arena, &call, text, error);
}

int main(int argc, char **argv) {
    uint32_t source_length, variables_length;
    for (;;) {
        struct arena arena = {0};
        struct value text;
        wisp_error error;
        const char *source = read_text(&arena, &source_length);
        const char *variables = source ? read_text(&arena, &variables_length) : NULL;
        if (!variables)
            break;
        const wisp_status status =
            run(&arena, (wisp_text){source, source_length},
                (wisp_text){variables, variables_length}, argc > 1 ? argv[1] : NULL, &text, &error);
        write_number((uint32_t)status);
        if (status == WISP_OK)
            write_value(&arena, text);
        else
            write_text(error.message, strlen(error.message));
        arena_release(&arena);
    }
    return fflush(stdout) != 0;
}
