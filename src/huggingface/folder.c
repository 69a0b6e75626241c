/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/folder.h"

#include <stdio.h>
#include <string.h>

#include "formats/schema.h"
#include "host/file.h"
#include "host/input_file.h"
#include "huggingface/encoders.h"
#include "huggingface/safetensors.h"

enum { PATH_BYTES = 4096, NAME_BYTES = 256 };

/* folder/file as errors name it, in a buffer of PATH_BYTES. */
static const char *path_of(char *path, const char *folder, const char *file) {
    const int length = snprintf(path, PATH_BYTES, "%s/%s", folder, file);
    return length < 0 ? file : path;
}

/* A value of a JSON object that must have its type where it is present. */
static wisp_status wrong_value(const char *folder, const char *file, const char *field,
                               const char *wanted, wisp_error *error) {
    char path[PATH_BYTES];
    return fail(error, WISP_ERROR_FORMAT, path_of(path, folder, file), field, "%s belongs here",
                wanted);
}

/* ---- weights -------------------------------------------------------------------------------- */

static wisp_status add_weights_file(struct directory *dir, const char *folder, const char *name,
                                    wisp_error *error) {
    char path[PATH_BYTES];
    wisp_source source;
    uint32_t index;
    TRY(file_join(folder, name, path, sizeof path, error));
    const char *kept = arena_copy_text(&dir->arena, path, strlen(path));
    if (!kept)
        return fail_memory(error, strlen(path));
    TRY(file_source_open(kept, &source, error));
    TRY(directory_add_source(dir, &source, &index, error));
    return safetensors_read(dir, index, error);
}

/* Whether this is a name within the folder: the index may not make us read files elsewhere. */
static bool is_plain_name(const char *name) {
    return *name && *name != '.' && !strpbrk(name, "/\\");
}

static bool is_among(const char *const *names, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (names[i] && strcmp(names[i], name) == 0)
            return true;
    return false;
}

static wisp_status read_shards(struct directory *dir, const char *folder, const struct json *index,
                               wisp_error *error) {
    static const char file[] = "model.safetensors.index.json";
    const struct json *map = json_get(index, "weight_map");
    const char *names[DIRECTORY_MAX_SOURCES] = {0}; /* of the shards that were read */
    if (!json_is(map, JSON_OBJECT) || map->count == 0)
        return wrong_value(folder, file, "weight_map", "an object of file names", error);
    for (const struct json *entry = map->first; entry; entry = entry->next) {
        if (!json_is(entry, JSON_STRING) || !is_plain_name(entry->text))
            return wrong_value(folder, file, entry->key, "a file name without folders", error);
        if (is_among(names, dir->n_sources, entry->text))
            continue;
        TRY(add_weights_file(dir, folder, entry->text, error));
        names[dir->n_sources - 1] = entry->text;
    }
    return WISP_OK;
}

static wisp_status read_weights(struct directory *dir, const char *folder, wisp_error *error) {
    const struct json *index;
    TRY(hf_read_json(dir, folder, "model.safetensors.index.json", false, JSON_OBJECT, &index,
                     error));
    if (index)
        return read_shards(dir, folder, index, error);
    return add_weights_file(dir, folder, "model.safetensors", error);
}

/* ---- sentence-transformers files ------------------------------------------------------------ */

