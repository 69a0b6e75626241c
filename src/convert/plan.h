/* SPDX-License-Identifier: Apache-2.0
 * Decisions shared by converting and quantising: which tensors are weights, and
 * the keys that name a file's type. */
#ifndef WISP_CONVERT_PLAN_H
#define WISP_CONVERT_PLAN_H

#include "formats/directory.h"

/* Tells whether a tensor has the taps of short convolutions. */
bool is_convolution(const struct tensor *tensor);

/* Tells whether a tensor is a matrix of weights or the token embedding, which may be quantised.
 * Norms, biases, positions, token types, convolutions and routers, which are small, stay
 * floats. */
bool is_weight_matrix(const struct tensor *tensor);

/* Fails if wisp cannot expand the elements of a tensor to floats. */
wisp_status require_expandable(const struct tensor *tensor, wisp_error *error);

/* Returns the entry with this key, or NULL. */
struct metadata *find_metadata_entry(struct directory *dir, const char *key);

/* Sets general.file_type and general.quantization_version to those of a file whose matrices have
 * this format, as llama.cpp numbers them. */
wisp_status put_file_type(struct directory *dir, const struct block_format *format,
                          wisp_error *error);

#endif
