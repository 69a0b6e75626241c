/* SPDX-License-Identifier: Apache-2.0
 * A text passes through these stages, code point by code point:
 *   segment    cuts raw text at added tokens
 *   normalize  cleans, strips accents and lowers case as BERT does
 *   window     finds added tokens in normalised text; left out if the model has none
 *   word       collects characters up to white space or punctuation
 *   wordpiece  cuts the word into pieces, whose ids are the result
 * No more of a text is held than one word and a window of ADDED_MAX_LENGTH.
 * Compiled for size in WebAssembly. */
#include "tokenizers/bert_tokenizer.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "text/unicode.h"
#include "tokenizers/bert_tokenizer_parts.h"

enum { WINDOW_CAPACITY = 4 * ADDED_MAX_LENGTH };

/* Normalised text that has not been passed on yet: code_points[from .. to), enough to hold a whole
 * added token and the character after it. */
struct window {
    size_t from, to;
    size_t unmatched;  /* code points left of a rejected token: no other may start among them */
    uint32_t previous; /* the code point before the window */
    uint32_t code_points[WINDOW_CAPACITY];
};

struct encoder {
    const struct bert_tokenizer *tokenizer;
    int32_t *ids; /* NULL: they are only counted */
    size_t count, limit;
    bool truncated;
    size_t word_characters; /* of the word; counts on when `word` is full */
    size_t word_length;     /* bytes in `word` */
    char word[4 * WORD_MAX_CHARACTERS];
    struct window window;
};

static void put_id(struct encoder *e, int32_t id) {
    if (e->count == e->limit) {
        e->truncated = true;
        return;
    }
    if (e->ids)
        e->ids[e->count] = id;
    e->count++;
}

/* Writes the ids of the word that was collected, if any. */
static void end_word(struct encoder *e) {
    const struct bert_tokenizer *t = e->tokenizer;
    if (e->word_characters == 0)
        return;
    const size_t room = e->limit - e->count;
    size_t pieces = 0;
    if (e->word_characters <= t->max_word_characters)
        pieces = wordpiece_split(&t->vocabulary, e->word, e->word_length,
                                 e->ids ? e->ids + e->count : NULL, e->ids ? room : 0);
    e->word_characters = e->word_length = 0;
    if (pieces == 0) {
        put_id(e, t->unknown);
        return;
    }
    e->truncated |= pieces > room;
    e->count += pieces < room ? pieces : room;
}

static void put_in_word(struct encoder *e, uint32_t code_point) {
    if (++e->word_characters <= WORD_MAX_CHARACTERS)
        e->word_length += utf8_encode(code_point, e->word + e->word_length);
}

/* The stage `word`. */
static void put_in_words(void *context, uint32_t code_point) {
    struct encoder *e = context;
    const unsigned flags = unicode_flags(code_point);
    if (flags & (UNICODE_SPACE | UNICODE_PUNCTUATION))
        end_word(e);
    if (!(flags & UNICODE_SPACE))
        put_in_word(e, code_point);
    if (flags & UNICODE_PUNCTUATION)
        end_word(e);
}

/* ---- added tokens in normalised text -------------------------------------------------------- */

/* Returns the added token at the front of the window, or NULL, and sets *length to its length in
 * code points. */
static const struct added_token *find_in_window(const struct encoder *e, size_t *length) {
    const struct added_tokens *set = &e->tokenizer->normalized;
    const struct window *w = &e->window;
    const uint32_t first = w->code_points[w->from];
    const struct added_token *found = NULL;
    struct added_walk walk = added_walk_start(set);
    if (first < 0x80 ? !set->starts[first] : !set->starts_non_ascii)
        return NULL;
    for (size_t i = w->from; i < w->to && added_walk_step(set, &walk, w->code_points[i]); i++) {
        const struct added_token *token = added_walk_token(set, &walk);
        if (!token)
            continue;
        found = token;
        *length = i + 1 - w->from;
    }
    return found;
}

/* Takes an added token off the front of the window, or else one code point, and passes it on. White
 * space around the token need not be stripped: the stage `word` drops it. */
static void pass_from_window(struct encoder *e) {
    struct window *w = &e->window;
    size_t length = 1;
    const struct added_token *token = w->unmatched == 0 ? find_in_window(e, &length) : NULL;
    const uint32_t next = w->from + length < w->to ? w->code_points[w->from + length] : READER_NONE;
    if (token && (token->flags & ADDED_SINGLE_WORD) &&
        (reader_is_word(w->previous) || reader_is_word(next))) {
        w->unmatched = length;
        length = 1;
        token = NULL;
    }
    if (w->unmatched > 0)
        w->unmatched--;
    w->from += length;
    w->previous = w->code_points[w->from - 1];
    if (token) {
        end_word(e);
        put_id(e, token->id);
    } else {
        put_in_words(e, w->previous);
    }
}

