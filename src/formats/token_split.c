/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/token_split.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "formats/schema.h"

static wisp_status make_rows(const struct directory *dir, const struct tensor *tensor,
                             uint64_t first, uint64_t rows, struct tensor_cache *cache,
                             void *buffer, const void **bytes, wisp_error *error) {
    const struct token_split *split = tensor->maker;
    const size_t row_bytes = (size_t)tensor->row_bytes;
    unsigned char *out = buffer;
    for (uint64_t i = 0; i < rows; i++, out += row_bytes) {
        const uint64_t place = split->place[first + i];
        const bool hot = place < split->hot.rows;
        TRY(directory_rows(dir, hot ? &split->hot : &split->cold,
                           hot ? place : place - split->hot.rows, 1, cache, out, bytes, error));
        if (*bytes != out && rows > 1)
            memcpy(out, *bytes, row_bytes);
    }
    *bytes = rows > 1 ? buffer : *bytes;
    return WISP_OK;
}

const struct token_split *token_split_of(const struct tensor *tensor) {
    return tensor->make == make_rows ? tensor->maker : NULL;
}

wisp_status token_split_order(struct directory *dir, uint64_t vocabulary_size,
                              const uint32_t **token, const uint32_t **place, wisp_error *error) {
    const struct metadata *order = directory_find_metadata(dir, KEY_TOKENS_ORDER);
    uint32_t *tokens, *places;
    size_t n;
    if (!order)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, KEY_TOKENS_ORDER,
                    "the key is missing: wisp calibrate counts tokens");
    if (order->type != VALUE_ARRAY || order->count != vocabulary_size ||
        !checked_size(vocabulary_size, &n))
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_TOKENS_ORDER,
                    "expected an array of %llu integers", (unsigned long long)vocabulary_size);
    ARENA_TAKE(&dir->arena, tokens, n, error);
    ARENA_TAKE(&dir->arena, places, n, error);
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        /* Every place is kept with 1 added, so that 0 marks a token that has not come yet. */
        if (!metadata_array_i64(order, i, &id))
            return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_TOKENS_ORDER,
                        "expected an array of integers");
        if (id < 0 || (uint64_t)id >= n || places[id] != 0)
            return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_TOKENS_ORDER,
                        "entry %zu is %lld: not an order of %zu tokens", i, (long long)id, n);
        tokens[i] = (uint32_t)id;
        places[id] = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < n; i++)
        places[i]--;
    *token = tokens;
    *place = places;
    return WISP_OK;
}

static wisp_status check_parts(const struct directory *dir, const struct tensor *hot,
                               const struct tensor *cold, wisp_error *error) {
    if (!hot || !cold)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file,
                    hot ? TENSOR_TOKENS_COLD : TENSOR_TOKENS_HOT, "the tensor is missing");
    if (directory_find_tensor(dir, TENSOR_TOKENS))
        return fail(error, WISP_ERROR_FORMAT, dir->file, TENSOR_TOKENS, "the file also has %s",
                    hot->name);
    if (hot->format != cold->format || hot->dims[0] != cold->dims[0] || hot->rows != hot->dims[1] ||
        cold->rows != cold->dims[1] || hot->source != cold->source)
        return fail(error, WISP_ERROR_FORMAT, dir->file, cold->name,
                    "its type or the length of its rows is not that of %s", hot->name);
    if (hot->rows > UINT32_MAX || cold->rows > UINT32_MAX - hot->rows)
        return fail(error, WISP_ERROR_FORMAT, dir->file, hot->name, "more than 2^32 - 1 tokens");
    return WISP_OK;
}

wisp_status token_split_read(struct directory *dir, wisp_error *error) {
    const struct tensor *hot = directory_find_tensor(dir, TENSOR_TOKENS_HOT);
    const struct tensor *cold = directory_find_tensor(dir, TENSOR_TOKENS_COLD);
    if (!hot && !cold)
        return WISP_OK;
    TRY(check_parts(dir, hot, cold, error));
    struct token_split *split;
    ARENA_TAKE(&dir->arena, split, 1, error);
    *split = (struct token_split){.hot = *hot, .cold = *cold};
    TRY(token_split_order(dir, hot->rows + cold->rows, &split->token, &split->place, error));
    TRY(directory_keep_stored(dir, error));
    struct tensor *plain = &dir->tensors[hot - dir->tensors],
                  *last = &dir->tensors[cold - dir->tensors];
    *plain = (struct tensor){.name = TENSOR_TOKENS,
                             .format = split->hot.format,
                             .n_dims = 2,
                             .dims = {split->hot.dims[0], split->hot.rows + split->cold.rows},
                             .source = split->hot.source,
                             .make = make_rows,
                             .maker = split};
    TRY(directory_measure_tensor(dir, plain, error));
    memmove(last, last + 1, (size_t)(dir->tensors + dir->n_tensors - last - 1) * sizeof *last);
    dir->n_tensors--;
    return directory_finish(dir, error);
}
