/* SPDX-License-Identifier: Apache-2.0
 * tokenizer.json of a decoder: byte-level BPE, SentencePiece's BPE and unigram models. Every part
 * of it has to be one that a codec computes. The lengths in truncation and padding are ignored on
 * purpose: they are the caller's, and a batch is never padded here. */
#include <ctype.h>
#include <string.h>

#include "base/product.h"
#include "formats/pretokenizers.h"
#include "formats/schema.h"
#include "huggingface/base64.h"
#include "huggingface/codec_sources.h"
#include "huggingface/json_file.h"

/* The steps of a tokenizer.json by which a text is prepared for the model. */
struct pipeline {
    bool composes;           /* the normalizer NFC */
    bool folds, lowers;      /* normalizers make one space of white space, and put lower case */
    uint64_t dropped[2];     /* a bit for each character of ASCII that normalizers drop */
    bool ends_words;         /* the last token of a word ends with PRE_WORD_END */
    bool prepends, replaces; /* normalizers put U+2581 before a text, and instead of spaces */
    bool is_byte_level;
    const char *regexes[PRETOKENIZER_STEPS]; /* by which steps cut texts, in their order */
    size_t n_regexes;
    const struct json *charsmap; /* of the normalizer Precompiled, in base64; NULL: none */
    bool strips, squeezes;       /* normalizers drop spaces at the end, make one of several */
    bool strips_first;           /* white space at both ends is dropped before Precompiled */
    bool splits_words;           /* WhitespaceSplit: words are cut, and white space dropped */
    bool is_metaspace;
    const char *scheme; /* by which Metaspace puts spaces before texts; NULL: it puts none */
    bool splits_spaces;
};

/* Reads a member that is true or false. If it is absent or null *value stays. */
static wisp_status read_bool(const struct codec_reading *r, const struct json *object,
                             const char *key, bool *value) {
    return hf_read_bool(object, key, value) ? WISP_OK
                                            : codec_fail_format(r, key, "expected true or false");
}

/* ---- normalizer ----------------------------------------------------------------------------- */

static void drop(struct pipeline *p, char c) {
    const unsigned code = (unsigned char)c;
    if (code < 128)
        p->dropped[code / 64] |= UINT64_C(1) << code % 64;
}

/* Returns whether a Replace drops characters of ASCII: one, or those of a regular expression
 * "[...]" without ranges. Adds them to those that are dropped. */
static bool drops(struct pipeline *p, const struct json *step) {
    const struct json *pattern = json_get(step, "pattern");
    const struct json *regex = json_get(pattern, "Regex"), *text = json_get(pattern, "String");
    if (!json_equals(json_get(step, "content"), ""))
        return false;
    if (json_is(text, JSON_STRING) && text->text_length == 1) {
        drop(p, *text->text);
        return true;
    }
    const size_t length = json_is(regex, JSON_STRING) ? regex->text_length : 0;
    if (length < 3 || regex->text[0] != '[' || regex->text[length - 1] != ']' ||
        regex->text[1] == '^')
        return false;
    for (size_t i = 1; i + 1 < length; i++) {
        const bool escaped = regex->text[i] == '\\' && i + 2 < length;
        if (!escaped && regex->text[i] == '-' && i > 1 && i + 2 < length)
            return false; /* a range */
        i += escaped;
        if (isalnum((unsigned char)regex->text[i]))
            return false; /* a class such as \s */
        drop(p, regex->text[i]);
    }
    return true;
}

/* Returns whether what is dropped is nothing, and sets *all to whether it is the punctuation of
 * ASCII. */
static bool drops_nothing(const struct pipeline *p, bool *all) {
    *all = p->dropped[0] == UINT64_C(0xFC00FFFE00000000) &&
           p->dropped[1] == UINT64_C(0x78000001F8000001);
    return (p->dropped[0] | p->dropped[1]) == 0;
}

