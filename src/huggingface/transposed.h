/* SPDX-License-Identifier: Apache-2.0
 * Matrices that a file stores as [inputs, outputs], which wisp has the other way round. */
#ifndef WISP_HUGGINGFACE_TRANSPOSED_H
#define WISP_HUGGINGFACE_TRANSPOSED_H

#include "formats/directory.h"

/* Turns a matrix [inputs, outputs] of plain elements into one [outputs, inputs], whose rows are
 * made of the stored one's columns when they are read. */
wisp_status hf_transpose(struct directory *dir, struct tensor *tensor, wisp_error *error);

/* Does so for the outputs first, first + step and so on, where first is less than step and step
 * divides their number. */
wisp_status hf_transpose_columns(struct directory *dir, struct tensor *tensor, uint64_t first,
                                 uint64_t step, wisp_error *error);

/* Points *data to all bytes of a stored matrix, which the cache keeps if the source is not in
 * memory. */
wisp_status hf_stored_bytes(const struct directory *dir, const struct tensor *stored,
                            struct tensor_cache *cache, const unsigned char **data,
                            wisp_error *error);

#endif
