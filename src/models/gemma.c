/* SPDX-License-Identifier: Apache-2.0
 * The hyper-parameters and tensors of Gemma 2 and 3. Their forward pass is that of llama.c. */
#include "models/gemma.h"

#include <math.h>

/* Reads the hyper-parameters of either version. Every `pattern`-th layer sees all tokens. The
 * largest model of each version, which has `largest` layers, scales scores by 1 / sqrt(hidden_size
 * / heads) rather than 1 / sqrt(head_size); llama.cpp's files have no key for that. */
static wisp_status read_gemma(const struct config_reader *r, uint32_t pattern, uint32_t largest) {
    static const struct named_activation activations[] = {
        {"gelu_pytorch_tanh", ACTIVATION_GATED_GELU_TANH}, {"relu", ACTIVATION_GATED_RELU}};
    struct model_config *c = r->config;
    TRY(decoder_read_sizes(r));
    char key[CONFIG_KEY_BYTES];
    const bool given = directory_find_metadata(r->dir, config_key(r, "attention.scale", key));
    if (!given && c->layers == largest)
        c->attention_scale = 1 / sqrtf((float)c->hidden_size / (float)c->heads);
    c->embedding_scale = sqrtf((float)c->hidden_size);
    TRY(config_read_norm_epsilon(r, "attention.layer_norm_rms_epsilon"));
    TRY(decoder_read_activation(r, activations, sizeof activations / sizeof *activations));
    TRY(decoder_read_window(r, pattern));
    TRY(decoder_read_caps(r));
    return decoder_read_rope(r);
}

/* If the file has no bounds of scores and logits or no window, those of all Gemma 2 models are
 * used, as llama.cpp does. */
static wisp_status gemma2_read_config(const struct directory *dir, struct model_config *config,
                                      wisp_error *error) {
    const struct config_reader r = {dir, architecture_gemma2.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_GELU_TANH,
                                    .rope_theta = 10000,
                                    .rope_pairs = ROPE_HALVES,
                                    .norms = NORMS_AROUND,
                                    .attention_cap = 50,
                                    .logit_cap = 30,
                                    .window = 4096};
    return read_gemma(&r, 2, 46);
}

/* Reads the hyper-parameters of version 3. `usual` says how it makes embeddings unless the file
 * says it. */
static wisp_status read_gemma3(const struct config_reader *r, enum pooling usual, bool sees_all) {
    *r->config = (struct model_config){.activation = ACTIVATION_GATED_GELU_TANH,
                                       .pooling = usual,
                                       .sees_all = sees_all,
                                       .rope_pairs = ROPE_HALVES,
                                       .norms = NORMS_AROUND,
                                       .has_qk_norm = true,
                                       .local_rope_theta = 10000};
    TRY(read_gemma(r, 6, 62));
    return decoder_read_local_theta(r);
}

static wisp_status gemma3_read_config(const struct directory *dir, struct model_config *config,
                                      wisp_error *error) {
    const struct config_reader r = {dir, architecture_gemma3.name, config, error};
    return read_gemma3(&r, POOLING_NONE, false);
}

static wisp_status gemma_embedding_read_config(const struct directory *dir,
                                               struct model_config *config, wisp_error *error) {
    const struct config_reader r = {dir, architecture_gemma_embedding.name, config, error};
    return read_gemma3(&r, POOLING_MEAN, true);
}

static const char *const tensors[] = {"token_embd", "output_norm", "output", NULL};
#define LAYER_TENSORS                                                                              \
    "attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm", LLAMA_LAYER_TENSORS
static const char *const gemma2_layer_tensors[] = {LAYER_TENSORS, NULL};
static const char *const gemma3_layer_tensors[] = {LAYER_TENSORS, "attn_q_norm", "attn_k_norm",
                                                   NULL};

const struct architecture architecture_gemma2 = {LLAMA_PAGE,
                                                 .name = "gemma2",
                                                 .tensors = tensors,
                                                 .layer_tensors = gemma2_layer_tensors,
                                                 .norms_outputs = true,
                                                 .read_config = gemma2_read_config};
const struct architecture architecture_gemma3 = {LLAMA_PAGE,
                                                 .name = "gemma3",
                                                 .tensors = tensors,
                                                 .layer_tensors = gemma3_layer_tensors,
                                                 .norms_outputs = true,
                                                 .read_config = gemma3_read_config};
const struct architecture architecture_gemma_embedding = {LLAMA_PAGE,
                                                          .name = "gemma-embedding",
                                                          .tensors = tensors,
                                                          .layer_tensors = gemma3_layer_tensors,
                                                          .norms_outputs = true,
                                                          .read_config =
                                                              gemma_embedding_read_config};
