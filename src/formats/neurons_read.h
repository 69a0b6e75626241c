/* SPDX-License-Identifier: Apache-2.0
 * Reads layers that are stored neuron by neuron (formats/neurons.h), and presents them as the plain
 * matrices that they stand for. */
#ifndef WISP_FORMATS_NEURONS_READ_H
#define WISP_FORMATS_NEURONS_READ_H

#include "formats/neurons.h"

/* Points *order to the neurons of each layer in the order of their rows [layers,
 * intermediate_size], for as long as the directory lives; to NULL if the file has no order.
 * Fails if the key has another type or length, or a layer's entries are not a permutation of its
 * neurons. */
wisp_status neurons_read_order(const struct directory *dir, uint64_t layers,
                               uint64_t intermediate_size, const int32_t **order,
                               wisp_error *error);

/* Points *hot to the number of hot neurons of each layer [layers], for as long as the directory
 * lives; to NULL if the file does not say. Fails if the key has another type or length, or a
 * number exceeds intermediate_size. */
wisp_status neurons_read_hot(const struct directory *dir, uint64_t layers,
                             uint64_t intermediate_size, const int32_t **hot, wisp_error *error);

/* Replaces tensors of rows in the directory by the plain matrices that are made from them, so that
 * every reader of its tensors sees a plain model; does nothing if the file has no rows. Call it
 * after directory_finish. Fails if a key or tensor of the layout is missing or malformed. */
wisp_status neurons_read(struct directory *dir, wisp_error *error);

/* Returns whether a tensor of this name has rows of cold neurons or tokens. */
bool tensor_is_cold(const char *name);

/* Sets *bytes to the offset in the file of the first cold row of a neuron or a token, which follows
 * everything else, or to the size of the source if no row is cold. Fails with
 * WISP_ERROR_UNSUPPORTED if another tensor follows a cold one. */
wisp_status neurons_hot_bytes(const struct directory *dir, uint64_t *bytes, wisp_error *error);

/* Returns whether the file has rows of cold neurons. */
bool neurons_are_cold(const struct directory *dir);

/* Returns the rows of a layer; NULL if the file stores its plain matrices. */
const struct neuron_rows *neurons_find_rows(const struct directory *dir, size_t layer);

#endif
