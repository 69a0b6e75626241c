/* SPDX-License-Identifier: Apache-2.0
 * Opens models from the file system. Native only. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "formats/gguf.h"
#include "host/discard.h"
#include "host/file.h"
#include "host/input_file.h"
#include "host/part_names.h"
#include "huggingface/folder.h"
#include "models/rest.h"
#include "native/open_path.h"
#include "sparse/neuron_cold.h"

/* Reports a file that is not GGUF and whose name tells what it is instead. */
static wisp_status check_name(const char *path, wisp_error *error) {
    static const char whole[] = "one file of a Hugging Face folder: name the folder, which also "
                                "has config.json and the tokenizer";
    static const char other[] = "a format that wisp does not read, unlike GGUF and Hugging "
                                "Face folders";
    static const struct {
        const char *end, *what;
    } known[] = {{".safetensors", whole}, {".json", whole}, {".onnx", whole},
                 {".bin", whole},         {".pt", other},   {".pth", other}};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t end = strlen(known[i].end);
        if (length > end && strcmp(path + length - end, known[i].end) == 0)
            return fail(error, WISP_ERROR_UNSUPPORTED, path, NULL, "%s", known[i].what);
    }
    return WISP_OK;
}

/* Checks that the metadata from `first` on has a key with this number. */
static wisp_status check_number(const struct directory *dir, const char *path, size_t first,
                                const char *key, uint32_t number, wisp_error *error) {
    for (size_t i = first; i < dir->n_metadata; i++) {
        const struct metadata *entry = &dir->metadata[i];
        if (strcmp(entry->key, key) != 0 || (entry->type != VALUE_U16 && entry->type != VALUE_U32))
            continue;
        if (entry->as.u == number)
            return WISP_OK;
        return fail(error, WISP_ERROR_FORMAT, path, key, "%llu, and its place needs %u",
                    (unsigned long long)entry->as.u, number);
    }
    return fail(error, WISP_ERROR_FORMAT, path, key,
                "absent: the file is not one of the parts of a model");
}

/* Checks that a part says which it is, from 0. Metadata of the model counts in the first part
 * alone. */
static wisp_status check_part(struct directory *dir, const char *path, size_t first_metadata,
                              uint32_t part, uint32_t count, wisp_error *error) {
    TRY(check_number(dir, path, first_metadata, "split.no", part, error));
    TRY(check_number(dir, path, first_metadata, "split.count", count, error));
    if (part > 0)
        dir->n_metadata = first_metadata;
    return WISP_OK;
}

/* Fails if the path says that it is another file of a model than the first. */
static wisp_status check_is_first(const char *path, const struct part_name *part,
                                  wisp_error *error) {
    if (part->part == 1)
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, path, NULL,
                "part %u of a model: name the first, %.*s00001%s", part->part, (int)part->at, path,
                path + part->at + 5);
}

/* Reads the parts of a model, of which the first is source `index`, as llama-gguf-split writes
 * them. The arena has their names. */
static wisp_status read_parts(struct directory *dir, uint32_t index, const char *const *names,
                              uint32_t count, wisp_error *error) {
    for (uint32_t part = 0; part < count; part++) {
        const size_t first_metadata = dir->n_metadata;
        if (part > 0) {
            wisp_source source;
            TRY(file_source_open(names[part], &source, error));
            TRY(directory_add_source(dir, &source, &index, error));
        }
        TRY(gguf_read_part(dir, index, error));
        TRY(check_part(dir, names[part], first_metadata, part, count, error));
    }
    directory_drop_metadata(dir, "split.");
    return gguf_finish(dir, error);
}

/* Reads the parts whose names follow from that of the first. */
static wisp_status read_named_parts(struct directory *dir, uint32_t index,
                                    const struct part_name *first, wisp_error *error) {
    const size_t bytes = strlen(dir->file) + 1;
    const char **names;
    ARENA_TAKE(&dir->arena, names, first->count, error);
    for (uint32_t part = 0; part < first->count; part++) {
        char *name;
        ARENA_TAKE(&dir->arena, name, bytes, error);
        memcpy(name, dir->file, bytes);
        part_name_set(name, first, part + 1);
        names[part] = name;
    }
    return read_parts(dir, index, names, first->count, error);
}

static wisp_status read_gguf(struct directory *dir, const char *path, wisp_error *error) {
    wisp_source source;
    uint32_t index;
    dir->file = arena_copy_text(&dir->arena, path, strlen(path));
    if (!dir->file)
        return fail_memory(error, strlen(path));
    if (dir->adapter)
        return fail(error, WISP_ERROR_ARGUMENT, path, "adapter",
                    "only folders have adapters, and this is a file");
    TRY(file_source_open(dir->file, &source, error));
    TRY(directory_add_source(dir, &source, &index, error));
    char magic[4] = "";
    if (source.size >= sizeof magic)
        TRY(source_read(&source, NULL, 0, magic, sizeof magic, error));
    if (memcmp(magic, "GGUF", sizeof magic) != 0)
        TRY(check_name(path, error));
    struct part_name part;
    if (!part_name_read(path, strlen(path), &part) || part.count == 1)
        return gguf_read(dir, index, error);
    TRY(check_is_first(path, &part, error));
    return read_named_parts(dir, index, &part, error);
}

