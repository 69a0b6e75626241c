/* SPDX-License-Identifier: Apache-2.0
 * Which neurons' rows a file has (formats/neurons.h), and the plain model that they stand for. */
#ifndef WISP_FORMATS_NEURONS_READ_H
#define WISP_FORMATS_NEURONS_READ_H

#include "formats/neurons.h"

/* Each layer's neurons in the order of their rows, [layers, intermediate_size], which lives as long
 * as the directory; NULL where the file has none. */
wisp_status neurons_read_order(const struct directory *dir, uint64_t layers,
                               uint64_t intermediate_size, const int32_t **order,
                               wisp_error *error);

/* How many of each layer's neurons are hot, [layers], likewise. */
wisp_status neurons_read_hot(const struct directory *dir, uint64_t layers,
                             uint64_t intermediate_size, const int32_t **hot, wisp_error *error);

/* Puts the matrices that rows are made of in the place of the rows, where the file has such: all
 * who read the directory's tensors see a plain model. After directory_finish. */
wisp_status neurons_read(struct directory *dir, wisp_error *error);

/* The rows of a layer; NULL where it is stored plain. */
const struct neuron_rows *neurons_find_rows(const struct directory *dir, size_t layer);

#endif
