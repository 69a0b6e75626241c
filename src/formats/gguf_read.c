/* SPDX-License-Identifier: Apache-2.0
 * Compares every number from the file with the bytes that remain before using it. */
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/half.h"
#include "base/utf8.h"
#include "formats/bitnet.h"
#include "formats/gguf.h"
#include "formats/schema.h"

enum {
    WINDOW_BYTES = 64 * 1024,
    MIN_METADATA_BYTES = 8 + 1 + 4 + 1, /* length of the key, key, type, value */
    MIN_TENSOR_BYTES =
        8 + 1 + 4 + 8 + 4 + 8, /* length of the name, name, n_dims, a dim, type, offset */
    DEFAULT_ALIGNMENT = 32,
    MAX_ALIGNMENT = 65536
};

/* A position in the source. A source that is not in memory is read through a window. */
struct cursor {
    struct directory *dir;
    const wisp_source *source;
    uint32_t source_index;
    uint64_t at;
    unsigned char *window; /* holds bytes from window_start on; NULL for a source in memory */
    uint64_t window_start;
    size_t window_length;
    uint64_t alignment;
    size_t first_tensor, first_metadata; /* of this source in the directory */
    bool ternary;                        /* tensors with BF16's number are BITNET_T158 */
    wisp_error *error;
};

static wisp_status malformed(const struct cursor *c, const char *field, const char *problem) {
    return fail(c->error, WISP_ERROR_FORMAT, c->source->name, field, "%s (at byte %llu)", problem,
                (unsigned long long)c->at);
}

/* Reports a wrong number; `problem` continues the sentence that the number begins. */
static wisp_status bad_number(const struct cursor *c, const char *field, uint64_t number,
                              const char *problem) {
    return fail(c->error, WISP_ERROR_FORMAT, c->source->name, field, "%llu %s (at byte %llu)",
                (unsigned long long)number, problem, (unsigned long long)c->at);
}

static uint64_t remaining(const struct cursor *c) {
    return c->source->size - c->at;
}

/* Returns the bytes from the cursor on that may be read. */
static uint64_t available(const struct cursor *c) {
    const uint64_t end = c->source->available;
    return end == 0 || end > c->source->size ? remaining(c) : end > c->at ? end - c->at : 0;
}

/* Reads the bytes from the cursor on into the window. */
static wisp_status fill_window(struct cursor *c) {
    const uint64_t left = available(c);
    c->window_start = c->at;
    c->window_length = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
    return source_read(c->source, NULL, c->at, c->window, c->window_length, c->error);
}

/* Copies the next `length` bytes to `out`. It is an error if the file has fewer left. */
static wisp_status take(struct cursor *c, const char *field, void *out, uint64_t length) {
    if (length > remaining(c))
        return malformed(c, field, "the file ends too early");
    if (length > available(c))
        return fail(c->error, WISP_ERROR_IO, c->source->name, field,
                    "the first %llu bytes of the file, which are there, end within the header",
                    (unsigned long long)c->source->available);
    unsigned char *to = out;
    if (c->source->data) {
        memcpy(to, (const unsigned char *)c->source->data + c->at, (size_t)length);
        c->at += length;
        return WISP_OK;
    }
    while (length > 0) {
        if (c->at < c->window_start || c->at >= c->window_start + c->window_length)
            TRY(fill_window(c));
        const size_t offset = (size_t)(c->at - c->window_start);
        const size_t here = c->window_length - offset;
        const size_t step = length < here ? (size_t)length : here;
        memcpy(to, c->window + offset, step);
        to += step;
        c->at += step;
        length -= step;
    }
    return WISP_OK;
}

static wisp_status take_u32(struct cursor *c, const char *field, uint32_t *value) {
    unsigned char bytes[4];
    TRY(take(c, field, bytes, sizeof bytes));
    *value = load_u32(bytes);
    return WISP_OK;
}

