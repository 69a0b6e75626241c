/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/quantize_report.h"

#include <stdlib.h>
#include <string.h>

#include "cli/bars.h"
#include "cli/report_files.h"

void quantize_report_add(struct quantize_report *report, const wisp_quantized_tensor *tensor) {
    if (report->failed || !tensor->quantised)
        return;
    if (report->n == report->capacity) {
        const size_t wanted = report->capacity ? 2 * report->capacity : 64;
        wisp_quantized_tensor *moved = realloc(report->tensors, wanted * sizeof *moved);
        if (!moved) {
            report->failed = true;
            return;
        }
        report->tensors = moved;
        report->capacity = wanted;
    }
    char *name = strdup(tensor->name);
    if (!name) {
        report->failed = true;
        return;
    }
    report->tensors[report->n] = *tensor;
    report->tensors[report->n++].name = name;
}

void print_errors_json(FILE *stream, const wisp_quantized_tensor *tensor, bool for_texts) {
    if (for_texts)
        fprintf(stream, ",\"output_error\":%.9g,\"plain_error\":%.9g", tensor->output_error,
                tensor->plain_error);
    else
        fprintf(stream, ",\"mse\":%.9g,\"cosine\":%.9g", tensor->mse, tensor->cosine);
}

void print_ternary_json(FILE *stream, const wisp_quantized_tensor *tensor) {
    fprintf(stream,
            ",\"blocks\":%llu,\"clamped\":%llu,\"scale_mean\":%.9g,\"scale_deviation\":%.9g,"
            "\"sparsity\":%.9g",
            (unsigned long long)tensor->blocks, (unsigned long long)tensor->clamped,
            tensor->scale_mean, tensor->scale_deviation, tensor->sparsity);
}

static void print_json(FILE *stream, const void *context) {
    const struct quantize_report *report = context;
    fputs("{\"tensors\":[", stream);
    for (size_t i = 0; i < report->n; i++) {
        const wisp_quantized_tensor *t = &report->tensors[i];
        fputs(i ? ",\n{\"name\":" : "\n{\"name\":", stream);
        print_json_string(stream, wisp_text_of(t->name));
        fprintf(stream, ",\"type\":\"%s\",\"elements\":%llu,\"bytes\":%llu", t->type,
                (unsigned long long)t->elements, (unsigned long long)t->bytes);
        print_errors_json(stream, t, report->for_texts);
        if (t->blocks > 0)
            print_ternary_json(stream, t);
        fputc('}', stream);
    }
    fputs("\n]}\n", stream);
}

/* Prints text as XML does. */
static void print_xml(FILE *stream, const char *text) {
    for (; *text; text++)
        if (*text == '<' || *text == '>' || *text == '&')
            fprintf(stream, "&#%d;", *text);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, stream);
}

enum { LEFT = 8, WIDTH = 300, NUMBERS = 60, NAME = 300, TENSOR = 46 };

enum { BARS = 3 };

/* The names of the bars, without texts and with them. */
static const char *const bar_names[2][BARS] = {
    {"cosine", "zeros", "deviation / mean of scales"},
    {"1 - output error", "zeros", "deviation / mean of scales"}};

/* Prints a tensor's bars, of which those after the first are of ternary ones, and its name. */
static void print_bars(FILE *stream, const struct bars *bars, const struct quantize_report *report,
                       const wisp_quantized_tensor *t, size_t top) {
    const double values[BARS] = {report->for_texts ? 1 - t->output_error : t->cosine, t->sparsity,
                                 t->scale_mean > 0 ? t->scale_deviation / t->scale_mean : 0};
    fprintf(stream, "<text x=\"%d\" y=\"%zu\">", LEFT + WIDTH + NUMBERS, top + 10);
    print_xml(stream, t->name);
    fprintf(stream, "</text><text x=\"%d\" y=\"%zu\" fill=\"#666\">%s, ", LEFT + WIDTH + NUMBERS,
            top + 24, t->type);
    if (report->for_texts)
        fprintf(stream, "by rounding %.4f</text>\n", 1 - t->plain_error);
    else
        fprintf(stream, "mse %.4g</text>\n", t->mse);
    bars_draw(bars, values, t->blocks > 0 ? BARS : 1, top, stream);
}

static void print_svg(FILE *stream, const void *context) {
    const struct quantize_report *report = context;
    const struct bars bars = {bar_names[report->for_texts],
                              BARS,
                              .left = LEFT,
                              .width = WIDTH,
                              .height = 11,
                              .decimals = 4};
    bars_begin(&bars, LEFT + WIDTH + NUMBERS + NAME, BARS_TOP + TENSOR * report->n + 10, stream);
    for (size_t i = 0; i < report->n; i++)
        print_bars(stream, &bars, report, &report->tensors[i], BARS_TOP + TENSOR * i);
    fputs("</svg>\n", stream);
}

int quantize_report_write(const struct quantize_report *report, const char *base) {
    if (!report->failed)
        return report_files_write(base, print_json, print_svg, report);
    return complain_of_memory();
}

void quantize_report_release(struct quantize_report *report) {
    for (size_t i = 0; i < report->n; i++)
        free((char *)report->tensors[i].name);
    free(report->tensors);
    *report = (struct quantize_report){0};
}
