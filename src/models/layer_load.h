/* SPDX-License-Identifier: Apache-2.0
 * Loads dense layers for the pages of all architectures. */
#ifndef WISP_MODELS_LAYER_LOAD_H
#define WISP_MODELS_LAYER_LOAD_H

#include "models/network.h"

/* Loads the layers blk.INDEX.names[i], of n outputs and k inputs each, as one layer with parts * n
 * outputs, and adds its bytes to network->resident_bytes. Fails as linear_load does. */
wisp_status load_linear(struct network *network, uint32_t index, const char *const names[],
                        size_t parts, bool has_bias, size_t n, size_t k, struct linear *layer,
                        wisp_error *error);

/* Adds the bytes of a layer to network->tally. A layer that was not loaded adds nothing. */
void tally_weights(struct network *network, const struct linear *layer);

#endif
