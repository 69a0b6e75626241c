/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/gguf_write.h"

#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "convert/chunk_table.h"
#include "formats/bitnet.h"
#include "formats/neurons_read.h"
#include "formats/schema.h"

enum { ALIGNMENT = 32, CHUNK_VALUES = 64 * 1024 };

/* The writer omits this key of the input, because it uses the default alignment of the format. */
#define ALIGNMENT_KEY "general.alignment"

struct writer {
    struct file_writer *file;
    const struct directory *dir;
    const struct gguf_plan *plan;
    struct tensor_cache cache; /* serves tensors that are made from others */
    struct chunk_table table;  /* its `digests` are NULL if the file has none */
    uint64_t table_offset;     /* of the digests in the file */
    wisp_error *error;
};

static wisp_status put_u32(struct writer *w, uint32_t value) {
    const unsigned char bytes[4] = {(unsigned char)value, (unsigned char)(value >> 8),
                                    (unsigned char)(value >> 16), (unsigned char)(value >> 24)};
    return file_write(w->file, bytes, sizeof bytes, w->error);
}

static wisp_status put_u64(struct writer *w, uint64_t value) {
    TRY(put_u32(w, (uint32_t)value));
    return put_u32(w, (uint32_t)(value >> 32));
}

static wisp_status put_text(struct writer *w, const char *bytes, size_t length) {
    TRY(put_u64(w, length));
    return file_write(w->file, bytes, length, w->error);
}

static wisp_status put_array(struct writer *w, const struct metadata *entry) {
    TRY(put_u32(w, entry->element));
    TRY(put_u64(w, entry->count));
    if (entry->element == VALUE_STRING) {
        for (uint64_t i = 0; i < entry->count; i++)
            TRY(put_text(w, entry->as.texts[i].bytes, entry->as.texts[i].length));
        return WISP_OK;
    }
    if (w->table.digests && entry->as.numbers == w->table.digests)
        w->table_offset = w->file->written;
    const size_t size = value_type_bytes(entry->element);
    const unsigned char *number = entry->as.numbers;
    for (uint64_t i = 0; i < entry->count; i++, number += size) {
        unsigned char bytes[8];
        memcpy(bytes, number, size);
        swap_file_numbers(bytes, 1, size);
        TRY(file_write(w->file, bytes, size, w->error));
    }
    return WISP_OK;
}

/* Writes a number. struct metadata extends integers to 64 bits, so the low bytes are the value. */
static wisp_status put_scalar(struct writer *w, const struct metadata *entry) {
    uint64_t bits = 0;
    if (entry->type == VALUE_F32) {
        bits = bits_of_float((float)entry->as.f);
    } else if (entry->type == VALUE_F64) {
        memcpy(&bits, &entry->as.f, sizeof bits);
    } else if (entry->type == VALUE_BOOL) {
        bits = entry->as.b;
    } else {
        bits = entry->as.u;
    }
    unsigned char bytes[8];
    store_u64(bytes, bits);
    return file_write(w->file, bytes, value_type_bytes(entry->type), w->error);
}

static wisp_status put_metadata(struct writer *w, const struct metadata *entry) {
    TRY(put_text(w, entry->key, strlen(entry->key)));
    TRY(put_u32(w, entry->type));
    if (entry->type == VALUE_STRING)
        return put_text(w, entry->as.text.bytes, entry->as.text.length);
    return entry->type == VALUE_ARRAY ? put_array(w, entry) : put_scalar(w, entry);
}

