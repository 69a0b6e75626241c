/* SPDX-License-Identifier: Apache-2.0 */
#include "quantise/pad_neurons.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "convert/calibration_tensors.h"
#include "convert/plan.h"
#include "formats/schema.h"

/* The `make` of a padded tensor (struct tensor): makes rows of another tensor with zeros behind
 * their values, and rows of zeros behind its rows. */
static wisp_status make_padded(const struct directory *dir, const struct tensor *tensor,
                               uint64_t first, uint64_t rows, struct tensor_cache *cache,
                               void *buffer, const void **bytes, wisp_error *error) {
    const struct tensor *stored = tensor->maker;
    const size_t n = (size_t)tensor->dims[0];
    wisp_status status = WISP_OK;
    float *out = buffer;
    void *row = malloc((size_t)stored->row_bytes);
    if (!row)
        return fail_memory(error, stored->row_bytes);
    memset(out, 0, (size_t)rows * n * sizeof *out);
    for (uint64_t i = 0; i < rows && first + i < stored->rows && status == WISP_OK; i++)
        status = directory_floats(dir, stored, first + i, 1, cache, row, out + i * n, error);
    free(row);
    swap_file_numbers(out, (size_t)rows * n, sizeof *out); /* as a file has them */
    *bytes = buffer;
    return status;
}

/* Pads dimension `dim` of a tensor from `neurons` to n with zeros, if the file has the
 * tensor. */
static wisp_status pad_tensor(struct directory *dir, size_t layer, const char *part,
                              const char *suffix, size_t dim, uint64_t neurons, uint64_t n,
                              wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    struct tensor *tensor = NULL, *stored;
    layer_tensor_name(name, layer, part, suffix);
    for (size_t i = 0; i < dir->n_tensors; i++)
        if (strcmp(dir->tensors[i].name, name) == 0)
            tensor = &dir->tensors[i];
    if (!tensor)
        return WISP_OK;
    if (dim >= tensor->n_dims || tensor->dims[dim] != neurons)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, tensor->name,
                    "its shape is not that of %llu neurons", (unsigned long long)neurons);
    TRY(require_expandable(tensor, error));
    ARENA_TAKE(&dir->arena, stored, 1, error);
    *stored = *tensor;
    tensor->dims[dim] = n;
    tensor->format = block_format_by_id(BLOCK_F32);
    tensor->make = make_padded;
    tensor->maker = stored;
    return directory_measure_tensor(dir, tensor, error);
}

wisp_status neurons_pad(struct directory *dir, uint32_t multiple, wisp_error *error) {
    static const char *const widened[] = {TENSOR_FFN_UP, TENSOR_FFN_GATE};
    const char *architecture = NULL;
    char key[128];
    uint32_t neurons = 0, layers = 0;
    TRY(metadata_text(dir, "general.architecture", &architecture, error));
    snprintf(key, sizeof key, "%.64s.block_count", architecture);
    TRY(metadata_u32(dir, key, &layers, error));
    snprintf(key, sizeof key, "%.64s.feed_forward_length", architecture);
    TRY(metadata_u32(dir, key, &neurons, error));
    if (neurons % multiple == 0 || neurons > UINT32_MAX - multiple)
        return WISP_OK;
    bool calibrated = directory_find_metadata(dir, KEY_NEURONS_TYPES) != NULL;
    for (size_t i = 0; i < dir->n_tensors; i++)
        calibrated = calibrated || is_calibration_tensor(dir->tensors[i].name);
    if (calibrated)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, key,
                    "neurons that are calibrated or stored as rows cannot be padded");
    const uint32_t n = neurons + (multiple - neurons % multiple);
    struct metadata *entry = find_metadata_entry(dir, key);
    entry->type = VALUE_U32;
    entry->as.u = n;
    for (size_t l = 0; l < layers && l < dir->n_tensors; l++) {
        for (size_t i = 0; i < sizeof widened / sizeof *widened; i++) {
            TRY(pad_tensor(dir, l, widened[i], TENSOR_WEIGHT, 1, neurons, n, error));
            TRY(pad_tensor(dir, l, widened[i], TENSOR_BIAS, 0, neurons, n, error));
        }
        TRY(pad_tensor(dir, l, TENSOR_FFN_DOWN, TENSOR_WEIGHT, 0, neurons, n, error));
    }
    /* Others, such as a norm over neurons, would not fit those that were padded. */
    for (size_t i = 0; i < dir->n_tensors; i++) {
        const struct tensor *tensor = &dir->tensors[i];
        for (size_t d = 0; d < tensor->n_dims; d++)
            if (tensor->make != make_padded && tensor->dims[d] == neurons &&
                strstr(tensor->name, ".ffn_"))
                return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, tensor->name,
                            "a tensor of neurons that cannot be padded");
    }
    return WISP_OK;
}
