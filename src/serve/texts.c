/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/texts.h"

static void refuse(struct call *call, const char *field, const char *problem) {
    reply_problem(call, 400, "invalid_request_error", field, "%s: %s", field, problem);
}

/* Sets the text that token ids stand for. Refuses ids that are not those of their text, which would
 * be embedded otherwise than the caller expects. */
static bool take_ids(struct call *call, const struct json *list, wisp_text *text,
                     const char *field) {
    wisp_error error = {0};
    size_t n = 0, length = 0, count = 0;
    int32_t *ids = arena_allocate(&call->arena, (list->count + 1) * sizeof *ids);
    int32_t *again = arena_allocate(&call->arena, (list->count + 3) * sizeof *ids);
    for (const struct json *item = list->first; item && ids; item = item->next) {
        int64_t id;
        if (!json_to_i64(item, &id) || id < 0 || id > INT32_MAX) {
            refuse(call, field, "a list of token ids must have whole numbers only");
            return false;
        }
        ids[n++] = (int32_t)id;
    }
    wisp_status status =
        wisp_detokenize(call->served->model, ids, n, NULL, NULL, 0, &length, &error);
    char *bytes = arena_allocate(&call->arena, length + 1);
    if (!ids || !again || !bytes) {
        reply_problem(call, 500, "server_error", NULL, "not enough memory for the request");
        return false;
    }
    if (status == WISP_OK)
        status = wisp_detokenize(call->served->model, ids, n, NULL, bytes, length, &length, &error);
    *text = (wisp_text){bytes, length};
    if (status == WISP_OK)
        status = wisp_tokenize(call->served->model, *text, again, n + 2, &count, &error);
    if (status != WISP_OK) {
        reply_error(call, &error);
        return false;
    }
    /* The ids may or may not have the two that begin and end a text. */
    const bool whole = count == n && memcmp(again, ids, n * sizeof *ids) == 0;
    const bool inner = count == n + 2 && memcmp(again + 1, ids, n * sizeof *ids) == 0;
    if (!whole && !inner)
        refuse(call, field, "these token ids are not those of a text; send the text");
    return whole || inner;
}

static bool is_id(const struct json *value) {
    return json_is(value, JSON_NUMBER);
}

bool texts_take(struct call *call, const struct json *input, const char *field,
                struct request_texts *t) {
    const bool list = json_is(input, JSON_ARRAY) && !is_id(input->first);
    const size_t n = list ? input->count : 1;
    if (json_is_absent(input) || n == 0) {
        refuse(call, field, "is missing or empty");
        return false;
    }
    if (n > call->api->most_texts) {
        reply_problem(call, 413, "invalid_request_error", field,
                      "%s: %zu texts are more than the %zu of a request", field, n,
                      call->api->most_texts);
        return false;
    }
    t->texts = arena_allocate(&call->arena, n * sizeof *t->texts);
    if (!t->texts) {
        reply_problem(call, 500, "server_error", NULL, "not enough memory for the request");
        return false;
    }
    for (const struct json *item = list ? input->first : input; item; item = item->next) {
        if (json_is(item, JSON_STRING))
            t->texts[t->n] = json_text(item);
        else if (!json_is(item, JSON_ARRAY)) {
            refuse(call, field, "must be a string, token ids, or a list of these");
            return false;
        } else if (!take_ids(call, item, &t->texts[t->n], field))
            return false;
        t->n++;
        if (!list)
            break;
    }
    return true;
}

bool texts_count(struct call *call, struct request_texts *t, size_t before, const char *prompt,
                 bool may_cut, const char *field) {
    const size_t most = call->served->info.max_tokens;
    for (size_t i = 0; i < t->n; i++) {
        size_t count = 0;
        wisp_error error = {0};
        if (wisp_count_prompted(call->served->model, prompt, t->texts[i], &count, &error) !=
            WISP_OK) {
            reply_error(call, &error);
            return false;
        }
        count += before;
        if (count > most && !may_cut) {
            reply_problem(call, 413, "invalid_request_error", field,
                          "%s: text %zu has %zu tokens, and the model takes %zu; \"truncate\": "
                          "true cuts it",
                          field, i, count, most);
            return false;
        }
        t->tokens += count < most ? count : most;
    }
    metrics_count_tokens(&call->api->metrics, t->tokens);
    return true;
}
