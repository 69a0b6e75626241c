/* SPDX-License-Identifier: Apache-2.0
 * Histograms of the values of tensors. */
#ifndef WISP_CLI_INSPECT_HISTOGRAM_H
#define WISP_CLI_INSPECT_HISTOGRAM_H

#include "cli/cli.h"

/* Prints a histogram of each tensor to standard output, as lines or as JSON; tensors that wisp
 * cannot read are left out. Returns an exit code, after complaining if it is not EXIT_GOOD. */
int print_histograms(const wisp_file *file, bool json);

#endif
