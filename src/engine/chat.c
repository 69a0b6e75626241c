/* SPDX-License-Identifier: Apache-2.0
 * Conversations: a chat template makes the prompt (chat/chat.h), and the reply is generated as any
 * text is. */
#include "chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include "engine/conversation.h"
#include "engine/generation.h"
#include "engine/session.h"

const char *wisp_chat_format_name(size_t index) {
    return chat_format_name(index);
}

static wisp_status check_generates(const wisp_model *model, wisp_error *error) {
    if (model->codec)
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "general.architecture",
                "models of architecture %s generate no text", model->network.architecture->name);
}

wisp_status wisp_model_chat_template(const wisp_model *model, wisp_text *source,
                                     wisp_error *error) {
    TRY(require(model, "model", error));
    TRY(require(source, "source", error));
    TRY(check_generates(model, error));
    return chat_template_of(&model->dir, false, source, error);
}

wisp_status conversation_encode(const wisp_model *model, const wisp_conversation *conversation,
                                struct token_list *ids, int32_t *end, wisp_error *error) {
    TRY(require(conversation, "conversation", error));
    TRY(check_generates(model, error));
    const wisp_status status =
        chat_encode(&model->dir, model->codec, conversation, ids, end, error);
    return check_prompt_bound(model, ids, status, error);
}

wisp_status wisp_chat_tokenize(const wisp_model *model, const wisp_conversation *conversation,
                               int32_t *ids, size_t capacity, size_t *count, wisp_error *error) {
    struct token_list list = {0};
    int32_t end;
    TRY(require(model, "model", error));
    TRY(require(count, "count", error));
    if (capacity > 0)
        TRY(require(ids, "ids", error));
    const wisp_status status = conversation_encode(model, conversation, &list, &end, error);
    *count = list.count;
    if (capacity > 0 && list.count > 0)
        memcpy(ids, list.ids, (*count < capacity ? *count : capacity) * sizeof *ids);
    free(list.ids);
    return status;
}

wisp_status wisp_chat(wisp_session *session, const wisp_conversation *conversation,
                      const wisp_generate_options *options, wisp_generation *result,
                      wisp_error *error) {
    wisp_generate_options with_end = options ? *options : (wisp_generate_options){0};
    struct token_list prompt = {0};
    int32_t end, *stop_id = NULL;
    TRY(require(session, "session", error));
    prompt.most = prompt_bound(session->model, options);
    wisp_status status = conversation_encode(session->model, conversation, &prompt, &end, error);
    if (status == WISP_OK && with_end.stop_ids > 0)
        status = require(with_end.stop_id, "stop_id", error);
    if (status == WISP_OK && end >= 0) {
        const size_t stops = with_end.stop_ids, bytes = (stops + 1) * sizeof *stop_id;
        stop_id = malloc(bytes);
        if (stop_id) {
            if (stops > 0)
                memcpy(stop_id, with_end.stop_id, stops * sizeof *stop_id);
            stop_id[stops] = end;
            with_end.stop_id = stop_id;
            with_end.stop_ids = stops + 1;
        } else {
            status = fail_memory(error, bytes);
        }
    }
    const wisp_request request = {.ids = prompt.ids, .n_ids = prompt.count, .options = &with_end};
    if (status == WISP_OK)
        status = wisp_generate_batch(session, &request, 1, 1, result, error);
    free(stop_id);
    free(prompt.ids);
    return status;
}
