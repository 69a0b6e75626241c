/* SPDX-License-Identifier: Apache-2.0
 * Architectures that compute what BERT does (bert.h): electra, whose embeddings may be smaller than
 * hidden states; deberta-v2, whose attention is disentangled (distances.h); gte, which is
 * nomic-bert with biases, GELU and scaled positions; jina-bert-v2, whose scores fall with the
 * distance (ALiBi) and whose layers have gates of GELU; jina-bert-v3, which has rotary positions;
 * and nomic-bert-moe, which has experts, too, in every other layer. Sources: Clark et al., ELECTRA
 * (2020); Zhang et al., mGTE (2024); Guenther et al., Jina Embeddings 2 (2023); Sturua et al.,
 * jina-embeddings-v3 (2024); Nussbaum and Duderstadt, Training Sparse Mixture of Experts Text
 * Embedding Models (2025). */
#ifndef WISP_MODELS_BERT_VARIANTS_H
#define WISP_MODELS_BERT_VARIANTS_H

#include "models/architecture.h"

extern const struct architecture architecture_electra, architecture_deberta_v2, architecture_gte,
    architecture_jina_bert_v2, architecture_jina_bert_v3, architecture_nomic_bert_moe;

/* A row of `stackings` (formats/stacked.h). */
#define STACKING_JINA_BERT_V2 {"jina-bert-v2", stacked_divide_gates}

#endif
