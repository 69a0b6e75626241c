/* SPDX-License-Identifier: Apache-2.0
 * The head of SPLADE, which makes a sparse vector of the hidden states of a text: each token gives
 * each word of the vocabulary the value log(1 + max(0, logit)), where logits are those of a masked
 * language model; the largest value of a word counts, or their sum. Sources: Formal et al., SPLADE
 * (2021) and SPLADE v2 (2021); two logarithms as in Geng et al. (2025), whose models are
 * OpenSearch's. */
#ifndef WISP_MODELS_SPLADE_H
#define WISP_MODELS_SPLADE_H

#include "layers/linear.h"
#include "layers/norm.h"
#include "models/model_config.h"

struct splade {
    struct linear dense, output;
    struct norm norm;
    bool sums;           /* over tokens; else the largest */
    uint32_t logarithms; /* 1 or 2 */
    size_t bytes;        /* memory of all weights */
};

/* The names of the head's tensors; ends with NULL. */
extern const char *const splade_names[];

/* Loads the head. Its last layer multiplies as `compute` says. Fails if a tensor is missing
 * or has another shape. The caller releases the head, also after an error. */
wisp_status splade_load(struct splade *splade, const struct directory *dir,
                        const struct kernels *kernels, const struct model_config *config,
                        wisp_compute compute, wisp_error *error);

void splade_release(struct splade *splade);

/* Returns the bytes of working memory of splade_apply. */
size_t splade_workspace_bytes(const struct splade *splade);

/* Computes the values of all words [vocabulary_size] from the hidden states x [tokens, hidden_size]
 * of a text. */
void splade_apply(const struct splade *splade, const struct model_config *config, const float *x,
                  size_t tokens, float *values, struct workspace space);

#endif
