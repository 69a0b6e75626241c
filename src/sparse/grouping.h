/* SPDX-License-Identifier: Apache-2.0
 * Which neurons make a quad: those that are active together, often used quads first. */
#ifndef WISP_SPARSE_GROUPING_H
#define WISP_SPARSE_GROUPING_H

#include "base/status.h"
#include "kernels/kernels.h"

/* From contributions [tokens, neurons] (magnitudes, not negative): order[4 i + j] is neuron j of
 * quad i. Greedily: the neuron with the largest contribution of those left, and one after the
 * other those whose contributions have the largest cosines with the quad's so far. */
wisp_status group_neurons(const struct kernels *kernels, const float *contributions, size_t tokens,
                          size_t neurons, int32_t *order, wisp_error *error);

#endif
