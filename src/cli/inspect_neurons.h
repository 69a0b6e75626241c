/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_CLI_INSPECT_NEURONS_H
#define WISP_CLI_INSPECT_NEURONS_H

#include "formats/directory.h"

/* Writes on standard output a picture (SVG) of how often the neurons of a calibrated model are
 * active: a row for each layer, a cell for each four neurons, in the order of the file, which
 * begins with those that are needed most often. Returns an exit code, after complaining where that
 * is not good. */
int print_neurons(struct directory *dir);

#endif
