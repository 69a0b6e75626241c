/* SPDX-License-Identifier: Apache-2.0
 * GGUF, versions 2 and 3, little-endian. Source: the GGUF specification (ggml-org/ggml). */
#ifndef WISP_FORMATS_GGUF_H
#define WISP_FORMATS_GGUF_H

#include "formats/directory.h"

/* Reads header, metadata and the list of tensors of source `index` of `dir`, and finishes the
 * directory. */
wisp_status gguf_read(struct directory *dir, uint32_t index, wisp_error *error);

#endif
