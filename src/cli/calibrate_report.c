/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/calibrate_report.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/file.h"

void report_print(const struct calibration_report *r) {
    printf("layer  computed    needed    recall precision  output error  hot neurons\n");
    for (size_t l = 0; l < r->layers; l++) {
        const wisp_calibrated_layer *q = &r->layer[l];
        printf("%5zu  %7.1f %%  %6.1f %%  %6.1f %%  %6.1f %%  %12.4f  %5zu of %zu\n", l,
               100 * q->share, 100 * q->needed, 100 * q->recall, 100 * q->precision, q->error,
               q->hot, q->neurons);
    }
    printf("cosine to f32 on %zu held-out texts: mean %.5f, least %.5f (int8, dense: %.5f)\n",
           r->held_out_texts, r->mean_cosine, r->least_cosine, r->dense_cosine);
    printf("%.1f s\n", r->seconds);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Formatted text into a file that appears whole. The first failure is kept. */
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

static void put_json(struct document *d, const struct calibration_report *r) {
    put(d,
        "{\"texts\":%zu,\"held_out_texts\":%zu,\"rank\":%lu,\"sparsity\":%g,\"seconds\":%.1f,"
        "\"mean_cosine\":%.7g,\"min_cosine\":%.7g,\"dense_mean_cosine\":%.7g,\"layers\":[",
        r->texts, r->held_out_texts, r->rank, r->sparsity, r->seconds, r->mean_cosine,
        r->least_cosine, r->dense_cosine);
    for (size_t l = 0; l < r->layers; l++) {
        const wisp_calibrated_layer *q = &r->layer[l];
        put(d,
            "%s\n{\"computed\":%.6g,\"needed\":%.6g,\"recall\":%.6g,\"precision\":%.6g,"
            "\"output_error\":%.6g,\"neurons\":%zu,\"hot\":%zu}",
            l ? "," : "", q->share, q->needed, q->recall, q->precision, q->error, q->neurons,
            q->hot);
    }
    put(d, "\n]}\n");
}

/* For each layer four bars, as shares of the width. */
static void put_svg(struct document *d, const struct calibration_report *r) {
    enum { LEFT = 70, WIDTH = 420, BAR = 12, LAYER = 64, TOP = 40 };
    static const char *const names[] = {"computed", "recall", "precision", "output error"};
    static const char *const colours[] = {"#4269d0", "#3ca951", "#efb118", "#ff725c"};
    put(d,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
        "fill=\"white\"/>\n",
        LEFT + WIDTH + 90, TOP + LAYER * r->layers + 10);
    for (int i = 0; i < 4; i++)
        put(d,
            "<rect x=\"%d\" y=\"12\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" "
            "y=\"21\">%s</text>\n",
            LEFT + 110 * i, colours[i], LEFT + 110 * i + 14, names[i]);
    for (size_t l = 0; l < r->layers; l++) {
        const wisp_calibrated_layer *q = &r->layer[l];
        const double values[] = {q->share, q->recall, q->precision, q->error};
        put(d, "<text x=\"8\" y=\"%zu\">layer %zu</text>\n", TOP + LAYER * l + 30, l);
        for (size_t i = 0; i < 4; i++) {
            const double share = values[i] < 1 ? values[i] : 1, width = share * (double)WIDTH;
            put(d,
                "<rect x=\"%d\" y=\"%zu\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/><text "
                "x=\"%.1f\" y=\"%zu\">%.3f</text>\n",
                LEFT, TOP + LAYER * l + (BAR + 1) * i, width, BAR, colours[i],
                (double)LEFT + width + 4, TOP + LAYER * l + (BAR + 1) * i + 10, values[i]);
        }
    }
    put(d, "</svg>\n");
}

static int write_document(const struct calibration_report *r, const char *base, const char *suffix,
                          void (*content)(struct document *, const struct calibration_report *)) {
    char path[PATH_MAX];
    struct document d = {.status = WISP_OK};
    const int length = snprintf(path, sizeof path, "%s%s", base, suffix);
    if (length < 0 || (size_t)length >= sizeof path) {
        complain("--report %.80s...: the path is too long", base);
        return EXIT_USAGE;
    }
    if (file_writer_open(&d.writer, path, &d.error) != WISP_OK)
        return complain_of(&d.error);
    content(&d, r);
    return finish(&d);
}

int report_write(const struct calibration_report *report, const char *base) {
    const int code = write_document(report, base, ".json", put_json);
    return code == EXIT_GOOD ? write_document(report, base, ".svg", put_svg) : code;
}
