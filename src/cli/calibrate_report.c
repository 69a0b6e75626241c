/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/calibrate_report.h"

#include <stdio.h>

#include "cli/bars.h"
#include "cli/report_files.h"

void report_print_layers(const wisp_calibrated_layer *layers, size_t n, bool sentence) {
    fprintf(program_output,
            "layer  computed    needed    recall precision  output error  hot neurons\n");
    for (size_t l = 0; l < n; l++) {
        const wisp_calibrated_layer *layer = &layers[l];
        const wisp_calibrated_quality *q = sentence ? &layer->sentence : &layer->lowrank;
        fprintf(program_output,
                "%5zu  %7.1f %%  %6.1f %%  %6.1f %%  %6.1f %%  %12.4f  %5zu of %zu\n", l,
                100 * q->share, 100 * q->needed, 100 * q->recall, 100 * q->precision, q->error,
                layer->hot, layer->neurons);
    }
}

static void print_table(const struct calibration_report *r, bool sentence) {
    report_print_layers(r->layer, r->layers, sentence);
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

void report_put_json_layers(FILE *stream, const wisp_calibrated_layer *layers, size_t n,
                            bool sentence) {
    for (size_t l = 0; l < n; l++) {
        const wisp_calibrated_layer *layer = &layers[l];
        const wisp_calibrated_quality *q = sentence ? &layer->sentence : &layer->lowrank;
        fprintf(stream,
                "%s\n{\"computed\":%.6g,\"needed\":%.6g,\"recall\":%.6g,\"precision\":%.6g,"
                "\"output_error\":%.6g,\"neurons\":%zu,\"hot\":%zu}",
                l ? "," : "", q->share, q->needed, q->recall, q->precision, q->error,
                layer->neurons, layer->hot);
    }
    fprintf(stream, "\n]");
}

void report_put_json(FILE *stream, const void *report) {
    const struct calibration_report *r = report;
    fprintf(stream,
            "{\"texts\":%zu,\"held_out_texts\":%zu,\"rank\":%u,\"sparsity\":%g,\"seconds\":%.1f,"
            "\"mean_cosine\":%.7g,\"min_cosine\":%.7g,\"dense_mean_cosine\":%.7g,\"layers\":[",
            r->texts, r->held_out_texts, r->rank, r->sparsity, r->seconds, r->lowrank.mean,
            r->lowrank.least, r->dense.mean);
    report_put_json_layers(stream, r->layer, r->layers, false);
    if (r->has_sentence) {
        fprintf(stream, ",\n\"sentence\":{\"mean_cosine\":%.7g,\"min_cosine\":%.7g,\"layers\":[",
                r->sentence.mean, r->sentence.least);
        report_put_json_layers(stream, r->layer, r->layers, true);
        fprintf(stream, "}");
    }
    fprintf(stream, "}\n");
}

enum { LAYER = 64 };

static const char *const bar_names[] = {"computed", "recall", "precision", "output error"};
static const struct bars bars = {bar_names,    4, .left = 75, .width = 420, .height = 12,
                                 .decimals = 3};

/* Draws four bars for one predictor of a layer. */
static void put_bars(FILE *stream, const wisp_calibrated_quality *q, const char *kind, size_t layer,
                     size_t top) {
    const double values[] = {q->share, q->recall, q->precision, q->error};
    fprintf(stream, "<text x=\"8\" y=\"%zu\">%s %zu</text>\n", top + 30, kind, layer);
    bars_draw(&bars, values, 4, top, stream);
}

/* Draws the bars of the lowrank predictors of all layers, then those of the sentence predictors. */
static void put_svg(FILE *stream, const void *report) {
    const struct calibration_report *r = report;
    const size_t rows = r->layers * (r->has_sentence ? 2 : 1);
    bars_begin(&bars, (size_t)bars.left + (size_t)bars.width + 90, BARS_TOP + LAYER * rows + 10,
               stream);
    for (size_t l = 0; l < r->layers; l++)
        put_bars(stream, &r->layer[l].lowrank, "layer", l, BARS_TOP + LAYER * l);
    for (size_t l = r->layers; l < rows; l++)
        put_bars(stream, &r->layer[l - r->layers].sentence, "sentence", l - r->layers,
                 BARS_TOP + LAYER * l);
    fprintf(stream, "</svg>\n");
}

int report_write(const struct calibration_report *report, const char *base) {
    return report_files_write(base, report_put_json, put_svg, report);
}