static wisp_status read_normalizer(const struct codec_reading *r, const struct json *step,
                                   struct pipeline *p) {
    const struct json *type = json_get(step, "type");
    const struct json *list = json_get(step, "normalizers");
    if (json_is_absent(step))
        return WISP_OK;
    if (json_equals(type, "Sequence") && json_is(list, JSON_ARRAY)) {
        for (const struct json *inner = list->first; inner; inner = inner->next)
            TRY(read_normalizer(r, inner, p));
        return WISP_OK;
    }
    if (json_equals(type, "NFC") && !p->prepends && !p->replaces && !p->composes &&
        !(READS_CLIP && p->lowers)) {
        p->composes = true;
    } else if (READS_CLIP && json_equals(type, "Lowercase") && !p->prepends && !p->replaces) {
        p->lowers = true;
    } else if (READS_CLIP && json_equals(type, "Replace") &&
               json_equals(json_get(step, "content"), " ") &&
               json_equals(json_get(json_get(step, "pattern"), "Regex"), "\\s+")) {
        p->folds = true;
    } else if (READS_CLIP && json_equals(type, "Replace") && !p->replaces && !p->charsmap &&
               drops(p, step)) {
        return WISP_OK;
    } else if (json_equals(type, "Prepend") &&
               json_equals(json_get(step, "prepend"), SPELLED_SPACE) && !p->prepends &&
               !p->composes) {
        p->prepends = true;
    } else if (json_equals(type, "Replace") &&
               json_equals(json_get(step, "content"), SPELLED_SPACE) &&
               json_equals(json_get(json_get(step, "pattern"), "String"), " ") && !p->composes) {
        p->replaces = true;
    } else if (json_equals(type, "Precompiled") && !p->charsmap && !p->replaces) {
        p->charsmap = json_get(step, "precompiled_charsmap");
    } else if (json_equals(type, "Strip") && json_is(json_get(step, "strip_right"), JSON_TRUE) &&
               !p->replaces) {
        p->strips = true;
        p->strips_first = !p->charsmap && json_is(json_get(step, "strip_left"), JSON_TRUE);
    } else if (json_equals(type, "Replace") && !p->replaces &&
               json_equals(json_get(json_get(step, "pattern"), "Regex"), " {2,}") &&
               (json_equals(json_get(step, "content"), " ") ||
                json_equals(json_get(step, "content"), SPELLED_SPACE))) {
        p->squeezes = true;
    } else {
        return codec_fail_unsupported(
            r, "normalizer", type,
            "NFC alone, Prepend and Replace that spell a space U+2581, and Precompiled, Strip and "
            "Replace of several spaces");
    }
    return WISP_OK;
}

/* ---- pre_tokenizer -------------------------------------------------------------------------- */

static wisp_status read_metaspace(const struct codec_reading *r, const struct json *step,
                                  struct pipeline *p) {
    const struct json *scheme = json_get(step, "prepend_scheme");
    bool prefix = true, split = true;
    if (!json_equals(json_get(step, "replacement"), SPELLED_SPACE))
        return codec_fail_unsupported(r, "replacement", json_get(step, "replacement"), "U+2581");
    TRY(read_bool(r, step, "add_prefix_space", &prefix));
    TRY(read_bool(r, step, "split", &split));
    if (json_equals(scheme, "first"))
        p->scheme = "first";
    else if (json_equals(scheme, "never") || (json_is_absent(scheme) && !prefix))
        p->scheme = NULL;
    else if (json_equals(scheme, "always") || json_is_absent(scheme))
        p->scheme = "always";
    else
        return codec_fail_unsupported(r, "prepend_scheme", scheme, "always, first and never");
    p->is_metaspace = true;
    p->splits_spaces = split;
    return WISP_OK;
}

/* Writes control characters of a regular expression as the escapes that the table of
 * pre-tokenizers has. */
static const char *spell_regex(const struct codec_reading *r, wisp_text regex) {
    static const char controls[] = "\r\n\t", letters[] = "rnt";
    char *spelled = arena_allocate(&r->dir->arena, 2 * regex.length + 1);
    size_t length = 0;
    for (size_t i = 0; spelled && i < regex.length; i++) {
        const char *control = regex.bytes[i] ? strchr(controls, regex.bytes[i]) : NULL;
        if (control)
            spelled[length++] = '\\';
        spelled[length++] = control ? letters[control - controls] : regex.bytes[i];
    }
    return spelled;
}

static wisp_status add_regex(const struct codec_reading *r, struct pipeline *p, const char *regex) {
    if (!regex)
        return fail_memory(r->error, 1);
    if (p->n_regexes == PRETOKENIZER_STEPS)
        return codec_fail_format(r, "pre_tokenizer", "more steps than any known pre-tokenizer has");
    p->regexes[p->n_regexes++] = regex;
    return WISP_OK;
}

