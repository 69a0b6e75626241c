/* SPDX-License-Identifier: Apache-2.0
 * Shared by the fuzz targets. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wisp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts unless the outcome for a malformed file is success or an error with a fitting status and a
 * message. */
static inline void fuzz_check(wisp_status status, const wisp_error *error) {
    if (status == WISP_OK)
        return;
    if (status != WISP_ERROR_FORMAT && status != WISP_ERROR_UNSUPPORTED &&
        status != WISP_ERROR_NOT_FOUND)
        abort();
    if (error->status != status || !*error->message)
        abort();
}

/* Generates from a text and from a conversation, and decodes the ids of a text. */
static inline void fuzz_generate(const wisp_model *model, wisp_session *session) {
    const wisp_message message = {WISP_ROLE_USER, wisp_text_of("the <|im_end|> \xC3\xA9t\xFF!")};
    const wisp_conversation conversation = {.messages = &message, .n = 1, .format = "plain"};
    const wisp_generate_options options = {.max_tokens = 5, .sampling.temperature = 1};
    wisp_error error;
    wisp_text source;
    char text[512];
    int32_t ids[64];
    size_t count, length;
    wisp_status status = wisp_generate(session, message.content, &options, NULL, &error);
    if (status != WISP_ERROR_ARGUMENT) /* the prompt may be longer than the context */
        fuzz_check(status, &error);
    status = wisp_chat(session, &conversation, &options, NULL, &error);
    if (status != WISP_ERROR_ARGUMENT)
        fuzz_check(status, &error);
    fuzz_check(wisp_model_chat_template(model, &source, &error), &error);
    if (wisp_tokenize(model, message.content, ids, 64, &count, &error) != WISP_OK ||
        wisp_detokenize(model, ids, count < 64 ? count : 64, NULL, text, sizeof text, &length,
                        &error) != WISP_OK)
        abort();
}

/* Uses an open model as a program would. NULL does nothing. */
static inline void fuzz_use(const wisp_model *model) {
    const wisp_text texts[] = {wisp_text_of("The man is eating [MASK], \xC3\xA9t\xCC\x81!"),
                               wisp_text_of("")};
    wisp_session *session = NULL;
    wisp_model_info info;
    wisp_error error;
    const char *key;
    char value[40];
    if (!model)
        return;
    const size_t size = wisp_model_dimensions(model);
    float *rows = malloc(2 * size * sizeof *rows);
    if (!rows || wisp_session_open(model, NULL, &session, &error) != WISP_OK)
        abort();
    fuzz_check(wisp_embed(session, texts, 2, NULL, rows, &error), &error);
    wisp_model_get_info(model, &info);
    if (*info.pooling == '\0')
        fuzz_generate(model, session);
    wisp_session_close(session);
    free(rows);
    for (size_t i = 0; wisp_model_metadata(model, i, &key, value, sizeof value); i++)
        if (strlen(value) >= sizeof value)
            abort();
}

#endif
