/* SPDX-License-Identifier: Apache-2.0
 * StableLmForCausalLM. */
#include "formats/schema.h"
#include "huggingface/decoders.h"

static wisp_status read_stablelm(struct directory *dir, const struct hf_decoder *decoder,
                                 const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {
        {"qk_layernorm", JSON_FALSE}, {"use_parallel_residual", JSON_FALSE}, {0}};
    static const char *const activations[] = {"silu"};
    static const struct hf_size sizes[] = {
        {"hidden_size", NULL, "embedding_length", 0},
        {"intermediate_size", NULL, "feed_forward_length", 0},
        {"num_hidden_layers", NULL, "block_count", 0},
        {"max_position_embeddings", NULL, "context_length", 4096},
        {"vocab_size", NULL, "vocab_size", 0}};
    static const double usual_epsilon = 1e-5;
    char key[HF_KEY_BYTES];
    TRY(hf_check_settings(config, settings, error));
    TRY(hf_put_activation(dir, config, "hidden_act", activations, 1, error));
    TRY(hf_put_heads(dir, decoder, config, NULL, 0, error));
    TRY(hf_put_sizes(dir, decoder, config, sizes, sizeof sizes / sizeof *sizes, error));
    const struct hf_field epsilon = {"layer_norm_eps", NULL,
                                     hf_key(decoder, "attention.layer_norm_epsilon", key)};
    return hf_put_number(dir, config, &epsilon, &usual_epsilon, error);
}

static const struct hf_name layer_names[] = {
    {"input_layernorm.", "attn_norm.", false},
    {"self_attn.q_proj.", "attn_q.", false},
    {"self_attn.k_proj.", "attn_k.", false},
    {"self_attn.v_proj.", "attn_v.", false},
    {"self_attn.o_proj.", "attn_output.", true},
    {"post_attention_layernorm.", "ffn_norm.", false},
    {"mlp.gate_proj.", TENSOR_FFN_GATE ".", true},
    {"mlp.up_proj.", TENSOR_FFN_UP ".", true},
    {"mlp.down_proj.", TENSOR_FFN_DOWN ".", true},
    {0},
};

const struct hf_decoder hf_stablelm = {
    .type = "stablelm",
    .class = "StableLmForCausalLM",
    .architecture = "stablelm",
    .prefixes = {"model."},
    .tensors = {"layers.", hf_biased_norm_names, layer_names},
    .usual = {.kv_heads = HF_DERIVED, .head_size = HF_DERIVED},
    .rope = {.usual_theta = 10000, .may_be_partial = true, .usual_fraction = 0.25},
    .read_config = read_stablelm};
