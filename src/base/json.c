/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

struct parser {
    const char *text;
    size_t length;
    size_t at;
    unsigned depth;
    struct arena *arena;
    const char *file;
    wisp_error *error;
};

static wisp_status parse_value(struct parser *p, struct json *value);

/* Fails with the line and column of p->at. `problem` says what is wrong with the text. */
static wisp_status malformed(struct parser *p, const char *problem) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < p->at && i < p->length; i++) {
        column++;
        if (p->text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return fail(p->error, WISP_ERROR_FORMAT, p->file, NULL, "line %zu, column %zu: %s", line,
                column, problem);
}

static int peek(const struct parser *p) {
    return p->at < p->length ? (unsigned char)p->text[p->at] : -1;
}

static void skip_space(struct parser *p) {
    for (int c; (c = peek(p)) == ' ' || c == '\t' || c == '\r' || c == '\n';)
        p->at++;
}

static bool accept(struct parser *p, char expected) {
    if (peek(p) != (unsigned char)expected)
        return false;
    p->at++;
    return true;
}

static wisp_status parse_literal(struct parser *p, const char *literal, enum json_type type,
                                 struct json *value) {
    const size_t length = strlen(literal);
    if (p->length - p->at < length || memcmp(p->text + p->at, literal, length) != 0)
        return malformed(p, "not a JSON value");
    p->at += length;
    value->type = type;
    return WISP_OK;
}

static size_t skip_digits(struct parser *p) {
    const size_t start = p->at;
    while (peek(p) >= '0' && peek(p) <= '9')
        p->at++;
    return p->at - start;
}

static wisp_status parse_number(struct parser *p, struct json *value) {
    const size_t start = p->at;
    accept(p, '-');
    const bool leading_zero = peek(p) == '0';
    const size_t digits = skip_digits(p);
    if (digits == 0 || (leading_zero && digits > 1))
        return malformed(p, "not a JSON number");
    if (accept(p, '.') && skip_digits(p) == 0)
        return malformed(p, "a number ends after its decimal point");
    if (accept(p, 'e') || accept(p, 'E')) {
        if (!accept(p, '+'))
            accept(p, '-');
        if (skip_digits(p) == 0)
            return malformed(p, "a number ends after its exponent sign");
    }
    value->type = JSON_NUMBER;
    value->text_length = p->at - start;
    value->text = arena_copy_text(p->arena, p->text + start, value->text_length);
    return value->text ? WISP_OK : fail_memory(p->error, value->text_length);
}

static bool parse_hex4(struct parser *p, uint32_t *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        const int c = peek(p);
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A' + 10);
        else
            return false;
        *unit = *unit * 16 + digit;
        p->at++;
    }
    return true;
}

