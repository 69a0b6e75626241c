/* SPDX-License-Identifier: Apache-2.0
 * GPTNeoXForCausalLM, whose matrix of queries, keys and values has those of one head after the
 * other. In GGUF it has the queries of all heads, then the keys, then the values. */
#include <string.h>

#include "formats/schema.h"
#include "huggingface/decoders.h"
#include "huggingface/transposed.h"

static wisp_status read_gpt_neox(struct directory *dir, const struct hf_decoder *decoder,
                                 const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {{"attention_bias", JSON_TRUE}, {0}};
    static const char *const activations[] = {"gelu", "gelu_new", "relu", "relu2"};
    static const struct hf_size sizes[] = {
        {"hidden_size", NULL, "embedding_length", 0},
        {"intermediate_size", NULL, "feed_forward_length", 0},
        {"num_hidden_layers", NULL, "block_count", 0},
        {"max_position_embeddings", NULL, "context_length", 2048},
        {"vocab_size", NULL, "vocab_size", 0}};
    static const char parallel[] = "use_parallel_residual";
    static const double usual_epsilon = 1e-5;
    char key[HF_KEY_BYTES];
    bool is_parallel = true;
    if (!hf_read_bool(config->root, parallel, &is_parallel))
        return fail(error, WISP_ERROR_FORMAT, config->file, parallel, "expected true or false");
    TRY(hf_check_settings(config, settings, error));
    TRY(directory_put_bool(dir, hf_key(decoder, parallel, key), is_parallel, error));
    TRY(hf_put_activation(dir, config, "hidden_act", activations,
                          sizeof activations / sizeof *activations, error));
    TRY(hf_put_heads(dir, decoder, config, NULL, 0, error));
    TRY(hf_put_sizes(dir, decoder, config, sizes, sizeof sizes / sizeof *sizes, error));
    const struct hf_field epsilon = {"layer_norm_eps", NULL,
                                     hf_key(decoder, "attention.layer_norm_epsilon", key)};
    return hf_put_number(dir, config, &epsilon, &usual_epsilon, error);
}

/* ---- queries, keys and values --------------------------------------------------------------- */

/* A matrix, or its bias, of which the folder has a head's queries, keys and values together. */
struct together {
    struct tensor stored;
    uint64_t heads, head_size;
};

/* Makes rows of the matrix, or the one row of the bias: the folder's place of output i of GGUF. */
static wisp_status make_apart(const struct directory *dir, const struct tensor *tensor,
                              uint64_t first, uint64_t rows, struct tensor_cache *cache,
                              void *buffer, const void **bytes, wisp_error *error) {
    const struct together *t = tensor->maker;
    const bool is_bias = t->stored.rows == 1;
    const uint64_t outputs = 3 * t->heads * t->head_size;
    const size_t each = is_bias ? t->stored.format->bytes : (size_t)t->stored.row_bytes;
    const unsigned char *data;
    unsigned char *out = buffer;
    TRY(hf_stored_bytes(dir, &t->stored, cache, &data, error));
    const uint64_t end = is_bias ? outputs : first + rows;
    for (uint64_t i = is_bias ? 0 : first; i < end; i++, out += each) {
        const uint64_t part = i / (t->heads * t->head_size), head = i / t->head_size % t->heads;
        const uint64_t from = (head * 3 + part) * t->head_size + i % t->head_size;
        memcpy(out, data + from * each, each);
    }
    *bytes = buffer;
    return WISP_OK;
}

static wisp_status adapt(struct directory *dir, struct tensor *tensor, wisp_error *error) {
    static const char *const parts[] = {"attn_qkv.weight", "attn_qkv.bias", NULL};
    struct together *t;
    uint32_t heads, head_size;
    if (!hf_is_part(tensor, parts))
        return WISP_OK;
    TRY(metadata_u32(dir, "gptneox.attention.head_count", &heads, error));
    TRY(metadata_u32(dir, "gptneox.attention.key_length", &head_size, error));
    const uint64_t outputs = (uint64_t)3 * heads * head_size;
    const uint64_t found = tensor->n_dims == 1 ? tensor->dims[0] : tensor->rows;
    if (found != outputs) /* which the loader refuses */
        return WISP_OK;
    ARENA_TAKE(&dir->arena, t, 1, error);
    *t = (struct together){*tensor, heads, head_size};
    tensor->make = make_apart;
    tensor->maker = t;
    return WISP_OK;
}

/* ---- tensors -------------------------------------------------------------------------------- */

static const struct hf_name names[] = {
    {"embed_in.", "token_embd.", true},
    {"final_layer_norm.", "output_norm.", false},
    {"embed_out.", "output.", true},
    {"lm_head.", "output.", true},
    {0},
};

static const struct hf_name layer_names[] = {
    {"input_layernorm.", "attn_norm.", false},
    {"attention.query_key_value.", "attn_qkv.", false},
    {"attention.dense.", "attn_output.", false},
    {"post_attention_layernorm.", "ffn_norm.", false},
    {"mlp.dense_h_to_4h.", TENSOR_FFN_UP ".", false},
    {"mlp.dense_4h_to_h.", TENSOR_FFN_DOWN ".", false},
    {0},
};

const struct hf_decoder hf_gpt_neox = {.type = "gpt_neox",
                                       .class = "GPTNeoXForCausalLM",
                                       .architecture = "gptneox",
                                       .prefixes = {"gpt_neox."},
                                       .tensors = {"layers.", names, layer_names},
                                       .usual = {.kv_heads = HF_DERIVED, .head_size = HF_DERIVED},
                                       .rope = {.usual_theta = 10000,
                                                .may_be_partial = true,
                                                .usual_fraction = 0.25,
                                                .old_theta = "rotary_emb_base",
                                                .old_fraction = "rotary_pct"},
                                       .read_config = read_gpt_neox,
                                       .adapt = adapt};
