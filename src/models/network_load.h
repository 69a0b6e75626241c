/* SPDX-License-Identifier: Apache-2.0
 * From a directory to a network. */
#ifndef WISP_MODELS_NETWORK_LOAD_H
#define WISP_MODELS_NETWORK_LOAD_H

#include "models/network.h"

/* Finds the architecture of `dir`, which must outlive the network, and reads the hyper-parameters.
 * Released with network_release, also after an error. */
wisp_status network_open(struct network *network, const struct directory *dir, wisp_error *error);

/* Reads all weights; feed-forward layers become sparse ones where `plan` is not NULL. */
wisp_status network_load(struct network *network, const struct kernels *kernels, bool int8,
                         const struct sparse_plan *plan, wisp_error *error);

void network_release(struct network *network);

#endif
