/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/schema.h"
#include "host/file.h"
#include "host/input_file.h"
#include "huggingface/codec_files.h"
#include "huggingface/decoders.h"
#include "huggingface/encoders.h"
#include "huggingface/json_file.h"
#include "huggingface/modules.h"
#include "huggingface/safetensors.h"
#include "huggingface/sentence_config.h"

enum { NAME_BYTES = 256 };

/* ---- weights -------------------------------------------------------------------------------- */

static wisp_status add_weights_file(struct directory *dir, const char *folder, const char *name,
                                    wisp_error *error) {
    char path[HF_PATH_BYTES];
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
        return hf_wrong_value(folder, file, "weight_map", "an object of file names", error);
    for (const struct json *entry = map->first; entry; entry = entry->next) {
        if (!json_is(entry, JSON_STRING) || !hf_is_plain_name(entry->text))
            return hf_wrong_value(folder, file, entry->key, "a file name without folders", error);
        if (is_among(names, dir->n_sources, entry->text))
            continue;
        TRY(add_weights_file(dir, folder, entry->text, error));
        names[dir->n_sources - 1] = entry->text;
    }
    return WISP_OK;
}

/* Weights in formats that wisp does not read, as their files or folders are called. */
static const char *const other_weights[] = {"pytorch_model.bin",
                                            "pytorch_model.bin.index.json",
                                            "onnx",
                                            "model.onnx",
                                            "openvino",
                                            "tf_model.h5",
                                            "flax_model.msgpack"};

/* Reads model.safetensors or the shards of an index. Where a folder has both, transformers reads
 * model.safetensors; the index may be left from an earlier version of the model. */
static wisp_status read_weights(struct directory *dir, const char *folder, wisp_error *error) {
    static const char whole[] = "model.safetensors", shards[] = "model.safetensors.index.json";
    const struct json *index;
    char path[HF_PATH_BYTES];
    if (file_exists(hf_path_of(path, folder, whole)))
        return add_weights_file(dir, folder, whole, error);
    TRY(hf_read_json(dir, folder, shards, false, JSON_OBJECT, &index, error));
    if (index)
        return read_shards(dir, folder, index, error);
    for (size_t i = 0; i < sizeof other_weights / sizeof *other_weights; i++)
        if (file_exists(hf_path_of(path, folder, other_weights[i])))
            return fail(error, WISP_ERROR_NOT_FOUND, hf_path_of(path, folder, whole), NULL,
                        "No such file, and wisp does not read %s: load the model with transformers "
                        "and store it with save_pretrained, which writes safetensors",
                        other_weights[i]);
    return add_weights_file(dir, folder, whole, error); /* which says that there is no such file */
}

/* ---- the folder ----------------------------------------------------------------------------- */

/* Refuses an adapter, which changes the weights of a base model, whether these are in the folder or
 * not. */
static wisp_status check_adapter(struct directory *dir, const char *folder, wisp_error *error) {
    static const char file[] = "adapter_config.json";
    const struct json *config;
    char path[HF_PATH_BYTES];
    TRY(hf_read_json(dir, folder, file, false, JSON_OBJECT, &config, error));
    if (!config)
        return WISP_OK;
    return fail(
        error, WISP_ERROR_UNSUPPORTED, hf_path_of(path, folder, file), "peft_type",
        "adapters of type %.32s are not supported: merge it into its base model with peft's "
        "merge_and_unload, and store the result",
        hf_shown(json_get(config, "peft_type")));
}

/* Refuses a causal language model without a modules.json: sentence-transformers pools its last
 * token, whatever its attention is, and wisp does not. */
static wisp_status check_class(const struct hf_config *config, wisp_error *error) {
    const struct json *classes = json_get(config->root, "architectures");
    const struct json *class = json_is(classes, JSON_ARRAY) ? classes->first : NULL;
    if (!json_is(class, JSON_STRING) || !hf_ends_with(class->text, "ForCausalLM"))
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "architectures",
                "%.64s is not supported without a modules.json", class->text);
}

/* Finds the encoder or the decoder of config.json's model_type. Both stay NULL for an unknown type
 * where `any` type is allowed; elsewhere it is an error, the first that is reported, because no
 * other error of the folder would make sense without it. */
static wisp_status find_family(const struct hf_config *config, bool any,
                               const struct hf_encoder **encoder, const struct hf_decoder **decoder,
                               wisp_error *error) {
    const struct json *type = json_get(config->root, "model_type");
    char known[512] = "";
    for (size_t i = 0; hf_encoders[i]; i++) {
        if (json_equals(type, hf_encoders[i]->type)) {
            *encoder = hf_encoders[i];
            return WISP_OK;
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s, ", hf_encoders[i]->type);
    }
    for (size_t i = 0; hf_decoders[i]; i++) {
        if (json_equals(type, hf_decoders[i]->type)) {
            *decoder = hf_decoders[i];
            return WISP_OK;
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", hf_decoders[i]->type,
                 !hf_decoders[i + 1]   ? ""
                 : !hf_decoders[i + 2] ? " and "
                                       : ", ");
    }
    if (any && json_is(type, JSON_STRING))
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "model_type",
                "models of type %.64s are not supported, only %s",
                json_is(type, JSON_STRING) ? type->text : "(none)", known);
}

