/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bitnet.h"

#include <stdlib.h>
#include <string.h>

#include "formats/schema.h"
#include "quant/t158.h"

/* Checks an entry of the metadata, where the file has it. Keys are not sorted yet. */
static wisp_status check_key(const struct directory *dir, const char *key, const char *known,
                             bool *found, wisp_error *error) {
    for (size_t i = 0; i < dir->n_metadata; i++) {
        const struct metadata *entry = &dir->metadata[i];
        if (strcmp(entry->key, key) != 0)
            continue;
        *found = true;
        if (entry->type != VALUE_STRING)
            return fail(error, WISP_ERROR_FORMAT, dir->file, key,
                        "a value of type %s, where string belongs", value_type_name(entry->type));
        if (strcmp(entry->as.text.bytes, known) != 0)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, key,
                        "%.32s is not supported, only %s", entry->as.text.bytes, known);
    }
    return WISP_OK;
}

wisp_status bitnet_read_keys(const struct directory *dir, bool *ternary, wisp_error *error) {
    bool sized = false;
    *ternary = false;
    TRY(check_key(dir, KEY_BITNET_VERSION, BITNET_VERSION, ternary, error));
    return *ternary ? check_key(dir, KEY_BITNET_BLOCK_SIZE, BITNET_BLOCK_SIZE, &sized, error)
                    : WISP_OK;
}

#if !defined(__wasm__) || defined(WISP_CONVERTER)

enum { BLOCKS_AT_A_TIME = 64 };

/* struct tensor's `make`: expands the elements of rows, wherever their blocks begin. */
static wisp_status make_rows(const struct directory *dir, const struct tensor *tensor,
                             uint64_t first, uint64_t rows, struct tensor_cache *cache,
                             void *buffer, const void **bytes, wisp_error *error) {
    unsigned char blocks[BLOCKS_AT_A_TIME * T158_BYTES];
    float values[BLOCKS_AT_A_TIME * T158_BLOCK];
    const struct tensor *stored = tensor->maker;
    const wisp_source *source = &dir->sources[stored->source];
    uint64_t at = first * tensor->dims[0];
    const uint64_t end = at + rows * tensor->dims[0];
    float *out = buffer;
    (void)cache;
    while (at < end) {
        const uint64_t block = at / T158_BLOCK, skipped = at % T158_BLOCK;
        const uint64_t left = skipped + end - at;
        const size_t n =
            left < BLOCKS_AT_A_TIME * T158_BLOCK ? (size_t)left : BLOCKS_AT_A_TIME * T158_BLOCK;
        const size_t count = (n + T158_BLOCK - 1) / T158_BLOCK;
        TRY(source_read(source, stored->name, stored->offset + block * T158_BYTES, blocks,
                        count * T158_BYTES, error));
        stored->format->dequantise(blocks, n, values);
        for (size_t i = (size_t)skipped; i < n; i++, at++) {
            if (!all_finite(&values[i], 1))
                return fail(error, WISP_ERROR_FORMAT, source->name, stored->name, "element %llu %s",
                            (unsigned long long)at, t158_problem(blocks, i));
            *out++ = values[i];
        }
    }
    *bytes = buffer;
    return WISP_OK;
}

static bool needs_rows(const struct tensor *tensor) {
    return tensor->format->id == BLOCK_T158 && tensor->dims[0] % T158_BLOCK != 0;
}

wisp_status bitnet_make_rows(struct directory *dir, wisp_error *error) {
    size_t found = 0;
    for (size_t i = 0; i < dir->n_tensors; i++)
        found += needs_rows(&dir->tensors[i]);
    if (found == 0)
        return WISP_OK;
    if (dir->stored)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, KEY_NEURONS_TYPES,
                    "neurons or tokens stored in the order of their use beside BITNET_T158 tensors "
                    "whose rows are no whole blocks");
    dir->stored = malloc(dir->n_tensors * sizeof *dir->stored);
    if (!dir->stored)
        return fail_memory(error, dir->n_tensors * sizeof *dir->stored);
    memcpy(dir->stored, dir->tensors, dir->n_tensors * sizeof *dir->stored);
    dir->n_stored = dir->n_tensors;
    for (size_t i = 0; i < dir->n_tensors; i++) {
        struct tensor *tensor = &dir->tensors[i];
        if (!needs_rows(tensor))
            continue;
        tensor->format = block_format_by_id(BLOCK_F32);
        tensor->make = make_rows;
        tensor->maker = &dir->stored[i];
        TRY(directory_measure_tensor(dir, tensor, error));
    }
    return WISP_OK;
}

#endif

bool bitnet_made(const struct tensor *tensor) {
#if defined(__wasm__) && !defined(WISP_CONVERTER)
    (void)tensor;
    return false;
#else
    return tensor->make == make_rows;
#endif
}