static wisp_status read_split(const struct codec_reading *r, const struct json *step,
                              struct pipeline *p) {
    const struct json *pattern = json_get(step, "pattern"), *regex = json_get(pattern, "Regex");
    const struct json *behavior = json_get(step, "behavior");
    bool invert = false;
    TRY(read_bool(r, step, "invert", &invert));
    if (json_is(regex, JSON_STRING) && json_equals(behavior, invert ? "Removed" : "Isolated"))
        return add_regex(r, p, spell_regex(r, json_text(regex)));
    /* Gemma's tokenizers split at spaces and find none: the normalizer has replaced them all. */
    if (json_equals(json_get(pattern, "String"), " ") && p->replaces)
        return WISP_OK;
    return codec_fail_unsupported(r, "pre_tokenizer.behavior", behavior, "Isolated by a Regex");
}

static wisp_status read_digits(const struct codec_reading *r, const struct json *step,
                               struct pipeline *p) {
    bool each = false;
    TRY(read_bool(r, step, "individual_digits", &each));
    return add_regex(r, p, each ? REGEX_DIGIT : REGEX_DIGITS);
}

static wisp_status read_punctuation(const struct codec_reading *r, const struct json *step,
                                    struct pipeline *p) {
    const struct json *behavior = json_get(step, "behavior");
    if (json_is_absent(behavior) || json_equals(behavior, "Isolated"))
        return add_regex(r, p, REGEX_PUNCTUATION);
    return json_equals(behavior, "Contiguous")
               ? add_regex(r, p, REGEX_PUNCTUATION "+")
               : codec_fail_unsupported(r, "pre_tokenizer.behavior", behavior,
                                        "Isolated and Contiguous");
}

static wisp_status read_byte_level(const struct codec_reading *r, const struct json *step,
                                   struct pipeline *p) {
    bool prefix = true, has_regex = true;
    p->is_byte_level = true;
    TRY(read_bool(r, step, "use_regex", &has_regex));
    TRY(read_bool(r, step, "add_prefix_space", &prefix));
    if (prefix)
        return codec_fail_unsupported(r, "add_prefix_space", json_get(step, "add_prefix_space"),
                                      "false");
    return has_regex ? add_regex(r, p, REGEX_BYTE_LEVEL) : WISP_OK;
}

/* Reads a step. Those after ByteLevel, which Falcon's tokenizers have, cut its alphabet: as that
 * spells ASCII digits as themselves, they cut what they would cut before it. */
static wisp_status read_pre_tokenizer(const struct codec_reading *r, const struct json *step,
                                      struct pipeline *p) {
    static const char field[] = "pre_tokenizer";
    const struct json *type = json_get(step, "type");
    const struct json *list = json_get(step, "pretokenizers");
    if (json_is_absent(step))
        return WISP_OK;
    if (json_equals(type, "Sequence") && json_is(list, JSON_ARRAY)) {
        for (const struct json *inner = list->first; inner; inner = inner->next)
            TRY(read_pre_tokenizer(r, inner, p));
        return WISP_OK;
    }
    if (p->is_metaspace)
        return codec_fail_unsupported(r, field, type, "Metaspace as the last step");
    if (json_equals(type, "Split"))
        return read_split(r, step, p);
    if (json_equals(type, "Digits"))
        return read_digits(r, step, p);
    if (json_equals(type, "Punctuation"))
        return read_punctuation(r, step, p);
    if (json_equals(type, "WhitespaceSplit") && !p->is_byte_level && p->n_regexes == 0) {
        p->splits_words = true;
        return WISP_OK;
    }
    if (json_equals(type, "Metaspace") && !p->is_byte_level && p->n_regexes == 0)
        return read_metaspace(r, step, p);
    if (json_equals(type, "ByteLevel") && !p->is_byte_level)
        return read_byte_level(r, step, p);
    return codec_fail_unsupported(r, field, type,
                                  "Split, Digits, Punctuation and one ByteLevel, or Metaspace");
}

/* ---- byte-level BPE ------------------------------------------------------------------------- */

/* Finds the pre-tokenizer that cuts texts as this pipeline does. What its models do otherwise is
 * noted. */
