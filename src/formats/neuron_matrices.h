/* SPDX-License-Identifier: Apache-2.0
 * Makes rows of W_up, W_gate and W_down from neurons that are stored as rows (formats/neurons.h).
 * Each function is `make` (formats/directory.h) of a tensor whose maker is a struct neuron_rows and
 * whose part is the number of the matrix. It points *bytes to the stored bytes of rows
 * [first, first + rows), which are in `buffer` or in the source, and fails if the source cannot
 * be read. */
#ifndef WISP_FORMATS_NEURON_MATRICES_H
#define WISP_FORMATS_NEURON_MATRICES_H

#include "formats/directory.h"

/* Makes rows of W_up or W_gate. */
wisp_status neuron_matrices_up(const struct directory *dir, const struct tensor *tensor,
                               uint64_t first, uint64_t rows, struct tensor_cache *cache,
                               void *buffer, const void **bytes, wisp_error *error);

/* Makes rows of W_down. */
wisp_status neuron_matrices_down(const struct directory *dir, const struct tensor *tensor,
                                 uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                 void *buffer, const void **bytes, wisp_error *error);

#endif
