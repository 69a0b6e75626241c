/* SPDX-License-Identifier: Apache-2.0
 * Quantises models with the bits of ggml's reference quantiser, or measures what that would lose.
 * Native only. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number_text.h"
#include "convert/calibration_tensors.h"
#include "convert/plan.h"
#include "convert/write_model.h"
#include "formats/schema.h"
#include "host/file.h"
#include "native/open_path.h"
#include "quantise/pad_neurons.h"
#include "quantise/policy.h"

/* The types, from the largest to the smallest; last comes the one that ggml does not have. */
static const enum block_type types[] = {
    BLOCK_F16,   BLOCK_BF16, BLOCK_Q8_0, BLOCK_Q6_K,  BLOCK_Q5_1,   BLOCK_Q5_K,
    BLOCK_Q5_0,  BLOCK_Q4_1, BLOCK_Q4_K, BLOCK_Q4_0,  BLOCK_IQ4_NL, BLOCK_IQ4_XS,
    BLOCK_MXFP4, BLOCK_Q3_K, BLOCK_Q2_K, BLOCK_TQ2_0, BLOCK_TQ1_0,  BLOCK_T158};

enum { TYPES = sizeof types / sizeof *types, CHUNK_VALUES = 64 * 1024 };

const char *wisp_quantize_type(size_t index) {
    return index < TYPES ? block_format_by_id(types[index])->name : NULL;
}

struct quantiser {
    const wisp_quantize_options *options;
    const struct directory *dir;
    const struct block_format *type, *fallback;
    const struct block_format *embedding_type, *output_type; /* NULL: as other matrices */
    struct policy policy;                                    /* without lines: all take `type` */
    struct t158_options ternary;
    const struct block_format **formats; /* [n_tensors]; NULL for a tensor that does not fit */
    const struct block_format **wanted;  /* [n_tensors]; of matrices */
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

/* Finds the type that is wanted for a matrix. */
static wisp_status find_wanted(struct quantiser *q, const struct tensor *tensor,
                               const struct block_format **wanted, wisp_error *error) {
    *wanted = strcmp(tensor->name, TENSOR_TOKENS) == 0     ? q->embedding_type
              : strcmp(tensor->name, "output.weight") == 0 ? q->output_type
                                                           : NULL;
    if (*wanted)
        return WISP_OK;
    *wanted = q->type;
    if (q->policy.n > 0)
        TRY(policy_find(&q->policy, tensor->name, q->type, wanted, error));
    if (!*wanted)
        *wanted = tensor->format;
    return WISP_OK;
}

/* Chooses the format of a tensor. With `required`, a matrix that fits no named type is an error. */
static wisp_status plan_tensor(struct quantiser *q, size_t index, bool required,
                               wisp_error *error) {
    const struct tensor *tensor = &q->dir->tensors[index];
    const struct block_format *wanted, **planned = &q->formats[index];
    uint64_t bytes;
    *planned = tensor->format;
    if (is_calibration_tensor(tensor->name))
        return WISP_OK;
    if (!is_weight_matrix(tensor)) {
        *planned = block_format_by_id(BLOCK_F32);
        return require_expandable(tensor, error);
    }
    TRY(find_wanted(q, tensor, &wanted, error));
    q->wanted[index] = wanted;
    if (block_tensor_bytes(wanted, tensor->dims[0], tensor->rows, &bytes))
        *planned = wanted;
    else if (q->fallback && block_tensor_bytes(q->fallback, tensor->dims[0], tensor->rows, &bytes))
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

/* Tells the caller about a tensor. *loss counts the elements that were quantised. */
static void report(const struct quantiser *q, size_t index, const struct conversion_loss *loss) {
    const struct tensor *tensor = &q->dir->tensors[index];
    const struct block_format *format = q->formats[index];
    const struct t158_stats *ternary = &loss->ternary;
    const double blocks = ternary->blocks ? (double)ternary->blocks : 1;
    const double mean = ternary->scales / blocks;
    uint64_t bytes = 0;
    const bool quantised = loss->values > 0 && format != block_format_by_id(BLOCK_F32);
    if (!q->options->tensor)
        return;
    if (format)
        block_tensor_bytes(format, tensor->dims[0], tensor->rows, &bytes);
    const wisp_quantized_tensor told = {
        .name = tensor->name,
        .type = format ? format->name : NULL,
        .fits = format != NULL,
        .fallback = quantised && format != q->wanted[index],
        .quantised = quantised,
        .elements = tensor->rows * tensor->dims[0],
        .bytes = bytes,
        .mse = quantised ? loss->differences / (double)loss->values : 0,
        .cosine = loss->squares > 0 && loss->squares_back > 0 && quantised
                      ? loss->products / (sqrt(loss->squares) * sqrt(loss->squares_back))
                  : quantised && loss->squares > 0 ? 0
                                                   : 1,
        .blocks = ternary->blocks,
        .clamped = ternary->clamped,
        .scale_mean = mean,
        .scale_deviation = sqrt(fmax(ternary->squared_scales / blocks - mean * mean, 0)),
        .sparsity = ternary->weights ? (double)ternary->zeros / (double)ternary->weights : 0};
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
    const uint64_t most = rows == tensor->rows
                              ? block_whole_rows(q->formats[index], tensor->dims[0],
                                                 CHUNK_VALUES / tensor->dims[0] + 1)
                              : 1;
    wisp_status status = row_converter_open(&converter, q->dir, tensor, q->formats[index], true,
                                            most, &cache, error);
    converter.ternary = &q->ternary;
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

/* Sets the options of BITNET_T158. */
static wisp_status find_ternary(struct quantiser *q, wisp_error *error) {
    static const wisp_ternary_options defaults = WISP_TERNARY_DEFAULTS;
    const wisp_ternary_options *o = q->options->ternary ? q->options->ternary : &defaults;
    if (o->block_size == 0 || o->block_size % 4 != 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "block_size",
                    "%u is not above 0 and a multiple of 4", o->block_size);
    if (o->block_size != T158_BLOCK)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "block_size",
                    "%u is not supported: blocks of BITNET_T158 have 256 weights", o->block_size);
    if (!(o->epsilon > 0 && o->epsilon < INFINITY))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "epsilon", "%s is not above 0",
                    number_text((double)o->epsilon, 6).text);
    if (!(o->clip_threshold > 0 && o->clip_threshold <= 2))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "clip_threshold",
                    "%s is not above 0 and at most 2",
                    number_text((double)o->clip_threshold, 6).text);
    if (!(o->target_sparsity >= 0 && o->target_sparsity <= 1))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "target_sparsity", "%s is not from 0 to 1",
                    number_text((double)o->target_sparsity, 6).text);
    q->ternary = (struct t158_options){.epsilon = o->epsilon,
                                       .clip_threshold = o->clip_threshold,
                                       .target_sparsity = o->target_sparsity};
    return WISP_OK;
}

