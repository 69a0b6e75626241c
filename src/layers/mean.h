/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_LAYERS_MEAN_H
#define WISP_LAYERS_MEAN_H

#include <string.h>

#include "kernels/kernels.h"

/* Computes mean [size] of x [rows, size]. Adds the rows from the first on, so that the bits of the
 * mean depend only on the rows. */
static inline void mean_of_rows(const struct kernels *kernels, const float *x, size_t rows,
                                size_t size, float *mean) {
    memset(mean, 0, size * sizeof *mean);
    for (size_t i = 0; i < rows; i++)
        kernels->add(mean, x + i * size, size);
    for (size_t c = 0; c < size; c++)
        mean[c] /= (float)rows;
}

#endif