static wisp_status find_pretokenizer(struct codec_reading *r, const struct pipeline *p,
                                     bool whole) {
    const unsigned flags = (p->composes ? PRE_NFC : 0u) | (whole ? PRE_WHOLE : 0u);
    const struct pretokenizer *found = pretokenizer_with(p->regexes, p->n_regexes, flags);
    bool drops_all;
    if (p->prepends || p->replaces || (READS_CLIP && !drops_nothing(p, &drops_all)))
        return codec_fail_unsupported(r, "normalizer", NULL, "NFC with ByteLevel");
    if (!found) {
        const char *last = p->n_regexes > 0 ? p->regexes[p->n_regexes - 1] : "(none)";
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file, "pre_tokenizer",
                    "a pattern is missing in src/formats/pretokenizers.c: %zu steps, of which "
                    "the first is %.120s and the last is %.120s",
                    p->n_regexes, p->n_regexes > 0 ? p->regexes[0] : "(none)", last);
    }
    const bool ends_words = found->flags & PRE_WORDS;
    if (READS_CLIP &&
        (p->ends_words != ends_words || p->lowers != ends_words || p->folds != ends_words))
        return codec_fail_unsupported(r, "end_of_word_suffix", NULL,
                                      "\"" PRE_WORD_END "\" together with Lowercase, Replace of "
                                      "white space and CLIP's pattern");
    if ((flags ^ found->flags) & PRE_NFC)
        TRY(directory_put_bool(r->dir, KEY_TOKENIZER_NFC, p->composes, r->error));
    if ((flags ^ found->flags) & PRE_WHOLE)
        TRY(directory_put_bool(r->dir, KEY_TOKENIZER_IGNORE_MERGES, whole, r->error));
    return codec_cut_by(r, found);
}

/* ---- SentencePiece -------------------------------------------------------------------------- */

static wisp_status read_charsmap(struct codec_reading *r, const struct json *given) {
    if (json_is_absent(given))
        return WISP_OK;
    if (!json_is(given, JSON_STRING) ||
        !hf_base64_decode(&r->dir->arena, json_text(given), &r->charsmap))
        return codec_fail_format(r, "precompiled_charsmap", "expected a text in base64");
    return r->charsmap.bytes ? WISP_OK : fail_memory(r->error, given->text_length);
}

static wisp_status read_spaces(struct codec_reading *r, const struct pipeline *p) {
    bool drops_all = false;
    if (READS_CLIP && !drops_nothing(p, &drops_all) && !drops_all)
        return codec_fail_unsupported(r, "normalizer", NULL,
                                      "Replace that drops all punctuation of ASCII, or none");
    if (p->composes || (READS_CLIP && (p->folds != drops_all || p->ends_words)) ||
        p->n_regexes > 0 || p->is_metaspace == p->replaces || (p->prepends && !p->replaces))
        return codec_fail_unsupported(r, "pre_tokenizer", NULL,
                                      "ByteLevel, or spaces that become U+2581 once, by a "
                                      "normalizer or Metaspace");
    if (p->splits_words && (!p->scheme || strcmp(p->scheme, "always") != 0))
        return codec_fail_unsupported(r, "prepend_scheme", NULL, "always after WhitespaceSplit");
    if (!p->splits_words && p->strips != p->squeezes && !(READS_CLIP && drops_all))
        return codec_fail_unsupported(r, "normalizer", NULL,
                                      "Strip with Replace of several spaces");
    r->prefix = !p->is_metaspace ? "each" : p->scheme ? p->scheme : "first";
    r->adds_space = p->is_metaspace ? p->scheme != NULL : p->prepends;
    r->splits_spaces = p->is_metaspace && p->splits_spaces;
    r->squeezes_spaces = p->splits_words || p->squeezes || (READS_CLIP && p->strips);
    r->lowers = READS_CLIP && p->lowers;
    r->drops_punctuation = READS_CLIP && drops_all;
    r->white_space = p->splits_words;
    r->strips_first = p->strips_first && !p->splits_words;
    return read_charsmap(r, p->charsmap);
}

/* Gives the tokens "<0x00>" to "<0xFF>" their type, and returns their number. */
static size_t mark_bytes(struct codec_reading *r) {
    static const char digits[] = "0123456789ABCDEF";
    size_t found = 0;
    for (unsigned b = 0; b < 256; b++) {
        const char text[] = {'<', '0', 'x', digits[b / 16], digits[b % 16], '>'};
        const int32_t id = codec_find_token(r, (wisp_text){text, sizeof text});
        if (id < 0)
            continue;
        r->types[id] = TOKEN_BYTE;
        found++;
    }
    return found;
}

