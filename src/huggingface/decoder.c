/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/product.h"
#include "formats/schema.h"
#include "huggingface/clip_images.h"

/* ---- config.json ---------------------------------------------------------------------------- */

const char *hf_key(const struct hf_decoder *decoder, const char *name, char key[HF_KEY_BYTES]) {
    snprintf(key, HF_KEY_BYTES, "%s.%s", decoder->architecture, name);
    return key;
}

/* Reads a size. It is `derived` if config.json has null, and if config.json lacks it and
 * `usual` is HF_DERIVED. */
static wisp_status read_derived(const struct hf_config *config, const char *name, uint32_t derived,
                                uint32_t usual, uint32_t *size, wisp_error *error) {
    const struct hf_field field = {name, NULL, NULL};
    const struct json *given = json_get(config->root, name);
    *size = derived;
    if (json_is(given, JSON_NULL) || (!given && usual == HF_DERIVED))
        return WISP_OK;
    return hf_read_size_or(config, &field, usual == HF_DERIVED ? 0 : usual, size, error);
}

wisp_status hf_put_sizes(struct directory *dir, const struct hf_decoder *decoder,
                         const struct hf_config *config, const struct hf_size *sizes, size_t n,
                         wisp_error *error) {
    char key[HF_KEY_BYTES];
    for (size_t i = 0; i < n; i++) {
        const struct hf_field field = {sizes[i].field, sizes[i].other,
                                       hf_key(decoder, sizes[i].key, key)};
        TRY(hf_put_size_or(dir, config, &field, sizes[i].usual, error));
    }
    return WISP_OK;
}

wisp_status hf_put_heads(struct directory *dir, const struct hf_decoder *decoder,
                         const struct hf_config *config, const bool *attends, uint32_t layers,
                         wisp_error *error) {
    static const struct hf_field hidden = {"hidden_size", NULL, NULL};
    static const struct hf_field attention = {"num_attention_heads", NULL, NULL};
    static const char kv[] = "attention.head_count_kv";
    char key[HF_KEY_BYTES];
    uint32_t hidden_size, heads, kv_heads, head_size;
    int32_t *of_layers;
    TRY(hf_read_size_or(config, &hidden, 0, &hidden_size, error));
    TRY(hf_read_size_or(config, &attention, decoder->usual.heads, &heads, error));
    TRY(read_derived(config, "num_key_value_heads", heads, decoder->usual.kv_heads, &kv_heads,
                     error));
    TRY(read_derived(config, "head_dim", hidden_size / heads, decoder->usual.head_size, &head_size,
                     error));
    const struct {
        const char *name;
        uint32_t size;
    } sizes[] = {{"attention.head_count", heads},
                 {"attention.key_length", head_size},
                 {"attention.value_length", head_size}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(directory_put_u32(dir, hf_key(decoder, sizes[i].name, key), sizes[i].size, error));
    TRY(hf_put_rope(dir, config, decoder->architecture, &decoder->rope, head_size, error));
    if (!attends)
        return directory_put_u32(dir, hf_key(decoder, kv, key), kv_heads, error);
    ARENA_TAKE(&dir->arena, of_layers, layers, error);
    for (uint32_t l = 0; l < layers; l++)
        of_layers[l] = attends[l] ? (int32_t)smaller(kv_heads, INT32_MAX) : 0;
    return directory_put_numbers(dir, hf_key(decoder, kv, key), VALUE_I32, of_layers, layers,
                                 error);
}

wisp_status hf_put_decoder(struct directory *dir, const struct hf_decoder *decoder,
                           const struct hf_config *config, wisp_error *error) {
    const double usual_epsilon = decoder->usual.epsilon > 0 ? decoder->usual.epsilon : 1e-6;
    const struct hf_size sizes[] = {
        {"hidden_size", NULL, "embedding_length", 0},
        {"intermediate_size", NULL, "feed_forward_length", 0},
        {"num_hidden_layers", NULL, "block_count", 0},
        {"max_position_embeddings", NULL, "context_length", decoder->usual.positions},
        {"vocab_size", NULL, "vocab_size", decoder->usual.vocabulary_size}};
    char key[HF_KEY_BYTES];
    TRY(hf_put_heads(dir, decoder, config, NULL, 0, error));
    TRY(hf_put_sizes(dir, decoder, config, sizes, sizeof sizes / sizeof *sizes, error));
    const struct hf_field epsilon = {"rms_norm_eps", NULL,
                                     hf_key(decoder, "attention.layer_norm_rms_epsilon", key)};
    return hf_put_number(dir, config, &epsilon, &usual_epsilon, error);
}

wisp_status hf_read_layer_types(const struct hf_config *config, const char *name, const char *other,
                                uint32_t layers, bool *listed, wisp_error *error) {
    static const char field[] = "layer_types";
    const struct json *list = json_get(config->root, field);
    char names[64];
    snprintf(names, sizeof names, "%s, %s", other, name);
    if (!json_is(list, JSON_ARRAY) || list->count != layers)
        return fail(error, WISP_ERROR_FORMAT, config->file, field,
                    "not a list of num_hidden_layers = %u types", layers);
    for (const struct json *type = list->first; type; type = type->next, listed++) {
        *listed = json_equals(type, name);
        if (!*listed && !json_equals(type, other))
            return hf_unsupported_setting(config, field, type, names, error);
    }
    return WISP_OK;
}

wisp_status hf_put_activation(struct directory *dir, const struct hf_config *config,
                              const char *field, const char *const *known, size_t n,
                              wisp_error *error) {
    const struct json *given = json_get(config->root, field);
    char all[128] = "";
    if (!given || json_equals(given, known[0]))
        return WISP_OK;
    for (size_t i = 0, used = 0; i < n; i++) {
        if (json_equals(given, known[i]))
            return directory_put_text(dir, KEY_HIDDEN_ACT, wisp_text_of(known[i]), error);
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s",
                                 i == 0      ? ""
                                 : i + 1 < n ? ", "
                                             : " and ",
                                 known[i]);
    }
    return hf_unsupported_setting(config, field, given, all, error);
}

