/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

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
    }
    return "unknown";
}

/* Appends formatted text at *used, cutting it to what fits. */
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

void set_error(wisp_error *error, wisp_status status, const char *file, const char *field,
               const char *format, ...) {
    if (!error)
        return;
    *error = (wisp_error){.status = status};
    size_t used = 0;
    if (file && *file) {
        snprintf(error->file, sizeof error->file, "%s", file);
        append_prefix(error->message, sizeof error->message, &used, "%s: ", file);
    }
    if (field && *field) {
        snprintf(error->field, sizeof error->field, "%s", field);
        append_prefix(error->message, sizeof error->message, &used, "%s: ", field);
    }
    va_list args;
    va_start(args, format);
    append(error->message, sizeof error->message, &used, format, args);
    va_end(args);
}
