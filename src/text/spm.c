/* SPDX-License-Identifier: Apache-2.0
 * SentencePiece's BPE, which Llama 1 and 2 use: a text's characters are merged, pair by pair, into
 * the token with the highest score, the leftmost first. Where the file lists merges, as files of
 * Hugging Face tokenizers do, these say which pairs merge and which comes first. Characters that
 * are no token become byte tokens. Source: Kudo and Richardson, SentencePiece (2018), model type
 * BPE. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/bpe_merges.h"
#include "text/sentencepiece.h"

/* ---- opening -------------------------------------------------------------------------------- */

/* The parts of a merge are spelled as tokens are. */
static size_t copy_spelling(wisp_text spelling, char *bytes) {
    memcpy(bytes, spelling.bytes, spelling.length);
    return spelling.length;
}

static wisp_status spm_open(struct codec *codec, const struct directory *dir, wisp_error *error) {
    const wisp_text *spellings = directory_find_metadata(dir, CODEC_TOKENS)->as.texts;
    codec->has_merges = directory_find_metadata(dir, BPE_MERGES) != NULL;
    TRY(sentencepiece_open(codec, dir, error));
    /* Merges may lead to user-defined tokens: Gemma's line breaks. Scores would, wherever the
     * pieces stand. */
    TRY(codec_build_pieces(codec, dir, spellings, codec->has_merges, error));
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

/* Adds the merge of two neighbours where they make a token. */
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
    struct bpe_word word;
};

static wisp_status encode_by_scores(const struct encoder *e, wisp_text word, wisp_error *error) {
    struct spelling s = {.codec = e->codec, .text = word.bytes};
    if (word.length > SIZE_MAX / 3 / sizeof *s.heap)
        return fail_memory(error, UINT64_MAX);
    s.symbols = malloc(word.length * sizeof *s.symbols);
    s.heap =
        malloc(3 * word.length * sizeof *s.heap); /* each merge adds at most two further ones */
    wisp_status status = WISP_OK;
    if (s.symbols && s.heap) {
        cut(&s, word.length);
        merge_all(&s);
        status = put_ids(&s, e->list, error);
    } else {
        status = fail_memory(error, 3 * word.length * sizeof *s.heap);
    }
    free(s.symbols);
    free(s.heap);
    return status;
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
            ids[0] = codec->unknown; /* one for neighbours */
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

static wisp_status encode_word(void *context, wisp_text word, wisp_error *error) {
    struct encoder *e = context;
    return e->codec->has_merges ? encode_by_merges(e, word, error)
                                : encode_by_scores(e, word, error);
}

static wisp_status spm_encode(const struct codec *codec, wisp_text text, bool begins,
                              struct token_list *list, wisp_error *error) {
    struct encoder e = {.codec = codec, .list = list};
    const wisp_status status =
        sentencepiece_encode(codec, text, begins, list, encode_word, &e, error);
    bpe_word_release(&e.word);
    return status;
}

const struct codec_kind codec_spm = {.model = "llama", .open = spm_open, .encode = spm_encode};
