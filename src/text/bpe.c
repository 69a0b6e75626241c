/* SPDX-License-Identifier: Apache-2.0
 * Byte-level BPE, which GPT-2, Llama 3 and Qwen use: a pre-tokenizer cuts the text, and the bytes
 * of each cut are merged, pair by pair, in the order in which training found the merges. A file
 * spells tokens in an alphabet of printable characters, one for each byte.
 * Source: Radford et al., Language Models are Unsupervised Multitask Learners (2019). */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/utf8.h"
#include "text/codec_parts.h"
#include "text/nfc.h"
#include "text/pretokenize.h"
#include "text/reader.h"

static const char PRE[] = "tokenizer.ggml.pre", MERGES[] = "tokenizer.ggml.merges";

/* Whether the merges turn the bytes of a token into that token alone. */
enum bpe_whole { WHOLE_UNKNOWN, WHOLE_YES, WHOLE_NO };

/* ---- opening -------------------------------------------------------------------------------- */

static wisp_status read_pretokenizer(struct codec *codec, const struct directory *dir,
                                     wisp_error *error) {
    static const char prefix_key[] = "tokenizer.ggml.add_space_prefix";
    const char *name;
    bool prefix = false;
    TRY(metadata_text(dir, PRE, &name, error));
    codec->pretokenizer = pretokenizer_find(name);
    if (!codec->pretokenizer)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, PRE,
                    "the pre-tokenizer \"%.40s\" is not supported, only " PRETOKENIZER_NAMES, name);
    TRY(metadata_bool_or(dir, prefix_key, &prefix, error));
    if (prefix)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, prefix_key,
                    "a space before each text is not supported in byte-level BPE");
    codec->add_bos = codec->pretokenizer->adds_bos;
    return WISP_OK;
}

/* Returns the byte that a character of the alphabet stands for, or -1. Bytes that are printable in
 * Latin-1 stand for themselves; the 68 others are numbered from U+0100. */
static int byte_of(uint32_t c) {
    if ((c > 0x20 && c < 0x7F) || (c > 0xA0 && c <= 0xFF && c != 0xAD))
        return (int)c;
    if (c < 0x100 || c > 0x143)
        return -1;
    const int n = (int)c - 0x100;
    return n <= 0x20 ? n : n < 67 ? n - 33 + 0x7F : 0xAD;
}

/* Writes the bytes that a spelling stands for, which are no more than its own, and returns their
 * number. Returns SIZE_MAX where a character is not in the alphabet. */
static size_t decode_spelling(wisp_text spelling, char *bytes) {
    size_t length = 0;
    for (struct reader reader = reader_of(spelling); !reader_at_end(&reader);) {
        const int byte = byte_of(reader_next(&reader));
        if (byte < 0)
            return SIZE_MAX;
        bytes[length++] = (char)byte;
    }
    return length;
}

/* Writes what each token stands for to `texts`, using `bytes` for it. */
static wisp_status decode_tokens(struct codec *codec, const struct directory *dir, wisp_text *texts,
                                 char *bytes, wisp_error *error) {
    const wisp_text *spellings = directory_find_metadata(dir, CODEC_TOKENS)->as.texts;
    for (size_t i = 0; i < codec->count; i++) {
        size_t length = SIZE_MAX;
        if (codec->types[i] == CODEC_BYTE)
            return fail(error, WISP_ERROR_FORMAT, dir->file, CODEC_TOKENS,
                        "token %zu is a byte token, which byte-level BPE does not have", i);
        if (codec->types[i] == CODEC_NORMAL) {
            length = decode_spelling(spellings[i], bytes);
            /* Hugging Face decodes a token outside the alphabet to its spelling. No text is encoded
             * to it, as texts are made of bytes that all are in the alphabet. */
            if (length == SIZE_MAX)
                codec->types[i] = CODEC_UNUSED;
        }
        if (length == SIZE_MAX) {
            length = spellings[i].length;
            if (length > 0)
                memcpy(bytes, spellings[i].bytes, length);
        }
        texts[i] = (wisp_text){bytes, length};
        bytes += length;
    }
    return codec_build_pieces(codec, dir, texts, false, error);
}

