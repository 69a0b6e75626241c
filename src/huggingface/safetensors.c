/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/json.h"

#define MAX_HEADER_BYTES (100u * 1000 * 1000)

struct reader {
    struct directory *dir;
    const char *file;
    uint32_t source;
    uint64_t data_start;
    uint64_t data_bytes;
    size_t first_tensor; /* of this file, in dir->tensors */
    wisp_error *error;
};

static wisp_status malformed(const struct reader *r, const char *field, const char *what) {
    return fail(r->error, WISP_ERROR_FORMAT, r->file, field, "%s", what);
}

static const struct block_format *format_of_dtype(const struct json *dtype) {
    static const struct {
        const char *dtype, *format;
    } known[] = {
        {"F32", "F32"}, {"F16", "F16"}, {"BF16", "BF16"}, {"F64", "F64"}, {"I64", "I64"},
        {"I32", "I32"}, {"I16", "I16"}, {"I8", "I8"},     {"U8", "I8"}}; /* bytes, of which packed
                                                                            weights consist */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (json_equals(dtype, known[i].dtype))
            return block_format_by_name(known[i].format);
    return NULL;
}

/* Reads a shape, which lists the slowest dimension first, if the directory has the fastest
 * first. A scalar becomes a row of one value. */
static wisp_status read_shape(const struct reader *r, const struct json *shape,
                              struct tensor *tensor) {
    if (!json_is(shape, JSON_ARRAY))
        return malformed(r, tensor->name, "its shape is not an array");
    if (shape->count > TENSOR_MAX_DIMS)
        return malformed(r, tensor->name, "more than 4 dimensions");
    tensor->n_dims = shape->count ? shape->count : 1;
    tensor->dims[0] = 1;
    uint32_t at = shape->count;
    for (const struct json *size = shape->first; size; size = size->next)
        if (!json_to_u64(size, &tensor->dims[--at]))
            return malformed(r, tensor->name, "a dimension is not a whole number");
    return WISP_OK;
}

static wisp_status read_offsets(const struct reader *r, const struct json *offsets,
                                struct tensor *tensor) {
    uint64_t begin, end;
    if (!json_is(offsets, JSON_ARRAY) || offsets->count != 2 ||
        !json_to_u64(offsets->first, &begin) || !json_to_u64(offsets->first->next, &end))
        return malformed(r, tensor->name, "data_offsets are not two whole numbers");
    if (begin > end || end > r->data_bytes)
        return malformed(r, tensor->name, "data_offsets are not within the file");
    tensor->offset = r->data_start + begin;
    TRY(directory_check_tensor(r->dir, tensor, r->error));
    if (tensor->bytes != end - begin)
        return fail(r->error, WISP_ERROR_FORMAT, r->file, tensor->name,
                    "data_offsets span %llu bytes, but its shape and dtype need %llu",
                    (unsigned long long)(end - begin), (unsigned long long)tensor->bytes);
    return WISP_OK;
}

static wisp_status read_tensor(const struct reader *r, const struct json *entry) {
    struct tensor *tensor;
    TRY(directory_add_tensor(r->dir, &tensor, r->error));
    tensor->name = entry->key;
    tensor->source = r->source;
    if (strlen(entry->key) != entry->key_length || entry->key_length == 0)
        return malformed(r, entry->key, "a tensor name that is empty or holds a NUL");
    const struct json *dtype = json_get(entry, "dtype");
    tensor->format = format_of_dtype(dtype);
    if (!tensor->format)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file, entry->key,
                    "dtype %.16s is not supported",
                    json_is(dtype, JSON_STRING) ? dtype->text : "(none)");
    TRY(read_shape(r, json_get(entry, "shape"), tensor));
    return read_offsets(r, json_get(entry, "data_offsets"), tensor);
}

static int compare_offsets(const void *a, const void *b) {
    const struct tensor *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Checks that no tensors overlap and that no bytes are left over, so that a file holds only what
 * its header says. */
static wisp_status check_coverage(const struct reader *r) {
    struct tensor *tensors = r->dir->tensors + r->first_tensor;
    const size_t n = r->dir->n_tensors - r->first_tensor;
    uint64_t at = r->data_start;
    if (n > 0)
        qsort(tensors, n, sizeof *tensors, compare_offsets);
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].offset != at)
            return malformed(r, tensors[i].name,
                             tensors[i].offset < at ? "its bytes overlap another tensor's"
                                                    : "there is a hole before its bytes");
        at += tensors[i].bytes;
    }
    if (at != r->data_start + r->data_bytes)
        return malformed(r, NULL, "bytes after the last tensor");
    return WISP_OK;
}

wisp_status safetensors_read(struct directory *dir, uint32_t index, wisp_error *error) {
    const wisp_source *source = &dir->sources[index];
    struct reader r = {.dir = dir,
                       .file = source->name,
                       .source = index,
                       .first_tensor = dir->n_tensors,
                       .error = error};
    if (source->size < 8)
        return malformed(&r, "header length", "the file ends before it");
    unsigned char start[8];
    TRY(source_read(source, NULL, 0, start, sizeof start, error));
    const uint64_t header = load_u64(start);
    if (header < 2 || header > MAX_HEADER_BYTES || header > source->size - 8)
        return fail(error, WISP_ERROR_FORMAT, source->name, "header length",
                    "%llu is less than 2, more than %u or past the end of the file",
                    (unsigned long long)header, MAX_HEADER_BYTES);
    const struct json *root = NULL;
    char *text = malloc((size_t)header);
    if (!text)
        return fail_memory(error, header);
    wisp_status status = source_read(source, NULL, sizeof start, text, (size_t)header, error);
    if (status == WISP_OK)
        status = json_parse(&dir->arena, text, (size_t)header, source->name, &root, error);
    free(text);
    TRY(status);
    if (!json_is(root, JSON_OBJECT))
        return malformed(&r, "header", "not a JSON object");
    r.data_start = 8 + header;
    r.data_bytes = source->size - r.data_start;
    for (const struct json *entry = root->first; entry; entry = entry->next)
        if (strcmp(entry->key, "__metadata__") != 0)
            TRY(read_tensor(&r, entry));
    return check_coverage(&r);
}
