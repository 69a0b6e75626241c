/* SPDX-License-Identifier: Apache-2.0
 * Implements wisp_file_* of wisp.h, which shows the contents of a model's file. Native only. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "formats/chunks.h"
#include "formats/neurons_read.h"
#include "models/assumptions.h"
#include "native/open_path.h"

/* SCALAR_BYTES hold the longest number and the longest "type[length]". A histogram reads about
 * HISTOGRAM_VALUES floats at a time. */
enum { SCALAR_BYTES = 48, HISTOGRAM_VALUES = 64 * 1024 };

struct wisp_file {
    struct directory dir;
    char (*scalars)[SCALAR_BYTES]; /* [dir.n_metadata]: values as text; unused for strings */
    const struct tensor *tensors;  /* [n_tensors]: the tensors that the file stores */
    size_t n_tensors;
};

wisp_status wisp_file_open(const char *path, wisp_file **file, wisp_error *error) {
    TRY(require(file, "file", error));
    *file = NULL;
    TRY(require(path, "path", error));
    wisp_file *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    wisp_status status = directory_open_path(&made->dir, path, error);
    if (status == WISP_OK) {
        const struct directory *dir = &made->dir;
        made->tensors = dir->stored ? dir->stored : dir->tensors;
        made->n_tensors = dir->stored ? dir->n_stored : dir->n_tensors;
        made->scalars = calloc(dir->n_metadata + 1, sizeof *made->scalars);
        if (!made->scalars)
            status = fail_memory(error, dir->n_metadata * sizeof *made->scalars);
        for (size_t i = 0; i < dir->n_metadata && status == WISP_OK; i++)
            if (dir->metadata[i].type != VALUE_STRING)
                metadata_format(&dir->metadata[i], made->scalars[i], SCALAR_BYTES);
    }
    if (status == WISP_OK)
        *file = made;
    else
        wisp_file_close(made);
    return status;
}

void wisp_file_close(wisp_file *file) {
    if (!file)
        return;
    directory_release(&file->dir);
    free(file->scalars);
    free(file);
}

bool wisp_file_get_part(const wisp_file *file, size_t index, wisp_file_part *part) {
    if (index >= file->dir.n_sources)
        return false;
    const wisp_source *source = &file->dir.sources[index];
    *part = (wisp_file_part){.path = source->name, .size = source->size};
    return true;
}

wisp_status wisp_file_read_part(const wisp_file *file, size_t index, uint64_t offset, void *buffer,
                                size_t length, wisp_error *error) {
    TRY(require(file, "file", error));
    const struct directory *dir = &file->dir;
    if (index >= dir->n_sources)
        return fail(error, WISP_ERROR_ARGUMENT, dir->file, "index", "%zu, of %u parts", index,
                    dir->n_sources);
    const wisp_source *source = &dir->sources[index];
    if (offset > source->size || length > source->size - offset)
        return fail(error, WISP_ERROR_ARGUMENT, source->name, "offset",
                    "%zu bytes at %llu, but the file has %llu", length, (unsigned long long)offset,
                    (unsigned long long)source->size);
    if (length == 0)
        return WISP_OK;
    TRY(require(buffer, "buffer", error));
    return source_read(source, NULL, offset, buffer, length, error);
}

wisp_status wisp_file_verify(const wisp_file *file, wisp_verified *verified, wisp_error *error) {
    TRY(require(file, "file", error));
    TRY(require(verified, "verified", error));
    const struct directory *dir = &file->dir;
    struct chunks chunks;
    TRY(chunks_read(dir, &chunks, error));
    if (!chunks.digests)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, KEY_CHUNKS_SHA256,
                    "the file has no digests to be compared with");
    TRY(chunks_verify(dir, &chunks, 0, chunks.n, error));
    *verified = (wisp_verified){
        .chunks = chunks.n, .chunk_bytes = chunks.bytes, .header_bytes = chunks.start};
    return chunks_hash_header(dir, &chunks, verified->header_sha256, error);
}

bool wisp_file_get_metadata(const wisp_file *file, size_t index, wisp_metadata *metadata) {
    if (index >= file->dir.n_metadata)
        return false;
    const struct metadata *entry = &file->dir.metadata[index];
    const bool is_array = entry->type == VALUE_ARRAY;
    *metadata = (wisp_metadata){.key = entry->key,
                                .type = value_type_name(is_array ? entry->element : entry->type),
                                .is_array = is_array,
                                .elements = is_array ? entry->count : 1,
                                .text = entry->type == VALUE_STRING ? entry->as.text.bytes
                                                                    : file->scalars[index]};
    return true;
}

