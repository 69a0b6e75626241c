/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizers/sentencepiece.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/product.h"
#include "base/utf8.h"
#include "formats/schema.h"
#include "text/unicode.h"
#include "tokenizers/canonical.h"

static const char SCORES[] = "tokenizer.ggml.scores";

/* ---- opening -------------------------------------------------------------------------------- */

static wisp_status read_scores(struct codec *codec, const struct directory *dir,
                               wisp_error *error) {
    const struct metadata *entry = directory_find_metadata(dir, SCORES);
    float *scores;
    if (!entry && codec->has_merges)
        return WISP_OK;
    if (!entry || entry->type != VALUE_ARRAY || entry->element != VALUE_F32 ||
        entry->count != codec->count)
        return fail(error, entry ? WISP_ERROR_FORMAT : WISP_ERROR_NOT_FOUND, dir->file, SCORES,
                    "expected an array of %zu floats, one for each token", codec->count);
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

/* Writes what a token stands for to `bytes`, which has room for its spelling. */
static size_t decode(wisp_text spelling, char *bytes) {
    const char *end = spelling.bytes + spelling.length;
    size_t length = 0;
    for (const char *at = spelling.bytes; at < end;) {
        const bool space = spelled_space_at(at, end);
        bytes[length++] = space ? ' ' : *at;
        at += space ? SPELLED_SPACE_BYTES : 1;
    }
    return length;
}

static wisp_status decode_tokens(struct codec *codec, const struct directory *dir,
                                 wisp_error *error) {
    static const char key[] = CODEC_TOKENS;
    const wisp_text *spellings = directory_find_metadata(dir, key)->as.texts;
    wisp_text *texts;
    ARENA_TAKE(&codec->arena, texts, codec->count, error);
    memset(codec->byte_ids, -1, sizeof codec->byte_ids);
    for (size_t i = 0; i < codec->count; i++) {
        const wisp_text spelling = spellings[i];
        const int byte = codec->types[i] == TOKEN_BYTE ? byte_of(spelling) : -1;
        char *bytes = arena_allocate(&codec->arena, spelling.length + 1);
        size_t length = 0;
        if (!bytes)
            return fail_memory(error, spelling.length + 1);
        if (codec->types[i] == TOKEN_BYTE && byte < 0)
            return fail(error, WISP_ERROR_FORMAT, dir->file, key,
                        "byte token %zu is not spelled <0x00> to <0xFF>", i);
        if (byte >= 0) {
            codec->byte_ids[byte] = (int32_t)i;
            bytes[length++] = (char)byte;
        } else if (codec->types[i] == TOKEN_NORMAL || codec->types[i] == TOKEN_USER_DEFINED) {
            length = decode(spelling, bytes);
        }
        texts[i] = (wisp_text){bytes, length};
    }
    for (size_t i = 0; i < 256 && codec->unknown < 0; i++)
        if (codec->byte_ids[i] < 0)
            return fail(error, WISP_ERROR_FORMAT, dir->file, key,
                        "no token for the byte %zu, and no unknown token", i);
    codec->texts = texts;
    return WISP_OK;
}

static wisp_status read_charsmap(struct codec *codec, const struct directory *dir,
                                 wisp_error *error) {
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    const struct metadata *entry = directory_find_metadata(dir, key);
    if (!entry)
        return WISP_OK;
    if (entry->type != VALUE_ARRAY || value_type_bytes(entry->element) != 1)
        return fail(error, WISP_ERROR_FORMAT, dir->file, key, "not an array of bytes");
    return charsmap_read(&codec->charsmap, &codec->arena, entry->as.numbers, (size_t)entry->count,
                         dir->file, key, error);
}

/* Reads the settings of canonical.h, which puts U+2581 before the text. */
static wisp_status read_canonical(struct codec *codec, const struct directory *dir,
                                  wisp_error *error) {
    TRY(metadata_bool_or(dir, KEY_TOKENIZER_LOWERCASE, &codec->lowers, error));
    TRY(metadata_bool_or(dir, KEY_TOKENIZER_DROPS_PUNCTUATION, &codec->drops_punctuation, error));
    if (codec->prefix != PREFIX_TEXT)
        return WISP_OK;
    if (!codec->drops_punctuation)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, KEY_TOKENIZER_SPACE_PREFIX,
                    "text is not supported without " KEY_TOKENIZER_DROPS_PUNCTUATION);
    codec->prefix = PREFIX_EACH;
    codec->marks_texts = true;
    codec->add_space_prefix = false;
    return WISP_OK;
}

