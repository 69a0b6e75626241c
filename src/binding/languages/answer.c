/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "binding/languages/languages.h"
#include "grammar/grammar_bytes.h"

static wisp_status answer_grammar(enum language language, wisp_text source, struct arena *arena,
                                  wisp_text *answer, wisp_error *error) {
    wisp_grammar *grammar;
    TRY(language == LANGUAGE_GBNF ? wisp_grammar_open(source, &grammar, error)
                                  : wisp_grammar_open_schema(source, &grammar, error));
    const wisp_status status = grammar_to_bytes(grammar, arena, answer, error);
    wisp_grammar_close(grammar);
    return status;
}

static wisp_status answer_template(const wisp_text *texts, struct arena *arena, wisp_text *answer,
                                   wisp_error *error) {
    const wisp_conversation conversation = {.json = texts[ABOUT_MESSAGES],
                                            .variables = texts[ABOUT_VARIABLES],
                                            .date = texts[ABOUT_DATE].bytes,
                                            .no_thinking = texts[ABOUT_NO_THINKING].length > 0};
    struct prompt_call call = {.conversation = &conversation,
                               .source = texts[ABOUT_SOURCE],
                               .source_with_tools = texts[ABOUT_SOURCE_WITH_TOOLS],
                               .file = texts[ABOUT_FILE].bytes};
    struct prompt prompt;
    uint32_t *words;
    memcpy(call.tokens, texts + ABOUT_TOKENS, sizeof call.tokens);
    TRY(prompt_make(arena, &call, &prompt, error));
    const bool has_trial = prompt.trial.type == JINJA_TEXT;
    const struct prompt_header header = {prompt.text.n, has_trial ? prompt.trial.n : UINT32_MAX};
    const size_t head = sizeof header / sizeof *words, trial = has_trial ? prompt.trial.n : 0;
    ARENA_TAKE(arena, words, head + prompt.text.n + trial, error);
    memcpy(words, &header, sizeof header);
    memcpy(words + head, prompt.text.as.text, prompt.text.n * sizeof *words);
    if (has_trial)
        memcpy(words + head + prompt.text.n, prompt.trial.as.text, trial * sizeof *words);
    *answer = (wisp_text){(const char *)words, (head + prompt.text.n + trial) * sizeof *words};
    return WISP_OK;
}

wisp_status language_answer(enum language language, const wisp_text *texts, size_t n,
                            struct arena *arena, wisp_text *answer, wisp_error *error) {
    const size_t wanted = language == LANGUAGE_TEMPLATE ? ABOUT_TEXTS : 1;
    if (n != wanted)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "texts", "%zu of %zu", n, wanted);
    return language == LANGUAGE_TEMPLATE ? answer_template(texts, arena, answer, error)
                                         : answer_grammar(language, *texts, arena, answer, error);
}
