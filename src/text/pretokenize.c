/* SPDX-License-Identifier: Apache-2.0
 * Sources: the patterns in the tokenizers of GPT-2, Llama 3 and Qwen2. Each function repeats its
 * pattern; alternatives are tried in the pattern's order. */
#include "text/pretokenize.h"

#include <string.h>

#include "text/unicode_classes.h"

/* ---- characters ----------------------------------------------------------------------------- */

/* Characters by enum unicode_class, with two more. */
enum { OTHER, LETTER, NUMBER, BLANK, BREAK /* \r and \n */, END /* of the text */ };

_Static_assert((int)OTHER == UNICODE_OTHER && (int)LETTER == UNICODE_LETTER &&
                   (int)NUMBER == UNICODE_NUMBER && (int)BLANK == UNICODE_BLANK,
               "classes are passed on");

/* Returns the class of the character at `at`; *next is where the following one begins. The UTF-8 is
 * well-formed, so the lead byte tells the length. */
static inline int class_at(const char *at, const char *end, const char **next) {
    const unsigned char *b = (const unsigned char *)at;
    uint32_t c;
    *next = at;
    if (at == end)
        return END;
    if (b[0] < 0x80) {
        *next = at + 1;
        return b[0] == '\r' || b[0] == '\n' ? BREAK : (int)unicode_class(b[0]);
    }
    if (b[0] < 0xE0) {
        c = (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu);
        *next = at + 2;
    } else if (b[0] < 0xF0) {
        c = (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu);
        *next = at + 3;
    } else {
        c = (b[0] & 0x07u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 | (b[3] & 0x3Fu);
        *next = at + 4;
    }
    return (int)unicode_class(c);
}

/* Returns where the run of characters of a class that begins at `at` ends, after `most` of them at
 * the latest. */
static inline const char *run_end(const char *at, const char *end, int class, size_t most) {
    const char *next;
    for (; most > 0 && class_at(at, end, &next) == class; most--)
        at = next;
    return at;
}

/* ---- parts of patterns ---------------------------------------------------------------------- */

/* Returns the bytes that 's|'t|'re|'ve|'m|'ll|'d match at `text`, or 0. With `any_case` letters may
 * be capitals; U+017F is an s in another case. */
static size_t contraction(const char *text, const char *end, bool any_case) {
    const size_t length = (size_t)(end - text);
    const int bit = any_case ? 0x20 : 0; /* turns capitals into small letters */
    if (length < 2 || text[0] != '\'')
        return 0;
    const int first = text[1] | bit, second = length > 2 ? text[2] | bit : 0;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return 2;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
        (first == 'l' && second == 'l'))
        return 3;
    return any_case && length > 2 && memcmp(text + 1, "\xC5\xBF", 2) == 0 ? 3 : 0;
}

/* Returns the bytes that \s+(?!\S)|\s+ match: a run of white space, without its last character
 * where something else follows the run. With `breaks`, \s*[\r\n]+ is tried first, which matches the
 * run up to its last line break. */
static size_t white_space(const char *text, const char *end, bool breaks) {
    const char *at = text, *last = text, *broken = NULL, *next;
    for (int class; (class = class_at(at, end, &next)) == BLANK || class == BREAK; at = next) {
        last = at;
        if (class == BREAK)
            broken = next;
    }
    if (breaks && broken)
        return (size_t)(broken - text);
    return (size_t)((at == end || last == text ? at : last) - text);
}

/* ---- patterns ------------------------------------------------------------------------------- */

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t next_gpt2(const char *text, const char *end) {
    const size_t contracted = contraction(text, end, false);
    const char *after, *start = text + (*text == ' ');
    if (contracted > 0)
        return contracted;
    const int class = class_at(start, end, &after);
    if (class == LETTER || class == NUMBER || class == OTHER)
        return (size_t)(run_end(after, end, class, SIZE_MAX) - text);
    return white_space(text, end, false);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}
 *     | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static inline size_t next_modern(const char *text, const char *end, size_t digits) {
    const size_t contracted = contraction(text, end, true);
    const char *after, *later;
    if (contracted > 0)
        return contracted;
    int class = class_at(text, end, &after);
    if (class == LETTER)
        return (size_t)(run_end(after, end, LETTER, SIZE_MAX) - text);
    if (class == NUMBER)
        return (size_t)(run_end(after, end, NUMBER, digits - 1) - text);
    if (class != BREAK) {
        const int second = class_at(after, end, &later);
        if (second == LETTER)
            return (size_t)(run_end(later, end, LETTER, SIZE_MAX) - text);
        if (*text == ' ' && second == OTHER)
            class = OTHER;
    }
    if (class == OTHER) {
        const char *others = run_end(after, end, OTHER, SIZE_MAX);
        return (size_t)(run_end(others, end, BREAK, SIZE_MAX) - text);
    }
    return white_space(text, end, true);
}

static size_t next_llama(const char *text, const char *end) {
    return next_modern(text, end, 3);
}

static size_t next_qwen(const char *text, const char *end) {
    return next_modern(text, end, 1);
}

static const struct pretokenizer pretokenizers[] = {
    {.name = "gpt-2", .next = next_gpt2},
    {.name = "llama-bpe", .next = next_llama, .ignores_merges = true, .adds_bos = true},
    {.name = "lfm2", .next = next_llama, .ignores_merges = true, .adds_bos = true},
    {.name = "qwen2", .next = next_qwen, .composes = true},
};

const struct pretokenizer *pretokenizer_find(const char *name) {
    for (size_t i = 0; i < sizeof pretokenizers / sizeof *pretokenizers; i++)
        if (strcmp(name, pretokenizers[i].name) == 0)
            return &pretokenizers[i];
    return NULL;
}
