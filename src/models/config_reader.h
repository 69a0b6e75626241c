/* SPDX-License-Identifier: Apache-2.0
 * Reads hyper-parameters from the metadata of a GGUF file into reader->config. Each function reads
 * and checks one of them; an architecture writes its defaults to *config (activation, has_bias,
 * fused_qkv) and then calls the functions for those that it has. Keys begin with the name of the
 * architecture. A function fails, and names the key, if a value is missing
 * (WISP_ERROR_NOT_FOUND), has the wrong type or is out of range (WISP_ERROR_FORMAT), or is not
 * supported (WISP_ERROR_UNSUPPORTED).
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

/* Reads hidden_size, intermediate_size, layers, heads and max_positions from keys, and
 * vocabulary_size and token_types from the shapes of tensors. */
wisp_status config_read_sizes(const struct config_reader *reader);

/* Reads kv_heads, head_size and, if conv_taps is set, conv_layers. Call it after
 * config_read_sizes, which sets kv_heads to heads and head_size to hidden_size / heads for files
 * without these keys. */
wisp_status config_read_kv_heads(const struct config_reader *reader);

/* Reads norm_epsilon under the key `name`. */
wisp_status config_read_norm_epsilon(const struct config_reader *reader, const char *name);

/* Reads the key wisp.hidden_act. If it is absent, config->activation stays as it is. The key may
 * choose between gelu and relu, but not between a gated and an ungated layer. */
wisp_status config_read_activation(const struct config_reader *reader);

/* Reads how texts are pooled (mean if the key is absent) and whether embeddings are normalised
 * (true if the key is absent). */
wisp_status config_read_pooling(const struct config_reader *reader);

/* Reads rope_theta. If the key is absent, config->rope_theta stays as it is, and the key is
 * required if that is 0. Reads rotary_size, which is head_size if the key is absent. */
wisp_status config_read_rotation(const struct config_reader *reader);

/* Does what config_read_rotation does, and refuses models that scale positions or rotate only a
 * part of each head. */
wisp_status config_read_rope(const struct config_reader *reader);

/* Refuses a file that has the key with a value other than `wanted`, which is written as
 * metadata_format writes it. */
wisp_status config_refuse_others(const struct config_reader *reader, const char *name,
                                 const char *wanted);

/* Refuses a model whose feed-forward layers are made of experts. */
wisp_status config_refuse_experts(const struct config_reader *reader);

/* Refuses a model whose attention or layers, by a key that llama.cpp knows, are not those of BERT:
 * tokens see only some others, heads have other sizes, scores are scaled or bounded, or there are
 * experts but has_experts is not set. */
wisp_status config_refuse_variants(const struct config_reader *reader);

#endif