static wisp_status read_texts(struct codec *codec, const struct directory *dir, wisp_error *error) {
    const wisp_text *spellings = directory_find_metadata(dir, CODEC_TOKENS)->as.texts;
    uint64_t total = 1;
    size_t bytes;
    wisp_text *texts;
    ARENA_TAKE(&codec->arena, texts, codec->count, error);
    for (size_t i = 0; i < codec->count; i++)
        total += spellings[i].length;
    char *buffer = checked_size(total, &bytes) ? malloc(bytes) : NULL;
    if (!buffer)
        return fail_memory(error, total);
    const wisp_status status = decode_tokens(codec, dir, texts, buffer, error);
    free(buffer);
    TRY(status);
    /* The pieces have a copy of the bytes. */
    for (size_t i = 0; i < codec->count; i++) {
        texts[i].bytes = codec->pieces.bytes + codec->pieces.starts[i];
        if (codec->types[i] == CODEC_CONTROL || codec->types[i] == CODEC_UNKNOWN)
            texts[i].length = 0;
    }
    codec->texts = texts;
    return WISP_OK;
}

/* Finds the token of each byte that well-formed UTF-8 may have. */
static wisp_status find_bytes(struct codec *codec, const struct directory *dir, wisp_error *error) {
    for (unsigned b = 0; b < 256; b++) {
        const char byte = (char)b;
        codec->byte_ids[b] = wordpiece_find(&codec->pieces, &byte, 1);
        if (codec->byte_ids[b] < 0 && b != 0xC0 && b != 0xC1 && b <= 0xF4)
            return fail(error, WISP_ERROR_FORMAT, dir->file, CODEC_TOKENS,
                        "no token for the byte %u", b);
    }
    return WISP_OK;
}

/* Reads merge i, "left right". */
static wisp_status read_merge(const struct codec *codec, const struct directory *dir, size_t i,
                              wisp_text text, struct bpe_merge *merge, wisp_error *error) {
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
        /* A byte is spelled with two at most, so longer parts are no tokens. */
        const bool fits = parts[k].length <= (size_t)2 * PIECE_MAX_BYTES;
        const size_t n = fits ? decode_spelling(parts[k], bytes + length) : SIZE_MAX;
        ids[k] = n == SIZE_MAX ? -1 : wordpiece_find(&codec->pieces, bytes + length, n);
        if (ids[k] < 0)
            return fail(error, WISP_ERROR_FORMAT, dir->file, MERGES,
                        "the %s part of entry %zu is no token", k == 0 ? "first" : "second", i);
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
                                const wisp_text *texts, struct bpe_merge *merges, size_t count,
                                wisp_error *error) {
    size_t which;
    for (size_t i = 0; i < count; i++)
        TRY(read_merge(codec, dir, i, texts[i], &merges[i], error));
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

static wisp_status read_merges(struct codec *codec, const struct directory *dir,
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
    const wisp_status status = build_merges(codec, dir, entry->as.texts, merges, count, error);
    free(merges);
    return status;
}

/* Collects the user-defined tokens. */
static wisp_status index_raw(struct codec *codec, const struct directory *dir, wisp_error *error) {
    struct added_tokens *raw = &codec->raw;
    ARENA_TAKE(&codec->arena, raw->tokens, codec->count, error);
    for (size_t i = 0; i < codec->count; i++) {
        const wisp_text text = codec->texts[i];
        if (codec->types[i] != CODEC_USER_DEFINED || text.length == 0)
            continue;
        if (text.length > ADDED_MAX_LENGTH)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, CODEC_TOKENS,
                        "the user-defined token %zu is longer than %d bytes", i, ADDED_MAX_LENGTH);
        raw->tokens[raw->count++] =
            (struct added_token){.text = text.bytes, .length = text.length, .id = (int32_t)i};
    }
    const struct added_token *twin = added_tokens_index(raw);
    if (twin)
        return fail(error, WISP_ERROR_FORMAT, dir->file, CODEC_TOKENS,
                    "the user-defined token %ld stands there twice", (long)twin->id);
    return WISP_OK;
}

static wisp_status bpe_open(struct codec *codec, const struct directory *dir, wisp_error *error) {
    TRY(read_pretokenizer(codec, dir, error));
    TRY(read_texts(codec, dir, error));
    TRY(find_bytes(codec, dir, error));
    TRY(read_merges(codec, dir, error));
    TRY(index_raw(codec, dir, error));
    ARENA_TAKE(&codec->arena, codec->whole, codec->count, error);
    return WISP_OK;
}

/* ---- merging -------------------------------------------------------------------------------- */

static const uint32_t NONE = UINT32_MAX;