bool wisp_file_get_tensor(const wisp_file *file, size_t index, wisp_tensor *tensor) {
    if (index >= file->n_tensors)
        return false;
    const struct tensor *entry = &file->tensors[index];
    *tensor = (wisp_tensor){.name = entry->name,
                            .type = entry->format->name,
                            .dimensions = entry->n_dims,
                            .bytes = entry->bytes,
                            .offset = entry->offset,
                            .part = entry->source};
    for (uint32_t i = 0; i < entry->n_dims; i++)
        tensor->shape[i] = entry->dims[entry->n_dims - 1 - i];
    return true;
}

bool wisp_file_get_assumption(const wisp_file *file, size_t index, wisp_assumption *assumption) {
    return assumption_get(&file->dir, index, assumption);
}

/* Finds a tensor whose values can be read. Rows that depend on other bytes are floats of the
 * directory (formats/bitnet.h). */
static wisp_status find_readable(const wisp_file *file, size_t index, const struct tensor **tensor,
                                 wisp_error *error) {
    const struct directory *dir = &file->dir;
    if (index >= file->n_tensors)
        return fail(error, WISP_ERROR_ARGUMENT, dir->file, "index", "%zu, of %zu tensors", index,
                    file->n_tensors);
    const struct tensor *listed = &file->tensors[index];
    const struct tensor *found =
        listed->row_bytes > 0 ? listed : directory_find_tensor(dir, listed->name);
    if (!found->format->dequantise)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, found->name,
                    "tensors of type %s are not supported", found->format->name);
    *tensor = found;
    return WISP_OK;
}

/* Reads rows of a tensor as floats. */
struct rows {
    const struct directory *dir;
    const struct tensor *tensor;
    struct tensor_cache cache;
    void *stored;
};

/* Opens a tensor for at most `most` rows at a time. The caller closes the rows, also after a
 * failure. */
static wisp_status rows_open(struct rows *rows, const struct directory *dir,
                             const struct tensor *tensor, uint64_t most, wisp_error *error) {
    *rows = (struct rows){.dir = dir, .tensor = tensor};
    rows->stored = memory_allocate((size_t)(most * tensor->row_bytes));
    return rows->stored ? WISP_OK : fail_memory(error, most * tensor->row_bytes);
}

static wisp_status rows_read(struct rows *rows, uint64_t first, uint64_t n, float *values,
                             wisp_error *error) {
    return directory_floats(rows->dir, rows->tensor, first, n, &rows->cache, rows->stored, values,
                            error);
}

static void rows_close(struct rows *rows) {
    tensor_cache_release(&rows->cache);
    memory_free(rows->stored);
}

wisp_status wisp_file_read_tensor(const wisp_file *file, size_t index, float *values,
                                  wisp_error *error) {
    const struct tensor *tensor;
    TRY(require(file, "file", error));
    const struct directory *dir = &file->dir;
    TRY(find_readable(file, index, &tensor, error));
    TRY(require(values, "values", error));
    struct rows rows;
    wisp_status status = rows_open(&rows, dir, tensor, 1, error);
    for (uint64_t i = 0; i < tensor->rows && status == WISP_OK; i++)
        status = rows_read(&rows, i, 1, values + i * tensor->dims[0], error);
    rows_close(&rows);
    return status;
}

static void count(const float *values, size_t n, wisp_histogram *h) {
    for (size_t i = 0; i < n; i++) {
        const double scaled = h->largest > 0 ? (double)values[i] / h->largest : 0;
        const int bin = (int)((scaled + 1) / 2 * (double)WISP_HISTOGRAM_BINS);
        h->bins[bin < WISP_HISTOGRAM_BINS ? bin : WISP_HISTOGRAM_BINS - 1]++;
    }
}

static void measure(const float *values, size_t n, double *squares, wisp_histogram *h) {
    for (size_t i = 0; i < n; i++) {
        const double value = (double)values[i];
        h->mean += value;
        *squares += value * value;
        h->least = fmin(h->least, value);
        h->most = fmax(h->most, value);
        h->zeros += value == 0;
    }
}

