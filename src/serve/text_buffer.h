/* SPDX-License-Identifier: Apache-2.0
 * Text that grows: the body of a reply. When memory runs out, `failed` is set, and what follows is
 * not added. It starts as zeros; free(bytes) releases it. */
#ifndef WISP_SERVE_TEXT_BUFFER_H
#define WISP_SERVE_TEXT_BUFFER_H

#include "wisp.h"

struct text_buffer {
    char *bytes;
    size_t length, capacity;
    bool failed;
};

void text_add(struct text_buffer *text, const char *bytes, size_t length);

/* Adds what printf would print. Numbers with a fraction go through text_add_number, because printf
 * writes the locale's decimal point. */
__attribute__((format(printf, 2, 3))) void text_print(struct text_buffer *text, const char *format,
                                                      ...);

/* Adds a number with up to `digits` significant digits. */
void text_add_number(struct text_buffer *text, double value, int digits);

/* Adds a string of JSON (base/json_write.h). */
void text_add_string(struct text_buffer *text, wisp_text string);

/* Adds what is in another buffer as a string of JSON, and frees that buffer. */
void text_add_buffer(struct text_buffer *text, struct text_buffer *string);

/* Adds n floats as a JSON array, or as a JSON string with their little-endian bytes in base64. */
void text_add_floats(struct text_buffer *text, const float *values, size_t n);
void text_add_base64(struct text_buffer *text, const float *values, size_t n);

#endif
