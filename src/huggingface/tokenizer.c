/* SPDX-License-Identifier: Apache-2.0
 * Reads tokenizer.json and vocab.txt. tokenizer_config.c has the other files, and says what of
 * these two counts. The lengths in truncation and padding are ignored on purpose:
 * sentence-transformers overrides them with its own, and a batch is never padded here. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "host/file.h"
#include "host/input_file.h"
#include "huggingface/json_file.h"
#include "huggingface/sorted_tokens.h"
#include "huggingface/tokenizer.h"

enum { MAX_TOKENS = 1 << 26 };

static wisp_status bad(const struct reading *r, const char *field, const char *what) {
    return fail(r->error, WISP_ERROR_FORMAT, r->file, field, "%s", what);
}

static wisp_status unsupported(const struct reading *r, const char *field, const char *what) {
    return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file, field, "%s", what);
}

static wisp_status unsupported_value(const struct reading *r, const char *field,
                                     const struct json *value, const char *wanted) {
    return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file, field,
                "%.64s is not supported, only %s: wisp reads the WordPiece tokenizers of BERT",
                hf_shown(value), wanted);
}

wisp_status hf_read_tokenizer_bool(const struct reading *r, const struct json *object,
                                   const char *key, const char *field, bool *value) {
    return hf_read_bool(object, key, value) ? WISP_OK : bad(r, field, "expected true or false");
}

static bool is_same(wisp_text a, wisp_text b) {
    return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
}

/* ---- the vocabulary ------------------------------------------------------------------------- */

static void *allocate(const struct reading *r, size_t count, size_t bytes) {
    return arena_allocate(&r->dir->arena, count * bytes);
}

static wisp_status reserve_tokens(struct reading *r, size_t count) {
    if (count > MAX_TOKENS)
        return unsupported(r, "vocab", "too many tokens");
    r->capacity = count;
    r->tokens = allocate(r, count, sizeof *r->tokens);
    r->types = allocate(r, count, sizeof *r->types);
    r->added = allocate(r, count, sizeof *r->added);
    r->flags = allocate(r, count, sizeof *r->flags);
    r->sorted = allocate(r, count, sizeof *r->sorted);
    if (!r->tokens || !r->types || !r->added || !r->flags || !r->sorted)
        return fail_memory(r->error, count * 40);
    for (size_t i = 0; i < count; i++)
        r->types[i] = TOKEN_NORMAL;
    return WISP_OK;
}

/* Reads model.vocab, with room for `more` added tokens. Each id from 0 to the last must belong to
 * exactly one token. */
static wisp_status read_vocabulary(struct reading *r, const struct json *vocab, size_t more) {
    if (!json_is(vocab, JSON_OBJECT) || vocab->count == 0)
        return bad(r, "model.vocab", "expected an object of tokens and their ids");
    TRY(reserve_tokens(r, vocab->count + more));
    for (const struct json *entry = vocab->first; entry; entry = entry->next) {
        uint64_t id;
        if (!json_to_u64(entry, &id) || id >= vocab->count)
            return fail(r->error, WISP_ERROR_FORMAT, r->file, "model.vocab",
                        "the id of \"%.60s\" is not one of 0 to %lu", entry->key,
                        (unsigned long)vocab->count - 1);
        if (r->tokens[id].bytes)
            return fail(r->error, WISP_ERROR_FORMAT, r->file, "model.vocab",
                        "\"%.60s\" and \"%.60s\" have one id", entry->key, r->tokens[id].bytes);
        r->tokens[id] = (wisp_text){entry->key, entry->key_length};
    }
    r->count = r->model_count = vocab->count;
    return WISP_OK;
}

wisp_status hf_sort_tokens(struct reading *r) {
    for (size_t i = 0; i < r->count; i++)
        r->sorted[i] = &r->tokens[i];
    return hf_sort_texts(r->sorted, r->count, r->tokens, r->file, r->error);
}

