/* SPDX-License-Identifier: Apache-2.0
 * Heads of a ...ForSequenceClassification. With one label they are cross-encoders, which score a
 * pair of texts. */
#ifndef WISP_HUGGINGFACE_CROSS_ENCODER_H
#define WISP_HUGGINGFACE_CROSS_ENCODER_H

#include "huggingface/encoder.h"
#include "huggingface/modules.h"

/* Returns whether the class of config.json has such a head, and modules.json, if there is one, says
 * nothing else than that the model scores by it. */
bool hf_is_cross_encoder(const struct hf_config *config, const struct hf_modules *modules);

/* Reads the settings of a head as CrossEncoder of sentence-transformers does: adds the head's
 * activations, its labels, the limit of tokens and the separators of pairs. `folder` is the
 * model's. Fails if the encoder is of a type whose head wisp does not have, and in WebAssembly if
 * there is more than one label. */
wisp_status hf_read_cross_encoder(struct directory *dir, const char *folder, const char *proper,
                                  struct hf_config *config, const struct hf_encoder *encoder,
                                  wisp_error *error);

/* The tensors of the head. */
extern const struct hf_name hf_head_names[];

#endif
