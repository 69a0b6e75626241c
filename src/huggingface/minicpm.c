/* SPDX-License-Identifier: Apache-2.0
 * MiniCPMForCausalLM, whose class comes with the folders of MiniCPM 1B, 2B and 4. GGUF has what its
 * scales amount to. */
#include <math.h>

#include "huggingface/decoders.h"

/* Reads a number, which is 1 if config.json lacks it. */
static wisp_status read_scale(const struct hf_config *config, const char *field, double *scale,
                              wisp_error *error) {
    const struct json *given = json_get(config->root, field);
    *scale = 1;
    if (given && (!json_to_double(given, scale) || !(*scale > 0) || !isfinite((float)*scale)))
        return fail(error, WISP_ERROR_FORMAT, config->file, field, "%.32s is not a number above 0",
                    hf_shown(given));
    return WISP_OK;
}

static wisp_status put_scales(struct directory *dir, const struct hf_decoder *decoder,
                              const struct hf_config *config, wisp_error *error) {
    static const struct hf_field layers_field = {"num_hidden_layers", NULL, NULL},
                                 hidden_field = {"hidden_size", NULL, NULL};
    uint32_t layers, hidden_size;
    double embedding, depth, base;
    char key[HF_KEY_BYTES];
    TRY(hf_read_size_or(config, &layers_field, 0, &layers, error));
    TRY(hf_read_size_or(config, &hidden_field, 0, &hidden_size, error));
    TRY(read_scale(config, "scale_emb", &embedding, error));
    TRY(read_scale(config, "scale_depth", &depth, error));
    TRY(read_scale(config, "dim_model_base", &base, error));
    TRY(directory_put_f32(dir, hf_key(decoder, "embedding_scale", key), (float)embedding, error));
    TRY(directory_put_f32(dir, hf_key(decoder, "residual_scale", key),
                          (float)(depth / sqrt((double)layers)), error));
    return directory_put_f32(dir, hf_key(decoder, "logit_scale", key), (float)(hidden_size / base),
                             error);
}

static wisp_status read_minicpm(struct directory *dir, const struct hf_decoder *decoder,
                                const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {{"attention_bias", JSON_FALSE},
                                                 {"mlp_bias", JSON_FALSE},
                                                 {"sparse_config", JSON_NULL},
                                                 {0}};
    static const char *const activations[] = {"silu", "relu", "relu2"};
    TRY(hf_check_settings(config, settings, error));
    TRY(hf_put_activation(dir, config, "hidden_act", activations,
                          sizeof activations / sizeof *activations, error));
    TRY(put_scales(dir, decoder, config, error));
    return hf_put_decoder(dir, decoder, config, error);
}

const struct hf_decoder hf_minicpm = {.type = "minicpm",
                                      .class = "MiniCPMForCausalLM",
                                      .architecture = "minicpm",
                                      .prefixes = {"model."},
                                      .tensors = {"layers.", hf_llama_names, hf_llama_layer_names},
                                      .tied = true,
                                      .usual = {.kv_heads = HF_DERIVED, .head_size = HF_DERIVED},
                                      .rope = {.usual_theta = 10000, .has_factors = true},
                                      .read_config = read_minicpm,
                                      .adapt = hf_pair_rotary};
