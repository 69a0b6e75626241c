/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "chat/marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "formats/schema.h"
#include "text/unicode.h"
#include "tokenizers/codec_parts.h"

/* ---- the set -------------------------------------------------------------------------------- */

static bool has_ends(wisp_text text, const char *begin, const char *end) {
    const size_t first = strlen(begin), last = strlen(end);
    return text.length >= first + last && memcmp(text.bytes, begin, first) == 0 &&
           memcmp(text.bytes + text.length - last, end, last) == 0;
}

/* Returns whether a token is one that only a template may write: a control token, one that ends a
 * text, or one that is spelled as control tokens are, which some files give the type of words. */
static bool is_control(const struct codec *codec, size_t id, wisp_text spelling) {
    if (codec->types[id] == TOKEN_CONTROL || codec->ends[id])
        return spelling.length > 0;
    return codec->types[id] == TOKEN_USER_DEFINED &&
           (has_ends(spelling, "<|", "|>") || has_ends(spelling, "<\uFF5C", "\uFF5C>"));
}

wisp_status chat_marks_of(const struct directory *dir, const struct codec *codec,
                          struct arena *arena, struct chat_marks *marks, wisp_error *error) {
    const wisp_text *spellings = directory_find_metadata(dir, CODEC_TOKENS)->as.texts;
    const struct added_token *twice;
    uint8_t *flags;
    *marks = (struct chat_marks){0};
    ARENA_TAKE(arena, flags, codec->count, error);
    ARENA_TAKE(arena, marks->is_mark, codec->count, error);
    ARENA_TAKE(arena, marks->set.tokens, codec->count, error);
    TRY(codec_read_flags(codec, dir, flags, error));
    for (size_t i = 0; i < codec->count; i++) {
        if (!is_control(codec, i, spellings[i]))
            continue;
        marks->is_mark[i] = true;
        marks->may_forge |= codec->types[i] != TOKEN_CONTROL;
        marks->set.tokens[marks->set.count++] =
            (struct added_token){spellings[i].bytes, spellings[i].length, (int32_t)i, flags[i]};
    }
    while ((twice = added_tokens_index(&marks->set))) {
        const size_t at = (size_t)(twice - marks->set.tokens);
        marks->set.count--;
        memmove(marks->set.tokens + at, twice + 1, (marks->set.count - at) * sizeof *twice);
    }
    marks->keeps_edge = !directory_find_metadata(dir, KEY_TOKENIZER_SPACE_PREFIX);
    return WISP_OK;
}

/* ---- a text --------------------------------------------------------------------------------- */

/* Returns the longest mark that begins at a character, or NULL. */
static const struct added_token *mark_at(const struct chat_marks *marks, struct value text,
                                         uint32_t at, uint32_t *n) {
    const struct added_tokens *set = &marks->set;
    struct added_walk walk = added_walk_start(set);
    const struct added_token *found = NULL;
    for (uint32_t i = at; set->count > 0 && i < text.n && !(text.as.text[i] & JINJA_GIVEN); i++) {
        if (!added_walk_step(set, &walk, text.as.text[i]))
            break;
        const struct added_token *token = added_walk_token(set, &walk);
        if (token) {
            found = token;
            *n = i + 1 - at;
        }
    }
    return found;
}

int32_t chat_marks_after(const struct chat_marks *marks, struct value text, uint32_t c) {
    uint32_t at = text.n, n;
    while (at > 0 && (text.as.text[at - 1] & ~JINJA_GIVEN) != c)
        at--;
    for (; at > 0 && at < text.n; at++) {
        const struct added_token *mark = mark_at(marks, text, at, &n);
        if (mark)
            return mark->id;
    }
    return -1;
}

/* A prompt that is being encoded. */
struct encoding {
    const struct chat_marks *marks;
    const struct codec *codec;
    struct token_list *list;
    char *bytes; /* room for the text of a part */
    bool within; /* a mark or a text comes before this part */
    wisp_error *error;
};