/* Refuses a class for another task, which ends in other layers than a decoder though its model_type
 * is the decoder's. */
static wisp_status check_class(const struct hf_decoder *decoder, const struct hf_config *config,
                               wisp_error *error) {
    static const char field[] = "architectures";
    const struct json *classes = json_get(config->root, field);
    const struct json *class = json_is(classes, JSON_ARRAY) ? classes->first : NULL;
    if (!class || json_equals(class, decoder->class) ||
        (config->embeds && json_equals(class, decoder->bare)))
        return WISP_OK;
    return hf_unsupported_setting(config, field, class, decoder->class, error);
}

/* Refuses what changes the embeddings of a decoder and is not computed: tokens that see all others,
 * and code of the folder's own, which often makes them do so. */
static wisp_status check_embedding(const struct hf_decoder *decoder, const struct hf_config *config,
                                   wisp_error *error) {
    static const struct hf_setting causal[] = {
        {"is_causal", JSON_TRUE}, {"use_bidirectional_attention", JSON_FALSE}, {0}};
    const struct json *code = json_get(json_get(config->root, "auto_map"), "AutoModel");
    if (decoder->is_bidirectional)
        return WISP_OK;
    TRY(hf_check_settings(config, causal, error));
    return code ? hf_unsupported_setting(config, "auto_map", code, "the class of transformers",
                                         error)
                : WISP_OK;
}

/* Finds the settings of the decoder among those of config.json. */
static wisp_status find_part(const struct hf_decoder *decoder, const struct hf_config *config,
                             struct hf_config *part, wisp_error *error) {
    *part = *config;
    if (!decoder->part)
        return WISP_OK;
    part->root = json_get(config->root, decoder->part);
    return json_is(part->root, JSON_OBJECT)
               ? WISP_OK
               : fail(error, WISP_ERROR_FORMAT, config->file, decoder->part, "expected an object");
}

