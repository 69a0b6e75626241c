/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

const char *wisp_status_name(wisp_status status) {
    switch (status) {
    case WISP_OK:
        return "ok";
    case WISP_ERROR_ARGUMENT:
        return "argument";
    case WISP_ERROR_MEMORY:
        return "memory";
    case WISP_ERROR_IO:
        return "io";
    case WISP_ERROR_NOT_FOUND:
        return "not_found";
    case WISP_ERROR_FORMAT:
        return "format";
    case WISP_ERROR_UNSUPPORTED:
        return "unsupported";
    case WISP_ERROR_CANCELLED:
        return "cancelled";
    case WISP_NEED_RANGES:
        return "need_ranges";
    }
    return "unknown";
}

/* Appends formatted text at *used, cut to the capacity. */
static void append(char *text, size_t capacity, size_t *used, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));

static void append(char *text, size_t capacity, size_t *used, const char *format, va_list args) {
    if (*used >= capacity)
        return;
    const int length = vsnprintf(text + *used, capacity - *used, format, args);
    if (length > 0)
        *used += (size_t)length;
}

static void append_prefix(char *text, size_t capacity, size_t *used, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void append_prefix(char *text, size_t capacity, size_t *used, const char *format, ...) {
    va_list args;
    va_start(args, format);
    append(text, capacity, used, format, args);
    va_end(args);
}

/* Replaces control characters and invalid UTF-8 by '?'. Names come from files, whose control
 * characters could change the terminal that shows the message, and cutting may have split a
 * character. */
static void make_printable(char *text) {
    const char *end = text + strlen(text);
    while (text < end) {
        uint32_t c;
        const size_t length = utf8_decode(text, (size_t)(end - text), &c);
        if (c == UTF8_INVALID || c < 0x20 || (c >= 0x7F && c < 0xA0))
            memset(text, '?', length);
        text += length;
    }
}

void set_error(wisp_error *error, wisp_status status, const char *file, const char *field,
               const char *format, ...) {
    if (!error)
        return;
    *error = (wisp_error){.status = status};
    /* Names are cut, so that the message keeps room for the formatted text. */
    size_t used = 0;
    if (file && *file) {
        snprintf(error->file, sizeof error->file, "%s", file);
        append_prefix(error->message, sizeof error->message, &used, "%.300s: ", file);
    }
    if (field && *field) {
        snprintf(error->field, sizeof error->field, "%s", field);
        append_prefix(error->message, sizeof error->message, &used, "%s: ", error->field);
    }
    va_list args;
    va_start(args, format);
    append(error->message, sizeof error->message, &used, format, args);
    va_end(args);
    make_printable(error->file);
    make_printable(error->field);
    make_printable(error->message);
}

wisp_status require(const void *argument, const char *name, wisp_error *error) {
    return argument ? WISP_OK : fail(error, WISP_ERROR_ARGUMENT, NULL, name, "must not be NULL");
}

wisp_status require_texts(const wisp_text *texts, size_t n, wisp_error *error) {
    if (n > 0)
        TRY(require(texts, "texts", error));
    for (size_t i = 0; i < n; i++)
        if (texts[i].length > 0 && !texts[i].bytes)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "texts",
                        "the bytes of text %zu are NULL, but its length is %zu", i,
                        texts[i].length);
    return WISP_OK;
}
