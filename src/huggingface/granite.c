/* SPDX-License-Identifier: Apache-2.0
 * GraniteForCausalLM. */
#include "huggingface/decoders.h"

static wisp_status read_granite(struct directory *dir, const struct hf_decoder *decoder,
                                const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {
        {"attention_bias", JSON_FALSE}, {"mlp_bias", JSON_FALSE}, {0}};
    static const char *const activations[] = {"silu", "relu", "relu2"};
    static const struct {
        const char *field, *key;
    } scales[] = {{"attention_multiplier", "attention.scale"},
                  {"embedding_multiplier", "embedding_scale"},
                  {"residual_multiplier", "residual_scale"},
                  {"logits_scaling", "logit_scale"}};
    static const double usual = 1;
    TRY(hf_check_settings(config, settings, error));
    TRY(hf_put_activation(dir, config, "hidden_act", activations,
                          sizeof activations / sizeof *activations, error));
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        char key[HF_KEY_BYTES];
        const struct hf_field field = {scales[i].field, NULL, hf_key(decoder, scales[i].key, key)};
        TRY(hf_put_number(dir, config, &field, &usual, error));
    }
    return hf_put_decoder(dir, decoder, config, error);
}

const struct hf_decoder hf_granite = {.type = "granite",
                                      .class = "GraniteForCausalLM",
                                      .architecture = "granite",
                                      .prefixes = {"model."},
                                      .tensors = {"layers.", hf_llama_names, hf_llama_layer_names},
                                      .usual = {.kv_heads = HF_DERIVED, .head_size = HF_DERIVED},
                                      .rope = {.usual_theta = 10000, .has_factors = true},
                                      .read_config = read_granite,
                                      .adapt = hf_pair_rotary};
