/* SPDX-License-Identifier: Apache-2.0
 * Loads norms for the pages of all architectures. */
#ifndef WISP_MODELS_NORMS_LOAD_H
#define WISP_MODELS_NORMS_LOAD_H

#include "layers/norm.h"
#include "models/network.h"

/* Loads the layer norm blk.INDEX.NAME of hidden_size values, and adds its bytes. */
wisp_status load_layer_norm(struct network *network, size_t index, const char *name,
                            struct norm *norm, wisp_error *error);

/* Loads the weight [size] of an RMS norm, the tensor `name` or blk.INDEX.PART.weight, and adds its
 * bytes. The caller releases it with memory_free. */
wisp_status load_rms_norm(struct network *network, const char *name, size_t size, float **weight,
                          wisp_error *error);
wisp_status load_layer_rms_norm(struct network *network, size_t index, const char *part,
                                size_t size, float **weight, wisp_error *error);

#endif
