/* SPDX-License-Identifier: Apache-2.0
 * tokenizer.json of a decoder: byte-level BPE, SentencePiece's BPE and unigram models. Every part
 * of it has to be one that a codec computes. The lengths in truncation and padding are ignored on
 * purpose: they are the caller's, and a batch is never padded here. */
#include <string.h>

#include "formats/schema.h"
#include "huggingface/codec_reading.h"
#include "huggingface/json_file.h"

/* The steps of a tokenizer.json by which a text is prepared for the model. */
struct pipeline {
    bool composes;           /* the normalizer NFC */
    bool prepends, replaces; /* normalizers put U+2581 before a text, and in place of spaces */
    bool is_byte_level;
    bool has_regex;           /* ByteLevel cuts texts by its own pattern, that of GPT-2 */
    const struct json *regex; /* by which a Split cuts texts; NULL: none */
    bool is_metaspace;
    const char *scheme; /* by which Metaspace puts spaces before texts; NULL: it puts none */
    bool splits_spaces;
};

/* Reads a member that is true or false. Where it is absent or null *value stays. */
static wisp_status read_bool(const struct codec_reading *r, const struct json *object,
                             const char *key, bool *value) {
    return hf_read_bool(object, key, value)
               ? WISP_OK
               : codec_fail_format(r, key, "true or false belongs here");
}

/* ---- normalizer ----------------------------------------------------------------------------- */

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
    if (json_equals(type, "NFC") && !p->prepends && !p->replaces && !p->composes) {
        p->composes = true;
    } else if (json_equals(type, "Prepend") &&
               json_equals(json_get(step, "prepend"), SPELLED_SPACE) && !p->prepends &&
               !p->composes) {
        p->prepends = true;
    } else if (json_equals(type, "Replace") &&
               json_equals(json_get(step, "content"), SPELLED_SPACE) &&
               json_equals(json_get(json_get(step, "pattern"), "String"), " ") && !p->composes) {
        p->replaces = true;
    } else {
        return codec_fail_unsupported(
            r, "normalizer", type, "NFC alone, and Prepend and Replace that spell a space U+2581");
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

static wisp_status read_split(const struct codec_reading *r, const struct json *step,
                              struct pipeline *p) {
    const struct json *pattern = json_get(step, "pattern"), *regex = json_get(pattern, "Regex");
    const struct json *behavior = json_get(step, "behavior");
    bool invert = false;
    TRY(read_bool(r, step, "invert", &invert));
    if (json_is(regex, JSON_STRING) && json_equals(behavior, "Isolated") && !invert && !p->regex) {
        p->regex = regex;
        return WISP_OK;
    }
    /* Gemma's tokenizers split at spaces and find none: the normalizer has replaced them all. */
    if (json_equals(json_get(pattern, "String"), " ") && p->replaces)
        return WISP_OK;
    return codec_fail_unsupported(r, "pre_tokenizer.behavior", behavior, "Isolated by a Regex");
}

static wisp_status read_pre_tokenizer(const struct codec_reading *r, const struct json *step,
                                      struct pipeline *p) {
    static const char field[] = "pre_tokenizer";
    const struct json *type = json_get(step, "type");
    const struct json *list = json_get(step, "pretokenizers");
    bool prefix = true;
    if (json_is_absent(step))
        return WISP_OK;
    if (p->is_byte_level || p->is_metaspace)
        return codec_fail_unsupported(r, field, type, "ByteLevel or Metaspace as the last step");
    if (json_equals(type, "Sequence") && json_is(list, JSON_ARRAY)) {
        for (const struct json *inner = list->first; inner; inner = inner->next)
            TRY(read_pre_tokenizer(r, inner, p));
        return WISP_OK;
    }
    if (json_equals(type, "Split"))
        return read_split(r, step, p);
    if (json_equals(type, "Metaspace"))
        return read_metaspace(r, step, p);
    if (!json_equals(type, "ByteLevel"))
        return codec_fail_unsupported(r, field, type, "Split, ByteLevel and Metaspace");
    p->is_byte_level = p->has_regex = true;
    TRY(read_bool(r, step, "use_regex", &p->has_regex));
    TRY(read_bool(r, step, "add_prefix_space", &prefix));
    return prefix ? codec_fail_unsupported(r, "add_prefix_space",
                                           json_get(step, "add_prefix_space"), "false")
                  : WISP_OK;
}

/* ---- byte-level BPE ------------------------------------------------------------------------- */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define OTHERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The pre-tokenizers of src/text/pretokenize.c. A model of each name normalises texts by NFC or
 * not, and ignores merges where a whole word is a token or not: a folder that does otherwise needs
 * a setting of its own or is refused. */
static const struct {
    const char *name;  /* tokenizer.ggml.pre */
    const char *regex; /* NULL: ByteLevel's own */
    bool composes, ignores_merges;
} pretokenizers[] = {
    {"gpt-2", NULL, false, false},
    {"llama-bpe", CONTRACTIONS WORDS "\\p{N}{1,3}" OTHERS, false, true},
    {"qwen2", CONTRACTIONS WORDS "\\p{N}" OTHERS, true, false},
};

static wisp_status find_pretokenizer(struct codec_reading *r, const struct pipeline *p,
                                     bool ignores_merges) {
    enum { ROWS = sizeof pretokenizers / sizeof *pretokenizers };
    size_t i = 0;
    if (p->has_regex == (p->regex != NULL) || p->prepends || p->replaces)
        return codec_fail_unsupported(r, "pre_tokenizer", NULL,
                                      "ByteLevel with a pattern, its own or that of a Split");
    while (i < ROWS &&
           (p->regex ? !pretokenizers[i].regex || !json_equals(p->regex, pretokenizers[i].regex)
                     : pretokenizers[i].regex != NULL))
        i++;
    if (i == ROWS)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file, "pre_tokenizer",
                    "texts cut by the pattern %.200s are not supported, only by those of GPT-2, "
                    "Llama 3 and Qwen2",
                    hf_shown(p->regex));
    if (p->composes != pretokenizers[i].composes)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file, "normalizer",
                    "%s is not supported with the pattern of %s", p->composes ? "NFC" : "(none)",
                    pretokenizers[i].name);
    if (ignores_merges != pretokenizers[i].ignores_merges)
        TRY(directory_put_bool(r->dir, KEY_TOKENIZER_IGNORE_MERGES, ignores_merges, r->error));
    r->model = "gpt2";
    r->pre = pretokenizers[i].name;
    return WISP_OK;
}

