/* SPDX-License-Identifier: Apache-2.0
 * The merges of a BPE vocabulary: read from a file, and applied to a word. */
#ifndef WISP_TOKENIZERS_BPE_MERGES_H
#define WISP_TOKENIZERS_BPE_MERGES_H

#include "tokenizers/codec_parts.h"

/* Says whether the merges turn the bytes of a token into only that token. */
enum bpe_whole { WHOLE_UNKNOWN, WHOLE_YES, WHOLE_NO };

/* Writes the bytes that the spelling of a part of a merge stands for, and returns their number,
 * which is at most spelling.length; SIZE_MAX if it stands for none. */
typedef size_t (*bpe_decode)(wisp_text spelling, char *bytes);

/* Reads tokenizer.ggml.merges into codec->merges. codec->pieces must have been built. */
wisp_status bpe_merges_read(struct codec *codec, const struct directory *dir, bpe_decode decode,
                            wisp_error *error);

/* A token of a word. Tokens are linked in the order of the word. */
struct bpe_symbol {
    int32_t id;
    int32_t merged; /* what it and the next become */
    uint32_t rank;  /* of that merge; BPE_NONE: they do not merge, or this token is merged away */
    uint32_t previous, next; /* BPE_NONE at the ends */
};

#define BPE_NONE UINT32_MAX

/* Memory to merge words, enough for the longest so far. It starts as zeros. */
struct bpe_word {
    size_t room;
    struct bpe_symbol *symbols; /* [room] */
    /* [3 * room]: a binary heap of the merges that were possible when they were added. An entry is
     * rank << 32 | index of the left symbol, so the lowest rank comes first, and the leftmost if
     * ranks are equal. Each merge that is done adds at most two. */
    uint64_t *heap;
    size_t n_heap;
};

/* Makes room for a word of `length` symbols. Fails if memory is short; the word can then still
 * be released. */
wisp_status bpe_word_reserve(struct bpe_word *word, size_t length, wisp_error *error);
void bpe_word_release(struct bpe_word *word);

/* Merges the first `length` symbols, of which the caller has set the ids, until no merge is left.
 * Returns how many symbols are left. Symbol 0 is the first of them. Takes time n log n. */
uint32_t bpe_word_merge(struct bpe_word *word, const struct merge_table *merges, uint32_t length);

#endif
