/* SPDX-License-Identifier: Apache-2.0
 * Reads GGUF files of versions 2 and 3, little-endian. Source: the GGUF specification
 * (ggml-org/ggml). */
#ifndef WISP_FORMATS_GGUF_H
#define WISP_FORMATS_GGUF_H

#include "formats/directory.h"

/* The steps that this product (src/products) applies, in order, to a directory that has been read.
 * NULL ends the list. */
extern wisp_status (*const gguf_steps[])(struct directory *dir, wisp_error *error);

/* Reads header, metadata and the list of tensors of source `index` of `dir`, and finishes the
 * directory. Fails with WISP_ERROR_FORMAT if a number exceeds the bytes that remain, a name is
 * malformed, or tensors do not follow one another; with WISP_ERROR_UNSUPPORTED for other versions
 * and types; with WISP_ERROR_IO if the source cannot be read. */
wisp_status gguf_read(struct directory *dir, uint32_t index, wisp_error *error);

/* Both steps of it, for models in several files. The first fails as it does, and adds to what the
 * directory has. */
wisp_status gguf_read_part(struct directory *dir, uint32_t index, wisp_error *error);
wisp_status gguf_finish(struct directory *dir, wisp_error *error);

#endif
