/* SPDX-License-Identifier: Apache-2.0
 * How two lists of numbers go together. */
#ifndef WISP_BASE_STATISTICS_H
#define WISP_BASE_STATISTICS_H

#include "base/status.h"

/* Pearson's correlation of n pairs; NaN where either list is constant or n < 2. */
double pearson(const double *x, const double *y, size_t n);

/* Spearman's: Pearson's of the ranks, equal values sharing their mean rank. */
wisp_status spearman(const double *x, const double *y, size_t n, double *result, wisp_error *error);

/* The value below which `share` (0 to 1) of the n > 0 values lie, between neighbours by proportion
 * as numpy.quantile has it. Sorts the values. */
double quantile(double *values, size_t n, double share);

/* The same, but one of the values: of two neighbours the lower. Sorts them too. */
float quantile_below(float *values, size_t n, double share);

#endif
