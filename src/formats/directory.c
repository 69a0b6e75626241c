/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/directory.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "formats/schema.h"
#include "kernels/weights.h"
#include "quant/t158.h"

void directory_close_sources(struct directory *dir) {
    for (uint32_t i = 0; i < dir->n_sources; i++)
        if (dir->sources[i].close)
            dir->sources[i].close(dir->sources[i].context);
    dir->n_sources = 0;
}

void directory_release(struct directory *dir) {
    directory_close_sources(dir);
    free(dir->tensors);
    free(dir->stored);
    free(dir->metadata);
    free((void *)dir->tensors_by_name);
    free((void *)dir->metadata_by_key);
    arena_release(&dir->arena);
    arena_release(&dir->vocabulary);
    *dir = (struct directory){0};
}

void directory_drop_vocabulary(struct directory *dir) {
    for (size_t i = 0; i < dir->n_metadata; i++)
        if (strcmp(dir->metadata[i].key, KEY_GGML_TOKENS) == 0)
            dir->metadata[i].count = 0;
    arena_release(&dir->vocabulary);
}

wisp_status directory_add_source(struct directory *dir, const wisp_source *source, uint32_t *index,
                                 wisp_error *error) {
    if (dir->n_sources == DIRECTORY_MAX_SOURCES) {
        if (source->close)
            source->close(source->context);
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, NULL, "more than %d files",
                    DIRECTORY_MAX_SOURCES);
    }
    *index = dir->n_sources;
    dir->sources[dir->n_sources++] = *source;
    return WISP_OK;
}

/* Makes room for one more element in a growing array. */
static wisp_status grow(void **array, size_t count, size_t *capacity, size_t element,
                        wisp_error *error) {
    if (count < *capacity)
        return WISP_OK;
    const size_t wanted = *capacity ? *capacity * 2 : 64;
    if (wanted > SIZE_MAX / element)
        return fail_memory(error, UINT64_MAX);
    void *moved = realloc(*array, wanted * element);
    if (!moved)
        return fail_memory(error, wanted * element);
    *array = moved;
    *capacity = wanted;
    return WISP_OK;
}

wisp_status directory_add_tensor(struct directory *dir, struct tensor **added, wisp_error *error) {
    void *array = dir->tensors;
    TRY(grow(&array, dir->n_tensors, &dir->tensor_capacity, sizeof **added, error));
    dir->tensors = array;
    *added = &dir->tensors[dir->n_tensors++];
    **added = (struct tensor){0};
    return WISP_OK;
}

wisp_status directory_add_metadata(struct directory *dir, struct metadata **added,
                                   wisp_error *error) {
    void *array = dir->metadata;
    TRY(grow(&array, dir->n_metadata, &dir->metadata_capacity, sizeof **added, error));
    dir->metadata = array;
    *added = &dir->metadata[dir->n_metadata++];
    **added = (struct metadata){0};
    return WISP_OK;
}

wisp_status directory_keep_stored(struct directory *dir, wisp_error *error) {
    const size_t bytes = dir->n_tensors * sizeof *dir->stored;
    if (dir->stored)
        return WISP_OK;
    dir->stored = malloc(bytes);
    if (!dir->stored)
        return fail_memory(error, bytes);
    memcpy(dir->stored, dir->tensors, bytes);
    dir->n_stored = dir->n_tensors;
    return WISP_OK;
}

void directory_drop_metadata(struct directory *dir, const char *prefix) {
    size_t kept = 0;
    for (size_t i = 0; i < dir->n_metadata; i++)
        if (strncmp(dir->metadata[i].key, prefix, strlen(prefix)) != 0)
            dir->metadata[kept++] = dir->metadata[i];
    dir->n_metadata = kept;
}

wisp_status directory_measure_tensor(const struct directory *dir, struct tensor *tensor,
                                     wisp_error *error) {
    const char *file = dir->sources[tensor->source].name;
    if (tensor->n_dims == 0 || tensor->n_dims > TENSOR_MAX_DIMS)
        return fail(error, WISP_ERROR_FORMAT, file, tensor->name,
                    "%u dimensions; 1 to %d are possible", tensor->n_dims, TENSOR_MAX_DIMS);
    tensor->rows = 1;
    for (uint32_t i = 0; i < TENSOR_MAX_DIMS; i++) {
        if (i >= tensor->n_dims)
            tensor->dims[i] = 1;
        if (tensor->dims[i] == 0 || tensor->dims[i] > INT64_MAX)
            return fail(error, WISP_ERROR_FORMAT, file, tensor->name, "dimension %u is %lld", i,
                        (long long)tensor->dims[i]);
        if (i > 0 && !checked_multiply(tensor->rows, tensor->dims[i], &tensor->rows))
            return fail(error, WISP_ERROR_FORMAT, file, tensor->name,
                        "the number of elements overflows");
    }
    /* bitnet_make_rows replaces such a tensor. */
    if (block_rows_depend(tensor->format, tensor->dims[0])) {
        tensor->row_bytes = 0;
        if (block_tensor_bytes(tensor->format, tensor->dims[0], tensor->rows, &tensor->bytes))
            return WISP_OK;
        return fail(error, WISP_ERROR_FORMAT, file, tensor->name, "the size in bytes overflows");
    }
    if (tensor->dims[0] % tensor->format->elements != 0)
        return fail(error, WISP_ERROR_FORMAT, file, tensor->name,
                    "a row of %llu elements is not a multiple of the %s block of %u",
                    (unsigned long long)tensor->dims[0], tensor->format->name,
                    tensor->format->elements);
    if (!block_row_bytes(tensor->format, tensor->dims[0], &tensor->row_bytes) ||
        !checked_multiply(tensor->rows, tensor->row_bytes, &tensor->bytes))
        return fail(error, WISP_ERROR_FORMAT, file, tensor->name, "the size in bytes overflows");
    return WISP_OK;
}

