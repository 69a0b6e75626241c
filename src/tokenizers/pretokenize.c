/* SPDX-License-Identifier: Apache-2.0
 * Cuts texts by the steps of a pre-tokenizer. Expressions that most texts are cut by have functions
 * here which find what the expression matches, and those that would take quadratic time have too;
 * all others are patterns. */
#include "tokenizers/pretokenize.h"

#include <string.h>

#include "text/unicode_classes.h"
#include "tokenizers/characters.h"
#include "tokenizers/pattern.h"
#include "tokenizers/pattern_compile.h"

/* ---- characters ----------------------------------------------------------------------------- */

/* Characters by enum unicode_class, with two more. */
enum { OTHER, LETTER, NUMBER, BLANK, BREAK /* \r and \n */, END /* of the text */ };

_Static_assert((int)OTHER == UNICODE_OTHER && (int)LETTER == UNICODE_LETTER &&
                   (int)NUMBER == UNICODE_NUMBER && (int)BLANK == UNICODE_BLANK,
               "classes are passed on");

/* The classes of ASCII characters, which most texts are made of. */
static const uint8_t ascii_classes[128] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 3, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0,
    0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0,
    0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0,
};

/* Returns the class of the character at `at`; *next is where the following one begins. */
static inline int class_at(const char *at, const char *end, const char **next) {
    *next = at;
    if (at == end)
        return END;
    const uint32_t c = character_at(at, next);
    return c < 0x80 ? ascii_classes[c] : (int)unicode_class(c);
}

/* Returns where the run of characters of a class that begins at `at` ends, after `most` of them at
 * the latest. */
static inline const char *run_end(const char *at, const char *end, int class, size_t most) {
    const char *next;
    for (; most > 0 && class_at(at, end, &next) == class; most--)
        at = next;
    return at;
}

