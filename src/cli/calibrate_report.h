/* SPDX-License-Identifier: Apache-2.0
 * What calibration found, as a table, as JSON and as a picture. */
#ifndef WISP_CLI_CALIBRATE_REPORT_H
#define WISP_CLI_CALIBRATE_REPORT_H

#include "cli/cli.h"

struct calibration_report {
    size_t layers;
    wisp_calibrated_layer *layer; /* [layers]; frequency and magnitude are not kept */
    size_t texts, held_out_texts;
    unsigned long rank;
    double sparsity, seconds;
    double mean_cosine, least_cosine; /* of held-out texts' embeddings to f32, dense */
    double dense_cosine;              /* the mean without skipping, in int8 */
};

/* On standard output. */
void report_print(const struct calibration_report *report);

/* BASE.json and BASE.svg; an exit code, after complaining where that is not good. */
int report_write(const struct calibration_report *report, const char *base);

#endif