/* ---- models --------------------------------------------------------------------------------- */

static wisp_status read_vocabulary(struct codec_reading *r, const struct json *vocab) {
    if (!json_is(vocab, JSON_OBJECT) || vocab->count == 0)
        return codec_fail_format(r, "model.vocab", "expected an object of tokens and their ids");
    for (const struct json *entry = vocab->first; entry; entry = entry->next) {
        uint64_t id;
        if (!json_to_u64(entry, &id))
            return codec_fail_format(r, "model.vocab", "an id is not a whole number");
        TRY(codec_put_token(r, id, (wisp_text){entry->key, entry->key_length}));
    }
    r->next_id = r->model_count = vocab->count;
    return codec_sort_tokens(r);
}

/* Reads a merge, which is "left right" or ["left", "right"], as the former. */
static wisp_status read_merge(struct codec_reading *r, const struct json *entry, wisp_text *merge) {
    static const char field[] = "model.merges";
    const struct json *left = json_is(entry, JSON_ARRAY) && entry->count == 2 ? entry->first : NULL;
    if (json_is(entry, JSON_STRING)) {
        *merge = json_text(entry);
        return WISP_OK;
    }
    if (!json_is(left, JSON_STRING) || !json_is(left->next, JSON_STRING))
        return codec_fail_format(r, field, "expected pairs of tokens");
    if (memchr(left->text, ' ', left->text_length) ||
        memchr(left->next->text, ' ', left->next->text_length))
        return codec_fail_unsupported(r, field, left, "tokens without spaces");
    const size_t length = left->text_length + 1 + left->next->text_length;
    char *text = arena_allocate(&r->dir->arena, length + 1);
    if (!text)
        return fail_memory(r->error, length);
    memcpy(text, left->text, left->text_length);
    text[left->text_length] = ' ';
    memcpy(text + left->text_length + 1, left->next->text, left->next->text_length);
    *merge = (wisp_text){text, length};
    return WISP_OK;
}

static wisp_status read_merges(struct codec_reading *r, const struct json *list) {
    if (!json_is(list, JSON_ARRAY))
        return codec_fail_format(r, "model.merges", "expected an array");
    ARENA_TAKE(&r->dir->arena, r->merges, (size_t)list->count, r->error);
    for (const struct json *entry = list->first; entry; entry = entry->next)
        TRY(read_merge(r, entry, &r->merges[r->n_merges++]));
    return WISP_OK;
}

/* Makes scores of merges for codecs that merge by scores: the earlier the first merge that makes a
 * token is in the list, the higher is its score. */
static wisp_status score_merges(struct codec_reading *r) {
    ARENA_TAKE(&r->dir->arena, r->scores, (size_t)r->capacity, r->error);
    for (uint32_t i = 0; i < r->capacity; i++)
        r->scores[i] = -(float)r->n_merges;
    for (size_t i = r->n_merges; i-- > 0;) {
        const wisp_text merge = r->merges[i];
        const char *space = merge.length ? memchr(merge.bytes, ' ', merge.length) : NULL;
        char joined[2 * PIECE_MAX_BYTES];
        if (!space || merge.length > sizeof joined) /* the codec refuses it */
            continue;
        const size_t left = (size_t)(space - merge.bytes);
        memcpy(joined, merge.bytes, left);
        memcpy(joined + left, space + 1, merge.length - left - 1);
        const int32_t id = codec_find_token(r, (wisp_text){joined, merge.length - 1});
        if (id >= 0)
            r->scores[id] = -(float)i;
    }
    return WISP_OK;
}

/* Reads what is put before tokens that continue a word, and behind those that end one. */
static wisp_status read_affixes(struct codec_reading *r, const struct json *model,
                                struct pipeline *p) {
    const struct json *before = json_get(model, "continuing_subword_prefix");
    const struct json *behind = json_get(model, "end_of_word_suffix");
    p->ends_words = READS_CLIP && json_equals(behind, PRE_WORD_END);
    if (!json_is_absent(before) && !json_equals(before, ""))
        return codec_fail_unsupported(r, before->key, before, "null");
    return p->ends_words || json_is_absent(behind) || json_equals(behind, "")
               ? WISP_OK
               : codec_fail_unsupported(r, behind->key, behind,
                                        READS_CLIP ? "null and \"" PRE_WORD_END "\"" : "null");
}

