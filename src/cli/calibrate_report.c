/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/calibrate_report.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "host/file.h"

static void print_table(const struct calibration_report *r, bool sentence) {
    fprintf(program_output,
            "layer  computed    needed    recall precision  output error  hot neurons\n");
    for (size_t l = 0; l < r->layers; l++) {
        const wisp_calibrated_layer *layer = &r->layer[l];
        const wisp_calibrated_quality *q = sentence ? &layer->sentence : &layer->lowrank;
        fprintf(program_output,
                "%5zu  %7.1f %%  %6.1f %%  %6.1f %%  %6.1f %%  %12.4f  %5zu of %zu\n", l,
                100 * q->share, 100 * q->needed, 100 * q->recall, 100 * q->precision, q->error,
                layer->hot, layer->neurons);
    }
    const struct nearness *near = sentence ? &r->sentence : &r->lowrank;
    fprintf(program_output,
            "cosine to f32 on %zu held-out texts: mean %.5f, least %.5f (int8, dense: %.5f)\n",
            r->held_out_texts, near->mean, near->least, r->dense.mean);
}

void report_print(const struct calibration_report *r) {
    print_table(r, false);
    if (r->has_sentence) {
        fprintf(program_output, "\none choice for a whole text (--predictor sentence):\n");
        print_table(r, true);
    }
    fprintf(program_output, "%.1f s\n", r->seconds);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* A file that is written with `put` and appears whole or not at all. `status` is that of the first
 * failure. */
struct document {
    struct file_writer writer;
    wisp_status status;
    wisp_error error;
};

static void put(struct document *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct document *d, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (d->status == WISP_OK && length > 0 && (size_t)length < sizeof text)
        d->status = file_write(&d->writer, text, (size_t)length, &d->error);
}

static int finish(struct document *d) {
    if (d->status == WISP_OK)
        d->status = file_writer_commit(&d->writer, &d->error);
    file_writer_discard(&d->writer);
    return d->status == WISP_OK ? EXIT_GOOD : complain_of(&d->error);
}

static void put_json_layers(struct document *d, const struct calibration_report *r, bool sentence) {
    for (size_t l = 0; l < r->layers; l++) {
        const wisp_calibrated_layer *layer = &r->layer[l];
        const wisp_calibrated_quality *q = sentence ? &layer->sentence : &layer->lowrank;
        put(d,
            "%s\n{\"computed\":%.6g,\"needed\":%.6g,\"recall\":%.6g,\"precision\":%.6g,"
            "\"output_error\":%.6g,\"neurons\":%zu,\"hot\":%zu}",
            l ? "," : "", q->share, q->needed, q->recall, q->precision, q->error, layer->neurons,
            layer->hot);
    }
    put(d, "\n]");
}

static void put_json(struct document *d, const struct calibration_report *r) {
    put(d,
        "{\"texts\":%zu,\"held_out_texts\":%zu,\"rank\":%u,\"sparsity\":%g,\"seconds\":%.1f,"
        "\"mean_cosine\":%.7g,\"min_cosine\":%.7g,\"dense_mean_cosine\":%.7g,\"layers\":[",
        r->texts, r->held_out_texts, r->rank, r->sparsity, r->seconds, r->lowrank.mean,
        r->lowrank.least, r->dense.mean);
    put_json_layers(d, r, false);
    if (r->has_sentence) {
        put(d, ",\n\"sentence\":{\"mean_cosine\":%.7g,\"min_cosine\":%.7g,\"layers\":[",
            r->sentence.mean, r->sentence.least);
        put_json_layers(d, r, true);
        put(d, "}");
    }
    put(d, "}\n");
}

enum { LEFT = 75, WIDTH = 420, BAR = 12, LAYER = 64, TOP = 40 };

static const char *const bar_names[] = {"computed", "recall", "precision", "output error"};
static const char *const colours[] = {"#4269d0", "#3ca951", "#efb118", "#ff725c"};

/* Draws four bars for one predictor of a layer. A value of 1 is WIDTH wide. */
static void put_bars(struct document *d, const wisp_calibrated_quality *q, const char *kind,
                     size_t layer, size_t top) {
    const double values[] = {q->share, q->recall, q->precision, q->error};
    put(d, "<text x=\"8\" y=\"%zu\">%s %zu</text>\n", top + 30, kind, layer);
    for (size_t i = 0; i < 4; i++) {
        const double share = values[i] < 1 ? values[i] : 1, width = share * (double)WIDTH;
        put(d,
            "<rect x=\"%d\" y=\"%zu\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/><text "
            "x=\"%.1f\" y=\"%zu\">%.3f</text>\n",
            LEFT, top + (BAR + 1) * i, width, BAR, colours[i], (double)LEFT + width + 4,
            top + (BAR + 1) * i + 10, values[i]);
    }
}

/* Draws the bars of the lowrank predictors of all layers, then those of the sentence predictors. */
static void put_svg(struct document *d, const struct calibration_report *r) {
    const size_t rows = r->layers * (r->has_sentence ? 2 : 1);
    put(d,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
        "fill=\"white\"/>\n",
        LEFT + WIDTH + 90, TOP + LAYER * rows + 10);
    for (int i = 0; i < 4; i++)
        put(d,
            "<rect x=\"%d\" y=\"12\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" "
            "y=\"21\">%s</text>\n",
            LEFT + 110 * i, colours[i], LEFT + 110 * i + 14, bar_names[i]);
    for (size_t l = 0; l < r->layers; l++)
        put_bars(d, &r->layer[l].lowrank, "layer", l, TOP + LAYER * l);
    for (size_t l = r->layers; l < rows; l++)
        put_bars(d, &r->layer[l - r->layers].sentence, "sentence", l - r->layers, TOP + LAYER * l);
    put(d, "</svg>\n");
}

static int make_path(char path[PATH_MAX], const char *base, const char *suffix) {
    const int length = snprintf(path, PATH_MAX, "%s%s", base, suffix);
    if (length >= 0 && length < PATH_MAX)
        return EXIT_GOOD;
    complain("--report %.80s...: the path is too long", base);
    return EXIT_USAGE;
}

int report_check(const char *base) {
    static const char *const suffixes[] = {".json", ".svg"};
    char path[PATH_MAX];
    int code = EXIT_GOOD;
    for (size_t i = 0; i < 2 && code == EXIT_GOOD; i++) {
        code = make_path(path, base, suffixes[i]);
        if (code == EXIT_GOOD)
            code = check_output("--report", path);
    }
    return code;
}

static int write_document(const struct calibration_report *r, const char *base, const char *suffix,
                          void (*content)(struct document *, const struct calibration_report *)) {
    char path[PATH_MAX];
    struct document d = {.status = WISP_OK};
    const int code = make_path(path, base, suffix);
    if (code != EXIT_GOOD)
        return code;
    if (file_writer_open(&d.writer, path, &d.error) != WISP_OK)
        return complain_of(&d.error);
    content(&d, r);
    return finish(&d);
}

int report_write(const struct calibration_report *report, const char *base) {
    const int code = write_document(report, base, ".json", put_json);
    return code == EXIT_GOOD ? write_document(report, base, ".svg", put_svg) : code;
}
