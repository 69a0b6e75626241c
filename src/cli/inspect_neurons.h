/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_CLI_INSPECT_NEURONS_H
#define WISP_CLI_INSPECT_NEURONS_H

#include "wisp.h"

/* Prints a picture (SVG) of how often the neurons of a calibrated model are active: a row for each
 * layer, in which the neurons are in the order of the file, often needed ones first. Returns an
 * exit code, after complaining if it is not EXIT_GOOD. */
int print_neurons(const wisp_file *file);

#endif