static wisp_status take_u64(struct cursor *c, const char *field, uint64_t *value) {
    unsigned char bytes[8];
    TRY(take(c, field, bytes, sizeof bytes));
    *value = load_u64(bytes);
    return WISP_OK;
}

/* Allocates count elements and a terminating zero in an arena. Returns NULL also if the size
 * overflows, which happens with large files in WebAssembly. */
static void *reserve(struct arena *arena, uint64_t count, size_t element_bytes) {
    uint64_t bytes;
    size_t length;
    if (!checked_multiply(count, element_bytes, &bytes) || !checked_add(bytes, 1, &bytes) ||
        !checked_size(bytes, &length))
        return NULL;
    return arena_allocate(arena, length);
}

static wisp_status take_text(struct cursor *c, const char *field, struct arena *arena,
                             wisp_text *text) {
    uint64_t length;
    TRY(take_u64(c, field, &length));
    if (length > remaining(c))
        return bad_number(c, field, length, "bytes of text are more than the file has left");
    char *bytes = reserve(arena, length, 1);
    if (!bytes)
        return fail_memory(c->error, length);
    TRY(take(c, field, bytes, length));
    *text = (wisp_text){bytes, (size_t)length};
    return WISP_OK;
}

/* Reads a key or the name of a tensor, which must be valid UTF-8 without NUL and not empty. */
static wisp_status take_name(struct cursor *c, const char *field, const char **name) {
    wisp_text text;
    TRY(take_text(c, field, &c->dir->arena, &text));
    if (text.length == 0)
        return malformed(c, field, "an empty name");
    for (size_t i = 0; i < text.length;) {
        uint32_t code_point;
        i += utf8_decode(text.bytes + i, text.length - i, &code_point);
        if (code_point == UTF8_INVALID || code_point == 0)
            return malformed(c, field, "a name that is not valid UTF-8 text");
    }
    *name = text.bytes;
    return WISP_OK;
}

static wisp_status take_texts(struct cursor *c, struct metadata *entry) {
    const bool tokens = strcmp(entry->key, KEY_GGML_TOKENS) == 0;
    struct arena *arena = tokens ? &c->dir->vocabulary : &c->dir->arena;
    wisp_text *texts = reserve(arena, entry->count, sizeof *texts);
    if (!texts)
        return fail_memory(c->error, entry->count * sizeof *texts);
    for (uint64_t i = 0; i < entry->count; i++)
        TRY(take_text(c, entry->key, arena, &texts[i]));
    entry->as.texts = texts;
    return WISP_OK;
}

static wisp_status take_numbers(struct cursor *c, struct metadata *entry, size_t element_bytes) {
    void *numbers = reserve(&c->dir->arena, entry->count, element_bytes);
    if (!numbers)
        return fail_memory(c->error, entry->count * element_bytes);
    TRY(take(c, entry->key, numbers, entry->count * element_bytes));
    swap_file_numbers(numbers, (size_t)entry->count, element_bytes);
    entry->as.numbers = numbers;
    return WISP_OK;
}

static wisp_status take_array(struct cursor *c, struct metadata *entry) {
    uint32_t element;
    TRY(take_u32(c, entry->key, &element));
    TRY(take_u64(c, entry->key, &entry->count));
    entry->element = (enum value_type)element;
    if (element == VALUE_ARRAY)
        return fail(c->error, WISP_ERROR_UNSUPPORTED, c->source->name, entry->key,
                    "arrays of arrays are not supported");
    const bool texts = element == VALUE_STRING;
    const size_t element_bytes = texts ? 8 : value_type_bytes(entry->element);
    if (element_bytes == 0)
        return bad_number(c, entry->key, element,
                          "is not a type that an array's elements may have");
    if (entry->count > remaining(c) / element_bytes)
        return bad_number(c, entry->key, entry->count, "elements are more than the file has left");
    return texts ? take_texts(c, entry) : take_numbers(c, entry, element_bytes);
}

static int64_t sign_extend(uint64_t value, size_t bytes) {
    const unsigned shift = 64 - 8 * (unsigned)bytes;
    return (int64_t)(value << shift) >> shift;
}

