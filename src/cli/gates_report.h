/* SPDX-License-Identifier: Apache-2.0
 * The results of calibrating a model that generates, as tables and as JSON. */
#ifndef WISP_CLI_GATES_REPORT_H
#define WISP_CLI_GATES_REPORT_H

#include "cli/cli.h"

/* The results of wisp_calibrate for each layer. */
struct gates_report {
    size_t layers;
    wisp_calibrated_gates *layer;            /* [layers] */
    const wisp_calibrated_layer *predictors; /* [layers]: borrowed; NULL: there are none */
    size_t texts;
    double seconds;
};

/* Keeps what was found in a layer. Returns whether there is memory for it. */
bool gates_report_add(struct gates_report *report, const wisp_calibrated_gates *found);

void gates_report_release(struct gates_report *report);

/* Prints, layer by layer, the share of neurons whose gate exceeds each threshold and the share that
 * is computed at each level, over all layers what each level loses, and the quality of predictors.
 */
void gates_report_print(const struct gates_report *report);

/* Writes a struct gates_report as a JSON object. */
void gates_report_put_json(FILE *stream, const void *report);

/* Writes BASE.json and BASE.svg. Returns an exit code, after complaining if it is not EXIT_GOOD. */
int gates_report_write(const struct gates_report *report, const char *base);

#endif