static wisp_status read_settings(struct codec *codec, const struct directory *dir,
                                 wisp_error *error) {
    static const char *const names[] = {
        [PREFIX_EACH] = "each",
        [PREFIX_FIRST] = "first",
        [PREFIX_ALWAYS] = "always",
        [PREFIX_TEXT] = "text",
    };
    const size_t known = READS_CLIP ? PREFIX_TEXT + 1 : PREFIX_TEXT;
    const char *name = names[codec->prefix];
    size_t i = 0;
    TRY(metadata_bool_or(dir, "tokenizer.ggml.add_space_prefix", &codec->add_space_prefix, error));
    TRY(metadata_bool_or(dir, "tokenizer.ggml.remove_extra_whitespaces", &codec->squeezes_spaces,
                         error));
    TRY(metadata_bool_or(dir, KEY_TOKENIZER_WHITE_SPACE, &codec->white_space, error));
    TRY(metadata_bool_or(dir, KEY_TOKENIZER_STRIPS_FIRST, &codec->strips_first, error));
    TRY(metadata_bool_or(dir, KEY_TOKENIZER_SPLIT_SPACES, &codec->splits_spaces, error));
    TRY(metadata_text_or(dir, KEY_TOKENIZER_SPACE_PREFIX, &name, error));
    while (i < known && strcmp(name, names[i]) != 0)
        i++;
    if (i == known)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, KEY_TOKENIZER_SPACE_PREFIX,
                    "%.32s is not one of each, first and always", name);
    codec->prefix = (enum codec_prefix)i;
    if (READS_CLIP)
        TRY(read_canonical(codec, dir, error));
    return read_charsmap(codec, dir, error);
}

/* ---- spelling ------------------------------------------------------------------------------- */

/* Applies the character map to a text, writes the result to `out` unless that is NULL, and sets
 * *length to its length. Returns false if that does not fit a size_t. */
static bool map_characters(const struct codec *codec, wisp_text text, char *out, size_t *length) {
    const char *at = text.bytes, *end = text.bytes + text.length;
    uint64_t total = 0;
    while (at < end) {
        uint32_t c;
        wisp_text found = {at, 0};
        size_t taken = charsmap_find(&codec->charsmap, at, end, &found);
        if (taken == 0)
            taken = found.length = utf8_decode(at, (size_t)(end - at), &c);
        if (out)
            memcpy(out + total, found.bytes, found.length);
        total += found.length;
        at += taken;
    }
    return checked_size(total, length);
}

/* Returns the length of the character at `at`, and sets *is_space to whether it is white space. */
static size_t next_character(const char *at, size_t length, bool *is_space) {
    uint32_t c;
    const size_t taken = utf8_decode(at, length, &c);
    *is_space = c != UTF8_INVALID && (unicode_flags(c) & UNICODE_SPACE);
    return taken;
}

/* Returns a text without white space at its ends. */
static wisp_text stripped(wisp_text text) {
    size_t first = 0, end = 0, taken;
    for (size_t i = 0; i < text.length; i += taken) {
        bool is_space;
        taken = next_character(text.bytes + i, text.length - i, &is_space);
        if (is_space && end == 0)
            first = i + taken;
        else if (!is_space)
            end = i + taken;
    }
    return (wisp_text){text.bytes + first, end > 0 ? end - first : 0};
}

/* Drops spaces at both ends unless the codec strips first, and makes one space of several between.
 * Of one that marks texts, whose mark the character map may have made a space, one stays in front.
 * With white_space other white space counts as spaces too, and a word that begins with U+2581
 * needs no space before it. Returns the new length. */
