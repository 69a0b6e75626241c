/* SPDX-License-Identifier: Apache-2.0
 * The BERT encoder with pooling, which MiniLM, BGE, GTE, E5 and similar models are, and its variant
 * nomic-bert, which has rotary positions and gated feed-forward layers.
 * Sources: Devlin et al., BERT (2018); Nussbaum et al., Nomic Embed (2024); pooling as in
 * sentence-transformers. */
#ifndef WISP_MODELS_BERT_H
#define WISP_MODELS_BERT_H

#include "models/architecture.h"
#include "models/bert_weights.h"

/* Functions of struct architecture (architecture.h), for both architectures. */
wisp_status bert_load(struct network *network, wisp_error *error);
wisp_status bert_load_layer(struct network *network, uint32_t layer, wisp_error *error);
void bert_release(struct network *network);

extern const struct architecture architecture_bert, architecture_nomic_bert;

#endif
