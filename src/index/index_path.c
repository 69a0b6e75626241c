/* SPDX-License-Identifier: Apache-2.0
 * Indexes in files. */
#include "host/file.h"
#include "host/input_file.h"
#include "index/index_file.h"

wisp_status wisp_index_save(wisp_index *index, const char *path, wisp_error *error) {
    struct file_writer writer;
    const struct byte_sink sink = {file_sink_write, &writer};
    size_t size;
    TRY(require(index, "index", error));
    TRY(require(path, "path", error));
    TRY(file_writer_open(&writer, path, error));
    const wisp_status status = index_write(index, &sink, &size, error);
    if (status == WISP_OK)
        return file_writer_commit(&writer, error);
    file_writer_discard(&writer);
    return status;
}

wisp_status wisp_index_open(const char *path, wisp_index **index, wisp_error *error) {
    wisp_source source;
    TRY(require(index, "index", error));
    *index = NULL;
    TRY(require(path, "path", error));
    TRY(file_source_open(path, &source, error));
    const wisp_status status = index_read(&source, index, error);
    source.close(source.context);
    return status;
}