static wisp_status read_bpe(struct codec_reading *r, const struct json *model, struct pipeline *p) {
    const struct json *unknown = json_get(model, "unk_token"),
                      *dropout = json_get(model, "dropout");
    bool ignores_merges = false, byte_fallback = false, fuse_unknown = false;
    double chance = 0;
    TRY(read_affixes(r, model, p));
    TRY(read_bool(r, model, "ignore_merges", &ignores_merges));
    TRY(read_bool(r, model, "byte_fallback", &byte_fallback));
    TRY(read_bool(r, model, "fuse_unk", &fuse_unknown));
    if (!json_is_absent(dropout) && (!json_to_double(dropout, &chance) || chance != 0))
        return codec_fail_unsupported(r, "dropout", dropout, "null");
    TRY(read_vocabulary(r, json_get(model, "vocab")));
    TRY(read_merges(r, json_get(model, "merges")));
    if (p->is_byte_level) {
        if (byte_fallback)
            return codec_fail_unsupported(r, "byte_fallback", json_get(model, "byte_fallback"),
                                          "false with ByteLevel");
        return find_pretokenizer(r, p, ignores_merges);
    }
    if (ignores_merges)
        return codec_fail_unsupported(r, "ignore_merges", json_get(model, "ignore_merges"),
                                      "false without ByteLevel");
    if (json_is(unknown, JSON_STRING))
        r->unknown = codec_find_token(r, json_text(unknown));
    r->model = "llama";
    TRY(read_spaces(r, p));
    const size_t bytes = byte_fallback ? mark_bytes(r) : 0;
    if (bytes < 256 && (!fuse_unknown || r->unknown < 0))
        return codec_fail_unsupported(r, "fuse_unk", json_get(model, "fuse_unk"),
                                      "true with an unk_token, but bytes have no tokens");
    return score_merges(r);
}

static wisp_status read_unigram(struct codec_reading *r, const struct json *model,
                                const struct pipeline *p) {
    static const char field[] = "model.vocab";
    const struct json *vocab = json_get(model, "vocab"), *unknown = json_get(model, "unk_id");
    bool byte_fallback = false;
    uint64_t id = 0;
    TRY(read_bool(r, model, "byte_fallback", &byte_fallback));
    if (!json_is(vocab, JSON_ARRAY) || vocab->count == 0)
        return codec_fail_format(r, field, "expected an array of tokens and their scores");
    ARENA_TAKE(&r->dir->arena, r->scores, (size_t)r->capacity, r->error);
    for (const struct json *entry = vocab->first; entry; entry = entry->next, id++) {
        const struct json *piece = json_is(entry, JSON_ARRAY) ? entry->first : NULL;
        double score;
        if (!json_is(piece, JSON_STRING) || !json_to_double(piece->next, &score))
            return codec_fail_format(r, field, "each entry must be a token and its score");
        TRY(codec_put_token(r, id, json_text(piece)));
        r->scores[id] = (float)score;
    }
    r->next_id = r->model_count = vocab->count;
    TRY(codec_sort_tokens(r));
    if (!json_to_u64(unknown, &id) || id >= vocab->count)
        return codec_fail_unsupported(r, "model.unk_id", unknown, "the id of a token");
    r->unknown = (int32_t)id;
    r->model = "t5";
    if (byte_fallback)
        mark_bytes(r);
    return p->is_byte_level
               ? codec_fail_unsupported(r, "pre_tokenizer", NULL, "Metaspace for a Unigram model")
               : read_spaces(r, p);
}

/* ---- added_tokens --------------------------------------------------------------------------- */

static wisp_status read_added_tokens(struct codec_reading *r, const struct json *list) {
    static const char field[] = "added_tokens";
    if (json_is_absent(list))
        return WISP_OK;
    if (!json_is(list, JSON_ARRAY))
        return codec_fail_format(r, field, "expected an array");
    for (const struct json *entry = list->first; entry; entry = entry->next) {
        uint64_t id;
        if (!json_to_u64(json_get(entry, "id"), &id))
            return codec_fail_format(r, field, "every added token needs an id");
        TRY(codec_add_token(r, entry, id));
    }
    return WISP_OK;
}

/* ---- post_processor ------------------------------------------------------------------------- */

