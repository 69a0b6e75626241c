/* SPDX-License-Identifier: Apache-2.0
 * GPT2LMHeadModel, whose matrices are stored as [inputs, outputs]. */
#include "formats/schema.h"
#include "huggingface/decoders.h"
#include "huggingface/transposed.h"

static wisp_status read_gpt2(struct directory *dir, const struct hf_decoder *decoder,
                             const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {{"scale_attn_weights", JSON_TRUE},
                                                 {"scale_attn_by_inverse_layer_idx", JSON_FALSE},
                                                 {"add_cross_attention", JSON_FALSE},
                                                 {0}};
    static const char *const activations[] = {"gelu_new", "gelu", "relu", "relu2"};
    static const struct hf_size sizes[] = {
        {"n_embd", "hidden_size", "embedding_length", 0},
        {"n_layer", "num_hidden_layers", "block_count", 0},
        {"n_head", "num_attention_heads", "attention.head_count", 0},
        {"n_positions", "max_position_embeddings", "context_length", 0}};
    static const struct hf_field size = {"n_embd", "hidden_size", NULL};
    static const struct hf_field inner = {"n_inner", NULL, NULL};
    static const double usual_epsilon = 1e-5;
    char key[HF_KEY_BYTES];
    uint32_t hidden_size, intermediate_size;
    TRY(hf_check_settings(config, settings, error));
    TRY(hf_put_activation(dir, config, "activation_function", activations,
                          sizeof activations / sizeof *activations, error));
    TRY(hf_put_sizes(dir, decoder, config, sizes, sizeof sizes / sizeof *sizes, error));
    TRY(hf_read_size_or(config, &size, 0, &hidden_size, error));
    intermediate_size = hidden_size > UINT32_MAX / 4 ? UINT32_MAX : 4 * hidden_size;
    if (!json_is_absent(json_get(config->root, inner.field)))
        TRY(hf_read_size_or(config, &inner, 0, &intermediate_size, error));
    TRY(directory_put_u32(dir, hf_key(decoder, "feed_forward_length", key), intermediate_size,
                          error));
    const struct hf_field epsilon = {"layer_norm_epsilon", NULL,
                                     hf_key(decoder, "attention.layer_norm_epsilon", key)};
    return hf_put_number(dir, config, &epsilon, &usual_epsilon, error);
}

/* ---- matrices ------------------------------------------------------------------------------- */

static wisp_status adapt(struct directory *dir, struct tensor *tensor, wisp_error *error) {
    static const char *const parts[] = {"attn_qkv.weight", "attn_output.weight",
                                        TENSOR_FFN_UP TENSOR_WEIGHT, TENSOR_FFN_DOWN TENSOR_WEIGHT,
                                        NULL};
    if (!hf_is_part(tensor, parts) || tensor->n_dims != 2)
        return WISP_OK; /* the loader refuses other shapes of matrices */
    return hf_transpose(dir, tensor, error);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static const struct hf_name names[] = {
    {"wte.", "token_embd.", true},
    {"wpe.", "position_embd.", true},
    {"ln_f.", "output_norm.", false},
    {"lm_head.", "output.", true},
    {0},
};

static const struct hf_name layer_names[] = {
    {"ln_1.", "attn_norm.", false},
    {"attn.c_attn.", "attn_qkv.", false},
    {"attn.c_proj.", "attn_output.", false},
    {"ln_2.", "ffn_norm.", false},
    {"mlp.c_fc.", TENSOR_FFN_UP ".", false},
    {"mlp.c_proj.", TENSOR_FFN_DOWN ".", false},
    {0},
};

const struct hf_decoder hf_gpt2 = {.type = "gpt2",
                                   .class = "GPT2LMHeadModel",
                                   .architecture = "gpt2",
                                   .prefixes = {"transformer."},
                                   .tensors = {"h.", names, layer_names},
                                   .tied = true,
                                   .read_config = read_gpt2,
                                   .adapt = adapt};
