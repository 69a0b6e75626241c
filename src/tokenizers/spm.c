/* SPDX-License-Identifier: Apache-2.0
 * SentencePiece's BPE, which Llama 1 and 2 use: a text's characters are merged, pair by pair, into
 * the token with the highest score, the leftmost first. If the file lists merges, as files of
 * Hugging Face tokenizers do, these say which pairs merge and which comes first. Characters that
 * are not tokens become byte tokens. Source: Kudo and Richardson, SentencePiece (2018), model type
 * BPE. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizers/bpe_merges.h"
#include "tokenizers/sentencepiece.h"

/* ---- opening -------------------------------------------------------------------------------- */

/* The parts of a merge are spelled as tokens are. */
static size_t copy_spelling(wisp_text spelling, char *bytes) {
    memcpy(bytes, spelling.bytes, spelling.length);
    return spelling.length;
}

/* Returns the length of the first word: a run of spaces, and what follows up to the next space. */
static size_t first_word(wisp_text text) {
    size_t n = 0;
    while (spelled_space_at(text.bytes + n, text.bytes + text.length))
        n += SPELLED_SPACE_BYTES;
    while (n < text.length && !spelled_space_at(text.bytes + n, text.bytes + text.length))
        n++;
    return n;
}

/* Returns whether words can be encoded one by one. They can if every piece is within a word,
 * and if the space is a piece: it then is between unknown characters at the end of one word
 * and the beginning of the next, which would otherwise become one unknown token. */
static bool pieces_are_within_words(const struct codec *codec, const wisp_text *spellings) {
    bool has_space = false;
    for (size_t i = 0; i < codec->count; i++) {
        if (codec->types[i] != TOKEN_NORMAL && codec->types[i] != TOKEN_USER_DEFINED)
            continue;
        if (spellings[i].length > 0 && first_word(spellings[i]) < spellings[i].length)
            return false;
        has_space =
            has_space ||
            (codec->types[i] == TOKEN_NORMAL && spellings[i].length == SPELLED_SPACE_BYTES &&
             spelled_space_at(spellings[i].bytes, spellings[i].bytes + SPELLED_SPACE_BYTES));
    }
    return has_space;
}

static wisp_status spm_open(struct codec *codec, const struct directory *dir, wisp_error *error) {
    const wisp_text *spellings = directory_find_metadata(dir, CODEC_TOKENS)->as.texts;
    codec->has_merges = codec->finds_spellings = directory_find_metadata(dir, BPE_MERGES) != NULL;
    TRY(sentencepiece_open(codec, dir, error));
    /* With merges, pieces may be user-defined tokens, such as Gemma's line breaks, since merges say
     * how to reach them. Scores would reach a user-defined token wherever its characters stand. */
    TRY(codec_build_pieces(codec, dir, spellings, codec->has_merges, error));
    codec->cuts_at_spaces = pieces_are_within_words(codec, spellings);
    ARENA_TAKE(&codec->arena, codec->whole, codec->count, error);
    return codec->has_merges ? bpe_merges_read(codec, dir, copy_spelling, error) : WISP_OK;
}

/* ---- merging by scores ---------------------------------------------------------------------- */

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
    const char *text;
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