/* ---- SentencePiece -------------------------------------------------------------------------- */

static wisp_status read_spaces(struct codec_reading *r, const struct pipeline *p) {
    if (p->composes || p->regex || p->is_metaspace == p->replaces || (p->prepends && !p->replaces))
        return codec_fail_unsupported(r, "pre_tokenizer", NULL,
                                      "ByteLevel, or spaces that become U+2581 once, by a "
                                      "normalizer or Metaspace");
    r->prefix = !p->is_metaspace ? "each" : p->scheme ? p->scheme : "first";
    r->adds_space = p->is_metaspace ? p->scheme != NULL : p->prepends;
    r->splits_spaces = p->is_metaspace && p->splits_spaces;
    return WISP_OK;
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
        return codec_fail_format(r, "model.vocab",
                                 "an object of tokens and their ids belongs here");
    for (const struct json *entry = vocab->first; entry; entry = entry->next) {
        uint64_t id;
        if (!json_to_u64(entry, &id))
            return codec_fail_format(r, "model.vocab", "an id is no whole number");
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
        return codec_fail_format(r, field, "pairs of tokens belong here");
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
        return codec_fail_format(r, "model.merges", "an array belongs here");
    ARENA_TAKE(&r->dir->arena, r->merges, (size_t)list->count, r->error);
    for (const struct json *entry = list->first; entry; entry = entry->next)
        TRY(read_merge(r, entry, &r->merges[r->n_merges++]));
    return WISP_OK;
}

/* Makes scores of merges for codecs that merge by scores: the earlier the first merge that makes a
 * token stands in the list, the higher is its score. */
static wisp_status score_merges(struct codec_reading *r) {
    ARENA_TAKE(&r->dir->arena, r->scores, (size_t)r->capacity, r->error);
    for (uint32_t i = 0; i < r->capacity; i++)
        r->scores[i] = -(float)r->n_merges;
    for (size_t i = r->n_merges; i-- > 0;) {
        const wisp_text merge = r->merges[i];
        const char *space = merge.length ? memchr(merge.bytes, ' ', merge.length) : NULL;
        char joined[512];
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

static wisp_status check_affix(struct codec_reading *r, const struct json *model,
                               const char *field) {
    const struct json *affix = json_get(model, field);
    return json_is_absent(affix) || json_equals(affix, "")
               ? WISP_OK
               : codec_fail_unsupported(r, field, affix, "null");
}

static wisp_status read_bpe(struct codec_reading *r, const struct json *model,
                            const struct pipeline *p) {
    const struct json *unknown = json_get(model, "unk_token"),
                      *dropout = json_get(model, "dropout");
    bool ignores_merges = false, byte_fallback = false, fuse_unknown = false;
    double chance = 0;
    TRY(check_affix(r, model, "continuing_subword_prefix"));
    TRY(check_affix(r, model, "end_of_word_suffix"));
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
                                      "true, with an unk_token, where bytes have no tokens");
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
        return codec_fail_format(r, field, "an array of tokens and their scores belongs here");
    ARENA_TAKE(&r->dir->arena, r->scores, (size_t)r->capacity, r->error);
    for (const struct json *entry = vocab->first; entry; entry = entry->next, id++) {
        const struct json *piece = json_is(entry, JSON_ARRAY) ? entry->first : NULL;
        double score;
        if (!json_is(piece, JSON_STRING) || !json_to_double(piece->next, &score))
            return codec_fail_format(r, field, "a token and its score belong in each entry");
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

static bool has_spelled_space(wisp_text text) {
    for (size_t i = 0; i < text.length; i++)
        if (spelled_space_at(text.bytes + i, text.bytes + text.length))
            return true;
    return false;
}

static wisp_status read_added_tokens(struct codec_reading *r, const struct json *list) {
    static const char field[] = "added_tokens";
    if (json_is_absent(list))
        return WISP_OK;
    if (!json_is(list, JSON_ARRAY))
        return codec_fail_format(r, field, "an array belongs here");
    for (const struct json *entry = list->first; entry; entry = entry->next) {
        uint64_t id;
        if (!json_to_u64(json_get(entry, "id"), &id))
            return codec_fail_format(r, field, "every added token needs an id");
        const bool is_piece = id < r->capacity && r->tokens[id].bytes;
        TRY(codec_add_token(r, entry, id));
        /* Such a tokenizer spells spaces as U+2581. An added token with U+2581 in it, such as
         * Gemma's runs of spaces, is then found as the pieces of the model are. */
        if (r->pre || codec_is_beyond(r, entry, id) || r->types[id] != TOKEN_USER_DEFINED ||
            !has_spelled_space(r->tokens[id]))
            continue;
        if (!is_piece)
            return codec_fail_unsupported(r, field, json_get(entry, "content"),
                                          "tokens without U+2581 beside the vocabulary");
        r->types[id] = TOKEN_NORMAL;
    }
    return WISP_OK;
}

/* ---- post_processor ------------------------------------------------------------------------- */

static wisp_status read_template(struct codec_reading *r, const struct json *step) {
    static const char field[] = "post_processor";
    const struct json *single = json_get(step, "single");
    const struct json *first = json_is(single, JSON_ARRAY) ? single->first : NULL;
    const struct json *token = json_get(first, "SpecialToken");
    const struct json *name = json_get(token, "id");
    const struct json *text = first && token ? first->next : first;
    uint64_t id;
    if (!text || !json_get(text, "Sequence") || text->next)
        return codec_fail_unsupported(r, field, NULL, "at most one special token before $A");
    if (!token)
        return WISP_OK;
    const struct json *ids = json_get(
        json_get(json_get(step, "special_tokens"), json_is(name, JSON_STRING) ? name->text : ""),
        "ids");
    if (!json_is(ids, JSON_ARRAY) || ids->count != 1 || !json_to_u64(ids->first, &id) ||
        id >= r->capacity || !r->tokens[id].bytes)
        return codec_fail_unsupported(r, field, name, "tokens of one id from the vocabulary");
    r->bos = (int32_t)id;
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
