/* SPDX-License-Identifier: Apache-2.0
 * The hyper-parameters and tensors of GPT-NeoX and StableLM. Their forward pass is that of gpt2.c.
 */
#include "models/gpt_neox.h"

#include "models/decoder_config.h"

/* Reads what both have, after the activation. */
static wisp_status read_both(const struct config_reader *r) {
    static const char *const refused[][2] = {{"pooling_type", "0"},
                                             {"attention.sliding_window", "0"},
                                             {"rope.scaling.type", "none"},
                                             {"rope.scaling.factor", "1"},
                                             {"rope.scale_linear", "1"}};
    const struct model_config *c = r->config;
    char key[CONFIG_KEY_BYTES];
    TRY(config_read_norm_epsilon(r, "attention.layer_norm_epsilon"));
    TRY(config_read_rotation(r));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        TRY(config_refuse_others(r, refused[i][0], refused[i][1]));
    if (c->is_parallel && (size_t)c->heads * c->head_size != c->hidden_size)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->dir->file,
                    config_key(r, "use_parallel_residual", key),
                    "true is not supported with heads of %u values", c->head_size);
    return decoder_refuse_caps(r);
}

static wisp_status gptneox_read_config(const struct directory *dir, struct model_config *config,
                                       wisp_error *error) {
    static const struct named_activation activations[] = {{"gelu", ACTIVATION_GELU},
                                                          {"gelu_new", ACTIVATION_GELU_TANH},
                                                          {"relu", ACTIVATION_RELU},
                                                          {"relu2", ACTIVATION_RELU_SQUARED}};
    const struct config_reader r = {dir, architecture_gptneox.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GELU,
                                    .has_bias = true,
                                    .fused_qkv = true,
                                    .may_be_parallel = true,
                                    .is_parallel = true,
                                    .rope_theta = 10000,
                                    .rope_pairs = ROPE_HALVES};
    TRY(decoder_read_sizes(&r));
    TRY(decoder_read_activation(&r, activations, sizeof activations / sizeof *activations));
    return read_both(&r);
}

static wisp_status stablelm_read_config(const struct directory *dir, struct model_config *config,
                                        wisp_error *error) {
    static const struct named_activation activations[] = {{"silu", ACTIVATION_GATED_SILU}};
    const struct config_reader r = {dir, architecture_stablelm.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .has_qkv_bias =
                                        directory_find_tensor(dir, "blk.0.attn_q.bias") != NULL,
                                    .rope_theta = 10000,
                                    .rope_pairs = ROPE_HALVES};
    TRY(decoder_read_sizes(&r));
    TRY(decoder_read_activation(&r, activations, 1));
    return read_both(&r);
}

static const char *const tensors[] = {"token_embd", "output_norm", "output", NULL};
static const char *const gptneox_layer_tensors[] = {
    "attn_norm", "attn_qkv", "attn_output", "ffn_norm", TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};
static const char *const stablelm_layer_tensors[] = {
    "attn_norm", "attn_q",        "attn_k",      "attn_v",        "attn_output",
    "ffn_norm",  TENSOR_FFN_GATE, TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};

const struct architecture architecture_gptneox = {GPT2_PAGE, .name = "gptneox", .tensors = tensors,
                                                  .layer_tensors = gptneox_layer_tensors,
                                                  .read_config = gptneox_read_config};
const struct architecture architecture_stablelm = {
    GPT2_PAGE, .name = "stablelm", .tensors = tensors, .layer_tensors = stablelm_layer_tensors,
    .read_config = stablelm_read_config};
