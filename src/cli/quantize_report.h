/* SPDX-License-Identifier: Apache-2.0
 * Writes the report of wisp quantize --report on each matrix, as JSON and as a picture. */
#ifndef WISP_CLI_QUANTIZE_REPORT_H
#define WISP_CLI_QUANTIZE_REPORT_H

#include <stdio.h>

#include "cli/cli.h"

struct quantize_report {
    wisp_quantized_tensor *tensors; /* [n]; their names are the report's */
    size_t n, capacity;
    bool for_texts; /* errors are those of layers' outputs on texts, and not of weights */
    bool failed;    /* memory was short */
};

/* Keeps a tensor that was quantised. */
void quantize_report_add(struct quantize_report *report, const wisp_quantized_tensor *tensor);

/* Prints the errors of a tensor, each with a comma before it. */
void print_errors_json(FILE *stream, const wisp_quantized_tensor *tensor, bool for_texts);

/* Prints the numbers that only ternary tensors have, each with a comma before it. */
void print_ternary_json(FILE *stream, const wisp_quantized_tensor *tensor);

/* Writes BASE.json and BASE.svg. Returns an exit code, after complaining if it is not EXIT_GOOD.
 */
int quantize_report_write(const struct quantize_report *report, const char *base);

void quantize_report_release(struct quantize_report *report);

#endif