static uint64_t aligned(uint64_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

uint64_t gguf_tensor_bytes(const struct tensor *tensor, const struct block_format *format) {
    uint64_t bytes = 0;
    block_tensor_bytes(format, tensor->dims[0], tensor->rows, &bytes);
    return aligned(bytes);
}

static uint64_t padded_bytes(const struct writer *w, size_t i) {
    return gguf_tensor_bytes(&w->dir->tensors[i], w->plan->formats[i]);
}

static uint64_t metadata_bytes(const struct metadata *entry) {
    const uint64_t bytes = 8 + strlen(entry->key) + 4;
    if (entry->type == VALUE_STRING)
        return bytes + 8 + entry->as.text.length;
    if (entry->type != VALUE_ARRAY)
        return bytes + value_type_bytes(entry->type);
    uint64_t elements = entry->count * value_type_bytes(entry->element);
    for (uint64_t i = 0; entry->element == VALUE_STRING && i < entry->count; i++)
        elements += 8 + entry->as.texts[i].length;
    return bytes + 4 + 8 + elements;
}

uint64_t gguf_file_bytes(const struct directory *dir, const struct gguf_plan *plan) {
    uint64_t header = 4 + 4 + 8 + 8, data = 0;
    for (size_t i = 0; i < dir->n_metadata; i++)
        if (strcmp(dir->metadata[i].key, ALIGNMENT_KEY) != 0)
            header += metadata_bytes(&dir->metadata[i]);
    for (size_t i = 0; i < dir->n_tensors; i++) {
        const struct tensor *tensor = &dir->tensors[i];
        header += 8 + strlen(tensor->name) + 4 + 8 * (uint64_t)tensor->n_dims + 4 + 8;
        data += gguf_tensor_bytes(tensor, plan->formats[i]);
    }
    return aligned(header) + data;
}

/* Adds the keys of the table of chunks to the directory, with zeros for the digests, which are
 * written again when they are known. */
static wisp_status add_table(struct writer *w, struct directory *dir) {
    struct chunk_table *table = &w->table;
    struct chunks *chunks = &table->chunks;
    bool cold = false;
    chunks->bytes = w->plan->chunk_bytes;
    for (size_t i = 0; i < dir->n_tensors; i++) {
        cold = cold || tensor_is_cold(dir->tensors[i].name);
        chunks->cold += cold ? 0 : padded_bytes(w, i);
        chunks->end += padded_bytes(w, i);
    }
    chunks_count(chunks);
    const uint64_t bytes = chunks->n * CHUNK_DIGEST_BYTES;
    size_t size;
    if (!checked_size(bytes, &size))
        return fail_memory(w->error, bytes);
    ARENA_TAKE(&dir->arena, table->digests, size, w->error);
    TRY(directory_put_u32(dir, KEY_CHUNKS_BYTES, w->plan->chunk_bytes, w->error));
    TRY(directory_put_numbers(dir, KEY_CHUNKS_SHA256, VALUE_U8, table->digests, bytes, w->error));
    return directory_finish(dir, w->error);
}

/* Writes the list of tensors. */
static wisp_status put_directory(struct writer *w) {
    uint64_t offset = 0;
    for (size_t i = 0; i < w->dir->n_tensors; i++) {
        const struct tensor *tensor = &w->dir->tensors[i];
        TRY(put_text(w, tensor->name, strlen(tensor->name)));
        TRY(put_u32(w, tensor->n_dims));
        for (uint32_t d = 0; d < tensor->n_dims; d++)
            TRY(put_u64(w, tensor->dims[d]));
        TRY(put_u32(w, w->plan->formats[i]->id & 0xffff));
        TRY(put_u64(w, offset));
        offset += padded_bytes(w, i);
    }
    return WISP_OK;
}

/* Writes bytes behind the header. */
static wisp_status put_data(struct writer *w, const void *bytes, size_t length) {
    if (w->table.digests)
        chunk_table_add(&w->table, bytes, length);
    return file_write(w->file, bytes, length, w->error);
}

static const char zeros[ALIGNMENT];

/* Returns the number of zeros up to the next multiple of the alignment. */
static size_t padding(const struct writer *w) {
    return (size_t)(-w->file->written % ALIGNMENT);
}

static wisp_status report_progress(struct writer *w, size_t done) {
    const struct gguf_plan *plan = w->plan;
    if (plan->progress && !plan->progress(plan->progress_context, done, w->dir->n_tensors))
        return fail(w->error, WISP_ERROR_CANCELLED, w->file->path, NULL, "cancelled");
    return WISP_OK;
}

/* Writes the blocks of a tensor that is read as floats because they cross rows. */
static wisp_status put_blocks(struct writer *w, size_t index) {
    const struct tensor *stored = w->dir->tensors[index].maker;
    unsigned char part[64 * 1024];
    uint64_t bytes = 0;
    block_tensor_bytes(stored->format, stored->dims[0], stored->rows, &bytes);
    for (uint64_t at = 0; at < bytes; at += sizeof part) {
        const size_t n = (size_t)(bytes - at < sizeof part ? bytes - at : sizeof part);
        TRY(source_read(&w->dir->sources[stored->source], stored->name, stored->offset + at, part,
                        n, w->error));
        TRY(put_data(w, part, n));
    }
    TRY(put_data(w, zeros, padding(w)));
    return report_progress(w, index + 1);
}

/* Converts and writes the data of a tensor, some rows at a time. */
static wisp_status put_tensor(struct writer *w, size_t index) {
    const struct tensor *tensor = &w->dir->tensors[index];
    const struct block_format *format = w->plan->formats[index];
    const uint64_t room = CHUNK_VALUES / tensor->dims[0];
    const uint64_t most = block_whole_rows(format, tensor->dims[0], room ? room : 1);
    const uint64_t rows = most < tensor->rows ? most : tensor->rows;
    struct row_converter converter;
    uint64_t bytes_here = 0;
    if (bitnet_made(tensor) && ((const struct tensor *)tensor->maker)->format == format)
        return put_blocks(w, index);
    wisp_status status = row_converter_open(&converter, w->dir, tensor, format,
                                            w->plan->as_reference, rows, &w->cache, w->error);
    converter.ternary = w->plan->ternary;
    for (uint64_t row = 0; row < tensor->rows && status == WISP_OK; row += rows) {
        const uint64_t left = tensor->rows - row, n = left < rows ? left : rows;
        const void *bytes;
        status = row_converter_read(&converter, row, n, &bytes, w->error);
        if (status == WISP_OK)
            block_tensor_bytes(format, tensor->dims[0], n, &bytes_here);
        if (status == WISP_OK)
            status = put_data(w, bytes, (size_t)bytes_here);
        if (status == WISP_OK && n < left)
            status = report_progress(w, index);
    }
    const struct conversion_loss loss = converter.loss;
    row_converter_close(&converter);
    TRY(status);
    TRY(put_data(w, zeros, padding(w)));
    if (w->plan->written)
        w->plan->written(w->plan->written_context, index, &loss);
    return report_progress(w, index + 1);
}

wisp_status gguf_write(struct file_writer *file, struct directory *dir,
                       const struct gguf_plan *plan, wisp_error *error) {
    struct writer w = {.file = file, .dir = dir, .plan = plan, .error = error};
    if (plan->chunk_bytes > 0)
        TRY(add_table(&w, dir));
    TRY(file_write(file, "GGUF", 4, error));
    TRY(put_u32(&w, 3));
    TRY(put_u64(&w, dir->n_tensors));
    TRY(put_u64(&w, dir->n_metadata - (directory_find_metadata(dir, ALIGNMENT_KEY) != NULL)));
    for (size_t i = 0; i < dir->n_metadata; i++)
        if (strcmp(dir->metadata[i].key, ALIGNMENT_KEY) != 0)
            TRY(put_metadata(&w, &dir->metadata[i]));
    TRY(put_directory(&w));
    TRY(file_write(file, zeros, padding(&w), error));
    wisp_status status = WISP_OK;
    for (size_t i = 0; i < dir->n_tensors && status == WISP_OK; i++)
        status = put_tensor(&w, i);
    tensor_cache_release(&w.cache);
    if (status == WISP_OK && w.table.digests)
        status = file_write_again(file, w.table_offset, w.table.digests,
                                  (size_t)(w.table.chunks.n * CHUNK_DIGEST_BYTES), error);
    return status;
}
