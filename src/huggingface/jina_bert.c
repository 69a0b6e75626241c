/* SPDX-License-Identifier: Apache-2.0
 * JinaBertModel, which jina-embeddings v2 are: BERT with ALiBi and gated layers; and the
 * XLMRobertaModel of jina-embeddings-v3: BERT with rotary positions and adapters, under names that
 * come from flash-attention's BERT. */
#include <string.h>

#include "formats/schema.h"
#include "formats/stacked.h"
#include "huggingface/encoders.h"

static bool has_positions(const struct hf_config *config, const char *type) {
    return json_equals(json_get(config->root, "position_embedding_type"), type);
}

/* ---- v2 ------------------------------------------------------------------------------------- */

static bool is_v2(const struct hf_config *config) {
    return has_positions(config, "alibi");
}

static wisp_status read_v2(struct directory *dir, const struct hf_config *config,
                           wisp_error *error) {
    static const char field[] = "feed_forward_type";
    const struct json *type = json_get(config->root, field);
    if (!json_equals(type, "geglu"))
        return hf_unsupported_setting(config, field, type, "geglu", error);
    TRY(hf_put_token_types(dir, config, error));
    return hf_put_bert(dir, config, "jina-bert-v2", "alibi", 0, error);
}

static const struct hf_name v2_layer_names[] = {
    {"attention.self.query.", "attn_q.", false},
    {"attention.self.key.", "attn_k.", false},
    {"attention.self.value.", "attn_v.", false},
    {"attention.output.dense.", "attn_output.", false},
    {"attention.output.LayerNorm.", "attn_output_norm.", false},
    {"mlp.gated_layers.", TENSOR_FFN_UP ".", true},
    {"mlp.wo.", TENSOR_FFN_DOWN ".", false},
    {"mlp.layernorm.", "layer_output_norm.", false},
    {0},
};

const struct hf_encoder hf_jina_bert_v2 = {
    .type = "bert",
    .is_meant = is_v2,
    .prefixes = {"bert."},
    .architecture = "jina-bert-v2",
    .tensors = {"encoder.layer.", hf_bert_names, v2_layer_names},
    .read_config = read_v2,
    .divide = stacked_divide_gates};

/* ---- v3 ------------------------------------------------------------------------------------- */

static bool is_v3(const struct hf_config *config) {
    return has_positions(config, "rotary");
}

static wisp_status read_v3(struct directory *dir, const struct hf_config *config,
                           wisp_error *error) {
    static const struct hf_field base = {"rotary_emb_base", NULL, "jina-bert-v3.rope.freq_base"};
    static const double usual_base = 10000; /* the class's default */
    TRY(hf_put_token_types(dir, config, error));
    TRY(hf_put_number(dir, config, &base, &usual_base, error));
    return hf_put_bert(dir, config, "jina-bert-v3", "rotary", 0, error);
}

static const struct hf_name v3_names[] = {
    {"embeddings.word_embeddings.", "token_embd.", false},
    {"embeddings.token_type_embeddings.", "token_types.", false},
    {"emb_ln.", "token_embd_norm.", false},
    {0},
};

static const struct hf_name v3_layer_names[] = {
    {"mixer.Wqkv.", "attn_qkv.", false},
    {"mixer.out_proj.", "attn_output.", false},
    {"norm1.", "attn_output_norm.", false},
    {"mlp.fc1.", TENSOR_FFN_UP ".", false},
    {"mlp.fc2.", TENSOR_FFN_DOWN ".", false},
    {"norm2.", "layer_output_norm.", false},
    {0},
};

const struct hf_encoder hf_jina_bert_v3 = {.type = "xlm-roberta",
                                           .is_meant = is_v3,
                                           .has_adapters = true,
                                           .prefixes = {"roberta."},
                                           .architecture = "jina-bert-v3",
                                           .tensors = {"encoder.layers.", v3_names, v3_layer_names},
                                           .read_config = read_v3};
