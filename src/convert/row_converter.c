/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/row_converter.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"

wisp_status row_converter_open(struct row_converter *c, const struct directory *dir,
                               const struct tensor *tensor, const struct block_format *format,
                               bool as_reference, uint64_t rows, struct tensor_cache *cache,
                               wisp_error *error) {
    const bool convert = format != tensor->format;
    size_t bytes;
    *c = (struct row_converter){.dir = dir,
                                .tensor = tensor,
                                .format = format,
                                .cache = cache,
                                .as_reference = convert && as_reference};
    if (!checked_floats(rows, tensor->dims[0], &bytes))
        return fail_memory(error, UINT64_MAX);
    c->stored = malloc((size_t)(rows * tensor->row_bytes));
    /* No format takes more room than floats, except for one more block if the last is not
     * full. */
    c->converted = convert ? malloc(bytes + format->bytes) : NULL;
    c->values = convert ? malloc(bytes) : NULL;
    c->back = c->as_reference ? malloc(bytes) : NULL;
    if (!c->stored || (convert && (!c->converted || !c->values)) || (c->as_reference && !c->back))
        return fail_memory(error, bytes);
    return WISP_OK;
}

/* Returns the magnitude that values of a format must be below. f16 would turn values beyond its
 * range into infinity, and the file would not open. Blocks whose scale is a half are limited to
 * what Q8_0 can hold: some hold more, but the reference quantisers multiply up to seven values, and
 * the products of larger ones would decide wrongly without a sign. */
static float limit_of(const struct block_format *format, bool as_reference) {
    if (format->id == BLOCK_F16)
        return 65520;
    const bool any = format->id == BLOCK_MXFP4 || format->id == BLOCK_T158;
    return as_reference && format->elements > 1 && !any ? 127 * 65520.0f : INFINITY;
}

static bool fits(const float *values, size_t n, float limit) {
    float largest = 0;
    for (size_t i = 0; i < n && limit < INFINITY; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    return largest < limit;
}

static wisp_status fail_too_large(const struct row_converter *c, uint64_t first, uint64_t rows,
                                  wisp_error *error) {
    return fail(error, WISP_ERROR_UNSUPPORTED, c->dir->sources[c->tensor->source].name,
                c->tensor->name, "rows %llu to %llu hold a value that is too large for %s",
                (unsigned long long)first, (unsigned long long)(first + rows - 1), c->format->name);
}

static void add_loss(struct conversion_loss *loss, const float *values, const float *back,
                     size_t n) {
    loss->values += n;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)values[i], y = (double)back[i];
        loss->squares += x * x;
        loss->squares_back += y * y;
        loss->products += x * y;
        loss->differences += (x - y) * (x - y);
    }
}

wisp_status row_converter_read(struct row_converter *c, uint64_t first, uint64_t rows,
                               const void **bytes, wisp_error *error) {
    const struct tensor *tensor = c->tensor;
    const size_t n = (size_t)(rows * tensor->dims[0]);
    if (!c->values)
        return directory_rows(c->dir, tensor, first, rows, c->cache, c->stored, bytes, error);
    TRY(directory_floats(c->dir, tensor, first, rows, c->cache, c->stored, c->values, error));
    *bytes = c->converted;
    if (!fits(c->values, n, limit_of(c->format, c->as_reference)))
        return fail_too_large(c, first, rows, error);
    if (!c->as_reference) {
        c->format->quantise(c->values, n, c->converted);
        return WISP_OK;
    }
    if (c->format->id == BLOCK_T158)
        t158_quantise(c->ternary ? c->ternary : &t158_defaults, c->values, n, c->converted,
                      &c->loss.ternary);
    else
        c->format->quantise_as_reference(c->values, n, c->converted);
    c->format->dequantise(c->converted, n, c->back);
    if (!all_finite(c->back, n))
        return fail_too_large(c, first, rows, error);
    add_loss(&c->loss, c->values, c->back, n);
    return WISP_OK;
}

void row_converter_close(struct row_converter *c) {
    free(c->stored);
    free(c->converted);
    free(c->values);
    free(c->back);
    *c = (struct row_converter){0};
}
