/* SPDX-License-Identifier: Apache-2.0
 * ElectraModel: BERT, whose embeddings may be smaller than its hidden states. */
#include "huggingface/encoders.h"

static wisp_status read_config(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    static const struct hf_field token_size = {"embedding_size", NULL,
                                               "electra.token_embedding_length"};
    static const uint32_t usual_token_size = 128; /* ElectraConfig's default */
    TRY(hf_put_token_types(dir, config, error));
    TRY(hf_put_size_or(dir, config, &token_size, usual_token_size, error));
    return hf_put_bert(dir, config, "electra", "absolute", 0, error);
}

static const struct hf_name names[] = {
    {"embeddings.word_embeddings.", "token_embd.", false},
    {"embeddings.position_embeddings.", "position_embd.", false},
    {"embeddings.token_type_embeddings.", "token_types.", false},
    {"embeddings.LayerNorm.", "token_embd_norm.", false},
    {"embeddings_project.", "token_embd_proj.", false},
    {0},
};

const struct hf_encoder hf_electra = {.type = "electra",
                                      .prefixes = {"electra."},
                                      .architecture = "electra",
                                      .tensors = {"encoder.layer.", names, hf_bert_layer_names},
                                      .read_config = read_config};