/* Parses the four digits of \uXXXX, and the second escape of a surrogate pair. */
static wisp_status parse_unicode_escape(struct parser *p, uint32_t *code_point) {
    uint32_t unit, low;
    if (!parse_hex4(p, &unit))
        return malformed(p, "\\u needs four hexadecimal digits");
    if (unit >= 0xD800 && unit <= 0xDFFF) {
        if (unit >= 0xDC00 || !accept(p, '\\') || !accept(p, 'u') || !parse_hex4(p, &low) ||
            low < 0xDC00 || low > 0xDFFF)
            return malformed(p, "a lone surrogate");
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    *code_point = unit;
    return WISP_OK;
}

/* Parses the escape whose backslash has been read, and appends its character to `out`. */
static wisp_status parse_escape(struct parser *p, char *out, size_t *used) {
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const int c = peek(p);
    p->at++;
    if (c == 'u') {
        uint32_t code_point = 0;
        TRY(parse_unicode_escape(p, &code_point));
        *used += utf8_encode(code_point, out + *used);
        return WISP_OK;
    }
    const char *found = c > 0 ? strchr(letters, c) : NULL;
    if (!found)
        return malformed(p, "an unknown escape");
    out[(*used)++] = values[found - letters];
    return WISP_OK;
}

/* Finds the quote that closes the string whose first character is at p->at. */
static wisp_status find_closing_quote(struct parser *p, size_t *end) {
    size_t at = p->at;
    while (at < p->length && p->text[at] != '"')
        at += p->text[at] == '\\' ? 2 : 1;
    if (at >= p->length) {
        p->at = p->length;
        return malformed(p, "the text ends inside a string");
    }
    *end = at;
    return WISP_OK;
}

/* Parses a string whose opening quote has been read. The decoded string is never longer than the
 * text in the file, because every escape is longer than the character that it stands for. */
static wisp_status parse_string(struct parser *p, const char **text, size_t *length) {
    size_t end = 0, used = 0;
    TRY(find_closing_quote(p, &end));
    char *out = arena_allocate(p->arena, end - p->at + 1);
    if (!out)
        return fail_memory(p->error, end - p->at + 1);
    while (p->at < end) {
        const unsigned char c = (unsigned char)p->text[p->at];
        if (c < 0x20)
            return malformed(p, "a control character inside a string");
        if (c == '\\') {
            p->at++;
            TRY(parse_escape(p, out, &used));
            continue;
        }
        uint32_t code_point;
        const size_t step = utf8_decode(p->text + p->at, end - p->at, &code_point);
        if (code_point == UTF8_INVALID)
            return malformed(p, "not valid UTF-8");
        memcpy(out + used, p->text + p->at, step);
        used += step;
        p->at += step;
    }
    p->at = end + 1;
    *text = out;
    *length = used;
    return WISP_OK;
}

static int compare_keys(const void *a, const void *b) {
    const struct json *x = *(const struct json *const *)a, *y = *(const struct json *const *)b;
    const size_t shorter = x->key_length < y->key_length ? x->key_length : y->key_length;
    const int order = memcmp(x->key, y->key, shorter);
    if (order != 0)
        return order;
    return (x->key_length > y->key_length) - (x->key_length < y->key_length);
}

static wisp_status reject_repeated_keys(struct parser *p, const struct json *object) {
    if (object->count < 2)
        return WISP_OK;
    const size_t bytes = object->count * sizeof(const struct json *);
    const struct json **members = malloc(bytes);
    if (!members)
        return fail_memory(p->error, bytes);
    size_t n = 0;
    for (const struct json *member = object->first; member; member = member->next)
        members[n++] = member;
    qsort(members, n, sizeof *members, compare_keys);
    wisp_status status = WISP_OK;
    for (size_t i = 1; i < n && status == WISP_OK; i++)
        if (compare_keys(&members[i - 1], &members[i]) == 0)
            status = fail(p->error, WISP_ERROR_FORMAT, p->file, members[i]->key,
                          "the key appears twice in one object");
    free((void *)members);
    return status;
}

static wisp_status parse_key(struct parser *p, struct json *member) {
    skip_space(p);
    member->raw_key = p->text + p->at;
    if (!accept(p, '"'))
        return malformed(p, "an object needs a quoted key here");
    TRY(parse_string(p, &member->key, &member->key_length));
    skip_space(p);
    return accept(p, ':') ? WISP_OK : malformed(p, "a key needs a colon after it");
}

/* Parses the members of an array or object up to its closing bracket. */
static wisp_status parse_members(struct parser *p, struct json *value, char closing) {
    const struct json **link = &value->first;
    skip_space(p);
    if (accept(p, closing))
        return WISP_OK;
    for (;;) {
        struct json *member = arena_allocate(p->arena, sizeof *member);
        if (!member)
            return fail_memory(p->error, sizeof *member);
        if (closing == '}')
            TRY(parse_key(p, member));
        TRY(parse_value(p, member));
        *link = member;
        link = &member->next;
        value->count++;
        skip_space(p);
        if (accept(p, closing))
            return WISP_OK;
        if (!accept(p, ','))
            return malformed(p, "a comma or a closing bracket is missing");
    }
}

static wisp_status parse_container(struct parser *p, struct json *value, enum json_type type,
                                   char closing) {
    if (p->depth == JSON_MAX_DEPTH)
        return malformed(p, "nested too deeply");
    p->depth++;
    p->at++;
    value->type = type;
    TRY(parse_members(p, value, closing));
    p->depth--;
    return type == JSON_OBJECT ? reject_repeated_keys(p, value) : WISP_OK;
}

static wisp_status parse_any(struct parser *p, struct json *value) {
    switch (peek(p)) {
    case '{':
        return parse_container(p, value, JSON_OBJECT, '}');
    case '[':
        return parse_container(p, value, JSON_ARRAY, ']');
    case '"':
        p->at++;
        value->type = JSON_STRING;
        return parse_string(p, &value->text, &value->text_length);
    case 't':
        return parse_literal(p, "true", JSON_TRUE, value);
    case 'f':
        return parse_literal(p, "false", JSON_FALSE, value);
    case 'n':
        return parse_literal(p, "null", JSON_NULL, value);
    default:
        return parse_number(p, value);
    }
}

static wisp_status parse_value(struct parser *p, struct json *value) {
    skip_space(p);
    value->raw = p->text + p->at;
    TRY(parse_any(p, value));
    value->raw_length = (size_t)(p->text + p->at - value->raw);
    return WISP_OK;
}

wisp_status json_parse(struct arena *arena, const char *text, size_t length, const char *file,
                       const struct json **root, wisp_error *error) {
    struct parser p = {
        .text = text, .length = length, .arena = arena, .file = file, .error = error};
    p.at = utf8_mark(text, length);
    struct json *value = arena_allocate(arena, sizeof *value);
    if (!value)
        return fail_memory(error, sizeof *value);
    TRY(parse_value(&p, value));
    skip_space(&p);
    if (p.at != p.length)
        return malformed(&p, "text after the end of the value");
    *root = value;
    return WISP_OK;
}

/* Appends what closes the arrays and objects that are open. */
static char *close_all(char *at, const char *openers, size_t depth) {
    while (depth-- > 0)
        *at++ = openers[depth] == '[' ? ']' : '}';
    return at;
}

bool json_begin_array(struct arena *arena, wisp_text array, size_t most, wisp_text *beginning) {
    char openers[JSON_MAX_DEPTH];
    size_t whole = 0, within = 0, depth = 0; /* places to cut: after an element, and in a text */
    bool in_string = false;
    for (size_t i = 0; i < array.length && i < most; i++) {
        const char c = array.bytes[i];
        const bool escapes = in_string && c == '\\';
        if (in_string && !escapes && (unsigned char)c < 0x80)
            within = i;
        if (escapes)
            i += i + 1 < array.length && array.bytes[i + 1] == 'u' ? 5 : 1;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '[' || c == '{') && depth < sizeof openers)
            openers[depth++] = c;
        else if (!in_string && (c == ']' || c == '}') && depth > 0)
            depth--;
        else if (!in_string && c == ',' && depth == 1)
            whole = i;
    }
    const bool cuts = whole < most / 2 && in_string;
    const size_t end = cuts ? within : whole;
    char *copy = end > 0 ? arena_allocate(arena, end + 1 + sizeof openers) : NULL;
    if (!copy)
        return false;
    memcpy(copy, array.bytes, end);
    copy[end] = cuts ? '"' : ']';
    beginning->length =
        (size_t)((cuts ? close_all(copy + end + 1, openers, depth) : copy + end + 1) - copy);
    beginning->bytes = copy;
    return true;
}