/* Returns whether any id of the list, from `first` on, is a mark. */
static bool has_mark(const struct encoding *e, size_t first) {
    for (size_t k = first; e->marks->may_forge && k < e->list->count; k++)
        if (e->marks->is_mark[e->list->ids[k]])
            return true;
    return false;
}

/* Returns the number of bytes up to the second character of the first mark that the text spells, or
 * all of them. */
static size_t until_mark(const struct encoding *e, wisp_text text) {
    const struct added_tokens *set = &e->marks->set;
    uint32_t c;
    for (size_t at = 0; at < text.length; at++)
        for (size_t i = 0; i < set->count; i++)
            if (set->tokens[i].length <= text.length - at &&
                memcmp(text.bytes + at, set->tokens[i].text, set->tokens[i].length) == 0)
                return at + utf8_decode(text.bytes + at, text.length - at, &c);
    return text.length;
}

/* Encodes a text. A vocabulary may list a mark among the tokens that texts are made of. A text that
 * spells it is then encoded in parts, so that it does not become one. */
static wisp_status encode_text(struct encoding *e, wisp_text text) {
    /* After a mark, SentencePiece puts a space as after an added token. */
    const bool edge = e->marks->keeps_edge && text.bytes[0] == ' ';
    const bool begins = !e->within || (e->codec->prefix != PREFIX_FIRST && !edge);
    const size_t before = e->list->count;
    TRY(codec_encode_text(e->codec, text, begins, e->list, e->error));
    e->within = true;
    if (!has_mark(e, before))
        return WISP_OK;
    e->list->count = before;
    for (size_t at = 0, part; at < text.length; at += part) {
        part = until_mark(e, (wisp_text){text.bytes + at, text.length - at});
        const wisp_text piece = {text.bytes + at, part};
        TRY(codec_encode_text(e->codec, piece, begins && at == 0, e->list, e->error));
    }
    /* Other characters may become those of a mark if the tokenizer normalises texts. */
    if (has_mark(e, before))
        return fail(e->error, WISP_ERROR_UNSUPPORTED, NULL, "messages",
                    "a content becomes a control token when it is normalised");
    return WISP_OK;
}

/* Encodes the characters from `begin` to `end`. */
static wisp_status encode_part(struct encoding *e, struct value text, uint32_t begin,
                               uint32_t end) {
    size_t length = 0;
    for (uint32_t i = begin; i < end; i++)
        length += utf8_encode(text.as.text[i] & ~JINJA_GIVEN, e->bytes + length);
    return length > 0 ? encode_text(e, (wisp_text){e->bytes, length}) : WISP_OK;
}

static bool is_space_at(struct value text, uint32_t at) {
    return (unicode_flags(text.as.text[at] & ~JINJA_GIVEN) & UNICODE_SPACE) != 0;
}

static wisp_status encode_all(struct encoding *e, struct value text) {
    uint32_t begin = 0, n = 0;
    for (uint32_t at = 0; at < text.n;) {
        const struct added_token *mark = mark_at(e->marks, text, at, &n);
        if (!mark) {
            at++;
            continue;
        }
        uint32_t end = at;
        while ((mark->flags & ADDED_STRIP_LEFT) && end > begin && is_space_at(text, end - 1))
            end--;
        TRY(encode_part(e, text, begin, end));
        TRY(token_list_add(e->list, mark->id, e->error));
        e->within = true;
        for (at += n; (mark->flags & ADDED_STRIP_RIGHT) && at < text.n && is_space_at(text, at);)
            at++;
        begin = at;
    }
    return encode_part(e, text, begin, text.n);
}

wisp_status chat_marks_encode(const struct chat_marks *marks, const struct codec *codec,
                              struct value text, struct token_list *list, wisp_error *error) {
    const size_t before = list->count, bytes = 4 * (size_t)text.n + 1;
    struct encoding e = {.marks = marks, .codec = codec, .list = list, .error = error};
    e.bytes = malloc(bytes);
    if (!e.bytes)
        return fail_memory(error, bytes);
    const wisp_status status = encode_all(&e, text);
    free(e.bytes);
    if (status != WISP_OK)
        list->count = before;
    return status;
}
