/* SPDX-License-Identifier: Apache-2.0
 * DistilBertModel: BERT without token types, under other names. */
#include "formats/schema.h"
#include "huggingface/encoders.h"

static const struct hf_setting settings[] = {{"is_decoder", JSON_FALSE}, {0}};

static wisp_status read_config(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    static const struct hf_field sizes[] = {{"dim", NULL, "bert.embedding_length"},
                                            {"hidden_dim", NULL, "bert.feed_forward_length"},
                                            {"n_layers", NULL, "bert.block_count"},
                                            {"n_heads", NULL, "bert.attention.head_count"}};
    static const float epsilon = 1e-12f; /* of DistilBertModel, whose config.json has none */
    TRY(hf_check_settings(config, settings, error));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(hf_put_size(dir, config, &sizes[i], error));
    TRY(hf_put_positions(dir, config, 0, "bert.context_length", error));
    TRY(directory_put_u32(dir, "tokenizer.ggml.token_type_count", 0, error));
    TRY(directory_put_bool(dir, "bert.attention.causal", false, error));
    TRY(hf_put_bert_activation(dir, config, "activation", error));
    return directory_put_f32(dir, "bert.attention.layer_norm_epsilon", epsilon, error);
}

static const struct hf_name names[] = {
    {"embeddings.word_embeddings.", "token_embd.", false},
    {"embeddings.position_embeddings.", "position_embd.", false},
    {"embeddings.LayerNorm.", "token_embd_norm.", false},
    {0},
};

static const struct hf_name layer_names[] = {
    {"attention.q_lin.", "attn_q.", false},
    {"attention.k_lin.", "attn_k.", false},
    {"attention.v_lin.", "attn_v.", false},
    {"attention.out_lin.", "attn_output.", false},
    {"sa_layer_norm.", "attn_output_norm.", false},
    {"ffn.lin1.", TENSOR_FFN_UP ".", false},
    {"ffn.lin2.", TENSOR_FFN_DOWN ".", false},
    {"output_layer_norm.", "layer_output_norm.", false},
    {0},
};

const struct hf_encoder hf_distilbert = {.type = "distilbert",
                                         .prefixes = {"distilbert."},
                                         .architecture = "bert",
                                         .tensors = {"transformer.layer.", names, layer_names},
                                         .read_config = read_config};
