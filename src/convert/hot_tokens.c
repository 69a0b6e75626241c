/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/hot_tokens.h"

#include <string.h>

#include "formats/schema.h"
#include "formats/token_split.h"

/* The plain tensor, and the tokens in the order of their rows. */
struct ordered {
    struct tensor plain;
    const uint32_t *token;
};

/* The `make` of a part of the ordered embedding (struct tensor): row i is that of the token at
 * place tensor->part + i. */
static wisp_status make_ordered(const struct directory *dir, const struct tensor *tensor,
                                uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                void *buffer, const void **bytes, wisp_error *error) {
    const struct ordered *ordered = tensor->maker;
    unsigned char *out = buffer;
    for (uint64_t i = 0; i < rows; i++, out += tensor->row_bytes) {
        const uint32_t token = ordered->token[tensor->part + first + i];
        TRY(directory_rows(dir, &ordered->plain, token, 1, cache, out, bytes, error));
        if (*bytes != out)
            memcpy(out, *bytes, (size_t)tensor->row_bytes);
    }
    *bytes = buffer;
    return WISP_OK;
}

uint64_t hot_tokens_of(const struct directory *dir) {
    const struct tensor *plain = directory_find_tensor(dir, TENSOR_TOKENS);
    const struct token_split *split = plain ? token_split_of(plain) : NULL;
    return split ? split->hot.rows : 0;
}

wisp_status hot_tokens_arrange(struct directory *dir, const struct block_format **formats,
                               uint64_t hot, wisp_error *error) {
    const struct tensor *found = directory_find_tensor(dir, TENSOR_TOKENS);
    struct ordered *ordered;
    const uint32_t *place;
    if (hot == 0)
        return WISP_OK;
    if (!found)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, TENSOR_TOKENS, "the tensor is missing");
    const size_t i = (size_t)(found - dir->tensors);
    ARENA_TAKE(&dir->arena, ordered, 1, error);
    ordered->plain = *found;
    TRY(token_split_order(dir, found->rows, &ordered->token, &place, error));
    if (hot >= found->rows)
        return WISP_OK;
    struct tensor part = ordered->plain, *cold;
    part.make = make_ordered;
    part.maker = ordered;
    part.n_dims = 2;
    TRY(directory_add_tensor(dir, &cold, error));
    *cold = part;
    cold->name = TENSOR_TOKENS_COLD;
    cold->dims[1] = part.rows - hot;
    cold->part = hot;
    TRY(directory_measure_tensor(dir, cold, error));
    formats[dir->n_tensors - 1] = formats[i];
    dir->tensors[i] = part;
    dir->tensors[i].name = TENSOR_TOKENS_HOT;
    dir->tensors[i].dims[1] = hot;
    dir->tensors[i].part = 0;
    TRY(directory_measure_tensor(dir, &dir->tensors[i], error));
    return directory_finish(dir, error);
}
