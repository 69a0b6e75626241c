/* SPDX-License-Identifier: Apache-2.0
 * SentencePiece's unigram model: of all ways to cut a text into tokens, the one whose scores, which
 * are logarithms of probabilities, have the largest sum.
 * Source: Kudo, Subword Regularization (2018); the search goes through a text once, as in
 * SentencePiece and Hugging Face tokenizers, which sum in doubles. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/utf8.h"
#include "tokenizers/sentencepiece.h"

/* A character that is not a token is worth this much less than the worst token. */
static const double UNKNOWN_PENALTY = 10;

/* ---- opening -------------------------------------------------------------------------------- */

static wisp_status build_trie(struct codec *codec, const struct directory *dir, wisp_text *texts,
                              int32_t *ids, wisp_error *error) {
    const wisp_text *spellings = directory_find_metadata(dir, CODEC_TOKENS)->as.texts;
    size_t count = 0;
    int32_t twin;
    uint64_t total = 0;
    for (size_t i = 0; i < codec->count; i++) {
        if (!codec_is_piece(codec, i) || spellings[i].length == 0)
            continue;
        if (spellings[i].length > PIECE_MAX_BYTES)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, CODEC_TOKENS,
                        "piece %zu is longer than %d bytes", i, PIECE_MAX_BYTES);
        if (count == 0 || (double)codec->scores[i] < codec->unknown_score)
            codec->unknown_score = (double)codec->scores[i];
        texts[count] = spellings[i];
        ids[count++] = (int32_t)i;
        total += spellings[i].length;
    }
    if (count == 0 || total >= UINT32_MAX)
        return fail(error, WISP_ERROR_FORMAT, dir->file, CODEC_TOKENS,
                    "%zu pieces of %llu bytes that texts could be made of", count,
                    (unsigned long long)total);
    codec->unknown_score -= UNKNOWN_PENALTY;
    const wisp_status status =
        piece_trie_build(&codec->trie, &codec->arena, texts, ids, count, &twin, error);
    if (status == WISP_ERROR_FORMAT)
        return fail(error, status, dir->file, CODEC_TOKENS, "piece %ld appears twice", (long)twin);
    return status;
}

static wisp_status unigram_open(struct codec *codec, const struct directory *dir,
                                wisp_error *error) {
    codec->finds_spellings = codec->white_space = true;
    TRY(sentencepiece_open(codec, dir, error));
    wisp_text *texts = malloc(codec->count * sizeof *texts);
    int32_t *ids = malloc(codec->count * sizeof *ids);
    const wisp_status status = texts && ids ? build_trie(codec, dir, texts, ids, error)
                                            : fail_memory(error, codec->count * sizeof *texts);
    free(texts);
    free(ids);
    codec->add_bos = false;
    codec->add_last = true;
    return status;
}

/* ---- encoding ------------------------------------------------------------------------------- */

/* The best way to cut a text up to a place. */
struct path {
    double score;
    int32_t last;  /* its last token; -1: a character that is not a token */
    uint32_t from; /* where that begins; UINT32_MAX: no way was found yet */
    uint32_t next; /* on the best way to the end: where the next token ends */
};

struct encoder {
    const struct codec *codec;
    struct token_list *list;
    struct path *paths; /* [room]: the path to each byte of a word, then to its end */
    size_t room;
};

static void offer(struct path *to, double score, int32_t last, size_t from) {
    if (to->from == UINT32_MAX || score > to->score)
        *to = (struct path){.score = score, .last = last, .from = (uint32_t)from};
}

/* Finds the best path to each place of the word that a path leads to. */
static void search(const struct codec *codec, wisp_text word, struct path *paths) {
    for (size_t i = 1; i <= word.length; i++)
        paths[i].from = UINT32_MAX;
    paths[0].score = 0;
    for (size_t at = 0, taken; at < word.length; at += taken) {
        const struct piece_node *node = codec->trie.nodes;
        bool single = false; /* the character at `at` is a token */
        uint32_t c;
        taken = utf8_decode(word.bytes + at, word.length - at, &c);
        for (size_t end = at; end < word.length; end++) {
            node = piece_trie_step(&codec->trie, node, (unsigned char)word.bytes[end]);
            if (!node)
                break;
            if (node->id < 0)
                continue;
            offer(&paths[end + 1], paths[at].score + (double)codec->scores[node->id], node->id, at);
            single = single || end + 1 - at == taken;
        }
        if (!single)
            offer(&paths[at + taken], paths[at].score + codec->unknown_score, -1, at);
    }
}

static wisp_status encode_word(void *context, wisp_text word, wisp_error *error) {
    struct encoder *e = context;
    bool unknown = false;
    if (word.length >= e->room) {
        const size_t room = larger(word.length + 1, larger(2 * e->room, 64));
        free(e->paths);
        e->room = 0;
        e->paths = room < UINT32_MAX && room <= SIZE_MAX / sizeof *e->paths
                       ? calloc(room, sizeof *e->paths)
                       : NULL;
        if (!e->paths)
            return fail_memory(error, (uint64_t)room * sizeof *e->paths);
        e->room = room;
    }
    search(e->codec, word, e->paths);
    for (uint32_t at = (uint32_t)word.length, from; at > 0; at = from) {
        from = e->paths[at].from;
        e->paths[from].next = at;
    }
    for (uint32_t at = 0, end; at < word.length; at = end) {
        end = e->paths[at].next;
        const int32_t last = e->paths[end].last;
        if (last < 0) {
            TRY(sentencepiece_add_unknown(e->codec, word.bytes + at, end - at, &unknown, e->list,
                                          error));
            continue;
        }
        TRY(token_list_add(e->list, last, error));
        unknown = false;
    }
    return WISP_OK;
}

static wisp_status unigram_encode(const struct codec *codec, wisp_text text, bool begins,
                                  struct token_list *list, wisp_error *error) {
    struct encoder e = {.codec = codec, .list = list};
    const wisp_status status =
        sentencepiece_encode(codec, text, begins, list, encode_word, &e, error);
    free(e.paths);
    return status;
}

const struct codec_kind codec_unigram = {.open = unigram_open, .encode = unigram_encode};
