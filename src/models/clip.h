/* SPDX-License-Identifier: Apache-2.0
 * The towers of CLIP and SigLIP, for texts and for images: encoders with the weights of GPT-2's
 * page and its norms before blocks, but with a layer each for queries, keys and values. The
 * embedding of a text is the hidden state of its last token, projected. Tokens see those before
 * them in CLIP; in SigLIP, whose texts are filled up to one length, they see all. The embedding of
 * an image is the projected state of a class in CLIP, and what attention_pool.h makes of all
 * patches in SigLIP. Sources: Radford et al., Learning Transferable Visual Models From Natural
 * Language Supervision (2021); Zhai et al., Sigmoid Loss for Language Image Pre-Training (2023). */
#ifndef WISP_MODELS_CLIP_H
#define WISP_MODELS_CLIP_H

#include "models/architecture.h"

extern const struct architecture architecture_clip, architecture_siglip;

#endif
