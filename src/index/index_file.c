/* SPDX-License-Identifier: Apache-2.0 */
#include "index/index_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "formats/directory.h"

static const char magic[8] = {'W', 'I', 'S', 'P', 'I', 'N', 'D', 'X'};

enum { VERSION = 1, LENGTHS = 8 /* bytes, of a row's id and metadata */ };

/* Each section begins at a multiple of this; bytes between are 0. */
enum { SECTION_ALIGNMENT = 64 };

/* The sections after the header, in their order. */
enum section { NAME, FINGERPRINT, SCALES, DELETED, TEXT_LENGTHS, TEXTS, VECTORS, SECTIONS };

static const char *const section_names[SECTIONS] = {"name",    "fingerprint", "scales", "deleted",
                                                    "lengths", "texts",       "vectors"};

/* Where the fields of the header begin. */
enum {
    AT_VERSION = 8,
    AT_KIND = 12,
    AT_SIZE = 16, /* of the file */
    AT_DIMENSIONS = 24,
    AT_ROW_BYTES = 28,
    AT_ROWS = 32,
    AT_DELETED = 40,
    AT_TEXT_BYTES = 48,
    AT_NAME_BYTES = 56,
    AT_HAS_MODEL = 60,
    AT_CHECKSUMS = 64,
    AT_CHECKSUM = AT_CHECKSUMS + 8 * SECTIONS, /* of the bytes before */
    HEADER_BYTES = AT_CHECKSUM + 8
};

struct layout {
    wisp_index_kind kind;
    uint64_t dimensions, rows, deleted, text_bytes, name_bytes;
    bool has_model;
    uint64_t offset[SECTIONS], length[SECTIONS], size; /* of the file */
};

