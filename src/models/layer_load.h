/* SPDX-License-Identifier: Apache-2.0
 * Loads dense layers and norms for the pages of all architectures. */
#ifndef WISP_MODELS_LAYER_LOAD_H
#define WISP_MODELS_LAYER_LOAD_H

#include "layers/norm.h"
#include "models/network.h"

/* Loads the layers blk.INDEX.names[i] as load_linear does, and adds nothing to the network. */
wisp_status read_linear(const struct network *network, uint32_t index, const char *const names[],
                        size_t parts, bool has_bias, size_t n, size_t k, struct linear *layer,
                        wisp_error *error);

/* Loads the layers blk.INDEX.names[i], of n outputs and k inputs each, as one layer with parts * n
 * outputs, and adds its bytes to network->resident_bytes. Fails as linear_load does. */
wisp_status load_linear(struct network *network, uint32_t index, const char *const names[],
                        size_t parts, bool has_bias, size_t n, size_t k, struct linear *layer,
                        wisp_error *error);

/* Loads the layer norm blk.INDEX.NAME of hidden_size values, and adds its bytes. */
wisp_status load_layer_norm(struct network *network, size_t index, const char *name,
                            struct norm *norm, wisp_error *error);

/* Loads the weight [size] of an RMS norm, the tensor `name` or blk.INDEX.PART.weight, and adds its
 * bytes. The caller releases it with memory_free. */
wisp_status load_rms_norm(struct network *network, const char *name, size_t size, float **weight,
                          wisp_error *error);
wisp_status load_layer_rms_norm(struct network *network, size_t index, const char *part,
                                size_t size, float **weight, wisp_error *error);

/* Adds the bytes of a layer to network->tally. A layer that was not loaded adds nothing. */
void tally_weights(struct network *network, const struct linear *layer);

#endif