/* The stage `window`. */
static void put_in_window(void *context, uint32_t code_point) {
    struct encoder *e = context;
    struct window *w = &e->window;
    if (w->to == WINDOW_CAPACITY) {
        w->to -= w->from;
        memmove(w->code_points, w->code_points + w->from, w->to * sizeof *w->code_points);
        w->from = 0;
    }
    w->code_points[w->to++] = code_point;
    if (w->to - w->from > ADDED_MAX_LENGTH)
        pass_from_window(e);
}

/* ---- the whole text ------------------------------------------------------------------------- */

static void start_segment(struct encoder *e) {
    e->window.from = e->window.to = e->window.unmatched = 0;
    e->window.previous = READER_NONE;
}

static void end_segment(struct encoder *e) {
    while (e->window.from < e->window.to)
        pass_from_window(e);
    end_word(e);
}

/* Does the work of all stages for bytes whose action is in the table, up to the first byte that has
 * none. */
static void put_bytes(struct encoder *e, struct reader *reader) {
    const uint8_t *actions = e->tokenizer->bytes;
    const char *at = reader->at;
    for (; at < reader->end && !e->truncated; at++) {
        const uint8_t action = actions[(unsigned char)*at];
        if (action < BYTE_SPACE) {
            if (e->word_characters++ < WORD_MAX_CHARACTERS)
                e->word[e->word_length++] = (char)action;
        } else if (action == BYTE_OTHER) {
            break;
        } else if (action != BYTE_DROPPED) {
            end_word(e);
            if (action == BYTE_PUNCTUATION) {
                put_in_word(e, (unsigned char)*at);
                end_word(e);
            }
        }
    }
    reader->at = at;
}

static void put_text(struct encoder *e, wisp_text text) {
    const struct bert_tokenizer *t = e->tokenizer;
    const struct sink sink = {t->normalized.count ? put_in_window : put_in_words, e};
    struct segment segment = segment_of(text, &t->raw);
    start_segment(e);
    while (!e->truncated) {
        put_bytes(e, &segment.reader);
        const uint32_t code_point = segment_next(&segment);
        if (code_point == READER_NONE)
            break;
        if (code_point != SEGMENT_MATCH) {
            normalize(&t->normalizer, &segment, code_point, &sink);
            continue;
        }
        end_segment(e);
        put_id(e, segment.match->id);
        segment_resume(&segment);
        start_segment(e);
    }
    end_segment(e);
}

size_t bert_tokenizer_encode(const struct bert_tokenizer *tokenizer, wisp_text text,
                             size_t max_tokens, int32_t *ids, bool *truncated) {
    struct encoder e; /* its large arrays need no initial values */
    e.tokenizer = tokenizer;
    e.ids = ids;
    e.count = 0;
    e.limit = max_tokens - 1; /* the last place is for the separator */
    e.truncated = false;
    e.word_characters = e.word_length = 0;
    put_id(&e, tokenizer->cls);
    put_text(&e, text);
    if (ids)
        ids[e.count] = tokenizer->separator;
    e.count++;
    if (truncated)
        *truncated = e.truncated;
    return e.count;
}

uint32_t bert_tokenizer_vocabulary_size(const struct bert_tokenizer *tokenizer) {
    return tokenizer->vocabulary_size;
}

size_t bert_tokenizer_resident_bytes(const struct bert_tokenizer *tokenizer) {
    return sizeof *tokenizer + tokenizer->arena.total;
}

void bert_tokenizer_close(struct bert_tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    arena_release(&tokenizer->arena);
    free(tokenizer);
}

wisp_text bert_tokenizer_piece(const struct bert_tokenizer *tokenizer, int32_t id, bool *continues,
                               bool *special) {
    const struct wordpiece *v = &tokenizer->vocabulary;
    *continues = v->kinds[id] == PIECE_CONTINUATION;
    *special = v->kinds[id] == PIECE_UNUSED || id == tokenizer->unknown || id == tokenizer->cls ||
               id == tokenizer->separator;
    return (wisp_text){v->bytes + v->starts[id], v->starts[id + 1] - v->starts[id]};
}
