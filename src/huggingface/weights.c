/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/weights.h"

#include <string.h>

#include "host/file.h"
#include "huggingface/checkpoint.h"
#include "huggingface/json_file.h"
#include "huggingface/onnx.h"
#include "huggingface/safetensors.h"
#include "huggingface/source.h"
#include "huggingface/tensor_names.h"

wisp_status hf_read_weights_file(struct directory *dir, const char *folder, const char *name,
                                 wisp_error *error) {
    const uint32_t index = dir->n_sources;
    TRY(hf_add_source(dir, folder, name, error));
    return hf_ends_with(name, ".bin") ? checkpoint_read(dir, index, error)
                                      : safetensors_read(dir, index, error);
}

static bool is_among(const char *const *names, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (names[i] && strcmp(names[i], name) == 0)
            return true;
    return false;
}

static wisp_status read_shards(struct directory *dir, const char *folder, const char *file,
                               const struct json *index, wisp_error *error) {
    const struct json *map = json_get(index, "weight_map");
    const char *names[DIRECTORY_MAX_SOURCES] = {0}; /* of the shards that were read */
    if (!json_is(map, JSON_OBJECT) || map->count == 0)
        return hf_wrong_value(folder, file, "weight_map", "an object of file names", error);
    for (const struct json *entry = map->first; entry; entry = entry->next) {
        if (!json_is(entry, JSON_STRING) || !hf_is_plain_name(entry->text))
            return hf_wrong_value(folder, file, entry->key, "a file name without folders", error);
        if (is_among(names, dir->n_sources, entry->text))
            continue;
        TRY(hf_read_weights_file(dir, folder, entry->text, error));
        names[dir->n_sources - 1] = entry->text;
    }
    return WISP_OK;
}

/* ONNX files, as optimum and transformers.js name them: the first that a folder has is read. */
static const char *const graphs[][2] = {
    {"", "model.onnx"},           {"onnx", "model.onnx"},
    {"onnx", "model_fp16.onnx"},  {"onnx", "model_quantized.onnx"},
    {"onnx", "model_int8.onnx"},  {"onnx", "model_uint8.onnx"},
    {"", "model_quantized.onnx"}, {"onnx", "model_q4.onnx"},
    {"onnx", "model_q4f16.onnx"}};

/* Sets *found and reads the ONNX file of a folder that has no other weights. */
static wisp_status read_graph(struct directory *dir, const char *folder, bool *found,
                              wisp_error *error) {
    char inner[HF_PATH_BYTES], path[HF_PATH_BYTES];
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs && !*found; i++) {
        TRY(file_join(folder, graphs[i][0], inner, sizeof inner, error));
        if (!file_exists(hf_path_of(path, inner, graphs[i][1])))
            continue;
        const uint32_t index = dir->n_sources;
        *found = true;
        TRY(hf_add_source(dir, inner, graphs[i][1], error));
        TRY(onnx_read(dir, inner, index, error));
    }
    return WISP_OK;
}

/* Weights in formats that wisp does not read, as their files or folders are called. */
static const char *const other_weights[] = {"openvino", "onnx", "tf_model.h5",
                                            "flax_model.msgpack"};

wisp_status hf_read_weights(struct directory *dir, const char *folder, wisp_error *error) {
    static const char *const files[][2] = {{"model.safetensors", "model.safetensors.index.json"},
                                           {"pytorch_model.bin", "pytorch_model.bin.index.json"}};
    const struct json *index;
    char path[HF_PATH_BYTES];
    bool found = false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (file_exists(hf_path_of(path, folder, files[i][0])))
            return hf_read_weights_file(dir, folder, files[i][0], error);
        TRY(hf_read_json(dir, folder, files[i][1], false, JSON_OBJECT, &index, error));
        if (index)
            return read_shards(dir, folder, files[i][1], index, error);
    }
    TRY(read_graph(dir, folder, &found, error));
    if (found)
        return WISP_OK;
    for (size_t i = 0; i < sizeof other_weights / sizeof *other_weights; i++)
        if (file_exists(hf_path_of(path, folder, other_weights[i])))
            return fail(error, WISP_ERROR_NOT_FOUND, hf_path_of(path, folder, files[0][0]), NULL,
                        "No such file, and wisp does not read what %s holds: load the model with "
                        "transformers and store it with save_pretrained, which writes safetensors",
                        other_weights[i]);
    return hf_read_weights_file(dir, folder, files[0][0],
                                error); /* which says that there is no such file */
}
