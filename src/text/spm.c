/* SPDX-License-Identifier: Apache-2.0
 * SentencePiece's BPE, which Llama 1 and 2 use: a text's characters are merged, pair by pair, into
 * the token with the highest score, the leftmost first. Characters that are no token become byte
 * tokens. A space is spelled U+2581.
 * Source: Kudo and Richardson, SentencePiece (2018), model type BPE. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/codec_parts.h"
#include "text/reader.h"

static const char SPACE[] = "\xE2\x96\x81"; /* U+2581 */
enum { SPACE_BYTES = 3 };
static const char SCORES[] = "tokenizer.ggml.scores";

/* ---- opening -------------------------------------------------------------------------------- */

static wisp_status read_scores(struct codec *codec, const struct directory *dir,
                               wisp_error *error) {
    const struct metadata *entry = directory_find_metadata(dir, SCORES);
    float *scores;
    if (!entry || entry->type != VALUE_ARRAY || entry->element != VALUE_F32 ||
        entry->count != codec->count)
        return fail(error, entry ? WISP_ERROR_FORMAT : WISP_ERROR_NOT_FOUND, dir->file, SCORES,
                    "an array of %zu floats, one for each token, belongs here", codec->count);
    ARENA_TAKE(&codec->arena, scores, codec->count, error);
    memcpy(scores, entry->as.numbers, codec->count * sizeof *scores);
    for (size_t i = 0; i < codec->count; i++)
        if (isnan(scores[i]))
            return fail(error, WISP_ERROR_FORMAT, dir->file, SCORES, "score %zu is not a number",
                        i);
    codec->scores = scores;
    return WISP_OK;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns the byte that a token "<0x0A>" stands for, or -1. */
static int byte_of(wisp_text spelling) {
    const char *s = spelling.bytes;
    if (spelling.length != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return -1;
    const int high = hex_digit(s[3]), low = hex_digit(s[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Decodes the spellings of all tokens, and finds the token of each byte. */
static wisp_status decode_tokens(struct codec *codec, const struct directory *dir,
                                 wisp_error *error) {
    static const char key[] = CODEC_TOKENS;
    const wisp_text *spellings = directory_find_metadata(dir, key)->as.texts;
    uint32_t unknown = UINT32_MAX;
    wisp_text *texts;
    TRY(codec_build_pieces(codec, dir, spellings, true, error));
    ARENA_TAKE(&codec->arena, texts, codec->count, error);
    TRY(metadata_u32_or(dir, "tokenizer.ggml.unknown_token_id", &unknown, error));
    for (size_t i = 0; i < 256; i++)
        codec->byte_ids[i] = unknown < codec->count ? (int32_t)unknown : -1;
    for (size_t i = 0; i < codec->count; i++) {
        const wisp_text spelling = spellings[i];
        const int byte = codec->types[i] == CODEC_BYTE ? byte_of(spelling) : -1;
        char *bytes = arena_allocate(&codec->arena, spelling.length + 1);
        size_t length = 0;
        if (!bytes)
            return fail_memory(error, spelling.length + 1);
        if (codec->types[i] == CODEC_BYTE && byte < 0)
            return fail(error, WISP_ERROR_FORMAT, dir->file, key,
                        "byte token %zu is not spelled <0x00> to <0xFF>", i);
        if (byte >= 0) {
            codec->byte_ids[byte] = (int32_t)i;
            bytes[length++] = (char)byte;
        } else if (codec->types[i] == CODEC_NORMAL || codec->types[i] == CODEC_USER_DEFINED) {
            for (size_t at = 0; at < spelling.length;) {
                const bool space = spelling.length - at >= SPACE_BYTES &&
                                   memcmp(spelling.bytes + at, SPACE, SPACE_BYTES) == 0;
                bytes[length++] = space ? ' ' : spelling.bytes[at];
                at += space ? SPACE_BYTES : 1;
            }
        }
        texts[i] = (wisp_text){bytes, length};
    }
    for (size_t i = 0; i < 256; i++)
        if (codec->byte_ids[i] < 0)
            return fail(error, WISP_ERROR_FORMAT, dir->file, key,
                        "no token for the byte %zu, and no unknown token", i);
    codec->texts = texts;
    return WISP_OK;
}

static wisp_status spm_open(struct codec *codec, const struct directory *dir, wisp_error *error) {
    codec->add_space_prefix = true;
    TRY(metadata_bool_or(dir, "tokenizer.ggml.add_space_prefix", &codec->add_space_prefix, error));
    TRY(read_scores(codec, dir, error));
    return decode_tokens(codec, dir, error);
}

/* ---- encoding ------------------------------------------------------------------------------- */

/* A part of the text, at first one character. Parts are linked in the order of the text. A part of
 * length 0 has been merged into the one before it. */
struct symbol {
    size_t start, length;
    size_t previous, next; /* NONE at the ends */
};

static const size_t NONE = SIZE_MAX;

/* A pair of neighbouring parts that would make a token. */
struct merge {
    float score;
    size_t left, right;
    size_t length; /* of both when the pair was found; it is stale if a part has changed since */
};

struct spelling {
    const struct codec *codec;
    char *text; /* the text with U+2581 for spaces */
    size_t length;
    struct symbol *symbols;
    size_t n_symbols;
    struct merge *heap; /* a binary heap, the best merge first */
    size_t n_merges;
};

static bool is_better(const struct merge *a, const struct merge *b) {
    return a->score > b->score || (a->score == b->score && a->left < b->left);
}

static void push_merge(struct spelling *s, struct merge merge) {
    size_t i = s->n_merges++;
    for (; i > 0 && is_better(&merge, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = merge;
}

static struct merge pop_merge(struct spelling *s) {
    const struct merge best = s->heap[0], last = s->heap[--s->n_merges];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->n_merges; i = child) {
        if (child + 1 < s->n_merges && is_better(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!is_better(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return best;
}

/* Adds the merge of two neighbours where they make a token. */
static void consider(struct spelling *s, size_t left, size_t right) {
    if (left == NONE || right == NONE)
        return;
    const size_t length = s->symbols[left].length + s->symbols[right].length;
    const int32_t id = wordpiece_find(&s->codec->pieces, s->text + s->symbols[left].start, length);
    if (id >= 0)
        push_merge(s, (struct merge){s->codec->scores[id], left, right, length});
}

/* Writes the text with U+2581 for spaces, and one symbol for each character. */
static void spell(struct spelling *s, wisp_text text, bool prefix) {
    struct reader reader = reader_of(text);
    bool space = prefix;
    while (space || !reader_at_end(&reader)) {
        const uint32_t c = space ? 0x20 : reader_next(&reader);
        const size_t start = s->length;
        space = false;
        if (c == 0x20) {
            memcpy(s->text + start, SPACE, SPACE_BYTES);
            s->length += SPACE_BYTES;
        } else {
            s->length += utf8_encode(c, s->text + start);
        }
        const size_t i = s->n_symbols++;
        s->symbols[i] = (struct symbol){start, s->length - start, i > 0 ? i - 1 : NONE, NONE};
        if (i > 0)
            s->symbols[i - 1].next = i;
    }
}

static void merge_all(struct spelling *s) {
    for (size_t i = 1; i < s->n_symbols; i++)
        consider(s, i - 1, i);
    while (s->n_merges > 0) {
        const struct merge best = pop_merge(s);
        struct symbol *left = &s->symbols[best.left], *right = &s->symbols[best.right];
        if (left->length == 0 || right->length == 0 || left->length + right->length != best.length)
            continue;
        left->length = best.length;
        right->length = 0;
        left->next = right->next;
        if (left->next != NONE)
            s->symbols[left->next].previous = best.left;
        consider(s, left->previous, best.left);
        consider(s, best.left, left->next);
    }
}

static wisp_status put_ids(const struct spelling *s, struct token_list *list, wisp_error *error) {
    for (size_t i = 0; i != NONE && i < s->n_symbols; i = s->symbols[i].next) {
        const char *bytes = s->text + s->symbols[i].start;
        const size_t length = s->symbols[i].length;
        const int32_t id = wordpiece_find(&s->codec->pieces, bytes, length);
        if (id >= 0) {
            TRY(token_list_add(list, id, error));
            continue;
        }
        for (size_t b = 0; b < length; b++)
            TRY(token_list_add(list, s->codec->byte_ids[(unsigned char)bytes[b]], error));
    }
    return WISP_OK;
}

static wisp_status spm_encode(const struct codec *codec, wisp_text text, bool begins,
                              struct token_list *list, wisp_error *error) {
    const bool prefix = begins && codec->add_space_prefix && text.length > 0;
    /* A byte of text becomes at most three: a space, and U+FFFD for an ill-formed byte. Each merge
     * adds at most two further ones. */
    const size_t most = text.length + 1;
    struct spelling s = {.codec = codec};
    if (text.length == 0)
        return WISP_OK;
    if (most > SIZE_MAX / 3 / sizeof *s.heap)
        return fail_memory(error, UINT64_MAX);
    s.text = malloc(most * SPACE_BYTES);
    s.symbols = malloc(most * sizeof *s.symbols);
    s.heap = malloc(3 * most * sizeof *s.heap);
    wisp_status status = WISP_OK;
    if (s.text && s.symbols && s.heap) {
        spell(&s, text, prefix);
        merge_all(&s);
        status = put_ids(&s, list, error);
    } else {
        status = fail_memory(error, 3 * most * sizeof *s.heap);
    }
    free(s.text);
    free(s.symbols);
    free(s.heap);
    return status;
}

const struct codec_kind codec_spm = {.model = "llama", .open = spm_open, .encode = spm_encode};