/* Reads the rows twice: for the range, and to count. */
static wisp_status make_histogram(struct rows *rows, float *values, uint64_t most,
                                  wisp_histogram *h, wisp_error *error) {
    const struct tensor *tensor = rows->tensor;
    double squares = 0;
    *h = (wisp_histogram){
        .least = INFINITY, .most = -INFINITY, .values = tensor->rows * tensor->dims[0]};
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < tensor->rows; i += most) {
            const uint64_t here = tensor->rows - i < most ? tensor->rows - i : most;
            TRY(rows_read(rows, i, here, values, error));
            if (round == 0)
                measure(values, (size_t)(here * tensor->dims[0]), &squares, h);
            else
                count(values, (size_t)(here * tensor->dims[0]), h);
        }
        h->largest = fmax(-h->least, h->most);
    }
    h->mean /= (double)h->values;
    h->deviation = sqrt(fmax(squares / (double)h->values - h->mean * h->mean, 0));
    return WISP_OK;
}

wisp_status wisp_file_get_histogram(const wisp_file *file, size_t index, wisp_histogram *histogram,
                                    wisp_error *error) {
    const struct tensor *tensor;
    TRY(require(file, "file", error));
    TRY(require(histogram, "histogram", error));
    TRY(find_readable(file, index, &tensor, error));
    struct rows rows;
    const uint64_t most = HISTOGRAM_VALUES / tensor->dims[0] + 1;
    float *values = memory_allocate((size_t)(most * tensor->dims[0]) * sizeof *values);
    wisp_status status = rows_open(&rows, &file->dir, tensor, most, error);
    if (status == WISP_OK && !values)
        status = fail_memory(error, most * tensor->dims[0] * sizeof *values);
    if (status == WISP_OK)
        status = make_histogram(&rows, values, most, histogram, error);
    rows_close(&rows);
    memory_free(values);
    return status;
}

/* ---- neurons -------------------------------------------------------------------------------- */

/* Reads the order of the neurons [*layers, *neurons]. The frequencies of the first layer tell the
 * number of neurons, and the length of the order then tells the number of layers. */
static wisp_status read_order(const struct directory *dir, size_t *layers, size_t *neurons,
                              const int32_t **order, wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    const struct tensor *first =
        directory_find_tensor(dir, layer_tensor_name(name, 0, TENSOR_FREQUENCY, ""));
    const struct metadata *places = directory_find_metadata(dir, KEY_SPARSE_ORDER);
    if (!directory_find_metadata(dir, KEY_SPARSE_SHARES))
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, NULL,
                    "the model is not calibrated: wisp calibrate does that");
    if (!first)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, name, "the tensor is missing");
    if (!places)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_SPARSE_ORDER, "the key is missing");
    *neurons = (size_t)first->dims[0];
    *layers = (size_t)(places->count / first->dims[0]); /* `count` is 0 unless it is an array */
    return neurons_read_order(dir, *layers, *neurons, order, error);
}

wisp_status wisp_file_get_neurons(const wisp_file *file, size_t *layers, size_t *neurons,
                                  wisp_error *error) {
    const int32_t *order;
    TRY(require(file, "file", error));
    TRY(require(layers, "layers", error));
    TRY(require(neurons, "neurons", error));
    return read_order(&file->dir, layers, neurons, &order, error);
}

wisp_status wisp_file_read_frequencies(const wisp_file *file, size_t layer, float *frequencies,
                                       wisp_error *error) {
    TRY(require(file, "file", error));
    TRY(require(frequencies, "frequencies", error));
    const struct directory *dir = &file->dir;
    size_t layers, neurons;
    const int32_t *order;
    float *by_neuron = NULL;
    char name[TENSOR_NAME_BYTES];
    TRY(read_order(dir, &layers, &neurons, &order, error));
    if (layer >= layers)
        return fail(error, WISP_ERROR_ARGUMENT, dir->file, "layer", "%zu, of %zu layers", layer,
                    layers);
    layer_tensor_name(name, layer, TENSOR_FREQUENCY, "");
    const wisp_status status = directory_load_floats(dir, name, 1, neurons, &by_neuron, error);
    for (size_t place = 0; place < neurons && status == WISP_OK; place++)
        frequencies[place] = by_neuron[order[layer * neurons + place]];
    memory_free(by_neuron);
    return status;
}
