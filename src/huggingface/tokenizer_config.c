/* SPDX-License-Identifier: Apache-2.0
 * Puts a tokenizer together from all its files, as transformers does: which class it has, which
 * settings of which file count, and which special tokens are found in a text.
 *
 * For a class of its own, such as BertTokenizer, transformers 5 takes from tokenizer.json only the
 * vocabulary and the added tokens. It builds the rest again from tokenizer_config.json.
 * transformers 4 does so with three settings of the normalizer. If the two would differ, the folder
 * is refused. A class that stands for no model, such as PreTrainedTokenizerFast, keeps
 * tokenizer.json. */
#include <stdio.h>
#include <string.h>

#include "formats/schema.h"
#include "host/file.h"
#include "huggingface/folder.h"
#include "huggingface/json_file.h"
#include "huggingface/tokenizer.h"

enum { WORD_LIMIT = 100 }; /* characters of a word if no file has another limit */

static const char JSON_FILE[] = "tokenizer.json", CONFIG_FILE[] = "tokenizer_config.json";

struct bert_class;

/* The files beside tokenizer.json and vocab.txt. Absent ones are NULL. */
struct files {
    const struct json *tokenizer;   /* tokenizer.json */
    const struct json *config;      /* tokenizer_config.json */
    const struct json *decoder;     /* its added_tokens_decoder */
    const struct json *map;         /* special_tokens_map.json; NULL if there is a decoder */
    const struct json *legacy;      /* added_tokens.json; NULL if there is a decoder */
    bool is_bert;                   /* the class is one of BERT's */
    const struct bert_class *class; /* that one, or else BertTokenizer */
    size_t first_named;             /* the number of added tokens that files list as such */
};

/* Makes folder/name the file that errors name. */
static wisp_status name_file(struct reading *r, const char *name) {
    char path[HF_PATH_BYTES];
    TRY(file_join(r->folder, name, path, sizeof path, r->error));
    r->file = arena_copy_text(&r->dir->arena, path, strlen(path));
    return r->file ? WISP_OK : fail_memory(r->error, strlen(path));
}

static wisp_status read_file(struct reading *r, const char *name, const struct json **root) {
    TRY(name_file(r, name));
    return hf_read_json(r->dir, r->folder, name, false, JSON_OBJECT, root, r->error);
}

static wisp_status unsupported(const struct reading *r, const char *field, const char *found,
                               const char *what) {
    return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file, field, "%.64s %s", found, what);
}

/* ---- the class ------------------------------------------------------------------------------ */

static const char *const bert_tokens[ROLES] = {[ROLE_UNKNOWN] = "[UNK]",
                                               [ROLE_CLS] = "[CLS]",
                                               [ROLE_SEPARATOR] = "[SEP]",
                                               [ROLE_PADDING] = "[PAD]",
                                               [ROLE_MASK] = "[MASK]"};
static const char *const mpnet_tokens[ROLES] = {[ROLE_UNKNOWN] = "[UNK]",
                                                [ROLE_CLS] = "<s>",
                                                [ROLE_SEPARATOR] = "</s>",
                                                [ROLE_PADDING] = "<pad>",
                                                [ROLE_MASK] = "<mask>"};

/* Classes that are BERT's in all but their name and their usual tokens. Versions of transformers
 * before 5 add "Fast". */
static const struct bert_class {
    const char *name;
    const char *const *usual;
    uint8_t mask_flags; /* of a mask token that is named without flags */
} bert_classes[] = {{"BertTokenizer", bert_tokens, 0},
                    {"DistilBertTokenizer", bert_tokens, 0},
                    {"ElectraTokenizer", bert_tokens, 0},
                    {"MobileBertTokenizer", bert_tokens, 0},
                    {"SqueezeBertTokenizer", bert_tokens, 0},
                    {"LxmertTokenizer", bert_tokens, 0},
                    {"MPNetTokenizer", mpnet_tokens, ADDED_STRIP_LEFT}};

