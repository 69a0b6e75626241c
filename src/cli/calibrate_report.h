/* SPDX-License-Identifier: Apache-2.0
 * The results of a calibration as a table, as JSON and as a picture. */
#ifndef WISP_CLI_CALIBRATE_REPORT_H
#define WISP_CLI_CALIBRATE_REPORT_H

#include "cli/cli.h"

/* Cosines between embeddings of held-out texts and their embeddings by the dense model in f32. */
struct nearness {
    double mean, least;
};

struct calibration_report {
    size_t layers;
    wisp_calibrated_layer *layer; /* [layers]; their frequency and magnitude are NULL */
    size_t texts, held_out_texts;
    uint32_t rank;
    double sparsity, seconds;
    bool has_sentence;
    struct nearness dense, lowrank, sentence; /* of each predictor, in int8 */
};

/* Print the quality of predictors of n layers, for tokens or for whole texts, as rows of a table
 * and as the items of a JSON array. */
void report_print_layers(const wisp_calibrated_layer *layers, size_t n, bool sentence);
void report_put_json_layers(FILE *stream, const wisp_calibrated_layer *layers, size_t n,
                            bool sentence);

/* Prints the table to standard output. */
void report_print(const struct calibration_report *report);

/* Writes a struct calibration_report as a JSON object. */
void report_put_json(FILE *stream, const void *report);

/* Writes BASE.json and BASE.svg. Returns an exit code, after complaining if it is not EXIT_GOOD.
 */
int report_write(const struct calibration_report *report, const char *base);

#endif