int32_t hf_find_token(const struct reading *r, wisp_text text) {
    return hf_find_text(r->sorted, r->count, r->tokens, text);
}

/* ---- added tokens --------------------------------------------------------------------------- */

wisp_status hf_read_token_flags(const struct reading *r, const struct json *entry, uint8_t *flags,
                                bool *special) {
    return hf_read_added_flags(entry, flags, special)
               ? WISP_OK
               : bad(r, "added_tokens", "expected true or false");
}

wisp_status hf_add_token(struct reading *r, const struct json *entry, uint64_t id) {
    const struct json *content = json_get(entry, "content");
    bool special = false;
    uint8_t flags;
    if (!json_is(content, JSON_STRING) || content->text_length == 0)
        return bad(r, "added_tokens", "every added token needs a text as its content");
    TRY(hf_read_token_flags(r, entry, &flags, &special));
    if (id == r->count && r->count < r->capacity) {
        r->tokens[r->count++] = json_text(content);
    } else if (id >= r->model_count || !is_same(r->tokens[id], json_text(content))) {
        return fail(r->error, WISP_ERROR_FORMAT, r->file, "added_tokens",
                    "\"%.60s\" has id %llu, which is neither its own in the vocabulary nor the "
                    "next free one",
                    content->text, (unsigned long long)id);
    }
    if (r->types[id] != TOKEN_NORMAL)
        return bad(r, "added_tokens", "an id appears twice");
    r->types[id] = special ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
    r->added[r->added_count] = (int32_t)id;
    r->flags[r->added_count++] = flags;
    return WISP_OK;
}

static wisp_status read_added_tokens(struct reading *r, const struct json *list) {
    if (!list || json_is(list, JSON_NULL))
        return WISP_OK;
    if (!json_is(list, JSON_ARRAY))
        return bad(r, "added_tokens", "expected an array");
    for (const struct json *entry = list->first; entry; entry = entry->next) {
        uint64_t id;
        if (!json_to_u64(json_get(entry, "id"), &id))
            return bad(r, "added_tokens", "every added token needs an id");
        TRY(hf_add_token(r, entry, id));
    }
    return WISP_OK;
}

/* ---- tokenizer.json ------------------------------------------------------------------------- */

/* Returns the only step of a Sequence of one, or else the step itself. */
static const struct json *only_step(const struct json *step, const char *list) {
    const struct json *steps = json_get(step, list);
    if (json_equals(json_get(step, "type"), "Sequence") && json_is(steps, JSON_ARRAY) &&
        steps->count == 1)
        return steps->first;
    return step;
}

/* Returns the second step of the Sequence [Lowercase, X], which sentence-transformers writes for
 * do_lower_case, or else the step itself. */
static const struct json *after_lowercase(struct reading *r, const struct json *step) {
    const struct json *steps = json_get(step, "normalizers");
    if (!json_equals(json_get(step, "type"), "Sequence") || !json_is(steps, JSON_ARRAY) ||
        steps->count != 2 || !json_equals(json_get(steps->first, "type"), "Lowercase"))
        return step;
    r->lowercase_first = true;
    return steps->first->next;
}

static wisp_status read_normalizer(struct reading *r, const struct json *step) {
    step = after_lowercase(r, only_step(step, "normalizers"));
    if (!step || json_is(step, JSON_NULL)) {
        r->clean_text = r->handle_chinese_chars = r->lowercase = false;
        return WISP_OK;
    }
    if (!json_equals(json_get(step, "type"), "BertNormalizer"))
        return unsupported_value(r, "normalizer", json_get(step, "type"), "BertNormalizer");
    TRY(hf_read_tokenizer_bool(r, step, "clean_text", "normalizer.clean_text", &r->clean_text));
    TRY(hf_read_tokenizer_bool(r, step, "handle_chinese_chars", "normalizer.handle_chinese_chars",
                               &r->handle_chinese_chars));
    TRY(hf_read_tokenizer_bool(r, step, "lowercase", "normalizer.lowercase", &r->lowercase));
    const struct json *accents = json_get(step, "strip_accents");
    r->strip_accents_given = accents && !json_is(accents, JSON_NULL);
    return hf_read_tokenizer_bool(r, step, "strip_accents", "normalizer.strip_accents",
                                  &r->strip_accents);
}