static wisp_status open_config(struct directory *dir, const char *folder, bool any,
                               struct hf_config *config, const struct hf_encoder **encoder,
                               const struct hf_decoder **decoder, wisp_error *error) {
    static const char file[] = "config.json";
    char path[HF_PATH_BYTES];
    *config = (struct hf_config){0};
    hf_path_of(path, folder, file);
    config->file = arena_copy_text(&dir->arena, path, strlen(path));
    if (!config->file)
        return fail_memory(error, strlen(path));
    TRY(hf_read_json(dir, folder, file, true, JSON_OBJECT, &config->root, error));
    TRY(find_family(config, any, encoder, decoder, error));
    const struct json *quantised = json_get(config->root, "quantization_config");
    if (quantised && !json_is(quantised, JSON_NULL))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, quantised->key,
                    "weights quantised by %.32s are not supported, only F32, F16 and BF16",
                    hf_shown(json_get(quantised, "quant_method")));
    return WISP_OK;
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

/* Reads the folder of an encoder. `proper` is the folder of the Transformer module, which holds the
 * model itself. */
static wisp_status read_encoder(struct directory *dir, const char *folder, const char *proper,
                                const struct hf_modules *modules, struct hf_config *config,
                                const struct hf_encoder *encoder, wisp_error *error) {
    char key[NAME_BYTES];
    uint32_t pooling;
    struct hf_sentence sentence;
    if (!modules->list)
        TRY(check_class(config, error));
    TRY(hf_read_modules(dir, folder, modules, &pooling, error));
    if (modules->list)
        TRY(hf_read_sentence_model(dir, folder, error));
    TRY(hf_read_sentence_transformer(dir, proper, modules->list != NULL, &sentence, error));
    config->max_seq_length = sentence.max_seq_length;
    TRY(directory_put_text(dir, "general.architecture", wisp_text_of(encoder->architecture),
                           error));
    TRY(encoder->read_config(dir, config, error));
    snprintf(key, sizeof key, "%s.pooling_type", encoder->architecture);
    TRY(directory_put_u32(dir, key, pooling, error));
    TRY(hf_read_tokenizer(dir, proper, sentence.lowercase_first, error));
    TRY(read_weights(dir, proper, error));
    return hf_encoder_rename_tensors(dir, encoder, config, error);
}

/* Reads the folder of a decoder. */
static wisp_status read_decoder(struct directory *dir, const char *folder,
                                const struct hf_modules *modules, const struct hf_config *config,
                                const struct hf_decoder *decoder, wisp_error *error) {
    uint32_t vocabulary_size;
    if (modules->list)
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "model_type",
                    "%s with a modules.json, which makes embeddings of a decoder, is not supported",
                    decoder->type);
    TRY(hf_decoder_read_config(dir, decoder, config, &vocabulary_size, error));
    TRY(read_weights(dir, folder, error));
    /* The tensors are read before the tokens because the embedding's rows bound the size of the
     * vocabulary, for which memory is taken. */
    TRY(hf_decoder_read_tensors(dir, decoder, config, vocabulary_size, error));
    return hf_read_codec(dir, folder, config, vocabulary_size, error);
}

/* Reads the folder of a model that wisp cannot compute. */
static wisp_status read_unknown(struct directory *dir, const char *folder,
                                const struct hf_config *config, wisp_error *error) {
    const struct json *type = json_get(config->root, "model_type");
    struct file_bytes text;
    TRY(directory_put_text(dir, "general.architecture", wisp_text_of(type->text), error));
    TRY(file_read(config->file, &text, error));
    const wisp_status status =
        directory_put_text(dir, KEY_HUGGINGFACE_CONFIG, (wisp_text){text.data, text.size}, error);
    free(text.data);
    return status == WISP_OK ? read_weights(dir, folder, error) : status;
}

static wisp_status read_folder(struct directory *dir, const char *folder, bool any,
                               wisp_error *error) {
    char inner[HF_PATH_BYTES];
    struct hf_modules modules;
    struct hf_config config;
    const struct hf_encoder *encoder = NULL;
    const struct hf_decoder *decoder = NULL;
    const char *proper = folder; /* the folder of the model itself */
    dir->file = arena_copy_text(&dir->arena, folder, strlen(folder));
    if (!dir->file)
        return fail_memory(error, strlen(folder));
    TRY(put_name(dir, folder, error));
    TRY(hf_find_modules(dir, folder, &modules, error));
    if (*modules.transformer) {
        TRY(file_join(folder, modules.transformer, inner, sizeof inner, error));
        proper = inner;
    }
    TRY(check_adapter(dir, proper, error));
    TRY(open_config(dir, proper, any, &config, &encoder, &decoder, error));
    if (encoder)
        TRY(read_encoder(dir, folder, proper, &modules, &config, encoder, error));
    else if (decoder)
        TRY(read_decoder(dir, proper, &modules, &config, decoder, error));
    else
        TRY(read_unknown(dir, proper, &config, error));
    return directory_finish(dir, error);
}

wisp_status hf_read_folder(struct directory *dir, const char *folder, wisp_error *error) {
    return read_folder(dir, folder, false, error);
}

wisp_status hf_read_any_folder(struct directory *dir, const char *folder, wisp_error *error) {
    return read_folder(dir, folder, true, error);
}
