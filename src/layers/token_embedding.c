/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/token_embedding.h"

#include "base/checked.h"
#include "base/checksum.h"
#include "base/memory.h"

enum {
    /* At most this many bytes of rows are in memory at a time while checksums are computed. */
    CHECKED_BYTES = 128 * 1024,
    /* A thread keeps rows of this many bytes. They are two thirds or more of the rows that it needs
     * for English text, with 4-bit rows of 384 values. */
    KEPT_BYTES = 256 * 1024
};

/* Reads all rows once and keeps their checksums. */
static wisp_status sum_rows(struct token_embedding *e, wisp_error *error) {
    const struct tensor *tensor = e->tensor;
    const uint64_t rows = tensor->rows;
    uint64_t bytes;
    if (!checked_multiply(rows, sizeof *e->checksums, &bytes) || !checked_size(bytes, &e->bytes) ||
        !(e->checksums = memory_allocate(e->bytes)))
        return fail_memory(error, rows * sizeof *e->checksums);
    const size_t row_bytes = (size_t)tensor->row_bytes;
    const size_t step = larger(CHECKED_BYTES / row_bytes, 1);
    unsigned char *buffer = memory_allocate(step * row_bytes);
    wisp_status status = buffer ? WISP_OK : fail_memory(error, step * row_bytes);
    for (uint64_t first = 0; first < rows && status == WISP_OK; first += step) {
        const size_t here = rows - first < step ? (size_t)(rows - first) : step;
        const void *read;
        status = directory_rows(e->dir, tensor, first, here, NULL, buffer, &read, error);
        for (size_t i = 0; i < here && status == WISP_OK; i++)
            e->checksums[first + i] = checksum(buffer + i * row_bytes, row_bytes);
    }
    memory_free(buffer);
    return status;
}

wisp_status token_embedding_load(struct token_embedding *e, const struct directory *dir,
                                 size_t vocabulary_size, size_t hidden_size, bool in_memory,
                                 wisp_error *error) {
    *e = (struct token_embedding){.dir = dir};
    TRY(directory_require_tensor(dir, "token_embd.weight", hidden_size, vocabulary_size, &e->tensor,
                                 error));
    const wisp_source *source = &dir->sources[e->tensor->source];
    if (source->data && !in_memory)
        return directory_rows(dir, e->tensor, 0, e->tensor->rows, NULL, NULL, &e->rows, error);
    if (source->lasting && !in_memory)
        return source->may_change ? sum_rows(e, error) : WISP_OK;
    if (!checked_size(e->tensor->bytes, &e->bytes) || !(e->copy = memory_allocate(e->bytes)))
        return fail_memory(error, e->tensor->bytes);
    e->rows = e->copy;
    return source_read(source, e->tensor->name, e->tensor->offset, e->copy, e->bytes, error);
}

void token_embedding_release(struct token_embedding *e) {
    memory_free(e->copy);
    memory_free(e->checksums);
    *e = (struct token_embedding){0};
}

wisp_status token_rows_open(struct token_rows *kept, const struct token_embedding *e,
                            wisp_error *error) {
    *kept = (struct token_rows){0};
    if (!e->checksums)
        return WISP_OK;
    const size_t row_bytes = (size_t)e->tensor->row_bytes;
    kept->slots = larger(KEPT_BYTES / row_bytes, 1);
    kept->bytes = kept->slots * (row_bytes + sizeof *kept->ids);
    kept->ids = memory_allocate(kept->slots * sizeof *kept->ids);
    kept->rows = memory_allocate(kept->slots * row_bytes);
    if (!kept->ids || !kept->rows)
        return fail_memory(error, kept->bytes);
    for (size_t i = 0; i < kept->slots; i++)
        kept->ids[i] = -1;
    return WISP_OK;
}

void token_rows_release(struct token_rows *kept) {
    memory_free(kept->ids);
    memory_free(kept->rows);
    *kept = (struct token_rows){0};
}

/* Reads the stored row of a token into `to`, and compares it with its checksum. */
static wisp_status read_row(const struct token_embedding *e, int32_t id, void *to,
                            wisp_error *error) {
    const struct tensor *tensor = e->tensor;
    const wisp_source *source = &e->dir->sources[tensor->source];
    const size_t row_bytes = (size_t)tensor->row_bytes;
    TRY(source_read(source, tensor->name, tensor->offset + (uint64_t)id * row_bytes, to, row_bytes,
                    error));
    if (e->checksums && checksum(to, row_bytes) != e->checksums[id])
        return fail(error, WISP_ERROR_IO, source->name, tensor->name,
                    "the file changed after it was opened: the embedding of token %d differs",
                    (int)id);
    return WISP_OK;
}

wisp_status token_embedding_row(const struct token_embedding *e, int32_t id,
                                struct token_rows *kept, void *buffer, float *x,
                                wisp_error *error) {
    const size_t row_bytes = (size_t)e->tensor->row_bytes;
    const void *row = buffer;
    if (e->rows) {
        row = (const unsigned char *)e->rows + (size_t)id * row_bytes;
    } else if (kept && kept->slots > 0) {
        const size_t slot = (size_t)id % kept->slots;
        row = kept->rows + slot * row_bytes;
        if (kept->ids[slot] != id) {
            kept->ids[slot] = -1;
            TRY(read_row(e, id, kept->rows + slot * row_bytes, error));
            kept->ids[slot] = id;
        }
    } else {
        TRY(read_row(e, id, buffer, error));
    }
    e->tensor->format->dequantise(row, (size_t)e->tensor->dims[0], x);
    return WISP_OK;
}
