/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/modules.h"

#include <stdio.h>
#include <string.h>

#include "base/product.h"
#include "formats/schema.h"
#include "huggingface/json_file.h"

enum { NAME_BYTES = 256, MAX_MODULES = 64 };

static const char FILE_NAME[] = "modules.json";

/* KINDS is none of those before it. */
enum kind { TRANSFORMER, POOLING, NORMALIZE, DENSE, SPLADE, MASKED, MASK, KINDS, CLIP };

/* A module's class is named with its package, and with or without the file that defines it: all of
 * "sentence_transformers.models.Pooling", "sentence_transformers.models.Pooling.Pooling" and
 * "sentence_transformers.models.pooling.Pooling" are in use. A class of another package is code of
 * the model's author, whatever its name. */
static const char *const packages[] = {"sentence_transformers.models.",
                                       "sentence_transformers.base.modules.",
                                       "sentence_transformers.sentence_transformer.modules.",
                                       "sentence_transformers.sparse_encoder.models.",
                                       "sentence_transformers.sparse_encoder.modules.",
                                       "sentence_transformers.multi_vector_encoder.modules.",
                                       "pylate.models."};

static const struct {
    const char *class, *file;
} names[KINDS] = {{"Transformer", "transformer."},
                  {"Pooling", "pooling."},
                  {"Normalize", "normalize."},
                  {"Dense", "dense."},
                  {"SpladePooling", "splade_pooling."},
                  {"MLMTransformer", "mlm_transformer."},
                  {"MultiVectorMask", "multi_vector_mask."}};

static const char *after(const char *text, const char *prefix, size_t length) {
    return strncmp(text, prefix, length) == 0 ? text + length : text;
}

/* Returns whether `name`, the part of a class after its package, is `class`, of a file. */
static bool is_class(const char *name, const char *class, const char *file) {
    const size_t length = strlen(class);
    if (strncmp(name, class, length) == 0 && name[length] == '.')
        name += length + 1;
    else
        name = after(name, file, strlen(file));
    return strcmp(name, class) == 0;
}

/* Returns the kind of a module by its class, or KINDS if wisp has no such module. */
static enum kind kind_of(const char *type) {
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        const size_t length = strlen(packages[i]);
        if (strncmp(type, packages[i], length) != 0)
            continue;
        for (enum kind kind = TRANSFORMER; kind < KINDS; kind++)
            if (is_class(type + length, names[kind].class, names[kind].file))
                return kind;
        if (READS_CLIP && is_class(type + length, "CLIPModel", "clip_model."))
            return CLIP;
    }
    return KINDS;
}

static wisp_status unsupported(const char *folder, const char *what, wisp_error *error) {
    char path[HF_PATH_BYTES];
    return fail(error, WISP_ERROR_UNSUPPORTED, hf_path_of(path, folder, FILE_NAME), "type", "%s",
                what);
}

/* The Transformer of jina-embeddings-v3: code of the model's author, which chooses an adapter. */
static const char custom[] = "custom_st.Transformer";

static wisp_status refuse_type(const char *folder, const char *type, wisp_error *error) {
    char full[HF_PATH_BYTES];
    return fail(error, WISP_ERROR_UNSUPPORTED, hf_path_of(full, folder, FILE_NAME), "type",
                "modules of type %.160s are not supported, only sentence-transformers' "
                "Transformer, Pooling, SpladePooling, Dense and Normalize",
                type);
}

wisp_status hf_check_transformer(const char *folder, const struct hf_modules *modules,
                                 bool has_adapters, bool is_clip, wisp_error *error) {
    if (READS_CLIP && modules->is_clip && !is_clip)
        return unsupported(folder, "a CLIPModel whose config.json is not of type clip", error);
    const struct json *type = modules->list ? json_get(modules->list->first, "type") : NULL;
    return json_equals(type, custom) && !has_adapters ? refuse_type(folder, custom, error)
                                                      : WISP_OK;
}

