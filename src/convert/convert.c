/* SPDX-License-Identifier: Apache-2.0
 * Converts any readable model to a GGUF file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number_text.h"
#include "convert/calibration_tensors.h"
#include "convert/hot.h"
#include "convert/hot_tokens.h"
#include "convert/plan.h"
#include "convert/write_model.h"
#include "formats/schema.h"
#include "host/file.h"
#include "native/open_path.h"
#include "sparse/plan.h"

static wisp_status find_format(const char *name, const struct block_format **format,
                               wisp_error *error) {
    static const enum block_type types[] = {BLOCK_F32, BLOCK_F16, BLOCK_Q8_0, BLOCK_Q4_0};
    *format = name ? block_format_by_name(name) : NULL;
    for (size_t i = 0; *format && i < sizeof types / sizeof *types; i++)
        if ((*format)->id == types[i])
            return WISP_OK;
    return name ? fail(error, WISP_ERROR_ARGUMENT, NULL, "type",
                       "%.32s is not one of f32, f16, q8_0, q4_0; wisp quantize writes more types",
                       name)
                : WISP_OK;
}

/* Chooses the format in which a tensor is written. If `wanted` is NULL or the tensor's own, it
 * keeps its format, but vectors and convolutions of 16-bit floats become floats, since llama.cpp
 * computes with no others. Otherwise matrices of weights take `wanted`, or F16 if their rows are
 * no multiple of its block, and others become floats. */
static wisp_status plan_tensor(const struct tensor *tensor, const struct block_format *wanted,
                               const struct block_format **planned, wisp_error *error) {
    const bool is_quantisable = is_weight_matrix(tensor);
    const bool is_half = tensor->format->id == BLOCK_F16 || tensor->format->id == BLOCK_BF16;
    *planned = tensor->format;
    if ((tensor->rows == 1 || is_convolution(tensor)) && is_half)
        *planned = block_format_by_id(BLOCK_F32);
    if (!wanted || wanted == tensor->format || is_calibration_tensor(tensor->name))
        return WISP_OK;
    TRY(require_expandable(tensor, error));
    *planned = is_quantisable ? wanted : block_format_by_id(BLOCK_F32);
    if (is_quantisable && tensor->dims[0] % wanted->elements != 0)
        *planned = block_format_by_id(BLOCK_F16);
    return WISP_OK;
}

static wisp_status update_metadata(struct directory *dir, const wisp_convert_options *options,
                                   const struct block_format *type, wisp_error *error) {
    static const char share_key[] = KEY_SPARSE_SHARE;
    if (options->name) {
        const char *copy = arena_copy_text(&dir->arena, options->name, strlen(options->name));
        struct metadata *entry = find_metadata_entry(dir, "general.name");
        if (!copy)
            return fail_memory(error, strlen(options->name));
        if (!entry)
            TRY(directory_put_text(dir, "general.name", wisp_text_of(copy), error));
        else {
            entry->type = VALUE_STRING;
            entry->as.text = wisp_text_of(copy);
        }
    }
    if (options->sparsity != 0) {
        struct metadata *entry = find_metadata_entry(dir, share_key);
        if (!(options->sparsity > 0 && options->sparsity < 1))
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "sparsity", "%s is not between 0 and 1",
                        number_text((double)options->sparsity, 6).text);
        if (!entry)
            return fail(error, WISP_ERROR_NOT_FOUND, dir->file, share_key,
                        "the model is not calibrated: wisp calibrate does that");
        const struct metadata *shares = find_metadata_entry(dir, KEY_SPARSE_SHARES);
        const double step = entry->as.f - (1 - (double)options->sparsity);
        if (shares && shares->count == 1 && fabs(step) > (double)SPARSE_SAME_SHARE)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, KEY_SPARSE_SHARES,
                        "the file has thresholds of one share only");
        entry->type = VALUE_F32;
        entry->as.f = 1 - (double)options->sparsity;
    }
    if (type)
        TRY(put_file_type(dir, type, error));
    return directory_finish(dir, error);
}

static wisp_status convert(struct directory *dir, const char *output,
                           const wisp_convert_options *options, struct gguf_plan *plan,
                           wisp_error *error) {
    const struct block_format *type, *embedding_type;
    const bool chooses_hot = options->hot != 0 || options->hot_bytes > 0;
    const enum neuron_layout layout = options->plain                    ? NEURONS_PLAIN
                                      : options->neurons || chooses_hot ? NEURONS_ALL
                                                                        : NEURONS_AS_THEY_ARE;
    if (options->hot != 0 && options->hot_bytes > 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "hot", "hot_bytes is also set");
    if (options->plain && (options->neurons || chooses_hot))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "neurons",
                    "a plain model has no neurons as rows");
    plan->hot_tokens = options->hot_tokens;
    if (options->plain) {
        directory_drop_metadata(dir, KEY_ATTENTION_PREFIX);
        TRY(strip_calibration(dir, options->hot_tokens > 0, error));
    } else if (plan->hot_tokens == 0) {
        plan->hot_tokens = hot_tokens_of(dir);
    }
    TRY(find_format(options->type, &type, error));
    TRY(find_format(options->embedding_type, &embedding_type, error));
    for (size_t i = 0; i < dir->n_tensors; i++) {
        const struct tensor *tensor = &dir->tensors[i];
        const bool embedding = strcmp(tensor->name, TENSOR_TOKENS) == 0;
        TRY(plan_tensor(tensor, embedding && embedding_type ? embedding_type : type,
                        &plan->formats[i], error));
    }
    if (chooses_hot)
        TRY(choose_hot(dir, plan->formats, (double)options->hot, options->hot_bytes, error));
    TRY(update_metadata(dir, options, type, error));
    return write_model(dir, plan, layout, output, error);
}

wisp_status wisp_convert(const char *input, const char *output, const wisp_convert_options *options,
                         wisp_error *error) {
    const wisp_convert_options defaults = {0}, *o = options ? options : &defaults;
    struct gguf_plan plan = {.progress = o->progress, .progress_context = o->progress_context};
    struct directory dir;
    TRY(require(input, "input", error));
    TRY(require(output, "output", error));
    TRY(file_check_output(output, error));
    TRY(directory_open_adapted(&dir, input, o->adapter, error));
    plan.formats = calloc(dir.n_tensors + 1, sizeof *plan.formats);
    const wisp_status status = plan.formats ? convert(&dir, output, o, &plan, error)
                                            : fail_memory(error, dir.n_tensors * sizeof(void *));
    free((void *)plan.formats);
    directory_release(&dir);
    return status;
}
