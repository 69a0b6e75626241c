/* SPDX-License-Identifier: Apache-2.0
 * MPNetModel: BERT without token types, with a bias of scores by distance. */
#include "formats/schema.h"
#include "huggingface/encoders.h"

enum { SKIPPED = 2 }; /* positions up to that of the padding token, whatever pad_token_id is */

/* transformers computes 32 buckets whatever the setting is. */
static wisp_status check_buckets(const struct hf_config *config, wisp_error *error) {
    static const char field[] = "relative_attention_num_buckets";
    const struct json *given = json_get(config->root, field);
    uint64_t buckets;
    if (given && (!json_to_u64(given, &buckets) || buckets != 32))
        return hf_unsupported_setting(config, field, given, "32", error);
    return WISP_OK;
}

static wisp_status read_config(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    TRY(check_buckets(config, error));
    return hf_put_bert(dir, config, "mpnet", "absolute", SKIPPED, error);
}

static wisp_status adapt(struct directory *dir, struct tensor *tensor,
                         const struct hf_config *config, wisp_error *error) {
    (void)config;
    return hf_skip_positions(dir, tensor, SKIPPED, error);
}

static const struct hf_name names[] = {
    {"embeddings.word_embeddings.", "token_embd.", false},
    {"embeddings.position_embeddings.", "position_embd.", false},
    {"embeddings.LayerNorm.", "token_embd_norm.", false},
    {"encoder.relative_attention_bias.", "attn_rel_b.", true},
    {0},
};

static const struct hf_name layer_names[] = {
    {"attention.attn.q.", "attn_q.", false},
    {"attention.attn.k.", "attn_k.", false},
    {"attention.attn.v.", "attn_v.", false},
    {"attention.attn.o.", "attn_output.", false},
    {"attention.LayerNorm.", "attn_output_norm.", false},
    {"intermediate.dense.", TENSOR_FFN_UP ".", false},
    {"output.dense.", TENSOR_FFN_DOWN ".", false},
    {"output.LayerNorm.", "layer_output_norm.", false},
    {0},
};

const struct hf_encoder hf_mpnet = {.type = "mpnet",
                                    .prefixes = {"mpnet."},
                                    .architecture = "mpnet",
                                    .tensors = {"encoder.layer.", names, layer_names},
                                    .read_config = read_config,
                                    .adapt = adapt};
