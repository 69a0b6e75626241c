/* SPDX-License-Identifier: Apache-2.0
 * Rows of W_up, W_gate and W_down, made of neurons' rows (formats/neurons.h): `make` of a struct
 * tensor whose maker is a struct neuron_rows and whose part is the matrix. */
#ifndef WISP_FORMATS_NEURON_MATRICES_H
#define WISP_FORMATS_NEURON_MATRICES_H

#include "formats/directory.h"

/* W_up or W_gate. */
wisp_status neuron_matrices_up(const struct directory *dir, const struct tensor *tensor,
                               uint64_t first, uint64_t rows, struct tensor_cache *cache,
                               void *buffer, const void **bytes, wisp_error *error);

wisp_status neuron_matrices_down(const struct directory *dir, const struct tensor *tensor,
                                 uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                 void *buffer, const void **bytes, wisp_error *error);

#endif
