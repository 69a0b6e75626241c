/* SPDX-License-Identifier: Apache-2.0
 * EuroBertModel. */
#include "huggingface/decoders.h"

static bool is_bidirectional(const struct hf_config *config) {
    (void)config;
    return true;
}

static wisp_status read_eurobert(struct directory *dir, const struct hf_decoder *decoder,
                                 const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {
        {"attention_bias", JSON_FALSE}, {"mlp_bias", JSON_FALSE}, {0}};
    static const char *const activations[] = {"silu"};
    char key[HF_KEY_BYTES];
    TRY(hf_check_settings(config, settings, error));
    TRY(hf_put_activation(dir, config, "hidden_act", activations, 1, error));
    TRY(directory_put_bool(dir, hf_key(decoder, "attention.causal", key), false, error));
    return hf_put_decoder(dir, decoder, config, error);
}

const struct hf_decoder hf_eurobert = {
    .type = "eurobert",
    .class = "EuroBertModel",
    .bare = "EuroBertModel",
    .is_bidirectional = is_bidirectional,
    .architecture = "eurobert",
    .prefixes = {"model."},
    .tensors = {"layers.", hf_llama_names, hf_llama_layer_names},
    .usual = {.kv_heads = HF_DERIVED, .head_size = HF_DERIVED, .positions = 8192, .epsilon = 1e-5},
    .rope = {.usual_theta = 10000, .has_factors = true},
    .read_config = read_eurobert};
