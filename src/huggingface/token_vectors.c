/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/token_vectors.h"

#include <stdio.h>
#include <string.h>

#include "formats/schema.h"
#include "huggingface/json_file.h"

enum { KEY_BYTES = 64, TEXT_BYTES = 256, USUAL_EXPANSION = 32 };

static const char MODEL_FILE[] = "config_sentence_transformers.json";
static const char STANFORD_FILE[] = "artifact.metadata";

/* The names of Stanford's projection. */
static const struct hf_name projection_names[] = {{"linear.", TENSOR_DENSE_2 ".", true}, {0}};

/* A file of settings that is read. */
struct reading {
    struct directory *dir;
    const char *folder, *file;
    const struct json *root; /* NULL: there is no such file */
    wisp_error *error;
};

static wisp_status refuse(const struct reading *r, const char *field, const struct json *given,
                          const char *wanted) {
    char path[HF_PATH_BYTES];
    return fail(r->error, WISP_ERROR_UNSUPPORTED, hf_path_of(path, r->folder, r->file), field,
                "%.64s is not supported, only %s", hf_shown(given), wanted);
}

static wisp_status open_file(struct reading *r, const char *folder, const char *file) {
    r->folder = folder;
    r->file = file;
    return hf_read_json(r->dir, folder, file, false, JSON_OBJECT, &r->root, r->error);
}

/* Adds a number of tokens, unless there is none. */
static wisp_status put_length(const struct reading *r, const char *field, const char *key) {
    const struct json *given = json_get(r->root, field);
    uint64_t length;
    if (json_is_absent(given))
        return WISP_OK;
    if (!json_to_u64(given, &length) || length == 0 || length > UINT32_MAX)
        return hf_wrong_value(r->folder, r->file, field, "a number of tokens", r->error);
    return directory_put_u32(r->dir, key, (uint32_t)length, r->error);
}

/* ---- words that documents skip -------------------------------------------------------------- */

static wisp_status put_skipped(const struct reading *r, const struct json *words) {
    wisp_text *texts;
    size_t n = 0;
    if (!json_is(words, JSON_ARRAY))
        return hf_wrong_value(r->folder, r->file, "skiplist_words", "a list of words", r->error);
    ARENA_TAKE(&r->dir->arena, texts, words->count + 1, r->error);
    for (const struct json *w = words->first; w; w = w->next) {
        if (!json_is(w, JSON_STRING))
            return hf_wrong_value(r->folder, r->file, "skiplist_words", "a list of words",
                                  r->error);
        texts[n++] = json_text(w);
    }
    return directory_put_texts(r->dir, KEY_TOKENS_SKIPPED, texts, n, r->error);
}

