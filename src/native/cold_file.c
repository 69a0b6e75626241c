/* SPDX-License-Identifier: Apache-2.0
 * Brings cold neurons from the file of a model. Native only. */
#include <stdlib.h>

#include "engine/session.h"
#include "formats/neurons_read.h"
#include "host/input_file.h"

/* Two ranges are read as one if at most this many bytes are between: reading them takes less
 * time than one more call of the system. */
enum { GAP_BYTES = 4096 };

/* A buffer for one range, which only grows. */
struct buffer {
    unsigned char *bytes;
    size_t capacity;
};

static wisp_status read_range(wisp_session *session, wisp_range range, struct buffer *buffer,
                              wisp_error *error) {
    const wisp_source *source = &session->model->dir.sources[0];
    const size_t length = (size_t)range.length; /* at most some megabytes (provide.c) */
    if (length > buffer->capacity) {
        free(buffer->bytes);
        *buffer = (struct buffer){.bytes = malloc(length)};
        if (!buffer->bytes)
            return fail_memory(error, length);
        buffer->capacity = length;
    }
    const wisp_status status =
        source_read(source, TENSOR_NEURONS_COLD, range.offset, buffer->bytes, length, error);
    /* The check follows the read: bytes that were read before the file was written to are valid. It
     * also tells more than the error of the read. */
    TRY(file_source_check(source, range.offset, range.offset + range.length, error));
    TRY(status);
    return wisp_session_provide(session, range.offset, buffer->bytes, length, error);
}

wisp_status wisp_embed_from_file(wisp_session *session, const wisp_text *texts, size_t n,
                                 const wisp_embed_options *options, float *rows,
                                 wisp_error *error) {
    struct buffer buffer = {0};
    TRY(require(session, "session", error));
    const struct directory *dir = &session->model->dir;
    if (dir->residency.lacks_rows && (dir->n_sources == 0 || !file_source_is(&dir->sources[0])))
        return fail(error, WISP_ERROR_ARGUMENT, dir->file, "session",
                    "the model holds no file: it was opened from a source, or with in_memory");
    wisp_status status = wisp_embed(session, texts, n, options, rows, error);
    while (status == WISP_NEED_RANGES) {
        const wisp_range *ranges;
        size_t count;
        status = wisp_session_needs(session, GAP_BYTES, &ranges, &count, error);
        for (size_t i = 0; i < count && status == WISP_OK; i++)
            status = read_range(session, ranges[i], &buffer, error);
        if (status == WISP_OK)
            status = wisp_embed_continue(session, error);
        else
            wisp_embed_give_up(session);
    }
    free(buffer.bytes);
    return status;
}