/* Computes where the sections are. Returns false if that does not fit 64 bits. */
static bool lay_out(struct layout *l) {
    uint64_t at = HEADER_BYTES, bytes;
    const uint64_t row_bytes = index_row_bytes(l->kind, (size_t)l->dimensions);
    const uint64_t rows[SECTIONS] = {[SCALES] = l->kind == WISP_INDEX_INT8 ? sizeof(float) : 0,
                                     [TEXT_LENGTHS] = LENGTHS,
                                     [VECTORS] = row_bytes};
    for (int s = 0; s < SECTIONS; s++) {
        if (!checked_multiply(l->rows, rows[s], &bytes))
            return false;
        if (s == NAME)
            bytes = l->name_bytes;
        else if (s == FINGERPRINT)
            bytes = l->has_model ? l->dimensions * sizeof(float) : 0;
        else if (s == DELETED)
            bytes = l->rows / 8 + (l->rows % 8 > 0);
        else if (s == TEXTS)
            bytes = l->text_bytes;
        l->length[s] = bytes;
        if (!checked_align(at, SECTION_ALIGNMENT, &at))
            return false;
        l->offset[s] = at;
        if (!checked_add(at, bytes, &at))
            return false;
    }
    l->size = at;
    return true;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Changes scales and vectors from the machine's order of bytes to the file's, or back. */
static void swap_vectors(wisp_index *index) {
    if (index->scales)
        swap_file_numbers(index->scales, index->rows, sizeof(float));
    for (size_t row = 0; index->kind == WISP_INDEX_F32 && row < index->rows; row++)
        swap_file_numbers(index->vectors + row * index->row_bytes, index->dimensions,
                          sizeof(float));
}

/* Changes the numbers that the file holds as they are in memory from the machine's order to the
 * file's, or back. */
static void swap_numbers(wisp_index *index) {
    if (index->fingerprint)
        swap_file_numbers(index->fingerprint, index->dimensions, sizeof(float));
    swap_vectors(index);
}

/* Fills the sections that memory holds in another form: which rows are deleted, the lengths of the
 * texts, and the texts. A deleted row has no texts. */
static void gather(const wisp_index *index, unsigned char *deleted, unsigned char *lengths,
                   unsigned char *texts) {
    for (size_t row = 0; row < index->rows; row++, lengths += LENGTHS) {
        const struct index_entry *entry = &index->entries[row];
        memset(lengths, 0, LENGTHS);
        if (entry->deleted) {
            deleted[row / 8] |= (unsigned char)(1u << row % 8);
            continue;
        }
        store_u32(lengths, (uint32_t)entry->id.length);
        store_u32(lengths + 4, (uint32_t)entry->metadata.length);
        memcpy(texts, entry->id.bytes, entry->id.length);
        texts += entry->id.length;
        memcpy(texts, entry->metadata.bytes, entry->metadata.length);
        texts += entry->metadata.length;
    }
}

static void make_header(const wisp_index *index, const struct layout *l,
                        const void *const sections[SECTIONS], unsigned char *header) {
    memset(header, 0, HEADER_BYTES);
    memcpy(header, magic, sizeof magic);
    store_u32(header + AT_VERSION, VERSION);
    store_u32(header + AT_KIND, (uint32_t)index->kind);
    store_u64(header + AT_SIZE, l->size);
    store_u32(header + AT_DIMENSIONS, (uint32_t)index->dimensions);
    store_u32(header + AT_ROW_BYTES, (uint32_t)index->row_bytes);
    store_u64(header + AT_ROWS, index->rows);
    store_u64(header + AT_DELETED, index->deleted);
    store_u64(header + AT_TEXT_BYTES, l->text_bytes);
    store_u32(header + AT_NAME_BYTES, (uint32_t)l->name_bytes);
    store_u32(header + AT_HAS_MODEL, l->has_model);
    for (int s = 0; s < SECTIONS; s++)
        store_u64(header + AT_CHECKSUMS + 8 * s, checksum(sections[s], (size_t)l->length[s]));
    store_u64(header + AT_CHECKSUM, checksum(header, AT_CHECKSUM));
}

wisp_status index_write(wisp_index *index, const struct byte_sink *sink, size_t *size,
                        wisp_error *error) {
    struct layout l = {.kind = index->kind,
                       .dimensions = index->dimensions,
                       .rows = index->rows,
                       .deleted = index->deleted,
                       .name_bytes = strlen(index->model),
                       .has_model = index->fingerprint != NULL};
    for (size_t row = 0; row < index->rows; row++)
        if (!index->entries[row].deleted)
            l.text_bytes += index->entries[row].id.length + index->entries[row].metadata.length;
    if (!lay_out(&l) || !checked_size(l.size, size))
        return fail_memory(error, UINT64_MAX);
    if (!sink)
        return WISP_OK;
    const size_t deleted_bytes = (size_t)l.length[DELETED];
    const size_t lengths_bytes = (size_t)l.length[TEXT_LENGTHS];
    const size_t gathered_bytes = deleted_bytes + lengths_bytes + (size_t)l.text_bytes;
    unsigned char *gathered = calloc(1, larger(gathered_bytes, 1)), header[HEADER_BYTES];
    if (!gathered)
        return fail_memory(error, gathered_bytes);
    unsigned char *const lengths = gathered + deleted_bytes, *texts = lengths + lengths_bytes;
    const void *const sections[SECTIONS] = {
        index->model, index->fingerprint, index->scales, gathered, lengths, texts, index->vectors};
    gather(index, gathered, lengths, texts);
    swap_numbers(index);
    make_header(index, &l, sections, header);
    uint64_t at = HEADER_BYTES;
    wisp_status status = sink->write(sink->context, header, sizeof header, error);
    for (int s = 0; s < SECTIONS && status == WISP_OK; s++) {
        static const unsigned char zeros[SECTION_ALIGNMENT];
        status = sink->write(sink->context, zeros, (size_t)(l.offset[s] - at), error);
        if (status == WISP_OK)
            status = sink->write(sink->context, sections[s], (size_t)l.length[s], error);
        at = l.offset[s] + l.length[s];
    }
    swap_numbers(index);
    free(gathered);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

struct reading {
    const wisp_source *source;
    struct layout layout;
    uint64_t checksums[SECTIONS];
};

static wisp_status read_header(struct reading *r, wisp_error *error) {
    const wisp_source *source = r->source;
    const char *file = source->name;
    struct layout *l = &r->layout;
    unsigned char header[HEADER_BYTES];
    if (source->size < sizeof header)
        return fail(error, WISP_ERROR_FORMAT, file, NULL, "is not an index: it is too short");
    TRY(source_read(source, NULL, 0, header, sizeof header, error));
    if (memcmp(header, magic, sizeof magic) != 0)
        return fail(error, WISP_ERROR_FORMAT, file, NULL, "is not an index");
    if (load_u32(header + AT_VERSION) != VERSION)
        return fail(error, WISP_ERROR_UNSUPPORTED, file, "version", "%u, but this build reads %d",
                    load_u32(header + AT_VERSION), VERSION);
    if (load_u64(header + AT_CHECKSUM) != checksum(header, AT_CHECKSUM))
        return fail(error, WISP_ERROR_FORMAT, file, "header",
                    "the checksum is wrong: the file is damaged");
    const uint32_t kind = load_u32(header + AT_KIND), has_model = load_u32(header + AT_HAS_MODEL);
    if (!wisp_index_kind_name(kind))
        return fail(error, WISP_ERROR_FORMAT, file, "kind", "%u is not a kind", kind);
    if (has_model > 1)
        return fail(error, WISP_ERROR_FORMAT, file, "model", "%u is neither 0 nor 1", has_model);
    *l = (struct layout){.kind = (wisp_index_kind)kind,
                         .dimensions = load_u32(header + AT_DIMENSIONS),
                         .rows = load_u64(header + AT_ROWS),
                         .deleted = load_u64(header + AT_DELETED),
                         .text_bytes = load_u64(header + AT_TEXT_BYTES),
                         .name_bytes = load_u32(header + AT_NAME_BYTES),
                         .has_model = has_model == 1};
    for (int s = 0; s < SECTIONS; s++)
        r->checksums[s] = load_u64(header + AT_CHECKSUMS + 8 * s);
    if (l->dimensions < 1 || l->dimensions > INDEX_MOST_DIMENSIONS)
        return fail(error, WISP_ERROR_FORMAT, file, "dimensions",
                    "%" PRIu64 "; 1 to %d are possible", l->dimensions, INDEX_MOST_DIMENSIONS);
    if (load_u32(header + AT_ROW_BYTES) != index_row_bytes(l->kind, (size_t)l->dimensions))
        return fail(error, WISP_ERROR_FORMAT, file, "row_bytes",
                    "%u, but rows of %" PRIu64 " values take %zu", load_u32(header + AT_ROW_BYTES),
                    l->dimensions, index_row_bytes(l->kind, (size_t)l->dimensions));
    if (l->name_bytes > INDEX_MOST_NAME)
        return fail(error, WISP_ERROR_FORMAT, file, "name", "%" PRIu64 " bytes; the most is %d",
                    l->name_bytes, INDEX_MOST_NAME);
    if (l->deleted > l->rows)
        return fail(error, WISP_ERROR_FORMAT, file, "deleted",
                    "%" PRIu64 ", but there are %" PRIu64 " rows", l->deleted, l->rows);
    if (!lay_out(l) || l->size != source->size || load_u64(header + AT_SIZE) != source->size)
        return fail(error, WISP_ERROR_FORMAT, file, "size",
                    "%" PRIu64 " bytes, which %" PRIu64 " rows, %" PRIu64
                    " bytes of texts and the size in the header do not make: the file is damaged",
                    source->size, l->rows, l->text_bytes);
    return WISP_OK;
}

/* Reads a section to `bytes`, and the zeros before it. */
static wisp_status read_section(const struct reading *r, enum section s, void *bytes,
                                wisp_error *error) {
    const struct layout *l = &r->layout;
    const char *file = r->source->name, *field = section_names[s];
    const uint64_t before = s == 0 ? HEADER_BYTES : l->offset[s - 1] + l->length[s - 1];
    const size_t zeros = (size_t)(l->offset[s] - before), length = (size_t)l->length[s];
    unsigned char padding[SECTION_ALIGNMENT];
    if (zeros > 0)
        TRY(source_read(r->source, field, before, padding, zeros, error));
    for (size_t i = 0; i < zeros; i++)
        if (padding[i] != 0)
            return fail(error, WISP_ERROR_FORMAT, file, field,
                        "the bytes before it are not 0: the file is damaged");
    if (length > 0)
        TRY(source_read(r->source, field, l->offset[s], bytes, length, error));
    if (checksum(bytes, length) != r->checksums[s])
        return fail(error, WISP_ERROR_FORMAT, file, field,
                    "the checksum is wrong: the file is damaged");
    return WISP_OK;
}

/* Reads a section to the memory of an arena. */
static wisp_status read_to_arena(const struct reading *r, enum section s, struct arena *arena,
                                 void **bytes, wisp_error *error) {
    *bytes = arena_copy_text(arena, NULL, 0);
    if (r->layout.length[s] > 0)
        *bytes = arena_allocate(arena, (size_t)r->layout.length[s] + 1);
    if (!*bytes)
        return fail_memory(error, r->layout.length[s] + 1);
    return read_section(r, s, *bytes, error);
}

static wisp_status read_model(const struct reading *r, wisp_index *index, wisp_error *error) {
    const char *file = r->source->name;
    void *name, *fingerprint;
    TRY(read_to_arena(r, NAME, &index->fixed, &name, error));
    index->model = name;
    const size_t length = (size_t)r->layout.name_bytes;
    if (memchr(name, 0, length + 1) != (char *)name + length ||
        !index_is_utf8((wisp_text){name, length}))
        return fail(error, WISP_ERROR_FORMAT, file, "name", "is not UTF-8, or has a zero");
    TRY(read_to_arena(r, FINGERPRINT, &index->fixed, &fingerprint, error));
    if (!r->layout.has_model)
        return WISP_OK;
    index->fingerprint = fingerprint;
    swap_file_numbers(fingerprint, index->dimensions, sizeof(float));
    if (!all_finite(index->fingerprint, index->dimensions))
        return fail(error, WISP_ERROR_FORMAT, file, "fingerprint", "a value is not finite");
    return WISP_OK;
}

/* Fills the entries from the sections that `gather` makes. */
static wisp_status spread(const struct reading *r, wisp_index *index, const unsigned char *deleted,
                          const unsigned char *lengths, const char *texts, wisp_error *error) {
    const struct layout *l = &r->layout;
    const char *file = r->source->name;
    uint64_t left = l->text_bytes, marks = 0;
    if (l->rows % 8 > 0 && deleted[l->rows / 8] >> l->rows % 8 != 0)
        return fail(error, WISP_ERROR_FORMAT, file, "deleted", "marks a row after the last");
    for (size_t row = 0; row < l->rows; row++, lengths += LENGTHS) {
        struct index_entry *entry = &index->entries[row];
        const uint64_t id = load_u32(lengths), metadata = load_u32(lengths + 4);
        entry->deleted = (deleted[row / 8] >> row % 8 & 1) != 0;
        marks += entry->deleted;
        if (id + metadata > left || (id == 0) != entry->deleted || (entry->deleted && metadata > 0))
            return fail(error, WISP_ERROR_FORMAT, file, "lengths",
                        "row %zu has an id of %" PRIu64 " bytes and metadata of %" PRIu64
                        ", but %" PRIu64 " bytes are left%s",
                        row, id, metadata, left, entry->deleted ? ", and is deleted" : "");
        entry->id = (wisp_text){texts, (size_t)id};
        entry->metadata = (wisp_text){texts + id, (size_t)metadata};
        texts += id + metadata;
        left -= id + metadata;
        if (!index_is_utf8(entry->id) || !index_is_utf8(entry->metadata))
            return fail(error, WISP_ERROR_FORMAT, file, "texts", "those of row %zu are not UTF-8",
                        row);
    }
    if (left > 0)
        return fail(error, WISP_ERROR_FORMAT, file, "texts",
                    "%" PRIu64 " bytes follow those of the last row", left);
    if (marks != l->deleted)
        return fail(error, WISP_ERROR_FORMAT, file, "deleted",
                    "%" PRIu64 " rows are marked, but there are %" PRIu64, marks, l->deleted);
    return WISP_OK;
}

static wisp_status read_entries(const struct reading *r, wisp_index *index, wisp_error *error) {
    struct arena arena = {0};
    void *deleted, *lengths, *texts;
    wisp_status status = read_to_arena(r, DELETED, &arena, &deleted, error);
    if (status == WISP_OK)
        status = read_to_arena(r, TEXT_LENGTHS, &arena, &lengths, error);
    if (status == WISP_OK)
        status = read_to_arena(r, TEXTS, &index->texts, &texts, error);
    if (status == WISP_OK)
        status = spread(r, index, deleted, lengths, texts, error);
    arena_release(&arena);
    return status;
}

static wisp_status check_vectors(const struct reading *r, const wisp_index *index,
                                 wisp_error *error) {
    const char *file = r->source->name;
    for (size_t row = 0; row < index->rows; row++) {
        const unsigned char *vector = index->vectors + row * index->row_bytes;
        const size_t values = index->dimensions * (index->scales ? 1 : sizeof(float));
        if (index->scales ? !isfinite(index->scales[row]) || index->scales[row] < 0
                          : !all_finite((const float *)(const void *)vector, index->dimensions))
            return fail(error, WISP_ERROR_FORMAT, file, index->scales ? "scales" : "vectors",
                        "that of row %zu is negative or not finite", row);
        for (size_t i = values; i < index->row_bytes; i++)
            if (vector[i] != 0)
                return fail(error, WISP_ERROR_FORMAT, file, "vectors",
                            "row %zu does not end with zeros", row);
    }
    return WISP_OK;
}

static wisp_status read_all(const struct reading *r, wisp_index *index, wisp_error *error) {
    TRY(read_model(r, index, error));
    TRY(index_reserve(index, (size_t)r->layout.rows, error));
    TRY(read_section(r, SCALES, index->scales, error));
    TRY(read_entries(r, index, error));
    TRY(read_section(r, VECTORS, index->vectors, error));
    index->rows = (size_t)r->layout.rows;
    index->deleted = (size_t)r->layout.deleted;
    swap_vectors(index);
    TRY(check_vectors(r, index, error));
    return index_sort(index, r->source->name, error);
}

wisp_status index_read(const wisp_source *source, wisp_index **index, wisp_error *error) {
    struct reading r = {.source = source};
    size_t size;
    *index = NULL;
    TRY(read_header(&r, error));
    if (!checked_size(source->size, &size))
        return fail_memory(error, source->size);
    TRY(index_new((size_t)r.layout.dimensions, r.layout.kind, index, error));
    const wisp_status status = read_all(&r, *index, error);
    if (status != WISP_OK) {
        wisp_index_close(*index);
        *index = NULL;
    }
    return status;
}

wisp_status wisp_index_open_bytes(const void *bytes, size_t size, wisp_index **index,
                                  wisp_error *error) {
    TRY(require(index, "index", error));
    *index = NULL;
    TRY(require(bytes, "bytes", error));
    const wisp_source source = {.size = size, .data = bytes, .name = "index"};
    return index_read(&source, index, error);
}

/* ---- bytes in memory ------------------------------------------------------------------------ */

wisp_status wisp_index_save_bytes(wisp_index *index, void *bytes, size_t capacity, size_t *size,
                                  wisp_error *error) {
    TRY(require(index, "index", error));
    TRY(require(size, "size", error));
    if (capacity > 0)
        TRY(require(bytes, "bytes", error));
    unsigned char *to = bytes;
    const struct byte_sink sink = {write_to_memory, &to};
    TRY(index_write(index, NULL, size, error));
    return *size <= capacity ? index_write(index, &sink, size, error) : WISP_OK;
}
