/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/gates_report.h"

#include <stdlib.h>
#include <string.h>

#include "cli/bars.h"
#include "cli/calibrate_report.h"
#include "cli/report_files.h"

bool gates_report_add(struct gates_report *r, const wisp_calibrated_gates *found) {
    wisp_calibrated_gate *levels = malloc(found->levels * sizeof *levels);
    wisp_calibrated_gates *moved = realloc(r->layer, (r->layers + 1) * sizeof *moved);
    if (moved)
        r->layer = moved;
    if (!levels || !moved) {
        free(levels);
        return false;
    }
    memcpy(levels, found->level, found->levels * sizeof *levels);
    r->layer[r->layers] = *found;
    r->layer[r->layers++].level = levels;
    return true;
}

void gates_report_release(struct gates_report *r) {
    for (size_t l = 0; l < r->layers; l++)
        free((void *)r->layer[l].level);
    free(r->layer);
    *r = (struct gates_report){0};
}

/* ---- on the terminal ------------------------------------------------------------------------ */

/* The means of a level over all layers. */
static wisp_calibrated_gate mean_of(const struct gates_report *r, size_t level) {
    wisp_calibrated_gate mean = {.share = r->layer->level[level].share,
                                 .least = r->layer->level[level].least};
    for (size_t l = 0; l < r->layers; l++) {
        const wisp_calibrated_gate *g = &r->layer[l].level[level];
        mean.active += g->active / (double)r->layers;
        mean.recall += g->recall / (double)r->layers;
        mean.loss += g->loss / (double)r->layers;
    }
    return mean;
}

void gates_report_print(const struct gates_report *r) {
    fprintf(program_output, "neurons with |f(gate)| above\nlayer");
    for (size_t i = 0; i < WISP_GATE_THRESHOLDS; i++)
        fprintf(program_output, " %8g", (double)r->layer->threshold[i]);
    for (size_t l = 0; l < r->layers; l++) {
        fprintf(program_output, "\n%5zu", l);
        for (size_t i = 0; i < WISP_GATE_THRESHOLDS; i++)
            fprintf(program_output, " %6.1f %%", 100 * r->layer[l].above[i]);
    }
    fprintf(program_output, "\n\nneurons computed if the mean of all layers is\nlayer");
    for (size_t i = 0; i < r->layer->levels; i++)
        fprintf(program_output, " %4.0f %%", 100 * (double)r->layer->level[i].share);
    for (size_t l = 0; l < r->layers; l++) {
        fprintf(program_output, "\n%5zu", l);
        for (size_t i = 0; i < r->layer[l].levels; i++)
            fprintf(program_output, " %4.0f %%", 100 * r->layer[l].level[i].active);
    }
    fprintf(program_output, "\n\ncomputed    recall  lost of squares\n");
    for (size_t i = 0; i < r->layer->levels; i++) {
        const wisp_calibrated_gate mean = mean_of(r, i);
        fprintf(program_output, "%6.1f %%  %6.1f %%  %13.4f %%\n", 100 * mean.active,
                100 * mean.recall, 100 * mean.loss);
    }
    if (r->predictors) {
        fprintf(program_output, "\npredictors of rank %u, %.3g %% of the neurons left out\n",
                r->predictors->rank, 100 * (double)r->predictors->sparsity);
        report_print_layers(r->predictors, r->layers, false);
    }
    fprintf(program_output, "%.1f s\n", r->seconds);
}

/* ---- files ---------------------------------------------------------------------------------- */

void gates_report_put_json(FILE *stream, const void *report) {
    const struct gates_report *r = report;
    fprintf(stream, "{\"texts\":%zu,\"seconds\":%.1f,\"thresholds\":[", r->texts, r->seconds);
    for (size_t i = 0; i < WISP_GATE_THRESHOLDS; i++)
        fprintf(stream, "%s%g", i ? "," : "", (double)r->layer->threshold[i]);
    fprintf(stream, "],\"layers\":[");
    for (size_t l = 0; l < r->layers; l++) {
        const wisp_calibrated_gates *layer = &r->layer[l];
        fprintf(stream, "%s\n{\"above\":[", l ? "," : "");
        for (size_t i = 0; i < WISP_GATE_THRESHOLDS; i++)
            fprintf(stream, "%s%.5g", i ? "," : "", layer->above[i]);
        fprintf(stream, "],\"levels\":[");
        for (size_t i = 0; i < layer->levels; i++) {
            const wisp_calibrated_gate *g = &layer->level[i];
            fprintf(stream,
                    "%s\n{\"share\":%.5g,\"least\":%.6g,\"active\":%.5g,\"recall\":%.5g,"
                    "\"loss\":%.5g}",
                    i ? "," : "", (double)g->share, (double)g->least, g->active, g->recall,
                    g->loss);
        }
        fprintf(stream, "]}");
    }
    fprintf(stream, "\n]");
    if (r->predictors) {
        fprintf(stream, ",\n\"rank\":%u,\"sparsity\":%g,\"predictors\":[", r->predictors->rank,
                (double)r->predictors->sparsity);
        report_put_json_layers(stream, r->predictors, r->layers, false);
    }
    fprintf(stream, "}\n");
}

enum { LEVEL_HEIGHT = 48 };

static const char *const bar_names[] = {"computed", "recall", "lost"};
static const struct bars bars = {bar_names,    3, .left = 75, .width = 420, .height = 12,
                                 .decimals = 3};

/* Draws what each level computes, finds and loses on average over the layers. */
static void put_svg(FILE *stream, const void *report) {
    const struct gates_report *r = report;
    bars_begin(&bars, (size_t)bars.left + (size_t)bars.width + 90,
               BARS_TOP + LEVEL_HEIGHT * r->layer->levels + 10, stream);
    for (size_t i = 0; i < r->layer->levels; i++) {
        const wisp_calibrated_gate mean = mean_of(r, i);
        const double values[] = {mean.active, mean.recall, mean.loss};
        const size_t top = BARS_TOP + LEVEL_HEIGHT * i;
        fprintf(stream, "<text x=\"8\" y=\"%zu\">%.0f %%</text>\n", top + 24,
                100 * (double)mean.share);
        bars_draw(&bars, values, 3, top, stream);
    }
    fprintf(stream, "</svg>\n");
}

int gates_report_write(const struct gates_report *report, const char *base) {
    return report_files_write(base, gates_report_put_json, put_svg, report);
}
