/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/hf_bert.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 96 };

/* What stands in config.json, with its path for errors. */
struct config {
    const struct json *root;
    const char *file;
};

/* A value as errors show it. */
static const char *shown(const struct json *value) {
    static const char *const names[] = {"null", "false", "true", "", "", "an array", "an object"};
    return value->text ? value->text : names[value->type];
}

static wisp_status put_size(struct directory *dir, const struct config *config, const char *field,
                            const char *key, wisp_error *error) {
    const struct json *given = json_get(config->root, field);
    uint64_t value;
    if (!given)
        return fail(error, WISP_ERROR_NOT_FOUND, config->file, field, "the key is missing");
    if (!json_to_u64(given, &value) || value == 0 || value > UINT32_MAX)
        return fail(error, WISP_ERROR_FORMAT, config->file, field,
                    "%.32s is no whole number from 1 to %u", shown(given), UINT32_MAX);
    return directory_put_u32(dir, key, (uint32_t)value, error);
}

static wisp_status put_epsilon(struct directory *dir, const struct config *config,
                               wisp_error *error) {
    double epsilon = 1e-12; /* BertConfig's default */
    const struct json *given = json_get(config->root, "layer_norm_eps");
    if (given && !json_to_double(given, &epsilon))
        return fail(error, WISP_ERROR_FORMAT, config->file, "layer_norm_eps",
                    "%.32s is not a number", shown(given));
    return directory_put_f32(dir, "bert.attention.layer_norm_epsilon", (float)epsilon, error);
}

static wisp_status put_activation(struct directory *dir, const struct config *config,
                                  wisp_error *error) {
    const struct json *act = json_get(config->root, "hidden_act");
    if (!json_equals(act, "gelu") && !json_equals(act, "relu"))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "hidden_act",
                    "%.32s is not supported, only gelu and relu", act ? shown(act) : "(none)");
    return directory_put_text(dir, "wisp.hidden_act", (wisp_text){act->text, act->text_length},
                              error);
}

static wisp_status check_variant(const struct config *config, wisp_error *error) {
    const struct json *positions = json_get(config->root, "position_embedding_type");
    if (positions && !json_equals(positions, "absolute"))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "position_embedding_type",
                    "%.32s is not supported, only absolute", shown(positions));
    if (json_is(json_get(config->root, "is_decoder"), JSON_TRUE))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "is_decoder",
                    "BERT decoders are not supported");
    return WISP_OK;
}

wisp_status hf_bert_read_config(struct directory *dir, const struct json *root, const char *file,
                                wisp_error *error) {
    static const struct {
        const char *field, *key;
    } sizes[] = {{"hidden_size", "bert.embedding_length"},
                 {"intermediate_size", "bert.feed_forward_length"},
                 {"num_hidden_layers", "bert.block_count"},
                 {"num_attention_heads", "bert.attention.head_count"},
                 {"max_position_embeddings", "bert.context_length"},
                 {"type_vocab_size", "tokenizer.ggml.token_type_count"}};
    const struct config config = {root, file};
    TRY(check_variant(&config, error));
    TRY(directory_put_text(dir, "general.architecture", wisp_text_of("bert"), error));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(put_size(dir, &config, sizes[i].field, sizes[i].key, error));
    TRY(directory_put_bool(dir, "bert.attention.causal", false, error));
    TRY(put_activation(dir, &config, error));
    return put_epsilon(dir, &config, error);
}

/* ---- tensor names --------------------------------------------------------------------------- */

struct name_pair {
    const char *hf, *gguf;
};

static const struct name_pair global_names[] = {
    {"embeddings.word_embeddings.", "token_embd."},
    {"embeddings.position_embeddings.", "position_embd."},
    {"embeddings.token_type_embeddings.", "token_types."},
    {"embeddings.LayerNorm.", "token_embd_norm."},
};

static const struct name_pair layer_names[] = {
    {"attention.self.query.", "attn_q."},
    {"attention.self.key.", "attn_k."},
    {"attention.self.value.", "attn_v."},
    {"attention.output.dense.", "attn_output."},
    {"attention.output.LayerNorm.", "attn_output_norm."},
    {"intermediate.dense.", "ffn_up."},
    {"output.dense.", "ffn_down."},
    {"output.LayerNorm.", "layer_output_norm."},
};

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Checkpoints from TensorFlow call a norm's weight gamma and its bias beta. */
static const char *plain_suffix(const char *suffix) {
    if (strcmp(suffix, "gamma") == 0)
        return "weight";
    if (strcmp(suffix, "beta") == 0)
        return "bias";
    return strcmp(suffix, "weight") == 0 || strcmp(suffix, "bias") == 0 ? suffix : NULL;
}

static bool translate(const char *hf, const char *prefix, const struct name_pair *pairs, size_t n,
                      char *gguf) {
    for (size_t i = 0; i < n; i++) {
        if (!starts_with(hf, pairs[i].hf))
            continue;
        const char *suffix = plain_suffix(hf + strlen(pairs[i].hf));
        if (suffix)
            snprintf(gguf, NAME_BYTES, "%s%s%s", prefix, pairs[i].gguf, suffix);
        return suffix != NULL;
    }
    return false;
}

/* "encoder.layer.<N>.rest": writes "blk.<N>." and returns the rest, or NULL. */
static const char *layer_prefix(const char *name, char *prefix, size_t capacity) {
    static const char start[] = "encoder.layer.";
    if (!starts_with(name, start))
        return NULL;
    const char *digits = name + sizeof start - 1;
    const size_t length = strspn(digits, "0123456789");
    if (length == 0 || length > 6 || digits[length] != '.')
        return NULL;
    snprintf(prefix, capacity, "blk.%.*s.", (int)length, digits);
    return digits + length + 1;
}

static bool gguf_name(const char *hf, char *gguf) {
    char prefix[16];
    const char *rest = layer_prefix(hf, prefix, sizeof prefix);
    if (rest)
        return translate(rest, prefix, layer_names, sizeof layer_names / sizeof *layer_names, gguf);
    return translate(hf, "", global_names, sizeof global_names / sizeof *global_names, gguf);
}

static bool is_droppable(const char *name) {
    return starts_with(name, "pooler.") || starts_with(name, "cls.") ||
           strcmp(name, "embeddings.position_ids") == 0;
}

wisp_status hf_bert_rename_tensors(struct directory *dir, wisp_error *error) {
    size_t kept = 0;
    for (size_t i = 0; i < dir->n_tensors; i++) {
        struct tensor *tensor = &dir->tensors[i];
        const char *name = tensor->name;
        char renamed[NAME_BYTES];
        if (starts_with(name, "bert."))
            name += strlen("bert.");
        if (is_droppable(name))
            continue;
        if (!gguf_name(name, renamed))
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->sources[tensor->source].name,
                        tensor->name, "a tensor that a BERT encoder does not have");
        tensor->name = arena_copy_text(&dir->arena, renamed, strlen(renamed));
        if (!tensor->name)
            return fail_memory(error, strlen(renamed));
        dir->tensors[kept++] = *tensor;
    }
    dir->n_tensors = kept;
    return WISP_OK;
}
