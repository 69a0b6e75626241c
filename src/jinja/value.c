/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "jinja/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number_text.h"
#include "base/utf8.h"

bool value_is(struct value value, const char *ascii) {
    if (value.type != JINJA_TEXT || strlen(ascii) != value.n)
        return false;
    for (uint32_t i = 0; i < value.n; i++)
        if ((value.as.text[i] & ~JINJA_GIVEN) != (unsigned char)ascii[i])
            return false;
    return true;
}

const struct value *value_find(struct value dict, const char *key) {
    for (uint32_t i = 0; dict.type == JINJA_DICT && i < dict.n; i++)
        if (value_is(dict.as.entries[i].key, key))
            return &dict.as.entries[i].value;
    return NULL;
}

bool value_truth(struct value value) {
    switch (value.type) {
    case JINJA_UNDEFINED:
    case JINJA_ABSENT:
    case JINJA_NONE:
    case JINJA_FALSE:
        return false;
    case JINJA_INTEGER:
        return value.as.integer != 0;
    case JINJA_REAL:
        return value.as.real->value != 0;
    case JINJA_TEXT:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        return value.n > 0;
    default:
        return true;
    }
}

bool value_to_integer(struct value value, int64_t *integer) {
    *integer = value.type == JINJA_INTEGER ? value.as.integer : value.type == JINJA_TRUE;
    return value.type == JINJA_INTEGER || value_is_boolean(value);
}

bool value_to_double(struct value value, double *number) {
    int64_t integer;
    if (value_to_integer(value, &integer))
        *number = (double)integer;
    else if (value.type == JINJA_REAL)
        *number = value.as.real->value;
    else
        return false;
    return true;
}

int text_compare(struct value a, struct value b) {
    for (uint32_t i = 0; i < a.n && i < b.n; i++) {
        const uint32_t c = a.as.text[i] & ~JINJA_GIVEN, d = b.as.text[i] & ~JINJA_GIVEN;
        if (c != d)
            return c < d ? -1 : 1;
    }
    return (a.n > b.n) - (a.n < b.n);
}

wisp_status value_from_text(struct arena *arena, wisp_text text, uint32_t mark, struct value *value,
                            wisp_error *error) {
    uint32_t *out;
    size_t n = 0;
    if (text.length > UINT32_MAX / sizeof *out)
        return fail_memory(error, text.length);
    ARENA_TAKE(arena, out, text.length, error);
    for (size_t at = 0; at < text.length; n++) {
        at += utf8_decode(text.bytes + at, text.length - at, &out[n]);
        out[n] = (out[n] == UTF8_INVALID ? 0xFFFD : out[n]) | mark;
    }
    *value = value_text(out, (uint32_t)n);
    return WISP_OK;
}

/* ---- numbers -------------------------------------------------------------------------------- */

enum { MOST_DIGITS = 17 };

/* A decimal number: 0.DIGITS times ten to the power of `point`. The first digit is not 0. */
struct decimal {
    bool is_negative;
    char digits[MOST_DIGITS + 1];
    int n;
    int point;
};

/* Reads a JSON number, without the zeros around its digits. Returns false if it has more digits
 * than a double needs. */
static bool read_decimal(const char *c, struct decimal *d) {
    bool fraction = false;
    *d = (struct decimal){.is_negative = *c == '-'};
    for (c += d->is_negative; (*c >= '0' && *c <= '9') || *c == '.'; c++) {
        if (*c == '.') {
            fraction = true;
            continue;
        }
        if (d->n == 0 && *c == '0') {
            d->point -= fraction;
            continue;
        }
        if (d->n == MOST_DIGITS + 1 || (d->n == MOST_DIGITS && *c != '0'))
            return false;
        if (d->n < MOST_DIGITS)
            d->digits[d->n++] = *c;
        d->point += !fraction;
    }
    while (d->n > 0 && d->digits[d->n - 1] == '0')
        d->n--;
    if (*c == 'e' || *c == 'E')
        d->point += (int)strtol(c + 1, NULL, 10);
    return true;
}