/* Adds the merge of two neighbours if they make a token. */
static void consider(struct spelling *s, size_t left, size_t right) {
    if (left == NONE || right == NONE)
        return;
    const size_t length = s->symbols[left].length + s->symbols[right].length;
    const int32_t id = wordpiece_find(&s->codec->pieces, s->text + s->symbols[left].start, length);
    if (id >= 0)
        push_merge(s, (struct merge){s->codec->scores[id], left, right, length});
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

/* Makes a symbol of each character. */
static void cut(struct spelling *s, size_t length) {
    uint32_t c;
    for (size_t at = 0, taken; at < length; at += taken) {
        const size_t i = s->n_symbols++;
        taken = utf8_decode(s->text + at, length - at, &c);
        s->symbols[i] = (struct symbol){at, taken, i > 0 ? i - 1 : NONE, NONE};
        if (i > 0)
            s->symbols[i - 1].next = i;
    }
}

static wisp_status put_ids(const struct spelling *s, struct token_list *list, wisp_error *error) {
    bool unknown = false;
    for (size_t i = 0; i != NONE; i = s->symbols[i].next) {
        const char *bytes = s->text + s->symbols[i].start;
        const size_t length = s->symbols[i].length;
        const int32_t id = wordpiece_find(&s->codec->pieces, bytes, length);
        if (id >= 0) {
            TRY(token_list_add(list, id, error));
            unknown = false;
        } else {
            TRY(sentencepiece_add_unknown(s->codec, bytes, length, &unknown, list, error));
        }
    }
    return WISP_OK;
}

struct encoder {
    const struct codec *codec;
    struct token_list *list;
    struct bpe_word word; /* merging by merges */
    /* Merging by scores: room for `room` characters. */
    size_t room;
    struct symbol *symbols; /* [room] */
    struct merge *heap;     /* [3 * room]: each merge adds at most two further ones */
};

static wisp_status reserve(struct encoder *e, size_t length, wisp_error *error) {
    if (length <= e->room)
        return WISP_OK;
    free(e->symbols);
    free(e->heap);
    e->symbols = NULL; /* spm_encode frees both, also after a failure */
    e->heap = NULL;
    e->room = 0;
    if (length > SIZE_MAX / 6 / sizeof *e->heap)
        return fail_memory(error, UINT64_MAX);
    e->symbols = malloc(2 * length * sizeof *e->symbols);
    e->heap = malloc(6 * length * sizeof *e->heap);
    if (!e->symbols || !e->heap)
        return fail_memory(error, 6 * length * sizeof *e->heap);
    e->room = 2 * length;
    return WISP_OK;
}

static wisp_status encode_by_scores(struct encoder *e, wisp_text word, wisp_error *error) {
    TRY(reserve(e, word.length, error));
    struct spelling s = {
        .codec = e->codec, .text = word.bytes, .symbols = e->symbols, .heap = e->heap};
    cut(&s, word.length);
    merge_all(&s);
    return put_ids(&s, e->list, error);
}

/* ---- merging by merges ---------------------------------------------------------------------- */

static wisp_status encode_by_merges(struct encoder *e, wisp_text word, wisp_error *error) {
    const struct codec *codec = e->codec;
    TRY(bpe_word_reserve(&e->word, word.length, error));
    struct bpe_symbol *symbols = e->word.symbols;
    uint32_t count = 0;
    for (size_t at = 0, taken; at < word.length; at += taken) {
        uint32_t c;
        int32_t ids[4];
        taken = utf8_decode(word.bytes + at, word.length - at, &c);
        ids[0] = wordpiece_find(&codec->pieces, word.bytes + at, taken);
        size_t n = ids[0] >= 0 ? 1 : sentencepiece_bytes(codec, word.bytes + at, taken, ids);
        if (n == 0 && (count == 0 || symbols[count - 1].id != codec->unknown)) {
            ids[0] = codec->unknown; /* one for all such neighbours */
            n = 1;
        }
        for (size_t i = 0; i < n; i++)
            symbols[count++].id = ids[i];
    }
    count = bpe_word_merge(&e->word, &codec->merges, count);
    for (uint32_t i = 0; count > 0; count--, i = symbols[i].next)
        TRY(token_list_add(e->list, symbols[i].id, error));
    return WISP_OK;
}

/* ---- encoding ------------------------------------------------------------------------------- */

static wisp_status merge(struct encoder *e, wisp_text text, wisp_error *error) {
    return e->codec->has_merges ? encode_by_merges(e, text, error)
                                : encode_by_scores(e, text, error);
}

/* Most words are tokens that merging leads to, which is found out once for each. */
static wisp_status encode_word(struct encoder *e, wisp_text word, wisp_error *error) {
    const struct codec *codec = e->codec;
    const int32_t id = wordpiece_find(&codec->pieces, word.bytes, word.length);
    const uint8_t whole =
        id < 0 ? WHOLE_NO : atomic_load_explicit(&codec->whole[id], memory_order_relaxed);
    const size_t before = e->list->count;
    if (whole == WHOLE_YES)
        return token_list_add(e->list, id, error);
    TRY(merge(e, word, error));
    if (whole == WHOLE_UNKNOWN) {
        const bool alone = e->list->count == before + 1 && e->list->ids[before] == id;
        atomic_store_explicit(&codec->whole[id], alone ? WHOLE_YES : WHOLE_NO,
                              memory_order_relaxed);
    }
    return WISP_OK;
}

static wisp_status encode_words(void *context, wisp_text text, wisp_error *error) {
    struct encoder *e = context;
    if (!e->codec->cuts_at_spaces)
        return merge(e, text, error);
    while (text.length > 0) {
        const size_t length = first_word(text);
        TRY(encode_word(e, (wisp_text){text.bytes, length}, error));
        text = (wisp_text){text.bytes + length, text.length - length};
    }
    return WISP_OK;
}

static wisp_status spm_encode(const struct codec *codec, wisp_text text, bool begins,
                              struct token_list *list, wisp_error *error) {
    struct encoder e = {.codec = codec, .list = list};
    const wisp_status status =
        sentencepiece_encode(codec, text, begins, list, encode_words, &e, error);
    bpe_word_release(&e.word);
    free(e.symbols);
    free(e.heap);
    return status;
}

const struct codec_kind codec_spm = {.open = spm_open, .encode = spm_encode};
