/* SPDX-License-Identifier: Apache-2.0
 * Starcoder2ForCausalLM. */
#include "formats/schema.h"
#include "huggingface/decoders.h"
#include "huggingface/window_config.h"

static wisp_status read_starcoder2(struct directory *dir, const struct hf_decoder *decoder,
                                   const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {{"use_bias", JSON_TRUE}, {0}};
    static const char *const activations[] = {"gelu_pytorch_tanh", "gelu", "relu", "relu2"};
    static const struct hf_size sizes[] = {
        {"hidden_size", NULL, "embedding_length", 0},
        {"intermediate_size", NULL, "feed_forward_length", 0},
        {"num_hidden_layers", NULL, "block_count", 0},
        {"max_position_embeddings", NULL, "context_length", 4096},
        {"vocab_size", NULL, "vocab_size", 0}};
    static const double usual_epsilon = 1e-5;
    char key[HF_KEY_BYTES];
    TRY(hf_check_settings(config, settings, error));
    TRY(hf_put_activation(dir, config, "hidden_act", activations,
                          sizeof activations / sizeof *activations, error));
    TRY(hf_put_heads(dir, decoder, config, NULL, 0, error));
    TRY(hf_put_sizes(dir, decoder, config, sizes, sizeof sizes / sizeof *sizes, error));
    if (!json_is_absent(json_get(config->root, "sliding_window")))
        TRY(hf_put_window(dir, config, decoder->architecture, error));
    const struct hf_field epsilon = {"norm_epsilon", NULL,
                                     hf_key(decoder, "attention.layer_norm_epsilon", key)};
    return hf_put_number(dir, config, &epsilon, &usual_epsilon, error);
}

const struct hf_name hf_biased_norm_names[] = {
    {"embed_tokens.", "token_embd.", true},
    {"norm.", "output_norm.", false},
    {"lm_head.", "output.", true},
    {0},
};

static const struct hf_name layer_names[] = {
    {"input_layernorm.", "attn_norm.", false},
    {"self_attn.q_proj.", "attn_q.", false},
    {"self_attn.k_proj.", "attn_k.", false},
    {"self_attn.v_proj.", "attn_v.", false},
    {"self_attn.o_proj.", "attn_output.", false},
    {"post_attention_layernorm.", "ffn_norm.", false},
    {"mlp.c_fc.", TENSOR_FFN_UP ".", false},
    {"mlp.c_proj.", TENSOR_FFN_DOWN ".", false},
    {0},
};

const struct hf_decoder hf_starcoder2 = {.type = "starcoder2",
                                         .class = "Starcoder2ForCausalLM",
                                         .architecture = "starcoder2",
                                         .prefixes = {"model."},
                                         .tensors = {"layers.", hf_biased_norm_names, layer_names},
                                         .tied = true,
                                         .usual = {.kv_heads = 2, .head_size = HF_DERIVED},
                                         .rope = {.usual_theta = 10000},
                                         .read_config = read_starcoder2};
