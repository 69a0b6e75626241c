/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/text_buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/byte_order.h"
#include "base/json_write.h"
#include "base/number_text.h"

/* Makes room for `length` more bytes and returns their place, or NULL. */
static char *take(struct text_buffer *text, size_t length) {
    if (text->failed)
        return NULL;
    if (text->capacity - text->length < length) {
        const size_t capacity = text->capacity * 2 + length + 256;
        char *bytes = realloc(text->bytes, capacity);
        if (!bytes) {
            text->failed = true;
            return NULL;
        }
        text->bytes = bytes;
        text->capacity = capacity;
    }
    char *place = text->bytes + text->length;
    text->length += length;
    return place;
}

void text_add(struct text_buffer *text, const char *bytes, size_t length) {
    char *place = take(text, length);
    if (place && length > 0)
        memcpy(place, bytes, length);
}

void text_print(struct text_buffer *text, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n < 0 || (size_t)n >= sizeof line)
        text->failed = true;
    else
        text_add(text, line, (size_t)n);
}

void text_add_number(struct text_buffer *text, double value, int digits) {
    char number[NUMBER_TEXT];
    text_add(text, number, number_write(number, value, digits));
}

static wisp_status write_to_buffer(void *context, const void *bytes, size_t length,
                                   wisp_error *error) {
    (void)error;
    text_add(context, bytes, length);
    return WISP_OK; /* the buffer remembers its failure */
}

void text_add_string(struct text_buffer *text, wisp_text string) {
    const struct byte_sink sink = {write_to_buffer, text};
    json_write_string(&sink, string, NULL);
}

void text_add_buffer(struct text_buffer *text, struct text_buffer *string) {
    text_add_string(text, (wisp_text){string->length ? string->bytes : "", string->length});
    text->failed = text->failed || string->failed;
    free(string->bytes);
    *string = (struct text_buffer){0};
}

void text_add_floats(struct text_buffer *text, const float *values, size_t n) {
    char *place = take(text, 2 + n * (1 + NUMBER_TEXT));
    if (!place)
        return;
    for (size_t i = 0; i < n; i++) {
        *place++ = i ? ',' : '[';
        place += number_write(place, (double)values[i], 9);
    }
    memcpy(place, n ? "]" : "[]", n ? 1 : 2);
    text->length = (size_t)(place - text->bytes) + (n ? 1 : 2);
}

void text_add_base64(struct text_buffer *text, const float *values, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t length = n * sizeof *values;
    char *place = take(text, 2 + (length + 2) / 3 * 4);
    if (!place)
        return;
    *place++ = '"';
    for (size_t i = 0; i < length; i += 3) {
        uint32_t group = 0;
        for (size_t k = i; k < i + 3; k++) {
            unsigned char bytes[4] = {0};
            if (k < length) {
                uint32_t bits;
                memcpy(&bits, values + k / 4, sizeof bits);
                store_u32(bytes, bits);
            }
            group = group << 8 | bytes[k % 4];
        }
        for (int k = 0; k < 4; k++)
            *place++ = i + (size_t)k > length ? '=' : digits[group >> (18 - 6 * k) & 63];
    }
    *place = '"';
}
