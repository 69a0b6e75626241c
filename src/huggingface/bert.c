/* SPDX-License-Identifier: Apache-2.0
 * BertModel. */
#include "huggingface/encoders.h"

#include "formats/schema.h"

static wisp_status put_activation(struct directory *dir, const struct hf_config *config,
                                  wisp_error *error) {
    const struct json *act = json_get(config->root, "hidden_act");
    if (!json_equals(act, "gelu") && !json_equals(act, "relu"))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "hidden_act",
                    "%.32s is not supported, only gelu and relu", hf_shown(act));
    return directory_put_text(dir, KEY_HIDDEN_ACT, json_text(act), error);
}

static wisp_status check_variant(const struct hf_config *config, wisp_error *error) {
    const struct json *positions = json_get(config->root, "position_embedding_type");
    if (positions && !json_equals(positions, "absolute"))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "position_embedding_type",
                    "%.32s is not supported, only absolute", hf_shown(positions));
    if (json_is(json_get(config->root, "is_decoder"), JSON_TRUE))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "is_decoder",
                    "BERT decoders are not supported");
    return WISP_OK;
}

static wisp_status read_config(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    static const struct hf_field sizes[] = {
        {"hidden_size", NULL, "bert.embedding_length"},
        {"intermediate_size", NULL, "bert.feed_forward_length"},
        {"num_hidden_layers", NULL, "bert.block_count"},
        {"num_attention_heads", NULL, "bert.attention.head_count"},
        {"max_position_embeddings", NULL, "bert.context_length"}};
    static const struct hf_field types = {"type_vocab_size", NULL,
                                          "tokenizer.ggml.token_type_count"};
    static const uint32_t usual_types = 2; /* BertConfig's default */
    static const struct hf_field epsilon = {"layer_norm_eps", NULL,
                                            "bert.attention.layer_norm_epsilon"};
    static const double usual_epsilon = 1e-12; /* BertConfig's default */
    TRY(check_variant(config, error));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(hf_put_size(dir, config, &sizes[i], error));
    TRY(hf_put_size_or(dir, config, &types, usual_types, error));
    TRY(directory_put_bool(dir, "bert.attention.causal", false, error));
    TRY(put_activation(dir, config, error));
    return hf_put_number(dir, config, &epsilon, &usual_epsilon, error);
}

static const struct hf_name names[] = {
    {"embeddings.word_embeddings.", "token_embd.", false},
    {"embeddings.position_embeddings.", "position_embd.", false},
    {"embeddings.token_type_embeddings.", "token_types.", false},
    {"embeddings.LayerNorm.", "token_embd_norm.", false},
    {0},
};

static const struct hf_name layer_names[] = {
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

const struct hf_encoder hf_bert = {.type = "bert",
                                   .prefixes = {"bert."},
                                   .architecture = "bert",
                                   .tensors = {"encoder.layer.", names, layer_names},
                                   .read_config = read_config};
