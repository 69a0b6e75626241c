/* SPDX-License-Identifier: Apache-2.0
 * Static embeddings: a text's embedding is the mean of its tokens' vectors, each times its weight
 * if there are weights. Unknown tokens do not count. Source: Tulkens and van Dongen, Model2Vec
 * (2024). */
#ifndef WISP_MODELS_STATIC_H
#define WISP_MODELS_STATIC_H

#include "models/architecture.h"

extern const struct architecture architecture_static;

#endif
