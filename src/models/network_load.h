/* SPDX-License-Identifier: Apache-2.0
 * Loads a network from a directory. */
#ifndef WISP_MODELS_NETWORK_LOAD_H
#define WISP_MODELS_NETWORK_LOAD_H

#include "models/network.h"

/* Finds the architecture of `dir`, which must outlive the network, and reads the hyper-parameters.
 * Fails where the architecture is unknown, or where a hyper-parameter is missing, out of range or
 * not supported. The caller releases the network with network_release, also after an error. */
wisp_status network_open(struct network *network, const struct directory *dir, wisp_error *error);

/* Reads all weights of an opened network and packs them for `kernels`. Dense layers multiply in
 * int8 where `int8` is set; feed-forward layers become sparse where `plan` is not NULL. With
 * `in_memory` the token embeddings are copied too, and nothing is read later. Where the directory
 * is hot_only, cold neurons are not loaded; then `plan` must have a predictor that chooses neurons.
 * Fails where a tensor is missing, has another shape or an unsupported type, or cannot be read. */
wisp_status network_load(struct network *network, const struct kernels *kernels, bool int8,
                         const struct sparse_plan *plan, bool in_memory, wisp_error *error);

/* Frees all that the network holds, but not its directory. */
void network_release(struct network *network);

#endif