static wisp_status take_scalar(struct cursor *c, struct metadata *entry) {
    const size_t bytes = value_type_bytes(entry->type);
    unsigned char raw[8] = {0};
    TRY(take(c, entry->key, raw, bytes));
    const uint64_t value = load_u64(raw);
    switch (entry->type) {
    case VALUE_I8:
    case VALUE_I16:
    case VALUE_I32:
    case VALUE_I64:
        entry->as.i = sign_extend(value, bytes);
        return WISP_OK;
    case VALUE_F32:
        entry->as.f = (double)float_of_bits((uint32_t)value);
        return WISP_OK;
    case VALUE_F64:
        memcpy(&entry->as.f, &value, sizeof value);
        return WISP_OK;
    case VALUE_BOOL:
        if (value > 1)
            return bad_number(c, entry->key, value, "as a bool is neither 0 nor 1");
        entry->as.b = value == 1;
        return WISP_OK;
    default:
        entry->as.u = value;
        return WISP_OK;
    }
}

static wisp_status take_metadata(struct cursor *c) {
    struct metadata *entry;
    uint32_t type;
    TRY(directory_add_metadata(c->dir, &entry, c->error));
    TRY(take_name(c, "metadata key", &entry->key));
    TRY(take_u32(c, entry->key, &type));
    entry->type = (enum value_type)type;
    if (type == VALUE_STRING)
        return take_text(c, entry->key, &c->dir->arena, &entry->as.text);
    if (type == VALUE_ARRAY)
        return take_array(c, entry);
    if (value_type_bytes(entry->type) == 0)
        return bad_number(c, entry->key, type, "is not a type that a value may have");
    return take_scalar(c, entry);
}

static wisp_status take_tensor(struct cursor *c) {
    struct tensor *entry;
    uint32_t type;
    TRY(directory_add_tensor(c->dir, &entry, c->error));
    entry->source = c->source_index;
    TRY(take_name(c, "tensor name", &entry->name));
    TRY(take_u32(c, entry->name, &entry->n_dims));
    if (entry->n_dims == 0 || entry->n_dims > TENSOR_MAX_DIMS)
        return bad_number(c, entry->name, entry->n_dims, "dimensions; 1 to 4 are possible");
    for (uint32_t i = 0; i < entry->n_dims; i++)
        TRY(take_u64(c, entry->name, &entry->dims[i]));
    TRY(take_u32(c, entry->name, &type));
    entry->format = c->ternary && type == BLOCK_BF16 ? block_format_by_id(BLOCK_T158)
                    : type <= UINT16_MAX             ? block_format_by_id(type)
                                                     : NULL;
    if (!entry->format)
        return fail(c->error, WISP_ERROR_UNSUPPORTED, c->source->name, entry->name,
                    "tensors of type %u are not known", type);
    return take_u64(c, entry->name, &entry->offset);
}

/* Checks that the tensors follow one another with no gaps except for alignment, as all writers lay
 * them out. Then no two tensors overlap, and every byte of the file has a known meaning. */
static wisp_status place_tensors(struct cursor *c) {
    uint64_t start, expected = 0;
    if (!checked_align(c->at, c->alignment, &start) || start > c->source->size) {
        if (c->dir->n_tensors > c->first_tensor)
            return malformed(c, "tensor data", "the file ends before it");
        start = c->source->size;
    }
    for (size_t i = c->first_tensor; i < c->dir->n_tensors; i++) {
        struct tensor *entry = &c->dir->tensors[i];
        if (entry->offset != expected)
            return fail(c->error, WISP_ERROR_FORMAT, c->source->name, entry->name,
                        "its data is at offset %llu, but %llu follows from the tensors before",
                        (unsigned long long)entry->offset, (unsigned long long)expected);
        if (!checked_add(entry->offset, start, &entry->offset))
            return malformed(c, entry->name, "its offset overflows");
        TRY(directory_check_tensor(c->dir, entry, c->error));
        if (!checked_add(expected, entry->bytes, &expected) ||
            !checked_align(expected, c->alignment, &expected))
            return malformed(c, entry->name, "the sizes of the tensors overflow");
    }
    return WISP_OK;
}

