/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include <stdlib.h>
#include <string.h>

#include "binding/languages/languages.h"
#include "grammar/grammar_bytes.h"

wisp_status language_ask_grammar(enum language language, wisp_text source, wisp_grammar **grammar,
                                 wisp_error *error) {
    wisp_text answer;
    TRY(language_ask(language, &source, 1, &answer, error));
    *grammar = calloc(1, sizeof **grammar);
    wisp_status status = *grammar ? grammar_from_bytes(answer, *grammar, error)
                                  : fail_memory(error, sizeof **grammar);
    free((void *)(uintptr_t)answer.bytes);
    if (status != WISP_OK) {
        wisp_grammar_close(*grammar);
        *grammar = NULL;
    }
    return status;
}

/* Takes n characters of an answer, and checks them. */
static wisp_status take_characters(const uint32_t *words, uint32_t n, struct value *text,
                                   wisp_error *error) {
    for (uint32_t i = 0; i < n; i++)
        if ((words[i] & ~JINJA_GIVEN) > 0x10FFFF)
            return fail(error, WISP_ERROR_FORMAT, NULL, "messages", "malformed characters");
    *text = value_text(words, n);
    return WISP_OK;
}

wisp_status language_take_prompt(struct arena *arena, wisp_text answer, struct prompt *prompt,
                                 wisp_error *error) {
    struct prompt_header header;
    uint32_t *words;
    const size_t n = answer.length / sizeof *words, head = sizeof header / sizeof *words;
    if (n >= head)
        memcpy(&header, answer.bytes, sizeof header);
    if (n < head || header.characters > n - head ||
        (header.trial != UINT32_MAX && header.trial > n - head - header.characters))
        return fail(error, WISP_ERROR_FORMAT, NULL, "messages", "a prompt of %zu bytes",
                    answer.length);
    ARENA_TAKE(arena, words, n, error);
    memcpy(words, answer.bytes, n * sizeof *words);
    prompt->trial = (struct value){.type = JINJA_NONE};
    TRY(take_characters(words + head, header.characters, &prompt->text, error));
    return header.trial == UINT32_MAX ? WISP_OK
                                      : take_characters(words + head + header.characters,
                                                        header.trial, &prompt->trial, error);
}

static wisp_text text_or_none(const char *text) {
    return text ? wisp_text_of(text) : (wisp_text){0};
}

wisp_status language_ask_prompt(struct arena *arena, const struct prompt_call *call,
                                struct prompt *prompt, wisp_error *error) {
    const wisp_conversation *conversation = call->conversation;
    wisp_text texts[ABOUT_TEXTS] = {[ABOUT_SOURCE] = call->source,
                                    [ABOUT_SOURCE_WITH_TOOLS] = call->source_with_tools,
                                    [ABOUT_MESSAGES] = conversation->json,
                                    [ABOUT_VARIABLES] = conversation->variables,
                                    [ABOUT_DATE] = text_or_none(conversation->date),
                                    [ABOUT_FILE] = text_or_none(call->file),
                                    [ABOUT_NO_THINKING] =
                                        text_or_none(conversation->no_thinking ? "no" : NULL)};
    wisp_text answer;
    memcpy(texts + ABOUT_TOKENS, call->tokens, sizeof call->tokens);
    if (conversation->n > 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "messages", "not in JSON");
    TRY(language_ask(LANGUAGE_TEMPLATE, texts, ABOUT_TEXTS, &answer, error));
    const wisp_status status = language_take_prompt(arena, answer, prompt, error);
    free((void *)(uintptr_t)answer.bytes);
    return status;
}
