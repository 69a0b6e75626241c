/* SPDX-License-Identifier: Apache-2.0
 * The first byte says whether GBNF or a JSON Schema follows, up to a byte of 0; then comes a text.
 * Whatever is compiled must be able to read the text, byte by byte and at once alike. */
#include "fuzz.h"
#include "grammar/grammar_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    const char *source = (const char *)data + 1;
    const char *zero = memchr(source, 0, size - 1);
    const size_t length = zero ? (size_t)(zero - source) : size - 1;
    const wisp_text given = {source, length};
    const wisp_text text = {source + length + (zero != NULL), size - 1 - length - (zero != NULL)};
    wisp_grammar *grammar = NULL;
    wisp_error error;
    const wisp_status status = *data % 2 ? wisp_grammar_open(given, &grammar, &error)
                                         : wisp_grammar_open_schema(given, &grammar, &error);
    fuzz_check(status, &error);
    if (status != WISP_OK)
        return 0;
    struct grammar_state whole, bytes;
    bool accepted = false, each = true;
    wisp_status read = grammar_state_open(&whole, grammar, &error);
    fuzz_check(read, &error);
    if (read == WISP_OK) {
        read = grammar_state_read(&whole, text, &accepted, &error);
        fuzz_check(read, &error);
    }
    const bool opened = grammar_state_open(&bytes, grammar, &error) == WISP_OK;
    for (size_t i = 0; i < text.length && opened && read == WISP_OK && each; i++)
        if (grammar_state_read(&bytes, (wisp_text){text.bytes + i, 1}, &each, &error) != WISP_OK)
            abort();
    if (opened && read == WISP_OK &&
        (each != accepted ||
         (each && grammar_state_is_complete(&whole) != grammar_state_is_complete(&bytes))))
        abort();
    grammar_state_release(&whole);
    grammar_state_release(&bytes);
    wisp_grammar_close(grammar);
    return 0;
}
