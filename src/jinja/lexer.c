/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "jinja/lexer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jinja/characters.h"

struct name {
    struct name *next;
    const char *text;
};

wisp_status lexer_fail(struct lexer *l, uint32_t line, const char *format, ...) {
    char message[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return fail(l->error, WISP_ERROR_UNSUPPORTED, l->file, JINJA_FIELD, "line %lu: %s",
                (unsigned long)line, message);
}

const char *lexer_name(struct lexer *l, const char *name, size_t length) {
    for (const struct name *known = l->names; known; known = known->next)
        if (strlen(known->text) == length && memcmp(known->text, name, length) == 0)
            return known->text;
    struct name *added = arena_allocate(l->arena, sizeof *added);
    if (!added)
        return NULL;
    *added = (struct name){l->names, arena_copy_text(l->arena, name, length)};
    if (!added->text)
        return NULL;
    l->names = added;
    return added->text;
}

/* ---- characters ----------------------------------------------------------------------------- */

static uint32_t peek(const struct lexer *l, uint32_t ahead) {
    return l->at + ahead < l->n ? l->source[l->at + ahead] : 0;
}

/* Returns whether the source goes on with `ascii` after `ahead` characters. */
static bool follows(const struct lexer *l, uint32_t ahead, const char *ascii) {
    for (; *ascii; ascii++, ahead++)
        if (peek(l, ahead) != (unsigned char)*ascii)
            return false;
    return true;
}

static void advance(struct lexer *l, uint32_t count) {
    for (; count > 0 && l->at < l->n; count--) {
        l->begins_line = l->source[l->at++] == '\n';
        l->line += l->begins_line;
    }
}

static void skip_space(struct lexer *l) {
    while (l->at < l->n && character_is_space(l->source[l->at]))
        advance(l, 1);
}

/* Takes the end of a tag: "%}" and a line break, "-%}" and all white space, or "+%}". Returns
 * whether it is there. */
static bool take_end(struct lexer *l, const char *end, bool takes_break) {
    const bool strips = peek(l, 0) == '-' && follows(l, 1, end);
    if (strips || (takes_break && peek(l, 0) == '+' && follows(l, 1, end)))
        advance(l, 3);
    else if (follows(l, 0, end))
        advance(l, takes_break && peek(l, 2) == '\n' ? 3 : 2);
    else
        return false;
    if (strips)
        skip_space(l);
    return true;
}

/* ---- text between tags ---------------------------------------------------------------------- */

/* Returns the end of a text before a tag, of which white space may be dropped. */
static uint32_t strip_before(const struct lexer *l, uint32_t begin, uint32_t end, uint32_t sign,
                             bool is_variable, bool begins_line) {
    uint32_t from = end;
    if (sign == '+')
        return end;
    while (from > begin && character_is_space(l->source[from - 1]) &&
           (sign == '-' || l->source[from - 1] != '\n'))
        from--;
    if (sign == '-')
        return from;
    const bool whole = from == begin ? begins_line : l->source[from - 1] == '\n';
    return whole && !is_variable ? from : end;
}

/* Returns the characters from `{% raw %}` on up to its end, or 0. */
static uint32_t raw_begin(const struct lexer *l, bool *strips, const char *word) {
    uint32_t at = peek(l, 2) == '-' || peek(l, 2) == '+' ? 3 : 2;
    if (!follows(l, 0, "{%"))
        return 0;
    while (character_is_space(peek(l, at)))
        at++;
    if (!follows(l, at, word))
        return 0;
    at += (uint32_t)strlen(word);
    while (character_is_space(peek(l, at)))
        at++;
    *strips = peek(l, at) == '-';
    at += *strips || (peek(l, at) == '+' && word[0] == 'e');
    return follows(l, at, "%}") ? at + 2 : 0;
}

static void give_data(struct lexer *l, uint32_t begin, uint32_t end) {
    l->token.kind = LEX_DATA;
    l->token.value = value_text(l->source + begin, end - begin);
}

/* Takes the text between {% raw %} and {% endraw %}. */
static wisp_status take_raw(struct lexer *l, uint32_t length, bool strips) {
    const uint32_t line = l->line;
    advance(l, length);
    if (strips)
        skip_space(l);
    const uint32_t begin = l->at;
    const bool begins_line = l->begins_line;
    while ((length = raw_begin(l, &strips, "endraw")) == 0) {
        if (l->at == l->n)
            return lexer_fail(l, line, "the block raw does not end");
        advance(l, 1);
    }
    const uint32_t end = l->at;
    give_data(l, begin, strip_before(l, begin, end, peek(l, 2), false, begins_line));
    const bool keeps = l->source[l->at + length - 3] == '+';
    advance(l, length);
    if (strips)
        skip_space(l);
    else if (!keeps && peek(l, 0) == '\n')
        advance(l, 1);
    return WISP_OK;
}

/* Takes text up to the next tag, and the beginning of the tag if there is no text. */
static wisp_status next_outside(struct lexer *l) {
    const uint32_t begin = l->at;
    const bool begins_line = l->begins_line;
    while (l->at < l->n &&
           !(peek(l, 0) == '{' && (peek(l, 1) == '{' || peek(l, 1) == '%' || peek(l, 1) == '#')))
        advance(l, 1);
    const uint32_t end = l->at, type = peek(l, 1), sign = peek(l, 2);
    if (end == l->n) {
        give_data(l, begin, end);
        l->token.kind = begin == end ? LEX_END : LEX_DATA;
        return WISP_OK;
    }
    const uint32_t stripped = strip_before(l, begin, end, sign, type == '{', begins_line);
    if (stripped > begin) {
        /* The tag comes next, without the white space. */
        give_data(l, begin, stripped);
        l->begins_line = false;
        return WISP_OK;
    }
    bool strips;
    const uint32_t raw = raw_begin(l, &strips, "raw");
    if (raw > 0)
        return take_raw(l, raw, strips);
    const uint32_t line = l->line;
    advance(l, sign == '-' || sign == '+' ? 3 : 2);
    if (type == '#') {
        while (!take_end(l, "#}", true)) {
            if (l->at == l->n)
                return lexer_fail(l, line, "a comment does not end");
            advance(l, 1);
        }
        return lexer_next(l);
    }
    l->within = true;
    l->is_block = type == '%';
    l->open = 0;
    l->token.kind = l->is_block ? LEX_BLOCK_BEGIN : LEX_VARIABLE_BEGIN;
    return WISP_OK;
}

/* ---- within tags ---------------------------------------------------------------------------- */

static int digit_of(uint32_t c) {
    return c >= '0' && c <= '9'   ? (int)c - '0'
           : c >= 'a' && c <= 'f' ? (int)c - 'a' + 10
           : c >= 'A' && c <= 'F' ? (int)c - 'A' + 10
                                  : 99;
}

/* Takes up to `most` digits of a code point. */
static uint32_t take_digits(struct lexer *l, int most, int base) {
    uint32_t code_point = 0;
    for (; most > 0 && digit_of(peek(l, 0)) < base; most--, advance(l, 1))
        code_point = code_point * (uint32_t)base + (uint32_t)digit_of(peek(l, 0));
    return code_point <= 0x10FFFF ? code_point : 0xFFFD;
}

/* Takes an escape, as Python has them, whose backslash has been taken. Returns the number of its
 * characters, 0 to 2. */
static uint32_t take_escape(struct lexer *l, uint32_t out[2]) {
    static const char letters[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    const uint32_t c = peek(l, 0);
    const char *found = c > 0 && c < 0x80 ? strchr(letters, (int)c) : NULL;
    if (digit_of(c) < 8) {
        out[0] = take_digits(l, 3, 8);
        return 1;
    }
    advance(l, 1);
    out[0] = found ? (unsigned char)values[found - letters] : '\\';
    if (found || c == '\n')
        return c != '\n';
    if (c == 'x' || c == 'u' || c == 'U') {
        out[0] = take_digits(l, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16);
        return 1;
    }
    out[1] = c; /* an unknown escape stands for itself */
    return 2;
}

static wisp_status take_text(struct lexer *l) {
    const uint32_t quote = peek(l, 0), line = l->line;
    uint32_t *out, n = 0, end = 1;
    while (peek(l, end) != quote) {
        end += peek(l, end) == '\\' ? 2 : 1;
        if (l->at + end >= l->n)
            return lexer_fail(l, line, "a text in quotes does not end");
    }
    ARENA_TAKE(l->arena, out, (size_t)end, l->error);
    advance(l, 1);
    for (const uint32_t stop = l->at + end - 1; l->at < stop;) {
        const uint32_t c = peek(l, 0);
        advance(l, 1);
        if (c == '\\')
            n += take_escape(l, out + n);
        else
            out[n++] = c;
    }
    advance(l, 1);
    l->token.kind = LEX_TEXT;
    l->token.value = value_text(out, n);
    return WISP_OK;
}

static bool is_digit(uint32_t c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(uint32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static wisp_status take_word(struct lexer *l, enum token_kind kind) {
    char word[128];
    size_t n = 0;
    bool dot = false;
    for (;; advance(l, 1)) {
        const uint32_t c = peek(l, 0);
        const bool exponent = kind == LEX_NUMBER && (c == 'e' || c == 'E');
        const bool sign = (c == '-' || c == '+') && n > 0 && (word[n - 1] | 32) == 'e';
        if (kind == LEX_NAME && c > 0x7F)
            return lexer_fail(l, l->line, "names of other letters than a to z");
        if (kind == LEX_NUMBER && c == '.' && !dot && is_digit(peek(l, 1)))
            dot = true;
        else if (kind == LEX_NUMBER ? !is_digit(c) && !exponent && !sign && c != '_'
                                    : !is_digit(c) && !is_letter(c))
            break;
        if (n == sizeof word - 1)
            return lexer_fail(l, l->line, "a name or a number of more than 127 characters");
        if (kind == LEX_NAME || c != '_')
            word[n++] = (char)c;
    }
    if (kind == LEX_NUMBER && is_letter(peek(l, 0)))
        return lexer_fail(l, l->line, "a number with letters");
    l->token.kind = kind;
    l->token.word = lexer_name(l, word, n);
    return l->token.word ? WISP_OK : fail_memory(l->error, n);
}

/* Takes an operator, and checks that brackets match. */
static wisp_status take_operator(struct lexer *l) {
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                                            "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                            ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    static const char opening[] = "[({", closing[] = "])}";
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!follows(l, 0, operators[i]))
            continue;
        const char c = operators[i][0], *opens = strchr(opening, c), *closes = strchr(closing, c);
        if (opens && l->open == sizeof l->brackets)
            return lexer_fail(l, l->line, "brackets are nested too deeply");
        if (opens)
            l->brackets[l->open++] = closing[opens - opening];
        if (closes && (l->open == 0 || l->brackets[l->open - 1] != c))
            return lexer_fail(l, l->line, "'%c' closes no bracket", c);
        if (closes)
            l->open--;
        advance(l, (uint32_t)strlen(operators[i]));
        l->token.kind = LEX_OPERATOR;
        snprintf(l->token.name, sizeof l->token.name, "%s", operators[i]);
        return WISP_OK;
    }
    return lexer_fail(l, l->line, "the character U+%04lX within a tag", (unsigned long)peek(l, 0));
}

static wisp_status next_within(struct lexer *l) {
    skip_space(l);
    l->token.line = l->line;
    const uint32_t c = peek(l, 0);
    if (l->at == l->n)
        return lexer_fail(l, l->line, "a tag does not end");
    if (l->open == 0 && take_end(l, l->is_block ? "%}" : "}}", l->is_block)) {
        l->token.kind = l->is_block ? LEX_BLOCK_END : LEX_VARIABLE_END;
        l->within = false;
        return WISP_OK;
    }
    if (c == '\'' || c == '"')
        return take_text(l);
    if (is_digit(c))
        return take_word(l, LEX_NUMBER);
    if (is_letter(c) || c > 0x7F)
        return take_word(l, LEX_NAME);
    return take_operator(l);
}

wisp_status lexer_next(struct lexer *l) {
    l->token = (struct token){.line = l->line};
    return l->within ? next_within(l) : next_outside(l);
}

wisp_status lexer_open(struct lexer *l, wisp_text source) {
    struct value text;
    uint32_t *out, n = 0;
    TRY(value_from_text(l->arena, source, 0, &text, l->error));
    ARENA_TAKE(l->arena, out, (size_t)text.n, l->error);
    for (uint32_t i = 0; i < text.n; i++) {
        const uint32_t c = text.as.text[i];
        if (c == '\n' && i > 0 && text.as.text[i - 1] == '\r')
            continue;
        out[n++] = c == '\r' ? '\n' : c;
    }
    if (n > 0 && out[n - 1] == '\n')
        n--;
    l->source = out;
    l->n = n;
    l->line = 1;
    l->begins_line = true;
    return lexer_next(l);
}