/* Returns the class of a name, or NULL if it is not one of BERT's. */
static const struct bert_class *bert_class_of(const char *name) {
    for (size_t i = 0; i < sizeof bert_classes / sizeof *bert_classes; i++) {
        const size_t length = strlen(bert_classes[i].name);
        if (strncmp(name, bert_classes[i].name, length) == 0 &&
            (name[length] == '\0' || strcmp(name + length, "Fast") == 0))
            return &bert_classes[i];
    }
    return NULL;
}

/* The class is in tokenizer_config.json, or else in config.json. Without one it is that of the
 * model, which for all encoders of wisp but MPNet is BertTokenizer. */
static wisp_status read_class(struct reading *r, struct files *files) {
    static const char field[] = "tokenizer_class";
    const struct json *model = NULL, *class = json_get(files->config, field);
    files->class = &bert_classes[0];
    if (json_is_absent(class)) {
        TRY(read_file(r, "config.json", &model));
        class = json_get(model, field);
    }
    if (json_is_absent(class)) {
        files->is_bert = true;
        if (json_equals(json_get(model, "model_type"), "mpnet"))
            files->class = bert_class_of("MPNetTokenizer");
        return name_file(r, CONFIG_FILE);
    }
    const char *name = json_is(class, JSON_STRING) ? class->text : "";
    const bool is_generic =
        json_equals(class, "PreTrainedTokenizerFast") || json_equals(class, "TokenizersBackend");
    files->is_bert = bert_class_of(name) != NULL;
    if (files->is_bert)
        files->class = bert_class_of(name);
    if (!files->is_bert && !is_generic)
        return unsupported(r, field, hf_shown(class),
                           "is not supported, only BertTokenizer and PreTrainedTokenizerFast");
    if (is_generic && !files->tokenizer)
        return unsupported(r, field, name, "needs a tokenizer.json, which is missing");
    return name_file(r, CONFIG_FILE);
}

/* ---- settings that wisp does not follow ----------------------------------------------------- */

/* Refuses "left". tokenizer_config.json counts before tokenizer.json, which has the same under
 * another name. */
static wisp_status check_side(const struct reading *r, const struct files *files, const char *field,
                              const char *group, const char *what) {
    const struct json *own = json_get(files->config, field);
    const struct json *other = json_get(json_get(files->tokenizer, group), "direction");
    if (json_equals(own, "left") || (!own && json_equals(other, "Left")))
        return unsupported(r, field, "left", what);
    return WISP_OK;
}

