/* SPDX-License-Identifier: Apache-2.0
 * Byte-level BPE, which GPT-2, Llama 3 and Qwen use: a pre-tokenizer cuts the text, and the bytes
 * of each cut are merged, pair by pair, in the order in which training found the merges. A file
 * spells tokens in an alphabet of printable characters, one for each byte.
 * Source: Radford et al., Language Models are Unsupervised Multitask Learners (2019). */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/product.h"
#include "base/utf8.h"
#include "formats/schema.h"
#include "text/lower.h"
#include "text/nfc.h"
#include "text/reader.h"
#include "text/unicode_classes.h"
#include "tokenizers/bpe_merges.h"
#include "tokenizers/characters.h"
#include "tokenizers/pretokenize.h"

static const char PRE[] = "tokenizer.ggml.pre";

/* ---- opening -------------------------------------------------------------------------------- */

static wisp_status read_pretokenizer(struct codec *codec, const struct directory *dir,
                                     wisp_error *error) {
    static const char prefix_key[] = "tokenizer.ggml.add_space_prefix";
    const char *name;
    bool prefix = false;
    TRY(metadata_text(dir, PRE, &name, error));
    const struct pretokenizer *found = pretokenizer_find(name);
    if (!found)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, PRE,
                    "the pre-tokenizer \"%.40s\" is not known: its pattern is missing in "
                    "src/formats/pretokenizers.c",
                    name);
    TRY(cutter_open(&codec->cutter, &codec->arena, found, error));
    TRY(metadata_bool_or(dir, prefix_key, &prefix, error));
    if (prefix)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, prefix_key,
                    "a space before each text is not supported in byte-level BPE");
    codec->add_bos = found->flags & (PRE_BOS | PRE_ENDS);
    codec->add_last = found->flags & PRE_ENDS;
    codec->ignores_merges = found->flags & PRE_WHOLE;
    codec->composes = found->flags & PRE_NFC;
    codec->ends_words = READS_CLIP && found->flags & PRE_WORDS;
    TRY(metadata_bool_or(dir, KEY_TOKENIZER_IGNORE_MERGES, &codec->ignores_merges, error));
    return metadata_bool_or(dir, KEY_TOKENIZER_NFC, &codec->composes, error);
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
 * number. Returns SIZE_MAX if a character is not in the alphabet. */
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

