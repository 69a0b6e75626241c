/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_CONVERT_GGUF_WRITE_H
#define WISP_CONVERT_GGUF_WRITE_H

#include "formats/directory.h"
#include "host/file.h"

struct gguf_plan {
    /* Which format tensor i is written in: its own, or, if that can be read, one that can be
     * written and whose block divides the row. */
    const struct block_format **formats;
    /* Called after each tensor; false cancels. May be NULL. */
    bool (*progress)(void *context, size_t done, size_t total);
    void *progress_context;
};

/* Writes the directory's metadata as it stands and its tensors, in their order, as GGUF version 3.
 */
wisp_status gguf_write(struct file_writer *file, const struct directory *dir,
                       const struct gguf_plan *plan, wisp_error *error);

#endif
