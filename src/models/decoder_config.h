/* SPDX-License-Identifier: Apache-2.0
 * Reads the hyper-parameters that only decoders have. config_reader.h reads the others, and says
 * what all these functions have in common. */
#ifndef WISP_MODELS_DECODER_CONFIG_H
#define WISP_MODELS_DECODER_CONFIG_H

#include "models/config_reader.h"

/* Reads sizes, key-value heads and attention_scale, which is 1 / sqrt(head_size) if the key is
 * absent, with has_scales embedding_scale, residual_scale and logit_scale, and with has_experts
 * `experts`. Reads pooling and
 * sees_all, which stay as they are if their keys are absent, and normalize. Refuses models that
 * wisp cannot compute: those with experts that the architecture does not have, or with values
 * scaled or bounded by keys of llama.cpp that wisp does not read. */
wisp_status decoder_read_sizes(const struct config_reader *reader);

/* Reads `window` and local_layers. If the key of the window is absent, config->window stays as
 * it is; a window of 0 makes all layers global. The key of the pattern is an array with a bool for
 * each layer, true if it is local, or a number n: every n-th layer is global, or none if n is 0.
 * `pattern` is that number if the key is absent. */
wisp_status decoder_read_window(const struct config_reader *reader, uint32_t pattern);

/* Reads rope_theta as config_read_rotation does, rope_divisor, yarn, long_after and rope_length.
 * Refuses models that scale positions other than linearly, by YaRN or by LongRoPE. */
wisp_status decoder_read_rope(const struct config_reader *reader);

/* Reads attention_cap and logit_cap, which stay as they are if the key is absent. */
wisp_status decoder_read_caps(const struct config_reader *reader);

/* Refuses a model that has such a cap. */
wisp_status decoder_refuse_caps(const struct config_reader *reader);

/* Reads local_rope_theta, which stays as it is if the key is absent, and is 0 without local
 * layers. */
wisp_status decoder_read_local_theta(const struct config_reader *reader);

/* Returns whether any of the file's feed-forward layers has a gate. */
bool decoder_has_gates(const struct config_reader *reader);

/* Returns whether any layer of experts has a bias for the choice of experts. If one has, all must.
 */
bool decoder_has_choice_bias(const struct config_reader *reader);

/* An activation by its name in KEY_HIDDEN_ACT. */
struct named_activation {
    const char *name;
    enum activation activation;
};

/* Reads the key KEY_HIDDEN_ACT, which names one of n activations. If it is absent,
 * config->activation stays as it is. */
wisp_status decoder_read_activation(const struct config_reader *reader,
                                    const struct named_activation *known, size_t n);

#endif