wisp_status directory_check_tensor(const struct directory *dir, struct tensor *tensor,
                                   wisp_error *error) {
    const char *file = dir->sources[tensor->source].name;
    uint64_t end;
    TRY(directory_measure_tensor(dir, tensor, error));
    if (!checked_add(tensor->offset, tensor->bytes, &end))
        return fail(error, WISP_ERROR_FORMAT, file, tensor->name, "the size in bytes overflows");
    if (end > dir->sources[tensor->source].size)
        return fail(error, WISP_ERROR_FORMAT, file, tensor->name,
                    "its data ends at byte %llu, past the end of the file at %llu",
                    (unsigned long long)end, (unsigned long long)dir->sources[tensor->source].size);
    return WISP_OK;
}

static int compare_tensors(const void *a, const void *b) {
    return strcmp((*(const struct tensor *const *)a)->name,
                  (*(const struct tensor *const *)b)->name);
}

static int compare_metadata(const void *a, const void *b) {
    return strcmp((*(const struct metadata *const *)a)->key,
                  (*(const struct metadata *const *)b)->key);
}

static wisp_status sort_tensors(struct directory *dir, wisp_error *error) {
    const size_t n = dir->n_tensors, bytes = (n + 1) * sizeof(struct tensor *);
    const struct tensor **sorted = malloc(bytes);
    if (!sorted)
        return fail_memory(error, bytes);
    free((void *)dir->tensors_by_name);
    dir->tensors_by_name = sorted;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &dir->tensors[i];
    qsort((void *)sorted, n, sizeof *sorted, compare_tensors);
    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return fail(error, WISP_ERROR_FORMAT, dir->file, sorted[i]->name,
                        "two tensors have this name");
    return WISP_OK;
}

static wisp_status sort_metadata(struct directory *dir, wisp_error *error) {
    const size_t n = dir->n_metadata, bytes = (n + 1) * sizeof(struct metadata *);
    const struct metadata **sorted = malloc(bytes);
    if (!sorted)
        return fail_memory(error, bytes);
    free((void *)dir->metadata_by_key);
    dir->metadata_by_key = sorted;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &dir->metadata[i];
    qsort((void *)sorted, n, sizeof *sorted, compare_metadata);
    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0)
            return fail(error, WISP_ERROR_FORMAT, dir->file, sorted[i]->key,
                        "the key appears twice in the metadata");
    return WISP_OK;
}

wisp_status directory_finish(struct directory *dir, wisp_error *error) {
    TRY(sort_tensors(dir, error));
    return sort_metadata(dir, error);
}

const struct tensor *directory_find_tensor(const struct directory *dir, const char *name) {
    const struct tensor wanted = {.name = name}, *key = &wanted;
    const struct tensor *const *found = bsearch(&key, (const void *)dir->tensors_by_name,
                                                dir->n_tensors, sizeof key, compare_tensors);
    return found ? *found : NULL;
}

const struct metadata *directory_find_metadata(const struct directory *dir, const char *key) {
    const struct metadata wanted = {.key = key}, *pointer = &wanted;
    const struct metadata *const *found =
        bsearch(&pointer, (const void *)dir->metadata_by_key, dir->n_metadata, sizeof pointer,
                compare_metadata);
    return found ? *found : NULL;
}

wisp_status directory_require_matrices(const struct directory *dir, const char *name, uint64_t dim0,
                                       uint64_t dim1, uint64_t count, const struct tensor **found,
                                       wisp_error *error) {
    const struct tensor *tensor = directory_find_tensor(dir, name);
    if (!tensor)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, name, "the tensor is missing");
    const bool fits =
        tensor->dims[0] == dim0 && tensor->dims[1] == dim1 && tensor->rows == dim1 * count;
    if (!fits && count > 1)
        return fail(error, WISP_ERROR_FORMAT, dir->file, name,
                    "its shape is [%llu, %llu, %llu]; expected [%llu, %llu, %llu]",
                    (unsigned long long)tensor->dims[2], (unsigned long long)tensor->dims[1],
                    (unsigned long long)tensor->dims[0], (unsigned long long)count,
                    (unsigned long long)dim1, (unsigned long long)dim0);
    if (!fits)
        return fail(error, WISP_ERROR_FORMAT, dir->file, name,
                    "its shape is [%llu, %llu]; expected [%llu, %llu]",
                    (unsigned long long)tensor->rows, (unsigned long long)tensor->dims[0],
                    (unsigned long long)dim1, (unsigned long long)dim0);
    if (!tensor->format->dequantise)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, name,
                    "tensors of type %s are not supported", tensor->format->name);
    *found = tensor;
    return WISP_OK;
}

