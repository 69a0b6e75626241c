/* SPDX-License-Identifier: Apache-2.0
 * Quantises models with the bits of ggml's reference quantiser, or measures what that would lose.
 * Native only. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convert/calibration_tensors.h"
#include "convert/plan.h"
#include "convert/write_model.h"
#include "host/file.h"
#include "native/open_path.h"

/* From the largest to the smallest. */
static const enum block_type types[] = {
    BLOCK_F16,   BLOCK_BF16, BLOCK_Q8_0, BLOCK_Q6_K,  BLOCK_Q5_1,   BLOCK_Q5_K,
    BLOCK_Q5_0,  BLOCK_Q4_1, BLOCK_Q4_K, BLOCK_Q4_0,  BLOCK_IQ4_NL, BLOCK_IQ4_XS,
    BLOCK_MXFP4, BLOCK_Q3_K, BLOCK_Q2_K, BLOCK_TQ2_0, BLOCK_TQ1_0};

enum { TYPES = sizeof types / sizeof *types, CHUNK_VALUES = 64 * 1024 };

const char *wisp_quantize_type(size_t index) {
    return index < TYPES ? block_format_by_id(types[index])->name : NULL;
}

struct quantiser {
    const wisp_quantize_options *options;
    const struct directory *dir;
    const struct block_format *type, *embedding_type, *output_type, *fallback;
    const struct block_format **formats; /* [n_tensors]; NULL for a tensor that does not fit */
};

static wisp_status find_type(const char *option, const char *name,
                             const struct block_format **format, wisp_error *error) {
    *format = block_format_by_name(name);
    for (size_t i = 0; *format && i < TYPES; i++)
        if ((*format)->id == types[i])
            return WISP_OK;
    return fail(error, WISP_ERROR_ARGUMENT, NULL, option,
                "%.32s is not one of the types that wisp quantize --help lists", name);
}

/* Returns the type that is wanted for a matrix. */
static const struct block_format *wanted_for(const struct quantiser *q,
                                             const struct tensor *tensor) {
    if (strcmp(tensor->name, "token_embd.weight") == 0)
        return q->embedding_type;
    return strcmp(tensor->name, "output.weight") == 0 ? q->output_type : q->type;
}

/* Chooses the format of a tensor. With `required`, a matrix that fits no named type is an error. */
static wisp_status plan_tensor(struct quantiser *q, size_t index, bool required,
                               wisp_error *error) {
    const struct tensor *tensor = &q->dir->tensors[index];
    const struct block_format *wanted = wanted_for(q, tensor), **planned = &q->formats[index];
    *planned = tensor->format;
    if (is_calibration_tensor(tensor->name))
        return WISP_OK;
    if (!is_weight_matrix(tensor)) {
        *planned = block_format_by_id(BLOCK_F32);
        return require_expandable(tensor, error);
    }
    if (tensor->dims[0] % wanted->elements == 0)
        *planned = wanted;
    else if (q->fallback && tensor->dims[0] % q->fallback->elements == 0)
        *planned = q->fallback;
    else if (required)
        return fail(error, WISP_ERROR_UNSUPPORTED, q->dir->file, tensor->name,
                    "rows of %llu values are not whole blocks of %s, which have %u%s",
                    (unsigned long long)tensor->dims[0], (q->fallback ? q->fallback : wanted)->name,
                    (q->fallback ? q->fallback : wanted)->elements,
                    q->fallback ? "" : "; name a fallback for such matrices");
    else
        *planned = NULL;
    return *planned == tensor->format ? WISP_OK : require_expandable(tensor, error);
}

/* Hands a tensor to the caller. `loss` is of the elements that were quantised, and not NULL. */
static void report(const struct quantiser *q, size_t index, const struct conversion_loss *loss) {
    const struct tensor *tensor = &q->dir->tensors[index];
    const struct block_format *format = q->formats[index];
    uint64_t row_bytes = 0;
    const bool quantised = loss->values > 0 && format != block_format_by_id(BLOCK_F32);
    if (!q->options->tensor)
        return;
    if (format)
        block_row_bytes(format, tensor->dims[0], &row_bytes);
    const wisp_quantized_tensor told = {
        .name = tensor->name,
        .type = format ? format->name : NULL,
        .fits = format != NULL,
        .fallback = quantised && format != wanted_for(q, tensor),
        .quantised = quantised,
        .elements = tensor->rows * tensor->dims[0],
        .bytes = tensor->rows * row_bytes,
        .mse = quantised ? loss->differences / (double)loss->values : 0,
        .cosine = loss->squares > 0 && loss->squares_back > 0 && quantised
                      ? loss->products / (sqrt(loss->squares) * sqrt(loss->squares_back))
                  : quantised && loss->squares > 0 ? 0
                                                   : 1};
    q->options->tensor(q->options->context, &told);
}

