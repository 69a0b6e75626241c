/* SPDX-License-Identifier: Apache-2.0
 * Loads what several decoders have beside their layers. */
#ifndef WISP_MODELS_DECODER_LOAD_H
#define WISP_MODELS_DECODER_LOAD_H

#include "models/network.h"

/* Loads the layer [vocabulary_size, hidden_size] that computes logits: the tensor output.weight, or
 * the token embedding where there is none. Adds its bytes to network->resident_bytes. */
wisp_status decoder_load_logits(struct network *network, struct linear *logits, wisp_error *error);

/* Sets the rotations of the model. *factors [head_size / 2], which the caller releases with
 * memory_free, are those of the tensor rope_freqs.weight times config.rope_divisor, or
 * that share of it which YaRN gives a pair; NULL where there is neither. */
wisp_status decoder_load_rope(struct network *network, struct rope *rope, float **factors,
                              wisp_error *error);

#endif