static size_t squeeze(const struct codec *codec, char *text, size_t length) {
    const bool white_space = codec->white_space, keeps_ends = codec->strips_first;
    const bool keeps_first = keeps_ends || (READS_CLIP && codec->marks_texts);
    size_t kept = 0;
    for (size_t i = 0, taken = 1; i < length; i += taken) {
        const unsigned char first = (unsigned char)text[i];
        bool space = first == ' ';
        taken = 1;
        if (white_space && (first < ' ' || first >= 0x80))
            taken = next_character(text + i, length - i, &space);
        if (white_space && kept > 0 && text[kept - 1] == ' ' &&
            spelled_space_at(text + i, text + length))
            kept--;
        if (!space)
            memmove(text + kept, text + i, taken);
        else if (kept > 0 ? text[kept - 1] != ' ' : keeps_first)
            text[kept] = ' ';
        else
            continue;
        kept += space ? 1 : taken;
    }
    return kept > 0 && text[kept - 1] == ' ' && !keeps_ends ? kept - 1 : kept;
}

/* Applies the character map and squeezes spaces. */
static wisp_status map_and_squeeze(const struct codec *codec, wisp_text text, char **copy,
                                   wisp_text *cleaned, wisp_error *error) {
    size_t length;
    *copy = NULL;
    *cleaned = text;
    if (!codec->charsmap.units && !codec->squeezes_spaces) /* strips_first is with the latter */
        return WISP_OK;
    if (codec->strips_first)
        text = stripped(text);
    if (!map_characters(codec, text, NULL, &length) || !(*copy = malloc(length + 1)))
        return fail_memory(error, text.length);
    map_characters(codec, text, *copy, &length);
    *cleaned = (wisp_text){*copy, codec->squeezes_spaces ? squeeze(codec, *copy, length) : length};
    return WISP_OK;
}

static wisp_status clean(const struct codec *codec, wisp_text text, char **copy, wisp_text *cleaned,
                         wisp_error *error) {
    char *canonical;
    if (!READS_CLIP || !codec_canonicalizes(codec))
        return map_and_squeeze(codec, text, copy, cleaned, error);
    TRY(canonical_text(codec, text, &canonical, &text, error));
    const wisp_status status = map_and_squeeze(codec, text, copy, cleaned, error);
    if (status == WISP_OK && codec->marks_texts && cleaned->length == SPELLED_SPACE_BYTES &&
        spelled_space_at(cleaned->bytes, cleaned->bytes + cleaned->length))
        cleaned->length = 0; /* SentencePiece leaves out U+2581 at the end */
    if (status == WISP_OK && !*copy)
        *copy = canonical;
    else
        free(canonical);
    return status;
}

/* Writes a text with U+2581 for spaces and, with `prefix`, one U+2581 before it. */
static wisp_status spell(wisp_text text, bool prefix, char **copy, wisp_text *spelled,
                         wisp_error *error) {
    const size_t most = text.length < SIZE_MAX / SPELLED_SPACE_BYTES - 1 ? text.length + 1 : 0;
    size_t length = 0;
    *copy = most > 0 ? malloc(most * SPELLED_SPACE_BYTES) : NULL;
    if (!*copy)
        return fail_memory(error, most * SPELLED_SPACE_BYTES);
    for (size_t i = 0; prefix || i < text.length; prefix = false) {
        const bool space = prefix || text.bytes[i] == ' ';
        if (space)
            memcpy(*copy + length, SPELLED_SPACE, SPELLED_SPACE_BYTES);
        else
            (*copy)[length] = text.bytes[i];
        length += space ? SPELLED_SPACE_BYTES : 1;
        i += !prefix;
    }
    *spelled = (wisp_text){*copy, length};
    return WISP_OK;
}

/* Normalises a part of a text. With PREFIX_EACH, spelling is a part of that, as in the normalizers
 * of Hugging Face tokenizers that have it. Otherwise it follows when added tokens were found. */
static wisp_status normalize_part(const struct codec *codec, wisp_text text, bool prefix,
                                  char **copy, wisp_text *normalized, wisp_error *error) {
    wisp_text cleaned;
    char *mapped;
    TRY(clean(codec, text, &mapped, &cleaned, error));
    *copy = mapped;
    *normalized = cleaned;
    if (codec->prefix != PREFIX_EACH || cleaned.length == 0)
        return WISP_OK;
    const wisp_status status = spell(cleaned, prefix, copy, normalized, error);
    free(mapped);
    return status;
}