static wisp_status
open_by(wisp_status (*read_folder)(struct directory *dir, const char *folder, wisp_error *error),
        struct directory *dir, const char *path, const char *adapter, wisp_error *error) {
    *dir = (struct directory){.adapter = adapter};
    const wisp_status status =
        file_is_folder(path) ? read_folder(dir, path, error) : read_gguf(dir, path, error);
    if (status != WISP_OK)
        directory_release(dir);
    return status;
}

wisp_status directory_open_path(struct directory *dir, const char *path, wisp_error *error) {
    return open_by(hf_read_folder, dir, path, NULL, error);
}

wisp_status directory_open_adapted(struct directory *dir, const char *path, const char *adapter,
                                   wisp_error *error) {
    return open_by(hf_read_folder, dir, path, adapter, error);
}

wisp_status directory_open_any(struct directory *dir, const char *path, wisp_error *error) {
    return open_by(hf_read_any_folder, dir, path, NULL, error);
}

/* Opens the model of a directory, which it takes over. */
static wisp_status open_model(struct directory *dir, const wisp_model_options *options,
                              double start, wisp_model **model, wisp_error *error) {
    TRY(model_load(dir, options, start, model, error));
    for (uint32_t i = 0; i < (*model)->dir.n_sources; i++)
        file_source_loaded(&(*model)->dir.sources[i]);
    if (!options || !options->hot_only || options->memory == 0)
        return WISP_OK;
    const wisp_status status = wisp_model_limit_memory(*model, options->memory, error);
    if (status != WISP_OK) {
        wisp_model_close(*model);
        *model = NULL;
    }
    return status;
}

wisp_status wisp_model_open(const char *path, const wisp_model_options *options, wisp_model **model,
                            wisp_error *error) {
    const double start = clock_seconds();
    struct directory dir;
    TRY(require(model, "model", error));
    *model = NULL;
    TRY(require(path, "path", error));
    TRY(directory_open_path(&dir, path, error));
    return open_model(&dir, options, start, model, error);
}

/* Reads the parts of a model whose names are not those of llama-gguf-split. */
static wisp_status read_given_parts(struct directory *dir, const char *const *paths, uint32_t n,
                                    wisp_error *error) {
    const char **names;
    wisp_source source;
    uint32_t index;
    ARENA_TAKE(&dir->arena, names, n, error);
    for (uint32_t i = 0; i < n; i++) {
        names[i] = arena_copy_text(&dir->arena, paths[i], strlen(paths[i]));
        if (!names[i])
            return fail_memory(error, strlen(paths[i]));
    }
    dir->file = names[0];
    TRY(file_source_open(dir->file, &source, error));
    TRY(directory_add_source(dir, &source, &index, error));
    return read_parts(dir, index, names, n, error);
}

wisp_status wisp_model_open_parts(const char *const *paths, uint32_t n,
                                  const wisp_model_options *options, wisp_model **model,
                                  wisp_error *error) {
    const double start = clock_seconds();
    struct directory dir = {0};
    TRY(require(model, "model", error));
    *model = NULL;
    TRY(require(paths, "paths", error));
    if (n < 1 || n > DIRECTORY_MAX_SOURCES)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "n", "expected 1 to %d files, not %u",
                    DIRECTORY_MAX_SOURCES, n);
    for (uint32_t i = 0; i < n; i++)
        TRY(require(paths[i], "paths", error));
    const wisp_status status = read_given_parts(&dir, paths, n, error);
    if (status != WISP_OK) {
        directory_release(&dir);
        return status;
    }
    return open_model(&dir, options, start, model, error);
}

wisp_status wisp_model_limit_memory(wisp_model *model, uint64_t bytes, wisp_error *error) {
    TRY(require(model, "model", error));
    if (!model->dir.residency.lacks_rows)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "model",
                    "it was opened with all of its neurons");
    if (model->dir.residency.in_frames)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "model",
                    "it was opened from a source with a limit");
    if (model->least_memory > bytes)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "memory",
                    "%llu bytes are always in memory, more than the %llu that are allowed",
                    (unsigned long long)model->least_memory, (unsigned long long)bytes);
    directory_drop_vocabulary(&model->dir);
    if (model->dir.residency.may_rest) {
        TRY(rest_open(&model->network, bytes - model_other_bytes(model), error));
        rest_loaded(&model->network, model->network.config.layers);
    }
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    if (model->dir.residency.lacks_neurons)
        neuron_cold_limit(&model->network.neurons, bytes - info.resident_bytes, discard_pages);
    model->limit_due = false;
    return WISP_OK;
}
