/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "prompt/prompt.h"

#include <string.h>

#include "prompt/variables.h"

/* Runs a template on the trial. One that does not take it has no mark after replies that is known.
 */
static wisp_status make_trial(struct arena *arena, struct jinja_call *call,
                              struct chat_variables *variables, struct value *trial,
                              wisp_error *error) {
    wisp_error refused;
    TRY(chat_probe(arena, variables, error));
    call->n = variables->n;
    const wisp_status status = jinja_run(arena, call, trial, &refused);
    if (status == WISP_ERROR_MEMORY)
        return fail_memory(error, arena->total);
    if (status != WISP_OK)
        *trial = (struct value){.type = JINJA_NONE};
    return WISP_OK;
}

wisp_status prompt_make(struct arena *arena, const struct prompt_call *call, struct prompt *prompt,
                        wisp_error *error) {
    struct chat_variables variables;
    bool reads_thinking = false;
    TRY(chat_variables_of(call, arena, &variables, error));
    struct jinja_call run = {.source = variables.has_tools ? call->source_with_tools : call->source,
                             .variables = variables.list,
                             .n = variables.n,
                             .date = call->conversation->date,
                             .file = call->file};
    if (!run.source.bytes)
        return fail(error, WISP_ERROR_NOT_FOUND, call->file, "tokenizer.chat_template",
                    "the file only has a template for conversations with tools");
    TRY(jinja_run(arena, &run, &prompt->text, error));
    for (size_t i = 0; i < variables.n; i++)
        reads_thinking |=
            strcmp(variables.list[i].name, CHAT_THINKING) == 0 && variables.list[i].was_read;
    if (call->conversation->no_thinking && !reads_thinking)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "no_thinking",
                    "the chat template has no switch for thinking (" CHAT_THINKING ")");
    return make_trial(arena, &run, &variables, &prompt->trial, error);
}
