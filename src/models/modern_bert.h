/* SPDX-License-Identifier: Apache-2.0
 * The encoder ModernBERT: norms before blocks, rotary positions, gated feed-forward layers, and
 * layers whose tokens see only near ones. Source: Warner et al., Smarter, Better, Faster, Longer
 * (2024), as transformers and llama.cpp compute it. */
#ifndef WISP_MODELS_MODERN_BERT_H
#define WISP_MODELS_MODERN_BERT_H

#include "models/architecture.h"

extern const struct architecture architecture_modern_bert;

/* Its row of `stackings` (formats/stacked.h). */
#define STACKING_MODERN_BERT {"modern-bert", stacked_divide_gates}

#endif