/* A token of a word, at first one byte. Tokens are linked in the order of the word. */
struct symbol {
    int32_t id;
    int32_t merged; /* what it and the next become */
    uint32_t rank;  /* of that merge; NONE: they do not merge, or this token is merged away */
    uint32_t previous, next; /* NONE at the ends */
};

struct encoder {
    const struct codec *codec;
    struct token_list *list;
    /* Memory for the longest word so far: */
    size_t room;
    struct symbol *symbols; /* [room] */
    /* [3 * room]: a binary heap of the merges that were possible when they were added, each its
     * rank << 32 | the left symbol. So the lowest rank comes first, and of one rank the leftmost.
     * Each merge done adds at most two. */
    uint64_t *heap;
    size_t n_heap;
};

static wisp_status reserve(struct encoder *e, size_t length, wisp_error *error) {
    if (length <= e->room)
        return WISP_OK;
    const size_t room = larger(length, larger(2 * e->room, 64));
    free(e->symbols);
    free(e->heap);
    e->symbols = NULL;
    e->heap = NULL;
    e->room = 0;
    if (room >= UINT32_MAX || room > SIZE_MAX / 3 / sizeof *e->heap)
        return fail_memory(error, (uint64_t)room * (sizeof *e->symbols + 3 * sizeof *e->heap));
    e->symbols = malloc(room * sizeof *e->symbols);
    e->heap = malloc(3 * room * sizeof *e->heap);
    if (!e->symbols || !e->heap)
        return fail_memory(error, room * (sizeof *e->symbols + 3 * sizeof *e->heap));
    e->room = room;
    return WISP_OK;
}

