/* SPDX-License-Identifier: Apache-2.0
 * Indexes in files. */
#include <string.h>

#include "host/file.h"
#include "host/input_file.h"
#include "index/index.h"
#include "index/index_file.h"

/* Makes room for the mark of the file that the index is the contents of. */
static wisp_status reserve_origin(wisp_index *index, wisp_error *error) {
    if (index->origin)
        return WISP_OK;
    ARENA_TAKE(&index->fixed, index->origin, 1, error);
    *index->origin = (struct file_mark){0};
    return WISP_OK;
}

/* Fails if another program has changed the file since this index was read from it or saved to it:
 * its changes would be lost. */
static wisp_status check_origin(const wisp_index *index, const char *path, wisp_error *error) {
    struct file_mark now;
    if (!file_mark(path, &now) || strcmp(now.path, index->origin->path) != 0 ||
        file_mark_same(&now, index->origin))
        return WISP_OK;
    return fail(error, WISP_ERROR_IO, path, NULL,
                "has been changed by another program since this index was read from it: open it "
                "anew and repeat the changes");
}

wisp_status wisp_index_save(wisp_index *index, const char *path, wisp_error *error) {
    struct file_writer writer;
    const struct byte_sink sink = {file_sink_write, &writer};
    size_t size;
    TRY(require(index, "index", error));
    TRY(require(path, "path", error));
    TRY(reserve_origin(index, error));
    TRY(file_writer_open(&writer, path, error));
    wisp_status status = index_write(index, &sink, &size, error);
    if (status == WISP_OK)
        status = check_origin(index, path, error);
    if (status == WISP_OK)
        TRY(file_writer_commit(&writer, error));
    file_writer_discard(&writer);
    if (status == WISP_OK)
        file_mark(path, index->origin);
    return status;
}

wisp_status wisp_index_open(const char *path, wisp_index **index, wisp_error *error) {
    struct file_mark mark;
    wisp_source source;
    TRY(require(index, "index", error));
    *index = NULL;
    TRY(require(path, "path", error));
    file_mark(path, &mark); /* before it is read: a change in between is noticed when saving */
    TRY(file_source_open(path, &source, error));
    wisp_status status = index_read(&source, index, error);
    source.close(source.context);
    if (status == WISP_OK)
        status = reserve_origin(*index, error);
    if (status == WISP_OK) {
        *(*index)->origin = mark;
    } else {
        wisp_index_close(*index);
        *index = NULL;
    }
    return status;
}
