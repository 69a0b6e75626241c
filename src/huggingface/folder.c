/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/product.h"
#include "formats/schema.h"
#include "host/file.h"
#include "host/input_file.h"
#include "huggingface/adapters.h"
#include "huggingface/clip_images.h"
#include "huggingface/codec_files.h"
#include "huggingface/cross_encoder.h"
#include "huggingface/decoders.h"
#include "huggingface/encoders.h"
#include "huggingface/json_file.h"
#include "huggingface/modules.h"
#include "huggingface/sentence_config.h"
#include "huggingface/splade.h"
#include "huggingface/static.h"
#include "huggingface/token_vectors.h"
#include "huggingface/weights.h"

enum { NAME_BYTES = 256, POOLING_TYPE_LAST = 3, POOLING_TYPE_RANK = 4 };

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

/* Refuses language models without a modules.json. sentence-transformers pools the last token of
 * causal ones, whatever their attention is, and wisp does not. Those that guess masked words were
 * not trained to embed, unless they are SPLADE's, whose vectors are made of their guesses. */
static wisp_status check_class(const struct hf_config *config, wisp_error *error) {
    const struct json *classes = json_get(config->root, "architectures");
    const struct json *class = json_is(classes, JSON_ARRAY) ? classes->first : NULL;
    const bool masked = json_is(class, JSON_STRING) && hf_ends_with(class->text, "ForMaskedLM");
    if (!masked && (!json_is(class, JSON_STRING) || !hf_ends_with(class->text, "ForCausalLM")))
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "architectures",
                "%.64s is not supported without a modules.json%s", class->text,
                masked ? ": it guesses words, of which SPLADE makes sparse vectors if there is a "
                         "modules.json with a SpladePooling"
                       : "");
}

/* Finds the encoder or the decoder of config.json's model_type. Both stay NULL for an unknown type
 * if `any` type is allowed; elsewhere it is an error, the first that is reported, because no
 * other error of the folder would make sense without it. */