/* Writes what each token stands for to texts [count], whose bytes it writes to `bytes`. */
static wisp_status decode_tokens(struct codec *codec, const struct directory *dir, wisp_text *texts,
                                 char *bytes, wisp_error *error) {
    const wisp_text *spellings = directory_find_metadata(dir, CODEC_TOKENS)->as.texts;
    for (size_t i = 0; i < codec->count; i++) {
        size_t length = SIZE_MAX;
        if (codec->types[i] == TOKEN_BYTE)
            return fail(error, WISP_ERROR_FORMAT, dir->file, CODEC_TOKENS,
                        "token %zu is a byte token, which byte-level BPE does not have", i);
        if (codec->types[i] == TOKEN_NORMAL) {
            length = decode_spelling(spellings[i], bytes);
            /* Hugging Face decodes a token outside the alphabet to its spelling. No text is encoded
             * to it, as texts are made of bytes that all are in the alphabet. */
            if (length == SIZE_MAX)
                codec->types[i] = TOKEN_UNUSED;
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

enum { WORD_END = sizeof PRE_WORD_END - 1 };

static bool ends_word(wisp_text text) {
    return text.length > WORD_END &&
           memcmp(text.bytes + text.length - WORD_END, PRE_WORD_END, WORD_END) == 0;
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
        if (READS_CLIP && codec->ends_words && ends_word(texts[i]))
            texts[i].length -= WORD_END;
        if (codec->types[i] == TOKEN_CONTROL || codec->types[i] == TOKEN_UNKNOWN)
            texts[i].length = 0;
    }
    codec->texts = texts;
    return WISP_OK;
}

/* Finds the tokens of each byte. */
static void find_bytes(struct codec *codec) {
    char spelled[] = "?" PRE_WORD_END;
    for (unsigned b = 0; b < 256; b++) {
        spelled[0] = (char)b;
        codec->byte_ids[b] = wordpiece_find(&codec->pieces, spelled, 1);
        if (READS_CLIP)
            codec->end_ids[b] = wordpiece_find(&codec->pieces, spelled, 1 + WORD_END);
    }
}

static wisp_status bpe_normalize(const struct codec *codec, wisp_text text, char **copy,
                                 wisp_text *normalized, wisp_error *error) {
    char *composed = NULL;
    *copy = NULL;
    *normalized = text;
    if (codec->composes)
        TRY(nfc_normalize(text, copy, normalized, error));
    if (!READS_CLIP || !codec->ends_words)
        return WISP_OK;
    composed = *copy;
    const wisp_status status = text_lower(*normalized, false, copy, normalized, error);
    free(composed);
    return status;
}

static wisp_status bpe_open(struct codec *codec, const struct directory *dir, wisp_error *error) {
    TRY(read_pretokenizer(codec, dir, error));
    TRY(read_texts(codec, dir, error));
    find_bytes(codec);
    TRY(bpe_merges_read(codec, dir, decode_spelling, error));
    TRY(codec_index_added(codec, dir, bpe_normalize, error));
    ARENA_TAKE(&codec->arena, codec->whole, codec->count, error);
    return WISP_OK;
}

/* ---- encoding ------------------------------------------------------------------------------- */

struct encoder {
    const struct codec *codec;
    struct token_list *list;
    struct bpe_word word;
};

static wisp_status encode_word(void *context, const char *bytes, size_t length, wisp_error *error) {
    struct encoder *e = context;
    const struct codec *codec = e->codec;
    struct bpe_symbol *symbols;
    const bool ends = READS_CLIP && codec->ends_words;
    const char *next;
    if (ends && unicode_class(character_at(bytes, &next)) == UNICODE_BLANK)
        return WISP_OK;
    /* Most words are tokens that their merges lead to, which is found out once for each. */
    const int32_t id = ends ? -1 : wordpiece_find(&codec->pieces, bytes, length);
    uint8_t whole = WHOLE_NO;
    if (id >= 0)
        whole = codec->ignores_merges
                    ? WHOLE_YES
                    : atomic_load_explicit(&codec->whole[id], memory_order_relaxed);
    if (whole == WHOLE_YES)
        return token_list_add(e->list, id, error);
    TRY(bpe_word_reserve(&e->word, length, error));
    symbols = e->word.symbols;
    uint32_t count = 0;
    for (size_t i = 0; i < length; i++) {
        const bool is_last = ends && i + 1 == length;
        /* Bytes without tokens are dropped, so that their neighbours may merge. */
        symbols[count].id = (is_last ? codec->end_ids : codec->byte_ids)[(unsigned char)bytes[i]];
        count += symbols[count].id >= 0;
    }
    count = bpe_word_merge(&e->word, &codec->merges, count);
    if (whole == WHOLE_UNKNOWN) {
        whole = count == 1 ? WHOLE_YES : WHOLE_NO;
        atomic_store_explicit(&codec->whole[id], whole, memory_order_relaxed);
    }
    for (uint32_t i = 0; count > 0; count--, i = symbols[i].next)
        TRY(token_list_add(e->list, symbols[i].id, error));
    return WISP_OK;
}

/* Encodes a normalised text between added tokens. */
static wisp_status encode_words(void *context, wisp_text text, bool first, wisp_error *error) {
    const struct encoder *e = context;
    (void)first;
    return cutter_each(&e->codec->cutter, text, encode_word, context, error);
}

/* Encodes a text between added tokens that are found before it is normalised. */
static wisp_status encode_part(void *context, wisp_text text, bool first, wisp_error *error) {
    struct encoder *e = context;
    char *copy;
    TRY(bpe_normalize(e->codec, text, &copy, &text, error));
    const wisp_status status =
        codec_each_part(&e->codec->normalized, text, e->list, encode_words, e, error);
    (void)first;
    free(copy);
    return status;
}

static wisp_status bpe_encode(const struct codec *codec, wisp_text text, bool begins,
                              struct token_list *list, wisp_error *error) {
    struct encoder e = {.codec = codec, .list = list};
    char *copy;
    (void)begins;
    TRY(codec_repair(text, &copy, &text, error));
    const wisp_status status = codec_each_part(&codec->raw, text, list, encode_part, &e, error);
    bpe_word_release(&e.word);
    free(copy);
    return status;
}

const struct codec_kind codec_bpe = {.open = bpe_open, .encode = bpe_encode};