/* Writes a decimal as Python's repr writes a float. */
static void write_decimal(const struct decimal *d, char *out) {
    const int exponent = d->point - 1;
    if (d->is_negative)
        *out++ = '-';
    if (d->n == 0) {
        memcpy(out, "0.0", sizeof "0.0");
    } else if (exponent < -4 || exponent >= 16) {
        sprintf(out, "%c%s%.*se%c%02d", d->digits[0], d->n > 1 ? "." : "", d->n - 1, d->digits + 1,
                exponent < 0 ? '-' : '+', abs(exponent));
    } else if (d->point <= 0) {
        sprintf(out, "0.%.*s%.*s", -d->point, "0000", d->n, d->digits);
    } else if (d->point >= d->n) {
        sprintf(out, "%.*s%.*s.0", d->n, d->digits, d->point - d->n, "0000000000000000");
    } else {
        sprintf(out, "%.*s.%.*s", d->point, d->digits, d->n - d->point, d->digits + d->point);
    }
}

static wisp_status make_real(struct arena *arena, double number, const char *digits,
                             struct value *value, wisp_error *error) {
    char written[48];
    struct decimal decimal;
    struct real *real;
    if (number != number)
        snprintf(written, sizeof written, "nan");
    else if (number - number != 0)
        snprintf(written, sizeof written, "%s", number > 0 ? "inf" : "-inf");
    else if (read_decimal(digits, &decimal))
        write_decimal(&decimal, written);
    else
        return value_from_double(arena, number, value, error);
    ARENA_TAKE(arena, real, 1, error);
    real->value = number;
    real->digits = arena_copy_text(arena, written, strlen(written));
    *value = (struct value){.type = JINJA_REAL, .as.real = real};
    return real->digits ? WISP_OK : fail_memory(error, sizeof written);
}

/* Returns the number that the text spells. */
static double read_double(const char *digits) {
    const struct json number = {.type = JSON_NUMBER, .text = digits};
    double result = 0;
    json_to_double(&number, &result);
    return result;
}

wisp_status value_from_double(struct arena *arena, double number, struct value *value,
                              wisp_error *error) {
    struct number_text text = number_text(number, 15);
    for (int digits = 16; digits <= MOST_DIGITS && read_double(text.text) != number; digits++)
        text = number_text(number, digits);
    return make_real(arena, number, text.text, value, error);
}

wisp_status value_from_number(struct arena *arena, wisp_text digits, struct value *value,
                              wisp_error *error) {
    const struct json number = {
        .type = JSON_NUMBER, .text = digits.bytes, .text_length = digits.length};
    int64_t integer;
    if (json_to_i64(&number, &integer)) {
        *value = value_integer(integer);
        return WISP_OK;
    }
    return make_real(arena, read_double(digits.bytes), digits.bytes, value, error);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static wisp_status list_from_json(struct arena *arena, const struct json *json, uint32_t mark,
                                  struct value *value, wisp_error *error) {
    struct value *item;
    ARENA_TAKE(arena, item, json->count, error);
    *value = (struct value){.type = JINJA_LIST, .n = json->count, .as.items = item};
    for (const struct json *member = json->first; member; member = member->next)
        TRY(value_from_json(arena, member, mark, item++, error));
    return WISP_OK;
}

static wisp_status dict_from_json(struct arena *arena, const struct json *json, uint32_t mark,
                                  struct value *value, wisp_error *error) {
    struct entry *entry;
    ARENA_TAKE(arena, entry, json->count, error);
    *value = (struct value){.type = JINJA_DICT, .n = json->count, .as.entries = entry};
    for (const struct json *member = json->first; member; member = member->next, entry++) {
        const wisp_text key = {member->key, member->key_length};
        TRY(value_from_text(arena, key, mark, &entry->key, error));
        TRY(value_from_json(arena, member, mark, &entry->value, error));
    }
    return WISP_OK;
}

wisp_status value_from_json(struct arena *arena, const struct json *json, uint32_t mark,
                            struct value *value, wisp_error *error) {
    switch (json->type) {
    case JSON_STRING:
        return value_from_text(arena, json_text(json), mark, value, error);
    case JSON_NUMBER:
        return value_from_number(arena, json_text(json), value, error);
    case JSON_ARRAY:
        return list_from_json(arena, json, mark, value, error);
    case JSON_OBJECT:
        return dict_from_json(arena, json, mark, value, error);
    default:
        *value = value_boolean(json->type == JSON_TRUE);
        if (json->type == JSON_NULL)
            *value = (struct value){.type = JINJA_NONE};
        return WISP_OK;
    }
}
