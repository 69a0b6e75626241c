/* SPDX-License-Identifier: Apache-2.0
 * Saves the state of a session to a file and loads it. Native only. */
#include "engine/state.h"
#include "host/file.h"
#include "host/input_file.h"

wisp_status wisp_session_save(wisp_session *session, const char *path, wisp_error *error) {
    struct file_writer writer;
    const struct byte_sink sink = {file_sink_write, &writer};
    TRY(require(session, "session", error));
    TRY(require(path, "path", error));
    TRY(file_writer_open(&writer, path, error));
    const wisp_status status = state_write(session, &sink, error);
    if (status == WISP_OK)
        return file_writer_commit(&writer, error);
    file_writer_discard(&writer);
    return status;
}

wisp_status wisp_session_load(wisp_session *session, const char *path, wisp_error *error) {
    wisp_source source;
    TRY(require(session, "session", error));
    TRY(require(path, "path", error));
    TRY(file_source_open(path, &source, error));
    const wisp_status status = state_read(session, &source, error);
    source.close(source.context);
    return status;
}