/* Reads the id of a special token that a template names. */
static wisp_status read_special(struct codec_reading *r, const struct json *step,
                                const struct json *token, int32_t *special) {
    const struct json *name = json_get(token, "id");
    const struct json *ids = json_get(
        json_get(json_get(step, "special_tokens"), json_is(name, JSON_STRING) ? name->text : ""),
        "ids");
    uint64_t id;
    if (!json_is(ids, JSON_ARRAY) || ids->count != 1 || !json_to_u64(ids->first, &id) ||
        id >= r->capacity || !r->tokens[id].bytes)
        return codec_fail_unsupported(r, "post_processor", name,
                                      "tokens of one id from the vocabulary");
    *special = (int32_t)id;
    return WISP_OK;
}

/* Reads the template of a text: at most one special token before it and, of a model that embeds,
 * at most one after it. */
static wisp_status read_template(struct codec_reading *r, const struct json *step) {
    const struct json *single = json_get(step, "single");
    const struct json *first = json_is(single, JSON_ARRAY) ? single->first : NULL;
    const struct json *before = json_get(first, "SpecialToken");
    const struct json *text = first && before ? first->next : first;
    const struct json *after = text ? json_get(text->next, "SpecialToken") : NULL;
    if (!text || !json_get(text, "Sequence") || (after && !r->embeds) ||
        (after ? text->next->next : text->next))
        return codec_fail_unsupported(r, "post_processor", NULL,
                                      r->embeds
                                          ? "at most one special token before $A and one after it"
                                          : "at most one special token before $A");
    if (before)
        TRY(read_special(r, step, before, &r->bos));
    r->add_bos = before != NULL;
    return after ? read_special(r, step, after, &r->last) : WISP_OK;
}

/* Reads RobertaProcessing or BertProcessing: ["<s>", 0] and ["</s>", 2] around each text. */
static wisp_status read_processing(struct codec_reading *r, const struct json *step) {
    static const char *const keys[] = {"cls", "sep"};
    int32_t *const ids[] = {&r->bos, &r->last};
    for (size_t i = 0; i < 2; i++) {
        const struct json *pair = json_get(step, keys[i]);
        uint64_t id;
        if (!json_is(pair, JSON_ARRAY) || pair->count != 2 ||
            !json_to_u64(pair->first->next, &id) || id >= r->capacity || !r->tokens[id].bytes)
            return codec_fail_format(r, keys[i], "expected a token of the vocabulary and its id");
        *ids[i] = (int32_t)id;
    }
    r->add_bos = true;
    return WISP_OK;
}

static wisp_status read_post_processor(struct codec_reading *r, const struct json *step) {
    const struct json *type = json_get(step, "type"), *list = json_get(step, "processors");
    if (json_is_absent(step) || json_equals(type, "ByteLevel")) /* which changes offsets only */
        return WISP_OK;
    if (json_equals(type, "Sequence") && json_is(list, JSON_ARRAY)) {
        for (const struct json *inner = list->first; inner; inner = inner->next)
            TRY(read_post_processor(r, inner));
        return WISP_OK;
    }
    if (r->embeds &&
        (json_equals(type, "RobertaProcessing") || json_equals(type, "BertProcessing")))
        return read_processing(r, step);
    if (!json_equals(type, "TemplateProcessing") || r->add_bos)
        return codec_fail_unsupported(r, "post_processor", type,
                                      "ByteLevel and TemplateProcessing");
    return read_template(r, step);
}

wisp_status codec_read_json(struct codec_reading *r, const struct json *root) {
    const struct json *model = json_get(root, "model"), *type = json_get(model, "type");
    struct pipeline p = {0};
    TRY(read_normalizer(r, json_get(root, "normalizer"), &p));
    TRY(read_pre_tokenizer(r, json_get(root, "pre_tokenizer"), &p));
    if (json_equals(type, "BPE") || (json_is_absent(type) && json_get(model, "merges")))
        TRY(read_bpe(r, model, &p));
    else if (json_equals(type, "Unigram"))
        TRY(read_unigram(r, model, &p));
    else
        return codec_fail_unsupported(r, "model.type", type, "BPE and Unigram");
    TRY(read_added_tokens(r, json_get(root, "added_tokens")));
    if (r->unknown >= 0)
        r->types[r->unknown] = TOKEN_UNKNOWN;
    return read_post_processor(r, json_get(root, "post_processor"));
}