static bool is_named_token(const char *key) {
    static const char *const keys[] = {"unk_token",  "sep_token", "pad_token", "cls_token",
                                       "mask_token", "bos_token", "eos_token"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static wisp_status check_settings(const struct reading *r, const struct files *files) {
    static const char suffix[] = "_token";
    bool split = false;
    TRY(hf_read_tokenizer_bool(r, files->config, "split_special_tokens", "split_special_tokens",
                               &split));
    if (split)
        return unsupported(r, "split_special_tokens", "true",
                           "is not supported: wisp finds special tokens in a text");
    TRY(check_side(r, files, "truncation_side", "truncation",
                   "is not supported: wisp keeps the beginning of a long text"));
    TRY(check_side(r, files, "padding_side", "padding",
                   "is not supported: the positions of a text's tokens would depend on the texts "
                   "beside it"));
    const struct json *versions = json_get(files->config, "fast_tokenizer_files");
    for (const struct json *v = versions ? versions->first : NULL; v; v = v->next)
        if (!json_equals(v, JSON_FILE))
            return unsupported(r, versions->key, hf_shown(v),
                               "is a tokenizer for some versions of transformers only, and wisp "
                               "reads tokenizer.json");
    for (const struct json *m = files->config ? files->config->first : NULL; m; m = m->next) {
        const size_t length = strlen(m->key), end = sizeof suffix - 1;
        const bool is_token = length > end && strcmp(m->key + length - end, suffix) == 0;
        const bool is_text = json_is(m, JSON_STRING) || json_is(m, JSON_OBJECT);
        if (is_token && is_text && !is_named_token(m->key))
            return unsupported(r, m->key, hf_shown(m),
                               "is not supported: versions 4 and 5 of transformers differ in where "
                               "they find this token in a text");
    }
    return WISP_OK;
}

/* ---- what a class of BERT's builds again ----------------------------------------------------- */

/* Reads a setting that may be absent but not null: transformers 5 cannot load a file if it
 * is. */
static wisp_status read_setting(const struct reading *r, const struct json *config, const char *key,
                                bool *value) {
    if (json_is(json_get(config, key), JSON_NULL))
        return fail(r->error, WISP_ERROR_FORMAT, r->file, key, "expected true or false");
    return hf_read_tokenizer_bool(r, config, key, key, value);
}

static bool strips_accents(const struct reading *r) {
    return r->strip_accents_given ? r->strip_accents : r->lowercase;
}

/* Compares r with `found`, the settings of tokenizer.json, which transformers 4 takes from there
 * and transformers 5 does not. */
static wisp_status check_found(const struct reading *r, const struct reading *found) {
    static const char differ[] =
        "differs from what a BertTokenizer has, and so versions 4 and 5 of transformers differ: "
        "store the tokenizer anew, or set tokenizer_class to PreTrainedTokenizerFast";
    if (!found->clean_text)
        return unsupported(r, "normalizer.clean_text", "false", differ);
    if (found->word_limit != WORD_LIMIT)
        return unsupported(r, "model.max_input_chars_per_word", "a limit that is not 100", differ);
    const bool is_same = found->lowercase == r->lowercase &&
                         found->handle_chinese_chars == r->handle_chinese_chars &&
                         strips_accents(found) == strips_accents(r);
    const bool lowercases = r->lowercase || r->lowercase_first;
    if (found->lowercase_first && (!is_same || !lowercases))
        return unsupported(r, "normalizer", "Lowercase", differ);
    return WISP_OK;
}

static wisp_status rebuild(struct reading *r, const struct files *files, bool lowercase_first) {
    const struct json *accents = json_get(files->config, "strip_accents");
    const struct reading found = *r;
    r->clean_text = r->handle_chinese_chars = r->lowercase = true;
    r->lowercase_first = lowercase_first;
    r->strip_accents_given = !json_is_absent(accents);
    r->word_limit = WORD_LIMIT;
    TRY(name_file(r, CONFIG_FILE));
    TRY(read_setting(r, files->config, "do_lower_case", &r->lowercase));
    TRY(read_setting(r, files->config, "tokenize_chinese_chars", &r->handle_chinese_chars));
    TRY(hf_read_tokenizer_bool(r, files->config, "strip_accents", "strip_accents",
                               &r->strip_accents));
    if (!files->tokenizer)
        return WISP_OK;
    TRY(name_file(r, JSON_FILE));
    TRY(check_found(r, &found));
    return name_file(r, CONFIG_FILE);
}

/* ---- tokens of roles ------------------------------------------------------------------------- */

static const char *const role_keys[ROLES] = {[ROLE_UNKNOWN] = "unk_token",
                                             [ROLE_CLS] = "cls_token",
                                             [ROLE_SEPARATOR] = "sep_token",
                                             [ROLE_PADDING] = "pad_token",
                                             [ROLE_MASK] = "mask_token"};

/* Returns a setting of special_tokens_map.json, or else of tokenizer_config.json, or NULL. */
static const struct json *setting(const struct files *files, const char *key) {
    const struct json *value = json_get(files->map, key);
    return value ? value : json_get(files->config, key);
}

/* Returns the text of an entry, which names a token as a string or as an object with its flags;
 * NULL if it names none. */
static const struct json *named_by(const struct json *entry) {
    const struct json *text = json_is(entry, JSON_OBJECT) ? json_get(entry, "content") : entry;
    return json_is(text, JSON_STRING) && text->text_length > 0 ? text : NULL;
}

/* Returns whether a role has the token, because a file says so or because it is the usual one. */
static bool has_role(const struct files *files, const char *token) {
    for (enum role role = ROLE_UNKNOWN; role < ROLES; role++) {
        const struct json *entry = setting(files, role_keys[role]);
        if (entry ? json_equals(named_by(entry), token)
                  : strcmp(token, files->class->usual[role]) == 0)
            return true;
    }
    return false;
}

/* ---- added_tokens_decoder ------------------------------------------------------------------- */

/* Points *places to the index of each token in r->added, or -1 if it is not there. */
static wisp_status find_places(const struct reading *r, int32_t **places) {
    *places = arena_allocate(&r->dir->arena, r->count * sizeof **places);
    if (!*places)
        return fail_memory(r->error, r->count * sizeof **places);
    for (size_t i = 0; i < r->count; i++)
        (*places)[i] = -1;
    for (size_t i = 0; i < r->added_count; i++)
        (*places)[r->added[i]] = (int32_t)i;
    return WISP_OK;
}

/* Reads added_tokens_decoder, whose descriptions of tokens count more than those of
 * tokenizer.json. */
static wisp_status read_decoder(struct reading *r, const struct files *files) {
    static const char field[] = "added_tokens_decoder";
    const size_t known = r->count, n_found = r->added_count;
    int32_t *places;
    if (json_is_absent(files->decoder))
        return WISP_OK;
    if (!json_is(files->decoder, JSON_OBJECT))
        return fail(r->error, WISP_ERROR_FORMAT, r->file, field, "expected an object");
    TRY(find_places(r, &places));
    for (const struct json *entry = files->decoder->first; entry; entry = entry->next) {
        uint64_t id;
        if (!hf_id_of_key(entry, &id))
            return fail(r->error, WISP_ERROR_FORMAT, r->file, field, "its keys must be ids");
        const int32_t place = id < known ? places[id] : -1;
        const struct json *content = json_get(entry, "content");
        if (place < 0 || !json_equals(content, r->tokens[id].bytes)) {
            TRY(hf_add_token(r, entry, id));
            continue;
        }
        bool special = false;
        places[id] = -1; /* so that the loop below passes it over */
        TRY(hf_read_token_flags(r, entry, &r->flags[place], &special));
        r->types[id] = special ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
    }
    for (size_t i = 0; files->is_bert && i < n_found; i++) {
        const int32_t id = r->added[i];
        const bool is_plain = r->types[id] == TOKEN_CONTROL && r->flags[i] == 0;
        if (places[id] >= 0 && !(is_plain && has_role(files, r->tokens[id].bytes)))
            return unsupported(r, field, r->tokens[id].bytes,
                               "is an added token of tokenizer.json only: versions 4 and 5 of "
                               "transformers differ in whether they find it in a text");
    }
    return WISP_OK;
}

/* ---- special tokens ------------------------------------------------------------------------- */

/* Finds the token that an entry names, bare or with its flags. It must be in the vocabulary: one
 * that is not gets an id that the model may have no row for. */
static wisp_status find_named(struct reading *r, const char *field, const struct json *entry,
                              int32_t *id) {
    const struct json *text = named_by(entry);
    if (!text)
        return fail(r->error, WISP_ERROR_FORMAT, r->file, field, "expected a token");
    *id = hf_find_token(r, json_text(text));
    r->separator_is_named = r->separator_is_named || (*id >= 0 && *id == r->ids[ROLE_SEPARATOR]);
    return *id >= 0 ? WISP_OK
                    : fail(r->error, WISP_ERROR_FORMAT, r->file, field,
                           "\"%.60s\" is not in the vocabulary", text->text);
}

/* Makes a token an added one, which is found in a text as it stands, unless it is one already. The
 * tokens that this function adds are in r->added from files->first_named on. Two different
 * descriptions of one token are refused; transformers would take the last. */
static wisp_status add_special(struct reading *r, const struct files *files, const char *field,
                               const struct json *entry, int32_t id, uint8_t usual_flags) {
    enum { ROLE_TOKENS = ROLES + 2 }; /* with bos_token and eos_token */
    uint8_t flags;
    bool special = false;
    TRY(hf_read_token_flags(r, entry, &flags, &special));
    flags = json_is(entry, JSON_OBJECT) ? flags : usual_flags;
    if (r->types[id] == TOKEN_NORMAL) {
        r->types[id] = TOKEN_CONTROL;
        r->flags[r->added_count] = flags;
        r->added[r->added_count++] = id;
        return WISP_OK;
    }
    for (size_t i = 0; i < ROLE_TOKENS && files->first_named + i < r->added_count; i++)
        if (r->added[files->first_named + i] == id && r->flags[files->first_named + i] != flags)
            return unsupported(
                r, field, r->tokens[id].bytes,
                "appears twice, and the two differ in how the token is found in a text");
    return WISP_OK;
}

/* Finds the token of a role, which for a class of BERT's is the usual one if no file names it,
 * and makes it special. */
static wisp_status read_role(struct reading *r, const struct files *files, enum role role) {
    const char *field = role_keys[role], *usual = files->class->usual[role];
    const struct json *entry = setting(files, field);
    const bool is_needed = role <= ROLE_SEPARATOR;
    int32_t id;
    if (files->is_bert && is_needed && json_is(entry, JSON_NULL))
        return unsupported(r, field, "null", "is not supported: a BertTokenizer needs the token");
    if (!json_is_absent(entry))
        TRY(find_named(r, field, entry, &id));
    else
        id = entry ? -1 : hf_find_token(r, (wisp_text){usual, strlen(usual)});
    if (files->is_bert && is_needed && id < 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->file, field, "\"%s\" is not in the vocabulary",
                    usual);
    if (files->is_bert && r->ids[role] >= 0 && r->ids[role] != id)
        return unsupported(r, field, r->tokens[id].bytes,
                           "is another token than tokenizer.json has: versions 4 and 5 of "
                           "transformers differ in which they take");
    if (r->ids[role] < 0)
        r->ids[role] = id;
    const uint8_t flags = role == ROLE_MASK ? files->class->mask_flags : 0;
    return id >= 0 && (files->is_bert || entry) ? add_special(r, files, field, entry, id, flags)
                                                : WISP_OK;
}

static wisp_status read_extra(struct reading *r, const struct files *files, const char *field,
                              const struct json *entry) {
    int32_t id;
    if (json_is_absent(entry))
        return WISP_OK;
    TRY(find_named(r, field, entry, &id));
    return add_special(r, files, field, entry, id, 0);
}

/* Reads a list of further special tokens, or an object of them by their names. */
static wisp_status read_extras(struct reading *r, const struct files *files, const char *field,
                               const struct json *list) {
    if (json_is_absent(list))
        return WISP_OK;
    if (!json_is(list, JSON_ARRAY) && !json_is(list, JSON_OBJECT))
        return fail(r->error, WISP_ERROR_FORMAT, r->file, field, "expected a list of tokens");
    for (const struct json *entry = list->first; entry; entry = entry->next)
        TRY(read_extra(r, files, field, entry));
    return WISP_OK;
}

/* Returns whether pooling leaves prompts out, as the settings of Pooling say, which are read
 * before. */
static bool leaves_prompt_out(const struct directory *dir) {
    for (size_t i = 0; i < dir->n_metadata; i++)
        if (strcmp(dir->metadata[i].key, KEY_POOL_PROMPT) == 0)
            return !dir->metadata[i].as.b;
    return false;
}

static wisp_status read_special_tokens(struct reading *r, const struct files *files) {
    static const char now[] = "extra_special_tokens", before[] = "additional_special_tokens";
    const struct json *extra = setting(files, now), *additional = setting(files, before);
    for (enum role role = ROLE_UNKNOWN; role < ROLES; role++)
        TRY(read_role(r, files, role));
    TRY(read_extra(r, files, "bos_token", setting(files, "bos_token")));
    TRY(read_extra(r, files, "eos_token", setting(files, "eos_token")));
    if (extra && extra->count > 0 && additional && additional->count > 0)
        return unsupported(r, now, before,
                           "is there too: versions of transformers differ in which "
                           "they take");
    TRY(read_extras(r, files, now, extra));
    TRY(read_extras(r, files, before, additional));
    if (!files->is_bert && !r->separator_is_named && leaves_prompt_out(r->dir))
        return unsupported(r, "sep_token", "a tokenizer that does not name its last token",
                           "is not supported where pooling leaves prompts out: "
                           "sentence-transformers would count the token as one of the prompt");
    TRY(name_file(r, "added_tokens.json"));
    for (const struct json *m = files->legacy ? files->legacy->first : NULL; m; m = m->next) {
        const int32_t id = hf_find_token(r, (wisp_text){m->key, m->key_length});
        if (id < 0 || r->types[id] == TOKEN_NORMAL)
            return unsupported(r, m->key, "a token of this file",
                               "has to be an added token of tokenizer.json or "
                               "tokenizer_config.json too: store the tokenizer anew");
    }
    return WISP_OK;
}

/* ---- the tokenizer -------------------------------------------------------------------------- */

wisp_status hf_read_tokenizer(struct directory *dir, const char *folder, bool lowercase_first,
                              wisp_error *error) {
    struct reading r = {.dir = dir,
                        .folder = folder,
                        .error = error,
                        .ids = {-1, -1, -1, -1, -1},
                        .clean_text = true,
                        .handle_chinese_chars = true,
                        .lowercase = true,
                        .lowercase_first = lowercase_first,
                        .word_limit = WORD_LIMIT};
    struct files files = {0};
    TRY(read_file(&r, JSON_FILE, &files.tokenizer));
    TRY(read_file(&r, "special_tokens_map.json", &files.map));
    TRY(read_file(&r, "added_tokens.json", &files.legacy));
    TRY(read_file(&r, CONFIG_FILE, &files.config));
    files.decoder = json_get(files.config, "added_tokens_decoder");
    if (files.decoder)
        files.map = files.legacy = NULL;
    TRY(read_class(&r, &files));
    TRY(check_settings(&r, &files));
    const size_t more = json_is(files.decoder, JSON_OBJECT) ? files.decoder->count : 0;
    TRY(name_file(&r, files.tokenizer ? JSON_FILE : "vocab.txt"));
    TRY(files.tokenizer ? hf_read_tokenizer_json(&r, files.tokenizer, more)
                        : hf_read_vocab_txt(&r, more));
    if (files.is_bert)
        TRY(rebuild(&r, &files, lowercase_first));
    TRY(name_file(&r, CONFIG_FILE));
    TRY(read_decoder(&r, &files));
    TRY(hf_sort_tokens(&r));
    files.first_named = r.added_count;
    TRY(read_special_tokens(&r, &files));
    return hf_put_tokenizer(&r);
}

wisp_status hf_read_plain_tokenizer(struct directory *dir, const char *folder, wisp_error *error) {
    struct reading r = {.dir = dir,
                        .folder = folder,
                        .error = error,
                        .ids = {-1, -1, -1, -1, -1},
                        .is_plain = true,
                        .word_limit = WORD_LIMIT};
    const struct json *root;
    TRY(hf_read_json(dir, folder, JSON_FILE, true, JSON_OBJECT, &root, error));
    TRY(name_file(&r, JSON_FILE));
    TRY(hf_read_tokenizer_json(&r, root, 0));
    r.ids[ROLE_CLS] = r.ids[ROLE_SEPARATOR] = r.ids[ROLE_UNKNOWN];
    return hf_put_tokenizer(&r);
}