static void report_written(void *context, size_t index, const struct conversion_loss *loss) {
    report(context, index, loss);
}

/* ---- measuring ------------------------------------------------------------------------------ */

static wisp_status tell_progress(const struct quantiser *q, size_t done, wisp_error *error) {
    const wisp_quantize_options *o = q->options;
    if (o->progress && !o->progress(o->context, done, q->dir->n_tensors))
        return fail(error, WISP_ERROR_CANCELLED, q->dir->file, NULL, "cancelled");
    return WISP_OK;
}

/* Quantises rows at equal distances, as many as the sample asks for. */
static wisp_status measure_tensor(const struct quantiser *q, size_t index,
                                  struct conversion_loss *loss, wisp_error *error) {
    const struct tensor *tensor = &q->dir->tensors[index];
    const uint64_t sample = q->options->sample;
    uint64_t rows = sample ? sample / tensor->dims[0] + 1 : tensor->rows;
    struct row_converter converter;
    struct tensor_cache cache = {0};
    const void *bytes;
    if (rows > tensor->rows)
        rows = tensor->rows;
    const uint64_t most = rows == tensor->rows ? CHUNK_VALUES / tensor->dims[0] + 1 : 1;
    wisp_status status = row_converter_open(&converter, q->dir, tensor, q->formats[index], true,
                                            most, &cache, error);
    for (uint64_t i = 0, here; i < rows && status == WISP_OK; i += here) {
        const uint64_t first = i * tensor->rows / rows;
        here = rows - i < most ? rows - i : most;
        status = row_converter_read(&converter, first, here, &bytes, error);
        if (status == WISP_OK)
            status = tell_progress(q, index, error);
    }
    *loss = converter.loss;
    row_converter_close(&converter);
    tensor_cache_release(&cache);
    return status;
}

static wisp_status measure(const struct quantiser *q, wisp_error *error) {
    for (size_t i = 0; i < q->dir->n_tensors; i++) {
        struct conversion_loss loss = {0};
        if (q->formats[i] && q->formats[i] != q->dir->tensors[i].format)
            TRY(measure_tensor(q, i, &loss, error));
        report(q, i, &loss);
        TRY(tell_progress(q, i + 1, error));
    }
    return WISP_OK;
}

static wisp_status quantize(struct directory *dir, const char *output, const char *type,
                            struct quantiser *q, wisp_error *error) {
    const wisp_quantize_options *o = q->options;
    TRY(find_type("type", type, &q->type, error));
    q->embedding_type = q->output_type = q->type;
    if (o->embedding_type)
        TRY(find_type("embedding_type", o->embedding_type, &q->embedding_type, error));
    if (o->output_type)
        TRY(find_type("output_type", o->output_type, &q->output_type, error));
    if (o->fallback)
        TRY(find_type("fallback", o->fallback, &q->fallback, error));
    for (size_t i = 0; i < dir->n_tensors; i++)
        TRY(plan_tensor(q, i, output != NULL, error));
    if (!output)
        return measure(q, error);
    const struct gguf_plan plan = {.formats = q->formats,
                                   .as_reference = true,
                                   .written = report_written,
                                   .written_context = q,
                                   .progress = o->progress,
                                   .progress_context = o->context};
    TRY(put_file_type(dir, q->type, error));
    return write_model(dir, &plan, NEURONS_PLAIN, output, error);
}

wisp_status wisp_quantize(const char *input, const char *output, const char *type,
                          const wisp_quantize_options *options, wisp_error *error) {
    const wisp_quantize_options defaults = {0};
    struct directory dir;
    struct quantiser q = {.options = options ? options : &defaults, .dir = &dir};
    TRY(require(input, "input", error));
    TRY(require(type, "type", error));
    if (output)
        TRY(file_check_output(output, error));
    TRY(directory_open_path(&dir, input, error));
    q.formats = calloc(dir.n_tensors + 1, sizeof *q.formats);
    const wisp_status status = q.formats ? quantize(&dir, output, type, &q, error)
                                         : fail_memory(error, dir.n_tensors * sizeof(void *));
    free((void *)q.formats);
    directory_release(&dir);
    return status;
}
