/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/schema.h"
#include "huggingface/rope_config.h"

enum { KEY_BYTES = 96 };

/* ---- config.json ---------------------------------------------------------------------------- */

static const char *key_of(const struct hf_decoder *decoder, const char *name, char key[KEY_BYTES]) {
    snprintf(key, KEY_BYTES, "%s.%s", decoder->architecture, name);
    return key;
}

/* Reads a size that the class of transformers derives from others where it is null, and perhaps
 * where it is absent. */
static wisp_status read_derived(const struct hf_config *config, const char *name, uint32_t derived,
                                bool absent_too, uint32_t *size, wisp_error *error) {
    const struct hf_field field = {name, NULL, NULL};
    const struct json *given = json_get(config->root, name);
    *size = derived;
    if (json_is(given, JSON_NULL) || (!given && absent_too))
        return WISP_OK;
    return hf_read_size_or(config, &field, 0, size, error);
}

wisp_status hf_put_decoder(struct directory *dir, const struct hf_decoder *decoder,
                           const struct hf_config *config, bool needs_kv_heads, bool needs_head_dim,
                           wisp_error *error) {
    static const struct hf_field hidden = {"hidden_size", NULL, NULL};
    static const struct hf_field attention = {"num_attention_heads", NULL, NULL};
    static const double usual_epsilon = 1e-6; /* of all classes */
    char key[KEY_BYTES];
    uint32_t hidden_size, heads, kv_heads, head_size;
    TRY(hf_read_size_or(config, &hidden, 0, &hidden_size, error));
    TRY(hf_read_size_or(config, &attention, 0, &heads, error));
    TRY(read_derived(config, "num_key_value_heads", heads, !needs_kv_heads, &kv_heads, error));
    TRY(read_derived(config, "head_dim", hidden_size / heads, !needs_head_dim, &head_size, error));
    const struct {
        const char *name;
        uint32_t size;
    } sizes[] = {{"embedding_length", hidden_size},     {"attention.head_count", heads},
                 {"attention.head_count_kv", kv_heads}, {"attention.key_length", head_size},
                 {"attention.value_length", head_size}, {"rope.dimension_count", head_size}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(directory_put_u32(dir, key_of(decoder, sizes[i].name, key), sizes[i].size, error));
    static const char *const others[][2] = {{"intermediate_size", "feed_forward_length"},
                                            {"num_hidden_layers", "block_count"},
                                            {"max_position_embeddings", "context_length"},
                                            {"vocab_size", "vocab_size"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const struct hf_field field = {others[i][0], NULL, key_of(decoder, others[i][1], key)};
        TRY(hf_put_size(dir, config, &field, error));
    }
    const struct hf_field epsilon = {"rms_norm_eps", NULL,
                                     key_of(decoder, "attention.layer_norm_rms_epsilon", key)};
    TRY(hf_put_number(dir, config, &epsilon, &usual_epsilon, error));
    return hf_put_rope(dir, config, decoder->architecture, error);
}

wisp_status hf_put_activation(struct directory *dir, const struct hf_config *config,
                              wisp_error *error) {
    static const char field[] = "hidden_act";
    static const char *const known[] = {"relu", "relu2"};
    const struct json *given = json_get(config->root, field);
    if (!given || json_equals(given, "silu"))
        return WISP_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (json_equals(given, known[i]))
            return directory_put_text(dir, KEY_HIDDEN_ACT, wisp_text_of(known[i]), error);
    return hf_unsupported_setting(config, field, given, "silu, relu and relu2", error);
}

/* A class for another task has other last layers, whatever its model_type is. */
static wisp_status check_class(const struct hf_decoder *decoder, const struct hf_config *config,
                               wisp_error *error) {
    static const char field[] = "architectures";
    const struct json *classes = json_get(config->root, field);
    const struct json *class = json_is(classes, JSON_ARRAY) ? classes->first : NULL;
    if (!class || json_equals(class, decoder->class))
        return WISP_OK;
    return hf_unsupported_setting(config, field, class, decoder->class, error);
}

wisp_status hf_decoder_read_config(struct directory *dir, const struct hf_decoder *decoder,
                                   const struct hf_config *config, uint32_t *vocabulary_size,
                                   wisp_error *error) {
    static const struct hf_field words = {"vocab_size", NULL, NULL};
    TRY(check_class(decoder, config, error));
    TRY(directory_put_text(dir, "general.architecture", wisp_text_of(decoder->architecture),
                           error));
    TRY(decoder->read_config(dir, decoder, config, error));
    return hf_read_size_or(config, &words, 0, vocabulary_size, error);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Older checkpoints hold what is computed from config.json. */
static bool is_droppable(const char *name) {
    static const char ending[] = "rotary_emb.inv_freq";
    const size_t length = strlen(name), end = sizeof ending - 1;
    return length >= end && strcmp(name + length - end, ending) == 0;
}

static struct tensor *find_tensor(const struct directory *dir, const char *name) {
    for (size_t i = 0; i < dir->n_tensors; i++)
        if (strcmp(dir->tensors[i].name, name) == 0)
            return &dir->tensors[i];
    return NULL;
}

/* Compares all bytes of two tensors. */
static wisp_status compare_tensors(const struct directory *dir, const struct tensor *a,
                                   const struct tensor *b, bool *equal, wisp_error *error) {
    *equal = a->format == b->format && a->bytes == b->bytes && a->row_bytes == b->row_bytes;
    if (!*equal)
        return WISP_OK;
    void *buffer = malloc(2 * (size_t)a->row_bytes + 1);
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

/* Drops the last layer where the token embedding is used in its place. transformers 5 uses both
 * where they differ, and transformers 4 the embedding alone. */
static wisp_status tie(struct directory *dir, const struct hf_config *config, wisp_error *error) {
    static const char field[] = "tie_word_embeddings";
    const struct json *given = json_get(config->root, field);
    const struct tensor *embedding = find_tensor(dir, "token_embd.weight");
    struct tensor *output = find_tensor(dir, "output.weight");
    bool tied = false, equal;
    if (given && !json_to_bool(given, &tied))
        return fail(error, WISP_ERROR_FORMAT, config->file, field, "true or false belongs here");
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

wisp_status hf_decoder_read_tensors(struct directory *dir, const struct hf_decoder *decoder,
                                    const struct hf_config *config, uint32_t vocabulary_size,
                                    wisp_error *error) {
    size_t kept = 0;
    TRY(directory_finish(dir, error)); /* `adapt` looks for metadata */
    for (size_t i = 0; i < dir->n_tensors; i++) {
        struct tensor *tensor = &dir->tensors[i];
        const char *rest = hf_after(tensor->name, "model."), *name = rest ? rest : tensor->name;
        char renamed[HF_NAME_BYTES];
        if (is_droppable(name) ||
            hf_is_beyond_layers(dir, &decoder->tensors, decoder->architecture, name))
            continue;
        if (!hf_gguf_name(&decoder->tensors, name, renamed))
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
    TRY(tie(dir, config, error));
    const struct tensor *embedding = find_tensor(dir, "token_embd.weight");
    if (!embedding)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, "model.embed_tokens.weight",
                    "the tensor is missing");
    if (embedding->rows != vocabulary_size)
        return fail(error, WISP_ERROR_FORMAT, config->file, "vocab_size",
                    "%u, where the token embedding has %llu rows", vocabulary_size,
                    (unsigned long long)embedding->rows);
    return hf_put_rope_factors(dir, config, decoder->architecture, error);
}