/* Makes F32 of the BF16 tensors that were to keep their type in a file with BITNET_T158, which has
 * the same number. */
static void keep_bf16_apart(struct quantiser *q) {
    const struct block_format *ternary = block_format_by_id(BLOCK_T158);
    bool any = false;
    for (size_t i = 0; i < q->dir->n_tensors; i++)
        any = any || q->formats[i] == ternary;
    for (size_t i = 0; any && i < q->dir->n_tensors; i++)
        if (q->formats[i] == q->dir->tensors[i].format && q->formats[i]->id == BLOCK_BF16)
            q->formats[i] = q->wanted[i] = block_format_by_id(BLOCK_F32);
}

static wisp_status quantize(struct directory *dir, const char *output, const char *type,
                            struct quantiser *q, wisp_error *error) {
    const wisp_quantize_options *o = q->options;
    TRY(find_type("type", type, &q->type, error));
    if (o->embedding_type)
        TRY(find_type("embedding_type", o->embedding_type, &q->embedding_type, error));
    if (o->output_type)
        TRY(find_type("output_type", o->output_type, &q->output_type, error));
    if (o->fallback)
        TRY(find_type("fallback", o->fallback, &q->fallback, error));
    TRY(find_ternary(q, error));
    if (o->policy || q->type->id == BLOCK_T158)
        TRY(policy_open(&q->policy, o->policy ? o->policy : "default", error));
    for (size_t i = 0; i < dir->n_tensors; i++)
        TRY(plan_tensor(q, i, output != NULL, error));
    TRY(policy_check_used(&q->policy, error));
    keep_bf16_apart(q);
    if (!output)
        return measure(q, error);
    const struct gguf_plan plan = {.formats = q->formats,
                                   .as_reference = true,
                                   .ternary = &q->ternary,
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
    TRY(q.options->any_architecture ? directory_open_any(&dir, input, error)
                                    : directory_open_path(&dir, input, error));
    q.formats = calloc(dir.n_tensors + 1, sizeof *q.formats);
    q.wanted = calloc(dir.n_tensors + 1, sizeof *q.wanted);
    wisp_status status =
        q.formats && q.wanted ? WISP_OK : fail_memory(error, dir.n_tensors * sizeof(void *));
    if (status == WISP_OK && q.options->pad_neurons)
        status = neurons_pad(&dir, PADDED_NEURONS, error);
    if (status == WISP_OK)
        status = quantize(&dir, output, type, &q, error);
    free((void *)q.formats);
    free((void *)q.wanted);
    policy_release(&q.policy);
    directory_release(&dir);
    return status;
}