static void push(struct encoder *e, uint64_t entry) {
    size_t i = e->n_heap++;
    for (; i > 0 && entry < e->heap[(i - 1) / 2]; i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = entry;
}

static uint64_t pop(struct encoder *e) {
    const uint64_t first = e->heap[0], last = e->heap[--e->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < e->n_heap; i = child) {
        child += child + 1 < e->n_heap && e->heap[child + 1] < e->heap[child];
        if (last <= e->heap[child])
            break;
        e->heap[i] = e->heap[child];
    }
    e->heap[i] = last;
    return first;
}

/* Adds the merge of a symbol with the next where there is one. */
static void consider(struct encoder *e, uint32_t at) {
    struct symbol *left = &e->symbols[at];
    left->rank = NONE;
    if (left->next == NONE)
        return;
    const struct bpe_merge *merge =
        merge_table_find(&e->codec->merges, left->id, e->symbols[left->next].id);
    if (!merge)
        return;
    left->rank = merge->rank;
    left->merged = merge->result;
    push(e, (uint64_t)merge->rank << 32 | at);
}

/* Merges the bytes of a word until no merge is left, and returns how many symbols are left.
 * Symbol 0 is the first of them. */
static uint32_t merge_word(struct encoder *e, const char *bytes, uint32_t length) {
    uint32_t left_over = length;
    e->n_heap = 0;
    for (uint32_t i = 0; i < length; i++) {
        const int32_t id = e->codec->byte_ids[(unsigned char)bytes[i]];
        e->symbols[i] = (struct symbol){.id = id,
                                        .rank = NONE,
                                        .previous = i > 0 ? i - 1 : NONE,
                                        .next = i + 1 < length ? i + 1 : NONE};
    }
    for (uint32_t i = 0; i + 1 < length; i++)
        consider(e, i);
    while (e->n_heap > 0) {
        const uint64_t best = pop(e);
        const uint32_t at = (uint32_t)best;
        struct symbol *left = &e->symbols[at];
        if (left->rank != best >> 32) /* a neighbour has merged otherwise since */
            continue;
        struct symbol *right = &e->symbols[left->next];
        left->id = left->merged;
        left->next = right->next;
        right->rank = NONE;
        left_over--;
        if (left->next != NONE)
            e->symbols[left->next].previous = at;
        consider(e, at);
        if (left->previous != NONE)
            consider(e, left->previous);
    }
    return left_over;
}

/* ---- encoding ------------------------------------------------------------------------------- */

static wisp_status encode_word(struct encoder *e, const char *bytes, size_t length,
                               wisp_error *error) {
    const struct codec *codec = e->codec;
    /* Most words are tokens that their merges lead to, which is found out once for each. */
    const int32_t id = wordpiece_find(&codec->pieces, bytes, length);
    uint8_t whole = WHOLE_NO;
    if (id >= 0)
        whole = codec->pretokenizer->ignores_merges
                    ? WHOLE_YES
                    : atomic_load_explicit(&codec->whole[id], memory_order_relaxed);
    if (whole == WHOLE_YES)
        return token_list_add(e->list, id, error);
    TRY(reserve(e, length, error));
    uint32_t count = merge_word(e, bytes, (uint32_t)length);
    if (whole == WHOLE_UNKNOWN) {
        whole = count == 1 ? WHOLE_YES : WHOLE_NO;
        atomic_store_explicit(&codec->whole[id], whole, memory_order_relaxed);
    }
    for (uint32_t i = 0; count > 0; count--, i = e->symbols[i].next)
        TRY(token_list_add(e->list, e->symbols[i].id, error));
    return WISP_OK;
}

/* Encodes a text between user-defined tokens. */
static wisp_status encode_part(struct encoder *e, const char *start, const char *end,
                               wisp_error *error) {
    const struct pretokenizer *pretokenizer = e->codec->pretokenizer;
    wisp_text text = {start, (size_t)(end - start)};
    char *copy = NULL;
    if (pretokenizer->composes)
        TRY(nfc_normalize(text, &copy, &text, error));
    wisp_status status = WISP_OK;
    for (size_t at = 0, length; status == WISP_OK && at < text.length; at += length) {
        length = pretokenizer->next(text.bytes + at, text.bytes + text.length);
        status = encode_word(e, text.bytes + at, length, error);
    }
    free(copy);
    return status;
}

/* Returns the longest user-defined token that the text begins with, or NULL. */
static const struct added_token *find_raw(const struct added_tokens *raw, const char *at,
                                          const char *end) {
    const unsigned char first = (unsigned char)*at;
    const struct added_token *longest = NULL;
    if (first < 0x80 ? !raw->starts[first] : !raw->starts_non_ascii || (first & 0xC0) == 0x80)
        return NULL;
    struct reader reader = reader_of((wisp_text){at, (size_t)(end - at)});
    struct added_walk walk = added_walk_start(raw);
    while (!reader_at_end(&reader) && added_walk_step(raw, &walk, reader_next(&reader))) {
        const struct added_token *token = added_walk_token(raw, &walk);
        longest = token ? token : longest;
    }
    return longest;
}

static wisp_status encode_text(struct encoder *e, const char *at, const char *end,
                               wisp_error *error) {
    const struct added_tokens *raw = &e->codec->raw;
    const char *start = at;
    while (raw->count > 0 && at < end) {
        const struct added_token *token = find_raw(raw, at, end);
        if (token) {
            TRY(encode_part(e, start, at, error));
            TRY(token_list_add(e->list, token->id, error));
            start = at + token->length;
        }
        at += token ? token->length : 1;
    }
    return encode_part(e, start, end, error);
}

/* Returns how many bytes a text has once ill-formed parts are U+FFFD; *whole: it has none. */
static size_t measure(wisp_text text, bool *whole) {
    size_t bytes = 0;
    *whole = true;
    for (size_t at = 0; at < text.length;) {
        uint32_t c;
        const size_t taken = utf8_decode(text.bytes + at, text.length - at, &c);
        *whole &= c != UTF8_INVALID;
        bytes += c == UTF8_INVALID ? 3 : taken;
        at += taken;
    }
    return bytes;
}

static wisp_status bpe_encode(const struct codec *codec, wisp_text text, bool begins,
                              struct token_list *list, wisp_error *error) {
    struct encoder e = {.codec = codec, .list = list};
    bool whole;
    const size_t bytes = measure(text, &whole);
    char *copy = NULL;
    (void)begins;
    if (!whole) {
        copy = malloc(bytes);
        if (!copy)
            return fail_memory(error, bytes);
        size_t length = 0;
        for (struct reader reader = reader_of(text); !reader_at_end(&reader);)
            length += utf8_encode(reader_next(&reader), copy + length);
        text = (wisp_text){copy, length};
    }
    wisp_status status = WISP_OK;
    if (text.length > 0)
        status = encode_text(&e, text.bytes, text.bytes + text.length, error);
    free(e.symbols);
    free(e.heap);
    free(copy);
    return status;
}

const struct codec_kind codec_bpe = {.model = "gpt2", .open = bpe_open, .encode = bpe_encode};
