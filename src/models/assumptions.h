/* SPDX-License-Identifier: Apache-2.0
 * Settings that GGUF files of other programs leave out, although embeddings depend on them. */
#ifndef WISP_MODELS_ASSUMPTIONS_H
#define WISP_MODELS_ASSUMPTIONS_H

#include "formats/directory.h"

/* Gives setting `index` of those that the directory lacks, with the value that is used instead.
 * Returns false past the last, and for models of an unknown architecture. */
bool assumption_get(const struct directory *dir, size_t index, wisp_assumption *assumption);

#endif