static wisp_status find_family(const struct hf_config *config, bool any,
                               const struct hf_encoder **encoder, const struct hf_decoder **decoder,
                               wisp_error *error) {
    const struct json *type = json_get(config->root, "model_type");
    char known[512] = "";
    for (size_t i = 0; hf_encoders[i]; i++) {
        const struct hf_encoder *e = hf_encoders[i];
        if (json_equals(type, e->type) && (!e->is_meant || e->is_meant(config))) {
            *encoder = e;
            return WISP_OK;
        }
        const size_t used = strlen(known);
        if (e->is_meant)
            continue;
        snprintf(known + used, sizeof known - used, "%s, ", hf_encoders[i]->type);
    }
    for (size_t i = 0; hf_decoders[i]; i++) {
        const struct hf_decoder *d = hf_decoders[i];
        if (json_equals(type, d->type) && (!d->is_bidirectional || d->is_bidirectional(config))) {
            *decoder = d;
            return WISP_OK;
        }
        const size_t used = strlen(known);
        if (i > 0 && hf_after(d->type, hf_decoders[i - 1]->type)) /* of the same family */
            continue;
        snprintf(known + used, sizeof known - used, "%s%s", d->type,
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
    const struct json *method = json_get(quantised, "quant_method");
    const char *known = *decoder ? (*decoder)->quantised : NULL;
    if (json_is_absent(quantised) || (known && json_equals(method, known)))
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, quantised->key,
                "weights quantised by %.32s are not supported, only F32, F16 and BF16",
                hf_shown(method));
}

/* Returns the last part of the first `length` bytes of a path. */
static wisp_text last_part(const char *path, size_t length) {
    while (length > 1 && path[length - 1] == '/')
        length--;
    size_t start = length;
    while (start > 0 && path[start - 1] != '/')
        start--;
    return (wisp_text){path + start, length - start};
}

static bool begins_with(wisp_text text, const char *start) {
    return text.length >= strlen(start) && memcmp(text.bytes, start, strlen(start)) == 0;
}

/* Names the model after its folder; in the cache of the Hub, where folders are named after commits,
 * after its repository: models--OWNER--NAME/snapshots/COMMIT. */
static wisp_status put_name(struct directory *dir, const char *folder, wisp_error *error) {
    static const char mark[] = "--";
    wisp_text name = last_part(folder, strlen(folder));
    const wisp_text snapshots = last_part(folder, (size_t)(name.bytes - folder));
    const wisp_text repo = last_part(folder, (size_t)(snapshots.bytes - folder));
    if (begins_with(snapshots, "snapshots") && begins_with(repo, "models--")) {
        const char *end = repo.bytes + repo.length, *owner = repo.bytes + strlen("models--");
        const char *marks = strstr(owner, mark);
        if (marks && marks + strlen(mark) < end)
            name = (wisp_text){marks + strlen(mark), (size_t)(end - marks) - strlen(mark)};
    }
    return directory_put_text(dir, "general.name", name, error);
}

/* Returns whether a matrix has so many rows. */
static bool has_rows(const struct directory *dir, uint64_t rows) {
    size_t i = 0;
    while (i < dir->n_tensors && (dir->tensors[i].n_dims != 2 || dir->tensors[i].dims[1] < rows))
        i++;
    return i < dir->n_tensors;
}

/* Reads an encoder's tokenizer. Its tokenizer.json says whether it is WordPiece. DeBERTa's may be
 * a model of SentencePiece instead. The tensors, of
 * which the embedding's rows bound the size of the vocabulary, are known. */
static wisp_status read_tokenizer(struct directory *dir, const char *folder,
                                  const struct hf_config *config, bool lowercase_first,
                                  wisp_error *error) {
    const struct json *root;
    uint64_t words;
    TRY(hf_read_json(dir, folder, "tokenizer.json", false, JSON_OBJECT, &root, error));
    const struct json *model = json_get(root, "model"), *type = json_get(model, "type");
    if (!json_equals(type, "BPE") && !json_equals(type, "Unigram") &&
        !hf_has_only_deberta_file(folder))
        return hf_read_tokenizer(dir, folder, lowercase_first, error);
    if (!json_to_u64(json_get(config->root, "vocab_size"), &words) || words > UINT32_MAX)
        return fail(error, WISP_ERROR_FORMAT, config->file, "vocab_size",
                    "expected a number of tokens");
    if (!has_rows(dir, words))
        return fail(error, WISP_ERROR_FORMAT, config->file, "vocab_size",
                    "%llu tokens, and no tensor has so many rows", (unsigned long long)words);
    return hf_read_codec(dir, folder, config, (uint32_t)words, true, error);
}

/* Reads the settings of sentence-transformers. */
static wisp_status read_sentence(struct directory *dir, const char *folder, const char *proper,
                                 struct hf_modules *modules, struct hf_config *config,
                                 uint32_t *pooling, struct hf_sentence *sentence,
                                 wisp_error *error) {
    TRY(hf_read_modules(dir, folder, modules, pooling, error));
    const bool guesses = *pooling == POOLING_TYPE_SPLADE;
    if (modules->list)
        TRY(hf_read_sentence_model(dir, folder, guesses, error));
    TRY(hf_read_sentence_transformer(dir, proper, modules->list != NULL, *pooling, sentence,
                                     error));
    config->max_seq_length = sentence->max_seq_length;
    return WISP_OK;
}

/* Reads the folder of an encoder. `proper` is the folder of the Transformer module, which holds the
 * model itself. */
static wisp_status read_encoder(struct directory *dir, const char *folder, const char *proper,
                                struct hf_modules *modules, struct hf_config *config,
                                const struct hf_encoder *encoder, wisp_error *error) {
    char key[NAME_BYTES];
    uint32_t pooling = POOLING_TYPE_RANK;
    struct hf_sentence sentence = {0};
    const struct hf_name *head = NULL;
    bool of_tokens;
    TRY(hf_read_token_vectors(dir, folder, proper, config, modules, &head, &of_tokens, error));
    const bool ranks = !of_tokens && hf_is_cross_encoder(config, modules);
    head = ranks ? hf_head_names : head;
    if (!modules->list)
        TRY(check_class(config, error));
    if (of_tokens) {
        pooling = POOLING_TYPE_TOKENS;
        TRY(hf_read_sentence_transformer(dir, proper, modules->list != NULL, pooling, &sentence,
                                         error));
        config->max_seq_length = sentence.max_seq_length;
        hf_raise_token_limit(dir, config);
    } else if (ranks)
        TRY(hf_read_cross_encoder(dir, folder, proper, config, encoder, error));
    else
        TRY(read_sentence(dir, folder, proper, modules, config, &pooling, &sentence, error));
    TRY(directory_put_text(dir, "general.architecture", wisp_text_of(encoder->architecture),
                           error));
    TRY(encoder->read_config(dir, config, error));
    snprintf(key, sizeof key, "%s.pooling_type", encoder->architecture);
    TRY(directory_put_u32(dir, key, pooling, error));
    TRY(hf_read_weights(dir, proper, error));
    TRY(read_tokenizer(dir, proper, config, sentence.lowercase_first, error));
    if (encoder->has_adapters)
        TRY(hf_merge_adapter(dir, config, error));
    if (pooling == POOLING_TYPE_SPLADE)
        TRY(hf_find_splade(config, encoder, &head, error));
    TRY(hf_encoder_rename_tensors(dir, encoder, head, config, error));
    return hf_read_dense_modules(dir, folder, modules, error);
}

/* Reads the settings of a model whose class says how it pools. */
static wisp_status read_pooled(struct directory *dir, const char *folder, const char *proper,
                               const struct hf_modules *modules, const struct hf_config *config,
                               uint32_t *pooling, wisp_error *error) {
    struct hf_sentence sentence;
    char path[HF_PATH_BYTES];
    if (modules->list && !modules->is_clip)
        return fail(error, WISP_ERROR_UNSUPPORTED, hf_path_of(path, folder, "modules.json"), "type",
                    "modules around a model of type %.32s are not supported",
                    hf_shown(json_get(config->root, "model_type")));
    *pooling = POOLING_TYPE_LAST;
    TRY(hf_read_sentence_transformer(dir, proper, false, *pooling, &sentence, error));
    return directory_put_bool(dir, KEY_NORMALIZE, true, error);
}

/* Reads the folder of a decoder, which makes embeddings if it has a modules.json or a family that
 * can nothing else. `proper` is the folder of the model itself. */
static wisp_status read_decoder(struct directory *dir, const char *folder, const char *proper,
                                struct hf_modules *modules, struct hf_config *config,
                                const struct hf_decoder *decoder, wisp_error *error) {
    char key[NAME_BYTES];
    uint32_t vocabulary_size, pooling;
    struct hf_sentence sentence;
    config->embeds = modules->list || decoder->is_bidirectional;
    config->fills = decoder->fills;
    TRY(hf_decoder_read_config(dir, decoder, config, &vocabulary_size, error));
    if (READS_CLIP && decoder->images)
        TRY(hf_read_images(dir, proper, decoder->images, config, error));
    if (config->embeds) {
        if (READS_CLIP && decoder->pools_last)
            TRY(read_pooled(dir, folder, proper, modules, config, &pooling, error));
        else
            TRY(read_sentence(dir, folder, proper, modules, config, &pooling, &sentence, error));
        if (pooling == POOLING_TYPE_SPLADE)
            return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "model_type",
                        "a SpladePooling behind a %s is not supported, only behind encoders",
                        decoder->type);
        snprintf(key, sizeof key, "%s.pooling_type", decoder->architecture);
        TRY(directory_put_u32(dir, key, pooling, error));
    }
    TRY(hf_read_weights(dir, proper, error));
    /* The tensors are read before the tokens because the embedding's rows bound the size of the
     * vocabulary, for which memory is taken. */
    TRY(hf_decoder_read_tensors(dir, decoder, config, vocabulary_size, error));
    TRY(hf_read_codec(dir, proper, config, vocabulary_size, config->embeds, error));
    return hf_read_dense_modules(dir, folder, modules, error);
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
    return status == WISP_OK ? hf_read_weights(dir, folder, error) : status;
}

