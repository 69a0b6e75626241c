/* SPDX-License-Identifier: Apache-2.0
 * What calibration found, as a table, as JSON and as a picture. */
#ifndef WISP_CLI_CALIBRATE_REPORT_H
#define WISP_CLI_CALIBRATE_REPORT_H

#include "cli/cli.h"

/* Cosines of held-out texts' embeddings to those in f32 that skip nothing. */
struct nearness {
    double mean, least;
};

struct calibration_report {
    size_t layers;
    wisp_calibrated_layer *layer; /* [layers]; frequency and magnitude are not kept */
    size_t texts, held_out_texts;
    uint32_t rank;
    double sparsity, seconds;
    bool has_sentence;
    struct nearness dense, lowrank, sentence; /* in int8, by predictor */
};

/* On standard output. */
void report_print(const struct calibration_report *report);

/* BASE.json and BASE.svg; an exit code, after complaining where that is not good. */
int report_write(const struct calibration_report *report, const char *base);

#endif
