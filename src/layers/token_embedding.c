/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/token_embedding.h"

#include "base/checked.h"
#include "base/memory.h"

wisp_status token_embedding_load(struct token_embedding *e, const struct directory *dir,
                                 size_t vocabulary_size, size_t hidden_size, wisp_error *error) {
    *e = (struct token_embedding){.dir = dir};
    TRY(directory_require_tensor(dir, "token_embd.weight", hidden_size, vocabulary_size, &e->tensor,
                                 error));
    const wisp_source *source = &dir->sources[e->tensor->source];
    if (source->lasting && !source->data)
        return WISP_OK;
    if (!source->data) {
        if (!checked_size(e->tensor->bytes, &e->bytes) || !(e->copy = memory_allocate(e->bytes)))
            return fail_memory(error, e->tensor->bytes);
    }
    return directory_rows(dir, e->tensor, 0, e->tensor->rows, NULL, e->copy, &e->rows, error);
}

void token_embedding_release(struct token_embedding *e) {
    memory_free(e->copy);
    *e = (struct token_embedding){0};
}

wisp_status token_embedding_row(const struct token_embedding *e, int32_t id, void *buffer, float *x,
                                wisp_error *error) {
    const void *row;
    if (e->rows)
        row = (const unsigned char *)e->rows + (size_t)id * (size_t)e->tensor->row_bytes;
    else
        TRY(directory_rows(e->dir, e->tensor, (uint64_t)id, 1, NULL, buffer, &row, error));
    e->tensor->format->dequantise(row, (size_t)e->tensor->dims[0], x);
    return WISP_OK;
}
