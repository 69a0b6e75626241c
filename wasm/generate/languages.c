/* SPDX-License-Identifier: Apache-2.0
 * What modules that generate have of the module that reads languages. */
#include <stdlib.h>
#include <string.h>

#include "binding/languages/languages.h"

/* Has that module answer a question. *answer is in a block that allocate made, and after a failure
 * of that module a wisp_error. There is none if the module is not loaded or there is no memory.
 * Returns a wisp_status. */
__attribute__((import_module("wisp"), import_name("languages"))) int
host_languages(int language, const wisp_text *texts, size_t n, wisp_text *answer);

wisp_status language_ask(enum language language, const wisp_text *texts, size_t n,
                         wisp_text *answer, wisp_error *error) {
    *answer = (wisp_text){0};
    const int status = host_languages((int)language, texts, n, answer);
    if (status == WISP_OK)
        return WISP_OK;
    if (status == WISP_ERROR_MEMORY && !answer->bytes)
        return fail_memory(error, texts->length);
    if (answer->length != sizeof *error)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "languages",
                    "wisp-languages.wasm is not loaded");
    memcpy(error, answer->bytes, sizeof *error);
    free((void *)(uintptr_t)answer->bytes);
    error->status = (wisp_status)status;
    error->field[sizeof error->field - 1] = error->message[sizeof error->message - 1] = 0;
    return error->status;
}

wisp_status wisp_grammar_open(wisp_text gbnf, wisp_grammar **grammar, wisp_error *error) {
    return language_ask_grammar(LANGUAGE_GBNF, gbnf, grammar, error);
}

wisp_status wisp_grammar_open_schema(wisp_text schema, wisp_grammar **grammar, wisp_error *error) {
    return language_ask_grammar(LANGUAGE_JSON_SCHEMA, schema, grammar, error);
}

wisp_status prompt_make(struct arena *arena, const struct prompt_call *call, struct prompt *prompt,
                        wisp_error *error) {
    return language_ask_prompt(arena, call, prompt, error);
}