/* Checks a member of the list, and sets *kind and *path, which is "" for the model's own folder. */
static wisp_status read_module(const char *folder, const struct json *module, enum kind *kind,
                               const char **path, wisp_error *error) {
    const struct json *type = json_get(module, "type"), *given = json_get(module, "path");
    *kind = KINDS;
    *path = "";
    if (!json_is(type, JSON_STRING) || !json_is(given, JSON_STRING))
        return hf_wrong_value(folder, FILE_NAME, "type, path", "two strings", error);
    *kind = kind_of(type->text);
    if (*kind == MASKED) /* as versions before 6 call a Transformer before a SpladePooling */
        *kind = TRANSFORMER;
    if (strcmp(type->text, custom) == 0)
        *kind = TRANSFORMER;
    if (*kind == KINDS)
        return refuse_type(folder, type->text, error);
    *path = strcmp(given->text, ".") == 0 ? "" : given->text;
    if (**path && !hf_is_plain_name(*path))
        return hf_wrong_value(folder, FILE_NAME, "path", "a path without folders", error);
    return WISP_OK;
}

wisp_status hf_find_modules(struct directory *dir, const char *folder, struct hf_modules *modules,
                            wisp_error *error) {
    enum kind kind;
    *modules = (struct hf_modules){.transformer = ""};
    TRY(hf_read_json(dir, folder, FILE_NAME, false, JSON_ARRAY, &modules->list, error));
    if (!modules->list)
        return WISP_OK;
    if (modules->list->count == 0)
        return unsupported(folder, "there are no modules, and so no embedding", error);
    if (modules->list->count > MAX_MODULES)
        return unsupported(folder, "there are more than 64 modules", error);
    TRY(read_module(folder, modules->list->first, &kind, &modules->transformer, error));
    if (READS_CLIP && kind == CLIP && modules->list->count > 1)
        return unsupported(folder, "modules behind a CLIPModel are not supported", error);
    modules->is_clip = READS_CLIP && kind == CLIP;
    if (kind != TRANSFORMER && !modules->is_clip)
        return unsupported(folder, "the first module is not a Transformer", error);
    return WISP_OK;
}

/* ---- Pooling -------------------------------------------------------------------------------- */

/* A way to pool: its name, the flag that versions of sentence-transformers before 6 have for it,
 * and llama.cpp's number for the key pooling_type, or 0 if wisp does not have it. */