static wisp_status read_pooling(struct directory *dir, const char *folder, const char *path,
                                uint32_t *type, wisp_error *error) {
    /* Names of sentence-transformers' flags, and llama.cpp's numbers for the key pooling_type. */
    static const struct {
        const char *flag, *mode;
        uint32_t type;
    } modes[] = {{"pooling_mode_mean_tokens", "mean", 1},
                 {"pooling_mode_cls_token", "cls", 2},
                 {"pooling_mode_max_tokens", "max", 0},
                 {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", 0},
                 {"pooling_mode_weightedmean_tokens", "weightedmean", 0},
                 {"pooling_mode_lasttoken", "lasttoken", 0}};
    char file[NAME_BYTES], full[PATH_BYTES];
    const struct json *config;
    snprintf(file, sizeof file, "%s/config.json", path);
    TRY(hf_read_json(dir, folder, file, true, JSON_OBJECT, &config, error));
    uint32_t chosen = 0;
    *type = 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (json_is(json_get(config, modes[i].flag), JSON_TRUE) ||
            json_equals(json_get(config, "pooling_mode"), modes[i].mode)) {
            *type = modes[i].type;
            chosen++;
        }
    if (chosen != 1 || *type == 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, path_of(full, folder, file), "pooling_mode",
                    "only mean pooling or cls pooling is supported, and one of them must be on");
    if (json_is(json_get(config, "include_prompt"), JSON_FALSE))
        return directory_put_bool(dir, KEY_POOL_PROMPT, false, error);
    return WISP_OK;
}

static const char *last_part(const char *dotted) {
    const char *dot = strrchr(dotted, '.');
    return dot ? dot + 1 : dotted;
}

/* The modules of modules.json. Without it sentence-transformers pools by mean and does not
 * normalise.
 */
struct modules {
    const char *transformer; /* the folder of the model proper, "" for the same one */
    uint32_t pooling;        /* 0 until it is known */
    bool normalized;
};

static wisp_status read_module(struct directory *dir, const char *folder, const struct json *module,
                               struct modules *found, wisp_error *error) {
    const struct json *type = json_get(module, "type"), *path = json_get(module, "path");
    if (!json_is(type, JSON_STRING) || !json_is(path, JSON_STRING) ||
        (path->text_length > 0 && !is_plain_name(path->text)))
        return wrong_value(folder, "modules.json", "type, path",
                           "two strings, path without folders,", error);
    const char *name = last_part(type->text);
    if (strcmp(name, "Transformer") == 0) {
        found->transformer = path->text;
        return WISP_OK;
    }
    char full[PATH_BYTES];
    if (strcmp(name, "Pooling") == 0 && found->pooling > 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, path_of(full, folder, "modules.json"), "type",
                    "a second pooling is not supported");
    if (strcmp(name, "Pooling") == 0)
        return read_pooling(dir, folder, path->text, &found->pooling, error);
    if (strcmp(name, "Normalize") == 0) {
        found->normalized = true;
        return WISP_OK;
    }
    return fail(error, WISP_ERROR_UNSUPPORTED, path_of(full, folder, "modules.json"), "type",
                "modules of type %.64s are not supported", type->text);
}

static wisp_status read_modules(struct directory *dir, const char *folder, struct modules *found,
                                wisp_error *error) {
    const struct json *modules;
    *found = (struct modules){.transformer = ""};
    TRY(hf_read_json(dir, folder, "modules.json", false, JSON_ARRAY, &modules, error));
    for (const struct json *m = modules ? modules->first : NULL; m; m = m->next)
        TRY(read_module(dir, folder, m, found, error));
    if (found->pooling == 0)
        found->pooling = 1;
    return directory_put_bool(dir, KEY_NORMALIZE, found->normalized, error);
}

/* sentence-transformers before version 6 keeps the limit here, later ones with the tokenizer, whose
 * value may be beyond all bounds: then the model's positions are the limit. */
static wisp_status read_limits(struct directory *dir, const char *folder, bool *lowercase_first,
                               wisp_error *error) {
    static const char file[] = "sentence_bert_config.json";
    const struct json *config, *tokenizer;
    uint64_t tokens;
    TRY(hf_read_json(dir, folder, file, false, JSON_OBJECT, &config, error));
    TRY(hf_read_json(dir, folder, "tokenizer_config.json", false, JSON_OBJECT, &tokenizer, error));
    *lowercase_first = json_is(json_get(config, "do_lower_case"), JSON_TRUE);
    const struct json *max = json_get(config, "max_seq_length");
    if (max && !json_is(max, JSON_NULL)) {
        if (!json_to_u64(max, &tokens) || tokens > UINT32_MAX)
            return wrong_value(folder, file, "max_seq_length", "a whole number", error);
        return directory_put_u32(dir, KEY_MAX_SEQ_LENGTH, (uint32_t)tokens, error);
    }
    if (json_to_u64(json_get(tokenizer, "model_max_length"), &tokens) && tokens <= UINT32_MAX)
        return directory_put_u32(dir, KEY_MAX_SEQ_LENGTH, (uint32_t)tokens, error);
    return WISP_OK;
}

static wisp_status read_prompts(struct directory *dir, const char *folder, wisp_error *error) {
    static const char file[] = "config_sentence_transformers.json";
    const struct json *config;
    TRY(hf_read_json(dir, folder, file, false, JSON_OBJECT, &config, error));
    const struct json *prompts = json_get(config, "prompts");
    if (prompts && !json_is(prompts, JSON_NULL) && !json_is(prompts, JSON_OBJECT))
        return wrong_value(folder, file, "prompts", "an object", error);
    for (const struct json *p = prompts ? prompts->first : NULL; p; p = p->next) {
        char key[NAME_BYTES];
        const int length = snprintf(key, sizeof key, KEY_PROMPT_PREFIX "%s", p->key);
        if (!json_is(p, JSON_STRING) || length < 0 || (size_t)length >= sizeof key)
            return wrong_value(folder, file, "prompts", "an object of strings with short names",
                               error);
        TRY(directory_put_text(dir, key, (wisp_text){p->text, p->text_length}, error));
    }
    const struct json *name = json_get(config, "default_prompt_name");
    if (!name || json_is(name, JSON_NULL))
        return WISP_OK;
    if (!json_is(name, JSON_STRING))
        return wrong_value(folder, file, "default_prompt_name", "a string", error);
    return directory_put_text(dir, KEY_DEFAULT_PROMPT_NAME,
                              (wisp_text){name->text, name->text_length}, error);
}

/* ---- the folder ----------------------------------------------------------------------------- */

static wisp_status read_config(struct directory *dir, const char *folder, uint32_t pooling,
                               const struct hf_encoder **encoder, wisp_error *error) {
    char full[PATH_BYTES], key[NAME_BYTES];
    struct hf_config config = {.file = path_of(full, folder, "config.json")};
    TRY(hf_read_json(dir, folder, "config.json", true, JSON_OBJECT, &config.root, error));
    TRY(hf_encoder_find(&config, encoder, error));
    const char *architecture = (*encoder)->architecture;
    TRY(directory_put_text(dir, "general.architecture", wisp_text_of(architecture), error));
    TRY((*encoder)->read_config(dir, &config, error));
    snprintf(key, sizeof key, "%s.pooling_type", architecture);
    return directory_put_u32(dir, key, pooling, error);
}

static wisp_status put_name(struct directory *dir, const char *folder, wisp_error *error) {
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    size_t start = length;
    while (start > 0 && folder[start - 1] != '/')
        start--;
    return directory_put_text(dir, "general.name", (wisp_text){folder + start, length - start},
                              error);
}

wisp_status hf_read_folder(struct directory *dir, const char *folder, wisp_error *error) {
    char inner[PATH_BYTES];
    bool lowercase_first;
    struct modules modules;
    const struct hf_encoder *encoder;
    const char *proper = folder; /* where the model itself is */
    dir->file = arena_copy_text(&dir->arena, folder, strlen(folder));
    if (!dir->file)
        return fail_memory(error, strlen(folder));
    TRY(put_name(dir, folder, error));
    TRY(read_modules(dir, folder, &modules, error));
    TRY(read_prompts(dir, folder, error));
    if (*modules.transformer) {
        TRY(file_join(folder, modules.transformer, inner, sizeof inner, error));
        proper = inner;
    }
    TRY(read_limits(dir, proper, &lowercase_first, error));
    TRY(read_config(dir, proper, modules.pooling, &encoder, error));
    TRY(hf_read_tokenizer(dir, proper, lowercase_first, error));
    TRY(read_weights(dir, proper, error));
    TRY(hf_encoder_rename_tensors(dir, encoder, error));
    return directory_finish(dir, error);
}