static wisp_status normalize(const struct codec *codec, wisp_text text, char **copy,
                             wisp_text *normalized, wisp_error *error) {
    return normalize_part(codec, text, codec->add_space_prefix, copy, normalized, error);
}

wisp_status sentencepiece_open(struct codec *codec, const struct directory *dir,
                               wisp_error *error) {
    TRY(read_settings(codec, dir, error));
    TRY(read_scores(codec, dir, error));
    TRY(decode_tokens(codec, dir, error));
    return codec_index_added(codec, dir, normalize, error);
}

/* ---- encoding ------------------------------------------------------------------------------- */

struct encoder {
    const struct codec *codec;
    bool begins;        /* the text begins a sequence */
    bool part_is_first; /* the part being encoded begins the text */
    struct token_list *list;
    sentencepiece_word encode;
    void *context;
};

/* Encodes a spelled text word by word. */
static wisp_status encode_words(const struct encoder *e, wisp_text text, wisp_error *error) {
    const char *at = text.bytes, *end = text.bytes + text.length;
    while (at < end) {
        const char *next = e->codec->splits_spaces ? at + 1 : end;
        while (next < end && !spelled_space_at(next, end))
            next++;
        TRY(e->encode(e->context, (wisp_text){at, (size_t)(next - at)}, error));
        at = next;
    }
    return WISP_OK;
}

/* Encodes a normalised text between added tokens. */
static wisp_status encode_normalized(void *context, wisp_text text, bool first, wisp_error *error) {
    const struct encoder *e = context;
    const bool begins_text = first && e->part_is_first;
    const bool has_space =
        text.bytes[0] == ' ' || spelled_space_at(text.bytes, text.bytes + text.length);
    bool prefix = e->codec->add_space_prefix && !has_space;
    wisp_text spelled;
    char *copy;
    if (e->codec->prefix == PREFIX_EACH)
        return encode_words(e, text, error);
    prefix = prefix && (begins_text ? e->begins : e->codec->prefix == PREFIX_ALWAYS);
    TRY(spell(text, prefix, &copy, &spelled, error));
    const wisp_status status = encode_words(e, spelled, error);
    free(copy);
    return status;
}

/* Encodes a text between added tokens that are found before it is normalised. */
static wisp_status encode_part(void *context, wisp_text text, bool first, wisp_error *error) {
    struct encoder *e = context;
    const bool prefix = e->codec->add_space_prefix && (first ? e->begins : true);
    char *copy;
    e->part_is_first = first;
    TRY(normalize_part(e->codec, text, prefix, &copy, &text, error));
    const wisp_status status =
        codec_each_part(&e->codec->normalized, text, e->list, encode_normalized, e, error);
    free(copy);
    return status;
}

wisp_status sentencepiece_encode(const struct codec *codec, wisp_text text, bool begins,
                                 struct token_list *list, sentencepiece_word encode, void *context,
                                 wisp_error *error) {
    struct encoder e = {
        .codec = codec, .begins = begins, .list = list, .encode = encode, .context = context};
    char *copy;
    TRY(codec_repair(text, &copy, &text, error));
    const wisp_status status = codec_each_part(&codec->raw, text, list, encode_part, &e, error);
    free(copy);
    return status;
}

size_t sentencepiece_bytes(const struct codec *codec, const char *bytes, size_t length,
                           int32_t *ids) {
    for (size_t i = 0; i < length; i++)
        if ((ids[i] = codec->byte_ids[(unsigned char)bytes[i]]) < 0)
            return 0;
    return length;
}

wisp_status sentencepiece_add_unknown(const struct codec *codec, const char *bytes, size_t length,
                                      bool *unknown, struct token_list *list, wisp_error *error) {
    int32_t ids[4];
    const size_t count = sentencepiece_bytes(codec, bytes, length, ids);
    const bool repeats = count == 0 && *unknown;
    *unknown = count == 0;
    if (count == 0)
        return repeats ? WISP_OK : token_list_add(list, codec->unknown, error);
    for (size_t i = 0; i < count; i++)
        TRY(token_list_add(list, ids[i], error));
    return WISP_OK;
}
