/* SPDX-License-Identifier: Apache-2.0
 * Olmo2ForCausalLM and Olmo3ForCausalLM. */
#include "formats/schema.h"
#include "huggingface/decoders.h"
#include "huggingface/window_config.h"

static wisp_status read_olmo2(struct directory *dir, const struct hf_decoder *decoder,
                              const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {{"attention_bias", JSON_FALSE}, {0}};
    static const char *const activations[] = {"silu"};
    TRY(hf_check_settings(config, settings, error));
    TRY(hf_put_activation(dir, config, "hidden_act", activations, 1, error));
    return hf_put_decoder(dir, decoder, config, error);
}

static wisp_status read_olmo3(struct directory *dir, const struct hf_decoder *decoder,
                              const struct hf_config *config, wisp_error *error) {
    TRY(hf_put_periodic_windows(dir, config, decoder->architecture, 4, false, error));
    return read_olmo2(dir, decoder, config, error);
}

static const struct hf_name layer_names[] = {
    {"self_attn.q_proj.", "attn_q.", true},
    {"self_attn.k_proj.", "attn_k.", true},
    {"self_attn.v_proj.", "attn_v.", true},
    {"self_attn.q_norm.", "attn_q_norm.", true},
    {"self_attn.k_norm.", "attn_k_norm.", true},
    {"self_attn.o_proj.", "attn_output.", true},
    {"post_attention_layernorm.", "post_attention_norm.", true},
    {"post_feedforward_layernorm.", "post_ffw_norm.", true},
    {"mlp.gate_proj.", TENSOR_FFN_GATE ".", true},
    {"mlp.up_proj.", TENSOR_FFN_UP ".", true},
    {"mlp.down_proj.", TENSOR_FFN_DOWN ".", true},
    {0},
};

#define OLMO                                                                                       \
    .architecture = "olmo2", .prefixes = {"model."},                                               \
    .tensors = {"layers.", hf_llama_names, layer_names},                                           \
    .usual = {.kv_heads = HF_DERIVED,                                                              \
              .head_size = HF_DERIVED,                                                             \
              .epsilon = 1e-5,                                                                     \
              .positions = 2048},                                                                  \
    .rope = {.usual_theta = 10000, .has_factors = true}

const struct hf_decoder hf_olmo2 = {OLMO, .type = "olmo2", .class = "Olmo2ForCausalLM",
                                    .read_config = read_olmo2};

const struct hf_decoder hf_olmo3 = {OLMO, .type = "olmo3", .class = "Olmo3ForCausalLM",
                                    .read_config = read_olmo3};
