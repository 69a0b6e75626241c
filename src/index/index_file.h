/* SPDX-License-Identifier: Apache-2.0
 * The file of an index; docs/formats.md describes it. */
#ifndef WISP_INDEX_INDEX_FILE_H
#define WISP_INDEX_INDEX_FILE_H

#include "index/index.h"

/* Receives bytes one part after the other. */
struct index_sink {
    wisp_status (*write)(void *context, const void *bytes, size_t length, wisp_error *error);
    void *context;
};

/* Makes an index of all bytes of a source. */
wisp_status index_read(const wisp_source *source, wisp_index **index, wisp_error *error);

/* Sets *size to the bytes of the file, and writes them unless `sink` is NULL. */
wisp_status index_write(wisp_index *index, const struct index_sink *sink, size_t *size,
                        wisp_error *error);

#endif
