/* SPDX-License-Identifier: Apache-2.0
 * The heads of masked language models, of whose guesses SPLADE makes sparse vectors. */
#ifndef WISP_HUGGINGFACE_SPLADE_H
#define WISP_HUGGINGFACE_SPLADE_H

#include "huggingface/encoder.h"

/* Sets *names to the names of the head's tensors. Fails if the encoder's class has a head that is
 * not supported. */
wisp_status hf_find_splade(const struct hf_config *config, const struct hf_encoder *encoder,
                           const struct hf_name **names, wisp_error *error);

#endif