/* Adds Python's string.punctuation. */
static wisp_status put_punctuation(const struct reading *r) {
    static const char marks[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    wisp_text *texts;
    const size_t n = sizeof marks - 1;
    ARENA_TAKE(&r->dir->arena, texts, n, r->error);
    for (size_t i = 0; i < n; i++)
        texts[i] = (wisp_text){marks + i, 1};
    return directory_put_texts(r->dir, KEY_TOKENS_SKIPPED, texts, n, r->error);
}

/* Reads the config.json of a MultiVectorMask. */
static wisp_status read_mask(struct reading *r, const char *folder, const char *module) {
    char file[TEXT_BYTES];
    snprintf(file, sizeof file, "%s/config.json", module);
    TRY(open_file(r, folder, file));
    const struct json *words = json_get(r->root, "skiplist_words");
    const struct json *tasks = json_get(r->root, "skiplist_tasks");
    const struct json *kept = json_get(r->root, "keep_only_token_ids");
    if (!json_is_absent(kept))
        return refuse(r, "keep_only_token_ids", kept, "null");
    if (!json_is_absent(tasks) &&
        !(json_is(tasks, JSON_ARRAY) && tasks->count == 1 && json_equals(tasks->first, "document")))
        return refuse(r, "skiplist_tasks", tasks, "[\"document\"]");
    return json_is_absent(words) ? WISP_OK : put_skipped(r, words);
}

/* ---- queries that are filled up ------------------------------------------------------------- */

static wisp_status put_expansion(const struct reading *r, uint64_t length, bool attends) {
    if (length == 0 || length > UINT32_MAX)
        return hf_wrong_value(r->folder, r->file, "query_length", "a number of tokens", r->error);
    TRY(directory_put_u32(r->dir, KEY_TOKENS_EXPANDED, (uint32_t)length, r->error));
    return directory_put_bool(r->dir, KEY_TOKENS_ATTENDS, attends, r->error);
}

/* Reads query_expansion, an object or null. */
static wisp_status read_own_expansion(const struct reading *r, const struct json *given) {
    const struct json *strategy = json_get(given, "strategy"), *token = json_get(given, "token");
    uint64_t length = 0;
    bool attends = false;
    if (json_is_absent(given))
        return WISP_OK;
    if (!json_equals(strategy, "fixed"))
        return refuse(r, "query_expansion", strategy, "the strategy fixed");
    if (!json_is_absent(token))
        return refuse(r, "query_expansion", token, "the mask token (token null)");
    if (!json_to_u64(json_get(given, "length"), &length) ||
        !hf_read_bool(given, "attend", &attends))
        return hf_wrong_value(r->folder, r->file, "query_expansion",
                              "a length and true or false as attend", r->error);
    return put_expansion(r, length, attends);
}

/* Reads PyLate's settings of expansion, which is on unless they say no. */
static wisp_status read_pylate_expansion(const struct reading *r) {
    const struct json *own = json_get(r->root, "query_expansion");
    const struct json *given = json_get(r->root, "query_length");
    uint64_t length = USUAL_EXPANSION;
    bool expands = true, attends = false;
    if (own)
        return read_own_expansion(r, own);
    if (!hf_read_bool(r->root, "do_query_expansion", &expands))
        return hf_wrong_value(r->folder, r->file, "do_query_expansion", "true or false", r->error);
    if (!expands)
        return put_length(r, "query_length", KEY_TOKENS_QUERY_LENGTH);
    const char *const spellings[] = {"attend_to_mask_tokens", "attend_to_expansion_tokens"};
    for (size_t i = 0; i < 2; i++)
        if (!hf_read_bool(r->root, spellings[i], &attends))
            return hf_wrong_value(r->folder, r->file, spellings[i], "true or false", r->error);
    if (!json_is_absent(given) && !json_to_u64(given, &length))
        return hf_wrong_value(r->folder, r->file, "query_length", "a number of tokens", r->error);
    return put_expansion(r, length, attends);
}

/* ---- prompts -------------------------------------------------------------------------------- */

/* Adds a prompt, the prefix and then `text` without it. */
static wisp_status put_prompt(const struct reading *r, const char *name, wisp_text prefix,
                              wisp_text text) {
    char key[KEY_BYTES], joined[TEXT_BYTES];
    if (text.length >= prefix.length && memcmp(text.bytes, prefix.bytes, prefix.length) == 0)
        text = (wisp_text){text.bytes + prefix.length, text.length - prefix.length};
    if (prefix.length + text.length > sizeof joined)
        return hf_wrong_value(r->folder, r->file, name, "a shorter prompt", r->error);
    memcpy(joined, prefix.bytes, prefix.length);
    if (text.length > 0)
        memcpy(joined + prefix.length, text.bytes, text.length);
    snprintf(key, sizeof key, KEY_PROMPT_PREFIX "%s", name);
    return directory_put_text(r->dir, key, (wisp_text){joined, prefix.length + text.length},
                              r->error);
}

static wisp_status read_prompts(const struct reading *r) {
    static const char *const sides[][2] = {{"query", "query_prefix"},
                                           {"document", "document_prefix"}};
    const struct json *prompts = json_get(r->root, "prompts");
    bool prefixed = false;
    for (size_t i = 0; i < 2; i++) {
        const struct json *prefix = json_get(r->root, sides[i][1]);
        const struct json *text = json_get(prompts, sides[i][0]);
        prefixed = prefixed || prefix;
        TRY(put_prompt(r, sides[i][0],
                       json_is(prefix, JSON_STRING) ? json_text(prefix) : wisp_text_of(""),
                       json_is(text, JSON_STRING) ? json_text(text) : wisp_text_of("")));
    }
    return directory_put_bool(r->dir, KEY_TOKENS_PREFIXES, prefixed, r->error);
}

/* ---- the three layouts ---------------------------------------------------------------------- */

static wisp_status read_stanford(struct reading *r, const char *proper) {
    static const struct {
        const char *side, *field, *usual;
    } prefixes[] = {{"query", "query_token_id", "[unused0]"},
                    {"document", "doc_token_id", "[unused1]"}};
    const struct json *given;
    uint64_t length = USUAL_EXPANSION;
    bool attends = false, skips = true;
    TRY(open_file(r, proper, STANFORD_FILE));
    for (size_t i = 0; i < 2; i++) {
        given = json_get(r->root, prefixes[i].field);
        const wisp_text token =
            json_is(given, JSON_STRING) ? json_text(given) : wisp_text_of(prefixes[i].usual);
        TRY(put_prompt(r, prefixes[i].side, token, wisp_text_of(" ")));
    }
    given = json_get(r->root, "query_maxlen");
    if (!hf_read_bool(r->root, "attend_to_mask_tokens", &attends) ||
        !hf_read_bool(r->root, "mask_punctuation", &skips) ||
        (!json_is_absent(given) && !json_to_u64(given, &length)))
        return hf_wrong_value(r->folder, r->file, "attend_to_mask_tokens",
                              "true or false here and as mask_punctuation, and a number of tokens "
                              "as query_maxlen",
                              r->error);
    TRY(directory_put_bool(r->dir, KEY_TOKENS_PREFIXES, true, r->error));
    TRY(directory_put_bool(r->dir, KEY_NORMALIZE, true, r->error));
    TRY(put_expansion(r, length, attends));
    TRY(put_length(r, "doc_maxlen", KEY_TOKENS_DOCUMENT_LENGTH));
    return skips ? put_punctuation(r) : WISP_OK;
}

static wisp_status read_modules(struct reading *r, const char *folder, const char *proper,
                                struct hf_modules *modules, bool is_pylate) {
    const struct json *words = json_get(r->root, "skiplist_words");
    const struct json *similarity = json_get(r->root, "similarity_fn_name");
    const char *mask;
    bool normalized = false;
    if (json_equals(similarity, "meanmaxsim"))
        return refuse(r, "similarity_fn_name", similarity, "maxsim");
    TRY(read_prompts(r));
    TRY(hf_read_token_modules(r->dir, folder, modules, &mask, &normalized, r->error));
    TRY(directory_put_bool(r->dir, KEY_NORMALIZE, is_pylate || normalized, r->error));
    if (is_pylate) {
        TRY(read_pylate_expansion(r));
        TRY(put_length(r, "document_length", KEY_TOKENS_DOCUMENT_LENGTH));
        return json_is_absent(words) ? put_punctuation(r) : put_skipped(r, words);
    }
    if (mask)
        TRY(read_mask(r, folder, mask));
    TRY(open_file(r, proper, "sentence_bert_config.json"));
    const struct json *expansion = json_get(r->root, "query_expansion");
    if (!json_is_absent(expansion) && !mask)
        return refuse(r, "query_expansion", expansion, "null without a MultiVectorMask");
    TRY(read_own_expansion(r, expansion));
    TRY(put_length(r, "query_length", KEY_TOKENS_QUERY_LENGTH));
    return put_length(r, "document_length", KEY_TOKENS_DOCUMENT_LENGTH);
}

wisp_status hf_read_token_vectors(struct directory *dir, const char *folder, const char *proper,
                                  const struct hf_config *config, struct hf_modules *modules,
                                  const struct hf_name **head, bool *found, wisp_error *error) {
    struct reading r = {.dir = dir, .error = error};
    const struct json *classes = json_get(config->root, "architectures");
    const struct json *class = json_is(classes, JSON_ARRAY) ? classes->first : NULL;
    *found = true;
    if (!modules->list && json_equals(class, "HF_ColBERT")) {
        *head = projection_names;
        return read_stanford(&r, proper);
    }
    if (modules->list)
        TRY(open_file(&r, folder, MODEL_FILE));
    const struct json *type = json_get(r.root, "model_type");
    const bool is_pylate = json_equals(type, "ColBERT");
    if (is_pylate || json_equals(type, "MultiVectorEncoder"))
        return read_modules(&r, folder, proper, modules, is_pylate);
    *found = false;
    return WISP_OK;
}

void hf_raise_token_limit(struct directory *dir, struct hf_config *config) {
    static const char *const lengths[] = {KEY_TOKENS_QUERY_LENGTH, KEY_TOKENS_DOCUMENT_LENGTH,
                                          KEY_TOKENS_EXPANDED};
    struct metadata *limit = NULL;
    uint64_t longest = 0;
    for (size_t i = 0; i < dir->n_metadata; i++) {
        struct metadata *entry = &dir->metadata[i];
        if (strcmp(entry->key, KEY_MAX_SEQ_LENGTH) == 0)
            limit = entry;
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
            if (strcmp(entry->key, lengths[k]) == 0 && entry->as.u > longest)
                longest = entry->as.u;
    }
    if (!limit || limit->as.u >= longest)
        return;
    limit->as.u = longest;
    config->max_seq_length = config->max_seq_length > 0 ? (uint32_t)longest : 0;
}
