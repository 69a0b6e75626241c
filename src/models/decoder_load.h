/* SPDX-License-Identifier: Apache-2.0
 * Loads what several decoders have beside their layers. */
#ifndef WISP_MODELS_DECODER_LOAD_H
#define WISP_MODELS_DECODER_LOAD_H

#include "models/network.h"

/* Loads the layer [vocabulary_size, hidden_size] that computes logits: the tensor output.weight, or
 * the token embedding where there is none. Adds its bytes to network->resident_bytes. */
wisp_status decoder_load_logits(struct network *network, struct linear *logits, wisp_error *error);

/* The weights beside the layers of a decoder with rotary positions, whose last norm is an RMS norm.
 */
struct decoder_weights {
    struct rope rope;
    float *rope_factors; /* [head_size / 2]: the tensor rope_freqs.weight times config.rope_divisor,
                            or with YaRN times the part of it that a pair gets. NULL where there is
                            neither. With config.long_after: rope_factors_short.weight */
    float *long_factors; /* [head_size / 2]: rope_factors_long.weight; NULL where there is none */
    float *output_norm;  /* [hidden_size]: weight of the last norm */
    struct linear logits; /* [vocabulary_size, hidden_size] */
};

/* Loads these weights, the output norm from the tensor `output_norm`, and adds their bytes to
 * network->resident_bytes. */
wisp_status decoder_weights_load(struct network *network, const char *output_norm,
                                 struct decoder_weights *weights, wisp_error *error);

void decoder_weights_release(struct decoder_weights *weights);

/* The `rope` of an architecture (architecture.h) whose weights begin with a struct decoder_weights.
 */
void decoder_rope(const struct network *network, struct rope *rope);

#endif
