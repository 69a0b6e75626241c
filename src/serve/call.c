/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void call_new_id(struct call *call, const char *prefix, char *id, size_t size) {
    const unsigned long long number = atomic_fetch_add(&call->api->calls, 1);
    snprintf(id, size, "%s%08llx%08llx", prefix, (unsigned long long)time(NULL), number);
}

void reply_json(struct call *call, struct text_buffer *text) {
    if (text->failed)
        reply_problem(call, 500, "server_error", NULL, "not enough memory for the reply");
    else
        web_reply(call->request, 200, "application/json", text->bytes, text->length, NULL);
    free(text->bytes);
}

void reply_problem(struct call *call, int status, const char *type, const char *field,
                   const char *format, ...) {
    char message[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    struct text_buffer text = {0};
    text_print(&text, "{\"error\":{\"message\":");
    text_add_string(&text, wisp_text_of(message));
    text_print(&text, ",\"type\":\"%s\",\"param\":", type);
    if (field)
        text_add_string(&text, wisp_text_of(field));
    else
        text_print(&text, "null");
    text_print(&text, ",\"code\":%d}}\n", status);
    char retry[40];
    const unsigned seconds = status == 429 ? 1 : call->retry_seconds;
    snprintf(retry, sizeof retry, "Retry-After: %u\r\n", seconds);
    web_reply(call->request, status, "application/json", text.failed ? "" : text.bytes,
              text.failed ? 0 : text.length, seconds ? retry : NULL);
    free(text.bytes);
}

bool reply_invalid(struct call *call, const char *field, const char *problem) {
    reply_problem(call, 400, "invalid_request_error", field, "%s: %s", field, problem);
    return false;
}

bool take_flag(struct call *call, const struct json *object, const char *field, bool *value) {
    const struct json *given = json_get(object, field);
    if (json_is_absent(given) || json_to_bool(given, value))
        return true;
    return reply_invalid(call, field, "must be true or false");
}

const char *public_message(const wisp_error *error) {
    const size_t length = strlen(error->file);
    const bool begins = length > 0 && strncmp(error->message, error->file, length) == 0;
    return begins && strncmp(error->message + length, ": ", 2) == 0 ? error->message + length + 2
                                                                    : error->message;
}

void reply_error(struct call *call, const wisp_error *error) {
    const bool theirs =
        error->status == WISP_ERROR_ARGUMENT || error->status == WISP_ERROR_FORMAT ||
        error->status == WISP_ERROR_NOT_FOUND || error->status == WISP_ERROR_UNSUPPORTED;
    reply_problem(call, theirs ? 400 : 500, theirs ? "invalid_request_error" : "server_error",
                  *error->field ? error->field : NULL, "%s", public_message(error));
}