static const struct {
    const char *mode, *flag;
    uint32_t type;
} modes[] = {{"mean", "pooling_mode_mean_tokens", 1},
             {"cls", "pooling_mode_cls_token", 2},
             {"max", "pooling_mode_max_tokens", 0},
             {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", 0},
             {"weightedmean", "pooling_mode_weightedmean_tokens", 0},
             {"lasttoken", "pooling_mode_lasttoken", 3}};

enum { MODES = sizeof modes / sizeof *modes };

struct pooling {
    const char *folder, *file;
    const struct json *config;
    wisp_error *error;
};

static wisp_status pooling_fault(const struct pooling *p, wisp_status status, const char *field,
                                 const char *what, const char *found) {
    char path[HF_PATH_BYTES];
    return fail(p->error, status, hf_path_of(path, p->folder, p->file), field, "%.64s %s", found,
                what);
}

/* Refuses settings that wisp does not know: they may change what is pooled. */
static wisp_status check_keys(const struct pooling *p) {
    for (const struct json *m = p->config->first; m; m = m->next) {
        bool known = strcmp(m->key, "word_embedding_dimension") == 0 ||
                     strcmp(m->key, "embedding_dimension") == 0 ||
                     strcmp(m->key, "pooling_mode") == 0 || strcmp(m->key, "include_prompt") == 0;
        for (size_t i = 0; i < MODES && !known; i++)
            known = strcmp(m->key, modes[i].flag) == 0;
        if (!known)
            return pooling_fault(p, WISP_ERROR_UNSUPPORTED, m->key,
                                 "is the value of a setting of Pooling that wisp does not know",
                                 hf_shown(m));
    }
    return WISP_OK;
}

/* Points *mode to the name of the way to pool. pooling_mode says it; without that the flags do, and
 * a model with no flag set pools by mean. */
static wisp_status read_mode(const struct pooling *p, const char **mode) {
    static const char only[] = "is not supported, only mean, cls or lasttoken, one at a time";
    const struct json *given = json_get(p->config, "pooling_mode");
    *mode = NULL;
    if (json_is(given, JSON_ARRAY) && given->count == 1)
        given = given->first;
    if (given) {
        *mode = json_is(given, JSON_STRING) ? given->text : NULL;
        return *mode ? WISP_OK
                     : pooling_fault(p, WISP_ERROR_UNSUPPORTED, "pooling_mode", only,
                                     hf_shown(given));
    }
    for (size_t i = 0; i < MODES; i++) {
        const struct json *flag = json_get(p->config, modes[i].flag);
        bool on = false;
        if (flag && !json_to_bool(flag, &on))
            return pooling_fault(p, WISP_ERROR_UNSUPPORTED, modes[i].flag,
                                 "is neither true nor false", hf_shown(flag));
        if (on && *mode)
            return pooling_fault(p, WISP_ERROR_UNSUPPORTED, "pooling_mode", only,
                                 "more than one mode");
        *mode = on ? modes[i].mode : *mode;
    }
    *mode = *mode ? *mode : "mean";
    return WISP_OK;
}

static wisp_status read_pooling(struct directory *dir, const char *folder, const char *path,
                                uint32_t *type, wisp_error *error) {
    char file[NAME_BYTES];
    struct pooling p = {.folder = folder, .file = file, .error = error};
    const char *mode;
    bool include_prompt = true;
    snprintf(file, sizeof file, "%s/config.json", path);
    TRY(hf_read_json(dir, folder, file, true, JSON_OBJECT, &p.config, error));
    TRY(check_keys(&p));
    TRY(read_mode(&p, &mode));
    for (size_t i = 0; i < MODES; i++)
        if (strcmp(mode, modes[i].mode) == 0)
            *type = modes[i].type;
    if (*type == 0)
        return pooling_fault(&p, WISP_ERROR_UNSUPPORTED, "pooling_mode",
                             "pooling is not supported, only mean, cls or lasttoken", mode);
    const struct json *include = json_get(p.config, "include_prompt");
    if (include && !json_to_bool(include, &include_prompt))
        return pooling_fault(&p, WISP_ERROR_FORMAT, "include_prompt", "is neither true nor false",
                             hf_shown(include));
    return include_prompt ? WISP_OK : directory_put_bool(dir, KEY_POOL_PROMPT, false, error);
}

/* ---- SpladePooling -------------------------------------------------------------------------- */

static wisp_status read_splade(struct directory *dir, const char *folder, const char *path,
                               wisp_error *error) {
    static const struct {
        const char *field, *usual, *other;
    } settings[] = {{"pooling_strategy", "max", "sum"},
                    {"activation_function", "relu", "log1p_relu"}};
    char file[NAME_BYTES], full[HF_PATH_BYTES];
    const struct json *config;
    bool others[2];
    snprintf(file, sizeof file, "%s/config.json", path);
    TRY(hf_read_json(dir, folder, file, true, JSON_OBJECT, &config, error));
    for (size_t i = 0; i < 2; i++) {
        const struct json *given = json_get(config, settings[i].field);
        others[i] = json_equals(given, settings[i].other);
        if (given && !others[i] && !json_equals(given, settings[i].usual))
            return fail(error, WISP_ERROR_UNSUPPORTED, hf_path_of(full, folder, file),
                        settings[i].field, "%.32s is not supported, only %s and %s",
                        hf_shown(given), settings[i].usual, settings[i].other);
    }
    TRY(directory_put_bool(dir, KEY_SPLADE_SUMS, others[0], error));
    return directory_put_u32(dir, KEY_SPLADE_LOGARITHMS, others[1] ? 2 : 1, error);
}

/* ---- Normalize ------------------------------------------------------------------------------ */

/* Checks the config.json that a Normalize has since version 6 of sentence-transformers. `input` is
 * what it is to normalise, and what may be left out. */
static wisp_status check_normalize(struct directory *dir, const char *folder, const char *path,
                                   const char *input, wisp_error *error) {
    static const char *const keys[] = {"module_input_name", "module_output_name"};
    char file[NAME_BYTES], full[HF_PATH_BYTES];
    const struct json *config;
    snprintf(file, sizeof file, "%s/config.json", path);
    TRY(hf_read_json(dir, folder, file, false, JSON_OBJECT, &config, error));
    for (size_t i = 0; i < 2; i++) {
        const struct json *given = json_get(config, keys[i]);
        const bool is_absent = !given || (i == 1 && json_is(given, JSON_NULL));
        if (!is_absent && !json_equals(given, input))
            return fail(error, WISP_ERROR_UNSUPPORTED, hf_path_of(full, folder, file), keys[i],
                        "to normalise %.64s is not supported, only %s", hf_shown(given), input);
    }
    return WISP_OK;
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* Returns whether a module before this one has its name. sentence-transformers keeps modules by
 * their names, so that only the last of the two would run. */
static bool has_name_before(const struct hf_modules *modules, const struct json *module) {
    const struct json *name = json_get(module, "name");
    for (const struct json *m = modules->list->first; m != module; m = m->next)
        if (json_is(name, JSON_STRING) && json_equals(json_get(m, "name"), name->text))
            return true;
    return false;
}

static wisp_status add_dense(const char *folder, struct hf_modules *modules, const char *path,
                             bool normalized, wisp_error *error) {
    if (normalized)
        return unsupported(folder, "a Dense behind a Normalize is not supported", error);
    if (modules->n_dense == DENSE_MODULES)
        return unsupported(folder, "more than two Dense modules are not supported", error);
    modules->dense[modules->n_dense++] = path;
    return WISP_OK;
}

static wisp_status read_list(struct directory *dir, const char *folder, struct hf_modules *modules,
                             uint32_t *pooling, bool *normalized, wisp_error *error) {
    for (const struct json *m = modules->list->first->next; m; m = m->next) {
        enum kind kind;
        const char *path;
        TRY(read_module(folder, m, &kind, &path, error));
        if (has_name_before(modules, m))
            return unsupported(folder, "two modules have one name", error);
        if (kind == TRANSFORMER || (READS_CLIP && kind == CLIP))
            return unsupported(folder, "a second Transformer is not supported", error);
        if ((kind == POOLING || kind == SPLADE) && *pooling > 0)
            return unsupported(folder, "a second pooling is not supported", error);
        if (kind == POOLING) {
            TRY(read_pooling(dir, folder, path, pooling, error));
            continue;
        }
        if (kind == SPLADE) {
            *pooling = POOLING_TYPE_SPLADE;
            TRY(read_splade(dir, folder, path, error));
            continue;
        }
        if (*pooling == POOLING_TYPE_SPLADE)
            return unsupported(folder, "a module behind a SpladePooling is not supported", error);
        if (*pooling == 0)
            return unsupported(folder,
                               kind == DENSE ? "a Dense before the Pooling is not supported"
                                             : "a Normalize is before the Pooling: version 6 of "
                                               "sentence-transformers skips it and version 5 fails",
                               error);
        if (kind == DENSE) {
            TRY(add_dense(folder, modules, path, *normalized, error));
            continue;
        }
        if (kind == MASK)
            return unsupported(folder,
                               "a MultiVectorMask without a model_type of "
                               "MultiVectorEncoder is not supported",
                               error);
        TRY(check_normalize(dir, folder, path, "sentence_embedding", error));
        *normalized = true;
    }
    if (*pooling == 0)
        return unsupported(folder, "there is no Pooling module, which makes an embedding of a text",
                           error);
    return WISP_OK;
}

wisp_status hf_read_modules(struct directory *dir, const char *folder, struct hf_modules *modules,
                            uint32_t *pooling, wisp_error *error) {
    bool normalized = false;
    *pooling = modules->list ? 0 : 1;
    if (modules->list)
        TRY(read_list(dir, folder, modules, pooling, &normalized, error));
    return directory_put_bool(dir, KEY_NORMALIZE, normalized, error);
}

wisp_status hf_read_token_modules(struct directory *dir, const char *folder,
                                  struct hf_modules *modules, const char **mask, bool *normalized,
                                  wisp_error *error) {
    modules->of_tokens = true;
    *mask = NULL;
    *normalized = false;
    for (const struct json *m = modules->list->first->next; m; m = m->next) {
        enum kind kind;
        const char *path;
        TRY(read_module(folder, m, &kind, &path, error));
        if (kind == DENSE)
            TRY(add_dense(folder, modules, path, *normalized, error));
        else if (kind == MASK && !*mask)
            *mask = path;
        else if (kind == NORMALIZE)
            TRY(check_normalize(dir, folder, path, "token_embeddings", error));
        else
            return unsupported(folder,
                               "a ColBERT of other modules than one Transformer, Dense, "
                               "one MultiVectorMask and Normalize is not supported",
                               error);
        *normalized = *normalized || kind == NORMALIZE;
    }
    return WISP_OK;
}