static wisp_status read_folder(struct directory *dir, const char *folder, bool any,
                               wisp_error *error) {
    char inner[HF_PATH_BYTES];
    struct hf_modules modules;
    struct hf_config config;
    const struct hf_encoder *encoder = NULL;
    const struct hf_decoder *decoder = NULL;
    const char *proper = folder; /* the folder of the model itself */
    bool is_static;
    dir->file = arena_copy_text(&dir->arena, folder, strlen(folder));
    if (!dir->file)
        return fail_memory(error, strlen(folder));
    TRY(put_name(dir, folder, error));
    TRY(hf_read_static(dir, folder, &is_static, error));
    if (is_static)
        return directory_finish(dir, error);
    TRY(hf_find_modules(dir, folder, &modules, error));
    if (*modules.transformer) {
        TRY(file_join(folder, modules.transformer, inner, sizeof inner, error));
        proper = inner;
    }
    TRY(check_adapter(dir, proper, error));
    TRY(open_config(dir, proper, any, &config, &encoder, &decoder, error));
    const bool has_adapters = encoder && encoder->has_adapters;
    if (dir->adapter && !has_adapters)
        return fail(error, WISP_ERROR_ARGUMENT, config.file, "adapter",
                    "the model has no adapters");
    const bool is_clip = READS_CLIP && decoder == &hf_clip;
    TRY(hf_check_transformer(folder, &modules, has_adapters, is_clip, error));
    if (encoder)
        TRY(read_encoder(dir, folder, proper, &modules, &config, encoder, error));
    else if (decoder)
        TRY(read_decoder(dir, folder, proper, &modules, &config, decoder, error));
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