wisp_status directory_require_tensor(const struct directory *dir, const char *name, uint64_t dim0,
                                     uint64_t dim1, const struct tensor **found,
                                     wisp_error *error) {
    return directory_require_matrices(dir, name, dim0, dim1, 1, found, error);
}

wisp_status source_read(const wisp_source *source, const char *field, uint64_t offset, void *buffer,
                        size_t length, wisp_error *error) {
    if (source->data) {
        memcpy(buffer, (const unsigned char *)source->data + offset, length);
        return WISP_OK;
    }
    const int failed = source->read(source->context, offset, buffer, length);
    if (failed == WISP_SOURCE_CHANGED)
        return fail(error, WISP_ERROR_IO, source->name, field,
                    "the file changed after it was opened");
    return failed ? fail(error, WISP_ERROR_IO, source->name, field,
                         "reading %zu bytes at %llu failed", length, (unsigned long long)offset)
                  : WISP_OK;
}

wisp_status directory_rows(const struct directory *dir, const struct tensor *tensor, uint64_t first,
                           uint64_t rows, struct tensor_cache *cache, void *buffer,
                           const void **bytes, wisp_error *error) {
    const wisp_source *source = &dir->sources[tensor->source];
    const uint64_t offset = tensor->offset + first * tensor->row_bytes;
    if (tensor->make) {
        struct tensor_cache own = {0};
        const wisp_status status =
            tensor->make(dir, tensor, first, rows, cache ? cache : &own, buffer, bytes, error);
        tensor_cache_release(&own);
        return status;
    }
    if (source->data) {
        *bytes = (const unsigned char *)source->data + offset;
        return WISP_OK;
    }
    *bytes = buffer;
    return source_read(source, tensor->name, offset, buffer, (size_t)(rows * tensor->row_bytes),
                       error);
}

bool all_finite(const float *values, size_t n) {
    return largest_magnitude(values, n) <= FLT_MAX;
}

/* Checks one value of each block of Q8_0. A block's values are its scale, a 16-bit float, times
 * integers below 2^8, so all of them are finite or none is. */
static bool finite_scales(const float *values, size_t n) {
    bool finite = true;
    for (size_t i = 0; i < n; i += 32)
        finite &= fabsf(values[i]) <= FLT_MAX;
    return finite;
}

wisp_status directory_expand(const struct directory *dir, const struct tensor *tensor,
                             uint64_t first, uint64_t rows, const void *bytes, float *values,
                             wisp_error *error) {
    const size_t n = (size_t)(rows * tensor->dims[0]);
    tensor->format->dequantise(bytes, n, values);
    if (tensor->format->id == BLOCK_Q8_0 ? finite_scales(values, n) : all_finite(values, n))
        return WISP_OK;
    size_t i = 0;
    while (all_finite(values + i, 1))
        i++;
    const char *problem = "is not finite";
    if (tensor->format->id == BLOCK_T158)
        problem = t158_problem(bytes, i);
    return fail(error, WISP_ERROR_FORMAT, dir->sources[tensor->source].name, tensor->name,
                "element %llu %s", (unsigned long long)(first * tensor->dims[0] + i), problem);
}

wisp_status directory_floats(const struct directory *dir, const struct tensor *tensor,
                             uint64_t first, uint64_t rows, struct tensor_cache *cache,
                             void *buffer, float *values, wisp_error *error) {
    const void *bytes;
    TRY(directory_rows(dir, tensor, first, rows, cache, buffer, &bytes, error));
    return directory_expand(dir, tensor, first, rows, bytes, values, error);
}

void tensor_cache_release(struct tensor_cache *cache) {
    free(cache->bytes);
    *cache = (struct tensor_cache){0};
}

wisp_status directory_load_floats(const struct directory *dir, const char *name, size_t rows,
                                  size_t row_length, float **values, wisp_error *error) {
    const struct tensor *tensor;
    TRY(directory_require_tensor(dir, name, row_length, rows, &tensor, error));
    size_t bytes;
    if (!checked_floats(rows, row_length, &bytes))
        return fail_memory(error, UINT64_MAX);
    *values = memory_allocate(bytes);
    /* No type takes more bytes than f32, so these bytes fit in size_t too. */
    void *stored = memory_allocate((size_t)tensor->bytes);
    wisp_status status = *values && stored ? WISP_OK : fail_memory(error, bytes);
    if (status == WISP_OK)
        status = directory_floats(dir, tensor, 0, rows, NULL, stored, *values, error);
    memory_free(stored);
    return status;
}
