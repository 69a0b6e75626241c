/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/transposed.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

wisp_status hf_stored_bytes(const struct directory *dir, const struct tensor *stored,
                            struct tensor_cache *cache, const unsigned char **data,
                            wisp_error *error) {
    const void *bytes = cache->bytes;
    if (!dir->sources[stored->source].data && cache->owner != stored) {
        size_t size;
        tensor_cache_release(cache);
        if (!checked_size(stored->bytes, &size) || !(cache->bytes = malloc(size + 1)))
            return fail_memory(error, stored->bytes);
        TRY(directory_rows(dir, stored, 0, stored->rows, NULL, cache->bytes, &bytes, error));
        cache->owner = stored;
    } else if (cache->owner != stored) {
        TRY(directory_rows(dir, stored, 0, stored->rows, NULL, NULL, &bytes, error));
    }
    *data = bytes;
    return WISP_OK;
}

/* The matrix whose columns are a tensor's rows: column first + i * step is row i. */
struct columns {
    struct tensor stored;
    uint64_t first, step;
};

/* Makes rows of a matrix from columns of the stored one. */
static wisp_status make_transposed(const struct directory *dir, const struct tensor *tensor,
                                   uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                   void *buffer, const void **bytes, wisp_error *error) {
    const struct columns *columns = tensor->maker;
    const struct tensor *stored = &columns->stored;
    const size_t element = stored->format->bytes, row_bytes = (size_t)tensor->row_bytes;
    const size_t step = (size_t)columns->step * element;
    const unsigned char *data;
    unsigned char *out = buffer;
    TRY(hf_stored_bytes(dir, stored, cache, &data, error));
    data += columns->first * element + first * step;
    for (uint64_t k = 0; k < stored->rows; k++, data += stored->row_bytes, out += element)
        for (size_t r = 0; r < rows; r++)
            memcpy(out + r * row_bytes, data + r * step, element);
    *bytes = buffer;
    return WISP_OK;
}

wisp_status hf_transpose_columns(struct directory *dir, struct tensor *tensor, uint64_t first,
                                 uint64_t step, wisp_error *error) {
    struct columns *columns;
    ARENA_TAKE(&dir->arena, columns, 1, error);
    *columns = (struct columns){*tensor, first, step};
    tensor->dims[0] = columns->stored.dims[1];
    tensor->dims[1] = columns->stored.dims[0] / step;
    tensor->make = make_transposed;
    tensor->maker = columns;
    return directory_measure_tensor(dir, tensor, error);
}

wisp_status hf_transpose(struct directory *dir, struct tensor *tensor, wisp_error *error) {
    return hf_transpose_columns(dir, tensor, 0, 1, error);
}