wisp_status hf_decoder_read_config(struct directory *dir, const struct hf_decoder *decoder,
                                   const struct hf_config *config, uint32_t *vocabulary_size,
                                   wisp_error *error) {
    static const struct hf_field words = {"vocab_size", NULL, NULL};
    struct hf_config part;
    if (config->embeds && !decoder->bare)
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "model_type",
                    "%s with a modules.json, which makes embeddings, is not supported",
                    decoder->type);
    TRY(check_class(decoder, config, error));
    TRY(find_part(decoder, config, &part, error));
    if (config->embeds)
        TRY(check_embedding(decoder, &part, error));
    TRY(directory_put_text(dir, "general.architecture", wisp_text_of(decoder->architecture),
                           error));
    TRY(decoder->read_config(dir, decoder, &part, error));
    return hf_read_size_or(&part, &words, decoder->usual.vocabulary_size, vocabulary_size, error);
}

/* ---- tensors -------------------------------------------------------------------------------- */

bool hf_is_part(const struct tensor *tensor, const char *const *parts) {
    const char *part = hf_after(tensor->name, TENSOR_LAYER_PREFIX);
    part = part ? strchr(part, '.') : NULL;
    for (; part && *parts; parts++)
        if (strcmp(part + 1, *parts) == 0)
            return true;
    return false;
}

/* Returns whether a tensor is not needed: it belongs to another part of the model, or is a table of
 * angles or an attention mask, which older checkpoints store and wisp computes. */
static bool is_droppable(const struct hf_decoder *decoder, const char *name) {
    static const char *const endings[] = {"rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                          ".attention.bias", ".attention.masked_bias"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (hf_ends_with(name, endings[i]))
            return true;
    for (const char *const *other = decoder->others; other && *other; other++)
        if (hf_after(name, *other))
            return true;
    return false;
}

/* Returns the name of a tensor after the first of the decoder's prefixes that it begins with. */
static const char *name_within(const struct hf_decoder *decoder, const char *name) {
    for (size_t i = 0; i < HF_PREFIXES && decoder->prefixes[i]; i++) {
        const char *rest = hf_after(name, decoder->prefixes[i]);
        if (rest)
            return rest;
    }
    return name;
}

struct tensor *hf_find_tensor(const struct directory *dir, const char *name) {
    for (size_t i = 0; i < dir->n_tensors; i++)
        if (strcmp(dir->tensors[i].name, name) == 0)
            return &dir->tensors[i];
    return NULL;
}

/* Sets *equal to whether two tensors have one type and the same bytes. */
static wisp_status compare_tensors(const struct directory *dir, const struct tensor *a,
                                   const struct tensor *b, bool *equal, wisp_error *error) {
    *equal = a->format == b->format && a->bytes == b->bytes && a->row_bytes == b->row_bytes;
    if (!*equal)
        return WISP_OK;
    size_t size;
    void *buffer = checked_size(2 * a->row_bytes, &size) ? malloc(size + 1) : NULL;
    wisp_status status = buffer ? WISP_OK : fail_memory(error, 2 * a->row_bytes);
    for (uint64_t row = 0; status == WISP_OK && *equal && row < a->rows; row++) {
        const void *x = NULL, *y = NULL;
        status = directory_rows(dir, a, row, 1, NULL, buffer, &x, error);
        if (status == WISP_OK)
            status = directory_rows(dir, b, row, 1, NULL, (char *)buffer + a->row_bytes, &y, error);
        *equal = status == WISP_OK && memcmp(x, y, (size_t)a->row_bytes) == 0;
    }
    free(buffer);
    return status;
}

/* Drops the output layer of a model that uses the token embedding in its place, or that makes
 * embeddings. If the two differ, transformers 5 uses both and transformers 4 only the embedding,
 * so that folder is refused. */
static wisp_status tie(struct directory *dir, const struct hf_decoder *decoder,
                       const struct hf_config *config, wisp_error *error) {
    const char *before = decoder->tie_before;
    const char *field = before && json_get(config->root, before) ? before : "tie_word_embeddings";
    const struct json *given = json_get(config->root, field);
    const struct tensor *embedding = hf_find_tensor(dir, "token_embd.weight");
    struct tensor *output = hf_find_tensor(dir, "output.weight");
    bool tied = decoder->tied, equal;
    if (config->embeds) {
        if (output)
            *output = dir->tensors[--dir->n_tensors];
        return WISP_OK;
    }
    if (given && !json_to_bool(given, &tied))
        return fail(error, WISP_ERROR_FORMAT, config->file, field, "expected true or false");
    if (!tied && !output)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, "lm_head.weight",
                    "the tensor is missing, and config.json does not tie it to the embedding");
    if (!tied || !output || !embedding)
        return WISP_OK;
    TRY(compare_tensors(dir, embedding, output, &equal, error));
    if (!equal)
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, field,
                    "true, while lm_head.weight differs from the embedding: versions 4 and 5 of "
                    "transformers differ in whether they use it");
    *output = dir->tensors[--dir->n_tensors];
    return WISP_OK;
}