static inline unsigned kind_at(const char *at, const char *end, const char **next) {
    return at < end ? 1u << unicode_kind(character_at(at, next)) : 0;
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
 * if something else follows the run. With `breaks`, \s*[\r\n]+ is tried first, which matches the
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

/* ---- steps ---------------------------------------------------------------------------------- */

static const char *find_byte_level(const struct cutter_step *step, const char *at, const char *end,
                                   const char **to) {
    (void)step;
    *to = at + next_gpt2(at, end);
    return at;
}

static const char *find_llama(const struct cutter_step *step, const char *at, const char *end,
                              const char **to) {
    (void)step;
    *to = at + next_modern(at, end, 3);
    return at;
}

static const char *find_qwen(const struct cutter_step *step, const char *at, const char *end,
                             const char **to) {
    (void)step;
    *to = at + next_modern(at, end, 1);
    return at;
}

/* White space at the end. */
static const char *find_trailing(const struct cutter_step *step, const char *at, const char *end,
                                 const char **to) {
    const char *from = end, *next;
    (void)step;
    while (from > at && kind_at(character_before(from), end, &next) == 1u << KIND_BLANK)
        from = character_before(from);
    *to = end;
    return from < end ? from : NULL;
}

/* The next run of characters of some kinds. With `alone`, no character of a word may follow it. */
static const char *find_digits(const char *at, const char *end, unsigned kinds, bool alone,
                               const char **to) {
    const unsigned word = 1u << KIND_UPPER | 1u << KIND_LOWER | 1u << KIND_TITLE |
                          1u << KIND_OTHER_LETTER | 1u << KIND_MARK | 1u << KIND_CONNECTOR;
    while (at < end) {
        const char *from = at, *next;
        for (; kind_at(at, end, &next) & kinds; at = next)
            continue;
        *to = at;
        if (at > from && !(alone && (kind_at(at, end, &next) & word)))
            return from;
        at = at > from || at == end ? at : (character_at(at, &next), next);
    }
    return NULL;
}

static const char *find_groups(const struct cutter_step *step, const char *at, const char *end,
                               const char **to) {
    (void)step;
    return find_digits(at, end, 1u << KIND_DIGIT, false, to);
}

static const char *find_groups_alone(const struct cutter_step *step, const char *at,
                                     const char *end, const char **to) {
    (void)step;
    return find_digits(at, end, 1u << KIND_DIGIT, true, to);
}

static const char *find_groups_of_numbers(const struct cutter_step *step, const char *at,
                                          const char *end, const char **to) {
    (void)step;
    return find_digits(at, end, 1u << KIND_DIGIT | 1u << KIND_OTHER_NUMBER, false, to);
}

static const char *find_pattern(const struct cutter_step *step, const char *at, const char *end,
                                const char **to) {
    for (const char *next; at < end; at = next) {
        *to = pattern_match(step->pattern, at, end);
        if (*to)
            return at;
        character_at(at, &next);
    }
    return NULL;
}

static const struct {
    const char *regex;
    const char *(*find)(const struct cutter_step *step, const char *at, const char *end,
                        const char **to);
    bool covers, groups;
} finders[] = {
    {REGEX_BYTE_LEVEL, find_byte_level, true, false},
    {REGEX_LLAMA3, find_llama, true, false},
    {REGEX_QWEN2, find_qwen, true, false},
    {REGEX_TRAILING, find_trailing, false, false},
    {REGEX_GROUPS, find_groups, false, true},
    {REGEX_GROUPS_ALONE, find_groups_alone, false, true},
    {REGEX_GROUPS_OF_NUMBERS, find_groups_of_numbers, false, true},
};

wisp_status cutter_open(struct cutter *cutter, struct arena *arena,
                        const struct pretokenizer *pretokenizer, wisp_error *error) {
    for (size_t n = 0; n < PRETOKENIZER_STEPS && pretokenizer->regexes[n]; n++) {
        const char *regex = pretokenizer->regexes[n], *refused;
        struct cutter_step *step = &cutter->step[cutter->steps++];
        *step = (struct cutter_step){.find = find_pattern};
        for (size_t i = 0; i < sizeof finders / sizeof *finders; i++)
            if (strcmp(regex, finders[i].regex) == 0) {
                step->find = finders[i].find;
                step->covers = finders[i].covers;
                step->groups = finders[i].groups;
            }
        if (step->find != find_pattern)
            continue;
        step->pattern = pattern_compile(arena, regex, &refused);
        if (!step->pattern)
            return refused ? fail(error, WISP_ERROR_UNSUPPORTED, NULL, "tokenizer.ggml.pre",
                                  "the pattern %.60s cannot be compiled from %.60s", regex, refused)
                           : fail_memory(error, sizeof *step);
    }
    return WISP_OK;
}

struct cut {
    const struct cutter *cutter;
    cutter_take take;
    void *context;
    wisp_error *error;
};

static wisp_status cut_by(const struct cut *cut, size_t n, const char *at, const char *end);

/* Passes a part, which may be empty, on to the steps after step n. */
static inline wisp_status pass(const struct cut *cut, size_t n, const char *at, const char *end) {
    if (at == end)
        return WISP_OK;
    return n + 1 < cut->cutter->steps ? cut_by(cut, n + 1, at, end)
                                      : cut->take(cut->context, at, (size_t)(end - at), cut->error);
}

static wisp_status pass_groups(const struct cut *cut, size_t n, const char *at, const char *end) {
    size_t count = 0;
    const char *next = at;
    for (const char *c = at; c < end; c = next, count++)
        character_at(c, &next);
    for (const char *from = at; at < end; count--) {
        character_at(at, &next);
        at = next;
        if (count % 3 == 1) {
            TRY(pass(cut, n, from, at));
            from = at;
        }
    }
    return WISP_OK;
}

static wisp_status cut_by(const struct cut *cut, size_t n, const char *at, const char *end) {
    const struct cutter_step *step = &cut->cutter->step[n];
    while (at < end) {
        const char *to = end, *from = step->find(step, at, end, &to);
        if (!from)
            from = to = end;
        TRY(pass(cut, n, at, from));
        TRY(step->groups ? pass_groups(cut, n, from, to) : pass(cut, n, from, to));
        at = to;
    }
    return WISP_OK;
}

wisp_status cutter_each(const struct cutter *cutter, wisp_text text, cutter_take take,
                        void *context, wisp_error *error) {
    const struct cut cut = {cutter, take, context, error};
    const struct cutter_step *step = cutter->step;
    const char *at = text.bytes, *end = at + text.length, *to;
    if (cutter->steps == 1 && step->covers) {
        for (; at < end; at = to) {
            step->find(step, at, end, &to);
            TRY(take(context, at, (size_t)(to - at), error));
        }
        return WISP_OK;
    }
    return text.length > 0 ? cut_by(&cut, 0, text.bytes, text.bytes + text.length) : WISP_OK;
}