static wisp_status take_header(struct cursor *c, uint64_t *n_tensors, uint64_t *n_metadata) {
    char magic[4];
    uint32_t version;
    TRY(take(c, "magic", magic, sizeof magic));
    if (memcmp(magic, "GGUF", sizeof magic) != 0)
        return malformed(c, "magic", "not a GGUF file");
    TRY(take_u32(c, "version", &version));
    if (version != 2 && version != 3)
        return fail(c->error, WISP_ERROR_UNSUPPORTED, c->source->name, "version",
                    version && (version & 0xffff) == 0
                        ? "big-endian files are not supported (%#x)"
                        : "GGUF version %u is not supported, only 2 and 3",
                    version);
    TRY(take_u64(c, "tensor count", n_tensors));
    TRY(take_u64(c, "metadata count", n_metadata));
    if (*n_tensors > remaining(c) / MIN_TENSOR_BYTES)
        return bad_number(c, "tensor count", *n_tensors, "are more than the file has room for");
    if (*n_metadata > remaining(c) / MIN_METADATA_BYTES)
        return bad_number(c, "metadata count", *n_metadata, "are more than the file has room for");
    return WISP_OK;
}

/* Reads the alignment, which decides where the data of the tensors begins. */
static wisp_status find_alignment(struct cursor *c) {
    c->alignment = DEFAULT_ALIGNMENT;
    for (size_t i = c->first_metadata; i < c->dir->n_metadata; i++) {
        const struct metadata *entry = &c->dir->metadata[i];
        if (strcmp(entry->key, "general.alignment") != 0)
            continue;
        if (entry->type != VALUE_U32)
            return fail(c->error, WISP_ERROR_FORMAT, c->source->name, entry->key,
                        "a value of type %s; expected u32", value_type_name(entry->type));
        const uint64_t value = entry->as.u;
        if (value < 8 || value > MAX_ALIGNMENT || (value & (value - 1)) != 0)
            return fail(c->error, WISP_ERROR_FORMAT, c->source->name, entry->key,
                        "%llu is not a power of two from 8 to %d", (unsigned long long)value,
                        MAX_ALIGNMENT);
        c->alignment = value;
    }
    return WISP_OK;
}

static wisp_status read_all(struct cursor *c) {
    uint64_t n_tensors, n_metadata;
    TRY(take_header(c, &n_tensors, &n_metadata));
    for (uint64_t i = 0; i < n_metadata; i++)
        TRY(take_metadata(c));
    TRY(bitnet_read_keys(c->dir, &c->ternary, c->error));
    for (uint64_t i = 0; i < n_tensors; i++)
        TRY(take_tensor(c));
    TRY(find_alignment(c));
    return place_tensors(c);
}

wisp_status gguf_read_part(struct directory *dir, uint32_t index, wisp_error *error) {
    struct cursor c = {.dir = dir,
                       .source = &dir->sources[index],
                       .source_index = index,
                       .first_tensor = dir->n_tensors,
                       .first_metadata = dir->n_metadata,
                       .error = error};
    if (!c.source->data) {
        c.window = malloc(WINDOW_BYTES);
        if (!c.window)
            return fail_memory(error, WINDOW_BYTES);
    }
    const wisp_status status = read_all(&c);
    free(c.window);
    return status;
}

wisp_status gguf_finish(struct directory *dir, wisp_error *error) {
    wisp_status status = directory_finish(dir, error);
    for (size_t i = 0; gguf_steps[i] && status == WISP_OK; i++)
        status = gguf_steps[i](dir, error);
    return status;
}

wisp_status gguf_read(struct directory *dir, uint32_t index, wisp_error *error) {
    const wisp_status status = gguf_read_part(dir, index, error);
    return status == WISP_OK ? gguf_finish(dir, error) : status;
}