/* Gives a tensor of an image tower its GGUF name, and sets *found to whether it is one. Patches,
 * [outputs, channels, rows, columns], become a matrix, and a probe, [1, 1, values], a vector. */
static wisp_status rename_image_tensor(const struct directory *dir,
                                       const struct hf_decoder *decoder, struct tensor *tensor,
                                       char renamed[HF_NAME_BYTES], bool *found,
                                       wisp_error *error) {
    const char *rest = hf_after(tensor->name, "vision_model.");
    char name[HF_NAME_BYTES];
    *found = READS_CLIP && decoder->images &&
             (rest || hf_after(tensor->name, "visual_projection.")) &&
             hf_gguf_name(&decoder->images->tensors, rest ? rest : tensor->name, name);
    if (!*found)
        return WISP_OK;
    snprintf(renamed, HF_NAME_BYTES, CLIP_IMAGE_PREFIX "%.80s", name);
    if (tensor->n_dims < 3)
        return WISP_OK;
    tensor->dims[0] *= tensor->dims[1] * tensor->dims[2];
    tensor->n_dims = tensor->n_dims == 4 ? 2 : 1;
    tensor->dims[1] = tensor->n_dims == 2 ? tensor->dims[3] : 1;
    tensor->dims[2] = tensor->dims[3] = 1;
    return directory_measure_tensor(dir, tensor, error);
}

wisp_status hf_decoder_read_tensors(struct directory *dir, const struct hf_decoder *decoder,
                                    const struct hf_config *config, uint32_t vocabulary_size,
                                    wisp_error *error) {
    struct hf_config part;
    size_t kept = 0;
    TRY(find_part(decoder, config, &part, error));
    TRY(directory_finish(dir, error)); /* `split` and `adapt` look for metadata */
    if (decoder->split)
        TRY(decoder->split(dir, &part, error));
    for (size_t i = 0; i < dir->n_tensors; i++) {
        struct tensor *tensor = &dir->tensors[i];
        const char *name = name_within(decoder, tensor->name);
        char renamed[HF_NAME_BYTES];
        bool of_image;
        if (is_droppable(decoder, name) ||
            hf_is_beyond_layers(dir, &decoder->tensors, decoder->architecture, name))
            continue;
        TRY(rename_image_tensor(dir, decoder, tensor, renamed, &of_image, error));
        if (!of_image && !hf_gguf_name(&decoder->tensors, name, renamed))
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->sources[tensor->source].name,
                        tensor->name, "a tensor that a decoder of type %s does not have",
                        decoder->type);
        tensor->name = arena_copy_text(&dir->arena, renamed, strlen(renamed));
        if (!tensor->name)
            return fail_memory(error, strlen(renamed));
        if (decoder->adapt)
            TRY(decoder->adapt(dir, tensor, error));
        dir->tensors[kept++] = *tensor;
    }
    dir->n_tensors = kept;
    TRY(tie(dir, decoder, config, error));
    const struct tensor *embedding = hf_find_tensor(dir, "token_embd.weight");
    if (!embedding)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, "token_embd.weight",
                    "the tensor, %sweight in a folder, is missing", decoder->tensors.names[0].hf);
    if (embedding->rows != vocabulary_size)
        return fail(error, WISP_ERROR_FORMAT, config->file, "vocab_size",
                    "%u, but the token embedding has %llu rows", vocabulary_size,
                    (unsigned long long)embedding->rows);
    return hf_put_rope_factors(dir, &part, decoder->architecture, error);
}
