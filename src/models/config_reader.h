/* SPDX-License-Identifier: Apache-2.0
 * Hyper-parameters from a GGUF file's metadata. Each function reads and checks one of them; an
 * architecture's page writes its defaults to *config (activation, has_bias, fused_qkv) and then
 * calls those that it has. Keys begin with the architecture's name.
 * Source: the GGUF specification's standardised key-value pairs. */
#ifndef WISP_MODELS_CONFIG_READER_H
#define WISP_MODELS_CONFIG_READER_H

#include "formats/directory.h"
#include "models/model_config.h"

enum { CONFIG_KEY_BYTES = 64 };

struct config_reader {
    const struct directory *dir;
    const char *architecture; /* prefix of the keys */
    struct model_config *config;
    wisp_error *error;
};

/* Writes "architecture.name" to `key` and returns it. */
const char *config_key(const struct config_reader *reader, const char *name,
                       char key[CONFIG_KEY_BYTES]);

/* Sizes of the hidden states, the feed-forward layers, the layers, heads and positions, and from
 * the tensors those of the vocabulary and of the token types. */
wisp_status config_read_sizes(const struct config_reader *reader);

wisp_status config_read_layer_norm_epsilon(const struct config_reader *reader);

/* The key wisp.hidden_act; where it is absent, config->activation stays as it is. It may choose
 * between gelu and relu, but not between a gated and an ungated layer. */
wisp_status config_read_activation(const struct config_reader *reader);

/* How embeddings are pooled and whether they are normalised. */
wisp_status config_read_pooling(const struct config_reader *reader);

/* rope_theta, which without this call stays 0. Heads have to be rotated whole, and positions not to
 * be scaled. */
wisp_status config_read_rope(const struct config_reader *reader);

/* Refuses a model whose tokens see only the tokens before them. */
wisp_status config_refuse_causal(const struct config_reader *reader);

#endif