const struct json *json_get(const struct json *object, const char *key) {
    if (!json_is(object, JSON_OBJECT))
        return NULL;
    const size_t length = strlen(key);
    for (const struct json *member = object->first; member; member = member->next)
        if (member->key_length == length && memcmp(member->key, key, length) == 0)
            return member;
    return NULL;
}

bool json_equals(const struct json *value, const char *text) {
    return json_is(value, JSON_STRING) && value->text_length == strlen(text) &&
           memcmp(value->text, text, value->text_length) == 0;
}

bool json_to_u64(const struct json *value, uint64_t *result) {
    if (!json_is(value, JSON_NUMBER))
        return false;
    uint64_t total = 0;
    for (size_t i = 0; i < value->text_length; i++) {
        const char c = value->text[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(total, UINT64_C(10), &total) ||
            __builtin_add_overflow(total, (uint64_t)(c - '0'), &total))
            return false;
    }
    *result = total;
    return true;
}

bool json_to_i64(const struct json *value, int64_t *result) {
    if (!json_is(value, JSON_NUMBER))
        return false;
    struct json magnitude = *value;
    const bool negative = value->text[0] == '-';
    if (negative) {
        magnitude.text++;
        magnitude.text_length--;
    }
    uint64_t total;
    if (!json_to_u64(&magnitude, &total) || total > (uint64_t)INT64_MAX)
        return false;
    *result = negative ? -(int64_t)total : (int64_t)total;
    return true;
}

static double power_of_ten(int exponent) {
    double result = 1, base = 10;
    for (unsigned n = (unsigned)abs(exponent); n; n >>= 1) {
        if (n & 1)
            result *= base;
        base *= base;
    }
    return exponent < 0 ? 1 / result : result;
}

/* Replaces strtod, which follows the host program's locale and may expect a decimal comma. */
bool json_to_double(const struct json *value, double *result) {
    if (!json_is(value, JSON_NUMBER))
        return false;
    const char *c = value->text;
    const bool negative = *c == '-';
    c += negative;
    double mantissa = 0;
    int scale = 0;
    for (bool fraction = false; (*c >= '0' && *c <= '9') || *c == '.'; c++) {
        if (*c == '.') {
            fraction = true;
            continue;
        }
        mantissa = mantissa * 10 + (*c - '0');
        scale -= fraction;
    }
    if (*c == 'e' || *c == 'E') {
        const bool down = *++c == '-';
        c += *c == '-' || *c == '+';
        int exponent = 0;
        for (; *c; c++)
            exponent = exponent < 10000 ? exponent * 10 + (*c - '0') : exponent;
        scale += down ? -exponent : exponent;
    }
    if (mantissa > 0) /* the power may be infinite, and 0 times infinity is NaN */
        mantissa = scale < 0 ? mantissa / power_of_ten(-scale) : mantissa * power_of_ten(scale);
    *result = negative ? -mantissa : mantissa;
    return true;
}

bool json_to_bool(const struct json *value, bool *result) {
    if (!json_is(value, JSON_TRUE) && !json_is(value, JSON_FALSE))
        return false;
    *result = value->type == JSON_TRUE;
    return true;
}
