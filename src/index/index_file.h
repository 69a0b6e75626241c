/* SPDX-License-Identifier: Apache-2.0
 * The file of an index; docs/formats.md describes it. */
#ifndef WISP_INDEX_INDEX_FILE_H
#define WISP_INDEX_INDEX_FILE_H

#include "base/byte_sink.h"
#include "index/index.h"

/* Makes an index of all bytes of a source. Fails with WISP_ERROR_FORMAT if they are not an index or
 * are damaged, with WISP_ERROR_UNSUPPORTED for another version of the format, and with
 * WISP_ERROR_IO or WISP_ERROR_MEMORY. */
wisp_status index_read(const wisp_source *source, wisp_index **index, wisp_error *error);

/* Sets *size to the bytes of the file, and writes them unless `sink` is NULL. */
wisp_status index_write(wisp_index *index, const struct byte_sink *sink, size_t *size,
                        wisp_error *error);

#endif
