/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizers/bpe_merges.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static const char MERGES[] = BPE_MERGES;

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads merge i, "left right". */
static wisp_status read_merge(const struct codec *codec, const struct directory *dir, size_t i,
                              wisp_text text, bpe_decode decode, struct bpe_merge *merge,
                              wisp_error *error) {
    char bytes[4 * PIECE_MAX_BYTES];
    const char *space = text.length ? memchr(text.bytes, ' ', text.length) : NULL;
    const char *end = text.bytes + text.length;
    if (!space || space == text.bytes || space + 1 == end ||
        memchr(space + 1, ' ', (size_t)(end - space - 1)))
        return fail(error, WISP_ERROR_FORMAT, dir->file, MERGES,
                    "entry %zu is not a pair of tokens with a space between", i);
    const wisp_text parts[] = {{text.bytes, (size_t)(space - text.bytes)},
                               {space + 1, (size_t)(end - space - 1)}};
    size_t length = 0;
    int32_t ids[2];
    for (size_t k = 0; k < 2; k++) {
        /* A byte is spelled with two at most, so longer parts are not tokens. */
        const bool fits = parts[k].length <= (size_t)2 * PIECE_MAX_BYTES;
        const size_t n = fits ? decode(parts[k], bytes + length) : SIZE_MAX;
        ids[k] = n == SIZE_MAX ? -1 : wordpiece_find(&codec->pieces, bytes + length, n);
        if (ids[k] < 0)
            return fail(error, WISP_ERROR_FORMAT, dir->file, MERGES,
                        "the %s part of entry %zu is not a token", k == 0 ? "first" : "second", i);
        length += n;
    }
    const int32_t result = wordpiece_find(&codec->pieces, bytes, length);
    if (result < 0)
        return fail(error, WISP_ERROR_FORMAT, dir->file, MERGES,
                    "the parts of entry %zu make no token", i);
    *merge = (struct bpe_merge){ids[0], ids[1], result, (uint32_t)i};
    return WISP_OK;
}

static wisp_status build_merges(struct codec *codec, const struct directory *dir,
                                const struct metadata *entry, bpe_decode decode,
                                struct bpe_merge *merges, wisp_error *error) {
    const size_t count = (size_t)entry->count;
    size_t which;
    for (size_t i = 0; i < count; i++)
        TRY(read_merge(codec, dir, i, entry->as.texts[i], decode, &merges[i], error));
    switch (merge_table_build(&codec->merges, &codec->arena, merges, count, &which)) {
    case MERGE_TABLE_BUILT:
        break;
    case MERGE_TABLE_MEMORY:
        return fail_memory(error, count * sizeof *merges);
    case MERGE_TABLE_TWICE:
        return fail(error, WISP_ERROR_FORMAT, dir->file, MERGES, "entry %zu repeats an earlier one",
                    which);
    case MERGE_TABLE_COLLISION:
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, MERGES,
                    "the merges cannot be hashed");
    }
    return WISP_OK;
}

wisp_status bpe_merges_read(struct codec *codec, const struct directory *dir, bpe_decode decode,
                            wisp_error *error) {
    const struct metadata *entry = directory_find_metadata(dir, MERGES);
    if (!entry)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, MERGES, "the metadata key is missing");
    if (entry->type != VALUE_ARRAY || entry->element != VALUE_STRING)
        return fail(error, WISP_ERROR_FORMAT, dir->file, MERGES, "not an array of strings");
    if (entry->count > INT32_MAX / 2)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, MERGES, "too many merges");
    const size_t count = (size_t)entry->count;
    struct bpe_merge *merges = calloc(count + 1, sizeof *merges);
    if (!merges)
        return fail_memory(error, count * sizeof *merges);
    const wisp_status status = build_merges(codec, dir, entry, decode, merges, error);
    free(merges);
    return status;
}

/* ---- merging -------------------------------------------------------------------------------- */

wisp_status bpe_word_reserve(struct bpe_word *w, size_t length, wisp_error *error) {
    if (length <= w->room)
        return WISP_OK;
    const size_t room = larger(length, larger(2 * w->room, 64));
    free(w->symbols);
    free(w->heap);
    w->symbols = NULL;
    w->heap = NULL;
    w->room = 0;
    if (room >= UINT32_MAX || room > SIZE_MAX / 3 / sizeof *w->heap)
        return fail_memory(error, (uint64_t)room * (sizeof *w->symbols + 3 * sizeof *w->heap));
    w->symbols = malloc(room * sizeof *w->symbols);
    w->heap = malloc(3 * room * sizeof *w->heap);
    if (!w->symbols || !w->heap)
        return fail_memory(error, room * (sizeof *w->symbols + 3 * sizeof *w->heap));
    w->room = room;
    return WISP_OK;
}

void bpe_word_release(struct bpe_word *w) {
    free(w->symbols);
    free(w->heap);
    *w = (struct bpe_word){0};
}

static void push(struct bpe_word *w, uint64_t entry) {
    size_t i = w->n_heap++;
    for (; i > 0 && entry < w->heap[(i - 1) / 2]; i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = entry;
}

static uint64_t pop(struct bpe_word *w) {
    const uint64_t first = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->n_heap; i = child) {
        child += child + 1 < w->n_heap && w->heap[child + 1] < w->heap[child];
        if (last <= w->heap[child])
            break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return first;
}

/* Adds the merge of a symbol with the next if there is one. */
static void consider(struct bpe_word *w, const struct merge_table *merges, uint32_t at) {
    struct bpe_symbol *left = &w->symbols[at];
    left->rank = BPE_NONE;
    if (left->next == BPE_NONE)
        return;
    const struct bpe_merge *merge = merge_table_find(merges, left->id, w->symbols[left->next].id);
    if (!merge)
        return;
    left->rank = merge->rank;
    left->merged = merge->result;
    push(w, (uint64_t)merge->rank << 32 | at);
}

uint32_t bpe_word_merge(struct bpe_word *w, const struct merge_table *merges, uint32_t length) {
    uint32_t left_over = length;
    w->n_heap = 0;
    for (uint32_t i = 0; i < length; i++) {
        struct bpe_symbol *s = &w->symbols[i];
        s->rank = BPE_NONE;
        s->previous = i > 0 ? i - 1 : BPE_NONE;
        s->next = i + 1 < length ? i + 1 : BPE_NONE;
    }
    for (uint32_t i = 0; i + 1 < length; i++)
        consider(w, merges, i);
    while (w->n_heap > 0) {
        const uint64_t best = pop(w);
        const uint32_t at = (uint32_t)best;
        struct bpe_symbol *left = &w->symbols[at];
        if (left->rank != best >> 32) /* a neighbour has merged otherwise since */
            continue;
        struct bpe_symbol *right = &w->symbols[left->next];
        left->id = left->merged;
        left->next = right->next;
        right->rank = BPE_NONE;
        left_over--;
        if (left->next != BPE_NONE)
            w->symbols[left->next].previous = at;
        consider(w, merges, at);
        if (left->previous != BPE_NONE)
            consider(w, merges, left->previous);
    }
    return left_over;
}
