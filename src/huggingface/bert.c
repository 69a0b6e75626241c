/* SPDX-License-Identifier: Apache-2.0
 * BertModel, and the settings and names that its neighbours share. */
#include "huggingface/encoders.h"

#include <stdio.h>

#include "formats/schema.h"

enum { KEY_BYTES = 64 };

wisp_status hf_put_bert_activation(struct directory *dir, const struct hf_config *config,
                                   const char *field, wisp_error *error) {
    const struct json *act = json_get(config->root, field);
    if (!json_equals(act, "gelu") && !json_equals(act, "relu"))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, field,
                    "%.32s is not supported, only gelu and relu", hf_shown(act));
    return directory_put_text(dir, KEY_HIDDEN_ACT, json_text(act), error);
}

static wisp_status check_variant(const struct hf_config *config, const char *positions,
                                 wisp_error *error) {
    static const char field[] = "position_embedding_type";
    const struct json *given = json_get(config->root, field);
    if (given && !json_equals(given, positions))
        return hf_unsupported_setting(config, field, given, positions, error);
    if (json_is(json_get(config->root, "is_decoder"), JSON_TRUE))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "is_decoder",
                    "BERT decoders are not supported");
    return WISP_OK;
}

wisp_status hf_put_token_types(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    static const struct hf_field types = {"type_vocab_size", NULL,
                                          "tokenizer.ggml.token_type_count"};
    static const uint32_t usual_types = 2; /* BertConfig's default */
    return hf_put_size_or(dir, config, &types, usual_types, error);
}

/* Returns the key of an architecture, which is valid until the next call. */
static const char *key_of(const char *architecture, const char *name, char key[KEY_BYTES]) {
    snprintf(key, KEY_BYTES, "%s.%s", architecture, name);
    return key;
}

wisp_status hf_put_bert(struct directory *dir, const struct hf_config *config,
                        const char *architecture, const char *positions, uint32_t skipped,
                        wisp_error *error) {
    static const struct hf_field sizes[] = {{"hidden_size", NULL, "embedding_length"},
                                            {"intermediate_size", NULL, "feed_forward_length"},
                                            {"num_hidden_layers", NULL, "block_count"},
                                            {"num_attention_heads", NULL, "attention.head_count"}};
    char key[KEY_BYTES];
    static const double usual_epsilon = 1e-12; /* BertConfig's default */
    TRY(check_variant(config, positions, error));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct hf_field field = {sizes[i].field, NULL,
                                       key_of(architecture, sizes[i].key, key)};
        TRY(hf_put_size(dir, config, &field, error));
    }
    TRY(hf_put_positions(dir, config, skipped, key_of(architecture, "context_length", key), error));
    TRY(directory_put_bool(dir, key_of(architecture, "attention.causal", key), false, error));
    TRY(hf_put_bert_activation(dir, config, "hidden_act", error));
    const struct hf_field epsilon = {"layer_norm_eps", NULL,
                                     key_of(architecture, "attention.layer_norm_epsilon", key)};
    return hf_put_number(dir, config, &epsilon, &usual_epsilon, error);
}

static wisp_status read_config(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    TRY(hf_put_token_types(dir, config, error));
    return hf_put_bert(dir, config, "bert", "absolute", 0, error);
}

const struct hf_name hf_bert_names[] = {
    {"embeddings.word_embeddings.", "token_embd.", false},
    {"embeddings.position_embeddings.", "position_embd.", false},
    {"embeddings.token_type_embeddings.", "token_types.", false},
    {"embeddings.LayerNorm.", "token_embd_norm.", false},
    {0},
};

const struct hf_name hf_bert_layer_names[] = {
    {"attention.self.query.", "attn_q.", false},
    {"attention.self.key.", "attn_k.", false},
    {"attention.self.value.", "attn_v.", false},
    {"attention.output.dense.", "attn_output.", false},
    {"attention.output.LayerNorm.", "attn_output_norm.", false},
    {"intermediate.dense.", TENSOR_FFN_UP ".", false},
    {"output.dense.", TENSOR_FFN_DOWN ".", false},
    {"output.LayerNorm.", "layer_output_norm.", false},
    {0},
};

const struct hf_encoder hf_bert = {
    .type = "bert",
    .prefixes = {"bert."},
    .architecture = "bert",
    .tensors = {"encoder.layer.", hf_bert_names, hf_bert_layer_names},
    .read_config = read_config};
