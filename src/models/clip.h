/* SPDX-License-Identifier: Apache-2.0
 * The text towers of CLIP and SigLIP: encoders with the weights of GPT-2's page and its norms
 * before blocks, but with a layer each for queries, keys and values. The embedding of a text is the
 * hidden state of its last token, projected. Tokens see those before them in CLIP, and all in
 * SigLIP.
 * Sources: Radford et al., Learning Transferable Visual Models From Natural Language Supervision
 * (2021); Zhai et al., Sigmoid Loss for Language Image Pre-Training (2023). */
#ifndef WISP_MODELS_CLIP_H
#define WISP_MODELS_CLIP_H

#include "models/architecture.h"

extern const struct architecture architecture_clip;

#endif
