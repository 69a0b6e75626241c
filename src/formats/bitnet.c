/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bitnet.h"

#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/half.h"
#include "formats/schema.h"
#include "quant/i2_s.h"
#include "quant/t158.h"

/* Checks an entry of the metadata, if the file has it. Keys are not sorted yet. */
static wisp_status check_key(const struct directory *dir, const char *key, const char *known,
                             bool *found, wisp_error *error) {
    for (size_t i = 0; i < dir->n_metadata; i++) {
        const struct metadata *entry = &dir->metadata[i];
        if (strcmp(entry->key, key) != 0)
            continue;
        *found = true;
        if (entry->type != VALUE_STRING)
            return fail(error, WISP_ERROR_FORMAT, dir->file, key,
                        "a value of type %s; expected string", value_type_name(entry->type));
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

enum { BLOCKS_AT_A_TIME = 64 };

/* struct tensor's `make` of BITNET_T158: expands the elements of rows, wherever their blocks begin.
 */
static wisp_status make_t158_rows(const struct directory *dir, const struct tensor *tensor,
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
    swap_file_numbers(buffer, (size_t)(rows * tensor->dims[0]), sizeof *out);
    *bytes = buffer;
    return WISP_OK;
}

/* struct tensor's `make` of I2_S: the scale follows the rows. */
static wisp_status make_i2_s_rows(const struct directory *dir, const struct tensor *tensor,
                                  uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                  void *buffer, const void **bytes, wisp_error *error) {
    unsigned char blocks[BLOCKS_AT_A_TIME * I2_S_BYTES], stored_scale[4];
    const struct tensor *stored = tensor->maker;
    const wisp_source *source = &dir->sources[stored->source];
    const uint64_t begin = first * tensor->dims[0], end = begin + rows * tensor->dims[0];
    float *out = buffer;
    (void)cache;
    TRY(source_read(source, stored->name,
                    stored->offset + stored->rows * (stored->dims[0] / I2_S_BLOCK * I2_S_BYTES),
                    stored_scale, sizeof stored_scale, error));
    const float scale = float_of_bits(load_u32(stored_scale));
    if (!all_finite(&scale, 1))
        return fail(error, WISP_ERROR_FORMAT, source->name, stored->name,
                    "its scale is not finite");
    for (uint64_t at = begin; at < end;) {
        const uint64_t left = (end - at) / I2_S_BLOCK;
        const size_t count = left < BLOCKS_AT_A_TIME ? (size_t)left : BLOCKS_AT_A_TIME;
        TRY(source_read(source, stored->name, stored->offset + at / I2_S_BLOCK * I2_S_BYTES, blocks,
                        count * I2_S_BYTES, error));
        const size_t n = count * I2_S_BLOCK, wrong = i2_s_expand(blocks, n, scale, out);
        if (wrong < n)
            return fail(error, WISP_ERROR_FORMAT, source->name, stored->name,
                        "element %llu has the reserved code 11", (unsigned long long)(at + wrong));
        out += n;
        at += n;
    }
    swap_file_numbers(buffer, (size_t)(rows * tensor->dims[0]), sizeof *out);
    *bytes = buffer;
    return WISP_OK;
}

const struct bitnet_maker bitnet_t158 = {.type = BLOCK_T158, .make = make_t158_rows};
const struct bitnet_maker bitnet_i2_s = {
    .type = BLOCK_I2_S, .keeps_format = true, .make = make_i2_s_rows};

/* Returns the maker of this type, or the one that made a tensor; NULL: there is none. */
static const struct bitnet_maker *maker_of(uint32_t type) {
    for (size_t i = 0; bitnet_makers[i]; i++)
        if (bitnet_makers[i]->type == type)
            return bitnet_makers[i];
    return NULL;
}

static const struct bitnet_maker *maker_that_made(const struct tensor *tensor) {
    for (size_t i = 0; bitnet_makers[i]; i++)
        if (bitnet_makers[i]->make == tensor->make)
            return bitnet_makers[i];
    return NULL;
}

const struct block_format *bitnet_format(const struct tensor *tensor) {
    const struct bitnet_maker *maker = maker_that_made(tensor);
    const struct tensor *stored = tensor->maker;
    return maker && maker->keeps_format ? stored->format : tensor->format;
}

wisp_status bitnet_make_tensor(const struct directory *dir, struct tensor *tensor,
                               const struct tensor *stored, wisp_error *error) {
    tensor->make = make_t158_rows;
    tensor->format = block_format_by_id(BLOCK_F32);
    tensor->maker = stored;
    return directory_measure_tensor(dir, tensor, error);
}

static bool needs_rows(const struct tensor *tensor) {
    return block_rows_depend(tensor->format, tensor->dims[0]) && maker_of(tensor->format->id);
}

wisp_status bitnet_make_rows(struct directory *dir, wisp_error *error) {
    size_t found = 0;
    for (size_t i = 0; i < dir->n_tensors; i++)
        found += needs_rows(&dir->tensors[i]);
    if (found == 0)
        return WISP_OK;
    if (dir->stored)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, KEY_NEURONS_TYPES,
                    "neurons or tokens stored in the order of their use beside tensors of I2_S, or "
                    "of BITNET_T158 whose rows are not whole blocks");
    TRY(directory_keep_stored(dir, error));
    for (size_t i = 0; i < dir->n_tensors; i++) {
        struct tensor *tensor = &dir->tensors[i];
        if (!needs_rows(tensor))
            continue;
        tensor->make = maker_of(tensor->format->id)->make;
        tensor->format = block_format_by_id(BLOCK_F32);
        tensor->maker = &dir->stored[i];
        TRY(directory_measure_tensor(dir, tensor, error));
    }
    return WISP_OK;
}

bool bitnet_made(const struct tensor *tensor) {
    return maker_that_made(tensor) != NULL;
}