static wisp_status read_model(struct reading *r, const struct json *model, size_t added) {
    const struct json *type = json_get(model, "type"), *unknown = json_get(model, "unk_token");
    const struct json *prefix = json_get(model, "continuing_subword_prefix");
    const struct json *limit = json_get(model, "max_input_chars_per_word");
    uint64_t characters = r->word_limit;
    if (type && !json_equals(type, "WordPiece"))
        return unsupported_value(r, "model.type", type, "WordPiece");
    if (prefix && !json_equals(prefix, HF_CONTINUATION_PREFIX))
        return unsupported_value(r, "model.continuing_subword_prefix", prefix, "\"##\"");
    if (limit && (!json_to_u64(limit, &characters) || characters > UINT32_MAX))
        return bad(r, "model.max_input_chars_per_word", "expected a whole number");
    if (!json_is(unknown, JSON_STRING))
        return bad(r, "model.unk_token", "expected a token");
    r->word_limit = (uint32_t)characters;
    TRY(read_vocabulary(r, json_get(model, "vocab"), added));
    TRY(hf_sort_tokens(r));
    r->ids[ROLE_UNKNOWN] = hf_find_token(r, json_text(unknown));
    if (r->ids[ROLE_UNKNOWN] < 0)
        return bad(r, "model.unk_token", "the token is not in the vocabulary");
    return WISP_OK;
}

/* Reads the id of a special token that a TemplateProcessing names. */
static wisp_status read_template_id(struct reading *r, const struct json *special,
                                    const struct json *piece, int32_t *id) {
    const struct json *name = json_get(json_get(piece, "SpecialToken"), "id");
    const char *key = json_is(name, JSON_STRING) ? name->text : "";
    const struct json *ids = json_get(json_get(special, key), "ids");
    uint64_t value;
    if (!json_is(ids, JSON_ARRAY) || ids->count != 1 || !json_to_u64(ids->first, &value) ||
        value >= r->count)
        return unsupported(r, "post_processor.special_tokens",
                           "only special tokens of one id from the vocabulary are supported");
    *id = (int32_t)value;
    return WISP_OK;
}

static bool has_type_0(const struct json *piece, const char *kind) {
    uint64_t type;
    return json_to_u64(json_get(json_get(piece, kind), "type_id"), &type) && type == 0;
}

static wisp_status read_template(struct reading *r, const struct json *step) {
    const struct json *single = json_get(step, "single");
    const struct json *special = json_get(step, "special_tokens");
    const struct json *cls =
        json_is(single, JSON_ARRAY) && single->count == 3 ? single->first : NULL;
    if (!cls || !has_type_0(cls, "SpecialToken") || !has_type_0(cls->next, "Sequence") ||
        !has_type_0(cls->next->next, "SpecialToken"))
        return unsupported(r, "post_processor.single", "only [CLS] $A [SEP] is supported");
    TRY(read_template_id(r, special, cls, &r->ids[ROLE_CLS]));
    return read_template_id(r, special, cls->next->next, &r->ids[ROLE_SEPARATOR]);
}

/* Reads the id of a pair ["[CLS]", id], as BertProcessing and RobertaProcessing have it. */
static wisp_status read_pair_id(struct reading *r, const struct json *pair, const char *field,
                                int32_t *id) {
    uint64_t value;
    if (!json_is(pair, JSON_ARRAY) || pair->count != 2 || !json_to_u64(pair->first->next, &value) ||
        value >= r->count)
        return bad(r, field, "expected a token and its id from the vocabulary");
    *id = (int32_t)value;
    return WISP_OK;
}

