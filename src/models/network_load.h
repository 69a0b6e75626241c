/* SPDX-License-Identifier: Apache-2.0
 * Loads a network from a directory. */
#ifndef WISP_MODELS_NETWORK_LOAD_H
#define WISP_MODELS_NETWORK_LOAD_H

#include "models/network.h"

/* Finds the architecture of `dir`, which must outlive the network, and reads the hyper-parameters.
 * Fails if the architecture is unknown, or if a hyper-parameter is missing, out of range or
 * not supported. The caller releases the network with network_release, also after an error. */
wisp_status network_open(struct network *network, const struct directory *dir, wisp_error *error);

/* Reads all weights of an opened network and packs them for `kernels`. Dense layers multiply as
 * `compute` says, which is not AUTO; feed-forward layers become sparse if `plan` is not NULL. If
 * the directory's residency lacks neurons, cold ones are not loaded; then `plan` must have a
 * predictor that chooses neurons. Fails if a tensor is missing, has another shape or an unsupported
 * type, or cannot be read. */
wisp_status network_load(struct network *network, const struct kernels *kernels,
                         wisp_compute compute, const struct sparse_plan *plan, wisp_error *error);

/* Frees all that the network holds, but not its directory. */
void network_release(struct network *network);

#endif