static wisp_status read_post_processor(struct reading *r, const struct json *step) {
    step = only_step(step, "processors");
    const struct json *type = json_get(step, "type");
    if (json_equals(type, "TemplateProcessing"))
        return read_template(r, step);
    if (!json_equals(type, "BertProcessing") && !json_equals(type, "RobertaProcessing"))
        return unsupported_value(r, "post_processor", type,
                                 "TemplateProcessing and BertProcessing");
    TRY(read_pair_id(r, json_get(step, "cls"), "post_processor.cls", &r->ids[ROLE_CLS]));
    return read_pair_id(r, json_get(step, "sep"), "post_processor.sep", &r->ids[ROLE_SEPARATOR]);
}

wisp_status hf_read_tokenizer_json(struct reading *r, const struct json *root, size_t more) {
    const struct json *added = json_get(root, "added_tokens");
    const struct json *split = only_step(json_get(root, "pre_tokenizer"), "pretokenizers");
    if (!json_equals(json_get(split, "type"), "BertPreTokenizer"))
        return unsupported_value(r, "pre_tokenizer", json_get(split, "type"), "BertPreTokenizer");
    TRY(read_normalizer(r, json_get(root, "normalizer")));
    TRY(read_model(r, json_get(root, "model"), more + (added ? added->count : 0)));
    TRY(read_added_tokens(r, added));
    TRY(hf_sort_tokens(r));
    return r->is_plain ? WISP_OK : read_post_processor(r, json_get(root, "post_processor"));
}

/* ---- vocab.txt ------------------------------------------------------------------------------ */

/* Refuses white space at the end of a line, which transformers 5 drops and transformers 4 does not,
 * and invalid UTF-8. */
static wisp_status check_line(const struct reading *r, wisp_text line, size_t number) {
    const char last = line.length > 0 ? line.bytes[line.length - 1] : 'x';
    if (last == ' ' || last == '\t')
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file, NULL,
                    "line %zu ends in white space: versions 4 and 5 of transformers differ in what "
                    "token it is",
                    number);
    for (size_t i = 0; i < line.length;) {
        uint32_t code_point;
        i += utf8_decode(line.bytes + i, line.length - i, &code_point);
        if (code_point == UTF8_INVALID || code_point == 0 || code_point == '\r')
            return fail(r->error, WISP_ERROR_FORMAT, r->file, NULL,
                        "line %zu is not valid UTF-8 text", number);
    }
    return WISP_OK;
}

static wisp_status read_lines(struct reading *r, const char *text, size_t length, size_t more) {
    size_t lines = 0, empty = 0;
    for (size_t i = 0; i < length; i++) {
        lines += text[i] == '\n' || i + 1 == length;
        empty += text[i] == '\n' && (i == 0 || text[i - 1] == '\n');
    }
    if (lines == 0)
        return bad(r, NULL, "no tokens");
    if (empty > 1) /* before memory is taken for what may be a file of nothing else */
        return bad(r, NULL, "more than one line is empty");
    TRY(reserve_tokens(r, lines + more));
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        const size_t full = end ? (size_t)(end - text) - at : length - at;
        const size_t kept = full > 0 && text[at + full - 1] == '\r' ? full - 1 : full;
        char *copy = arena_copy_text(&r->dir->arena, text + at, kept);
        if (!copy)
            return fail_memory(r->error, kept);
        r->tokens[r->count++] = (wisp_text){copy, kept};
        TRY(check_line(r, r->tokens[r->count - 1], r->count));
        at += full + 1;
    }
    r->model_count = r->count;
    return hf_sort_tokens(r);
}

wisp_status hf_read_vocab_txt(struct reading *r, size_t more) {
    struct file_bytes file;
    TRY(file_read(r->file, &file, r->error));
    const wisp_status status = read_lines(r, file.data, file.size, more);
    free(file.data);
    return status;
}
