/* SPDX-License-Identifier: Apache-2.0
 * Correlations of two lists of numbers, and quantiles of one. */
#ifndef WISP_BASE_STATISTICS_H
#define WISP_BASE_STATISTICS_H

#include "base/status.h"

/* Returns Pearson's correlation of n pairs, or NaN if either list is constant or n < 2. */
double pearson(const double *x, const double *y, size_t n);

/* Computes Spearman's correlation: Pearson's of the ranks, equal values have their mean rank.
 * Fails only if there is no memory. */
wisp_status spearman(const double *x, const double *y, size_t n, double *result, wisp_error *error);

/* Returns the quantile of n > 0 values for a fraction from 0 to 1, interpolated between neighbours
 * as numpy.quantile does. Sorts the values. */
double quantile(double *values, size_t n, double fraction);

/* Returns the quantile of n > 0 values for a fraction from 0 to 1; if it is between two
 * values, the lower one of them. Sorts the values. */
float quantile_below(float *values, size_t n, double fraction);

#endif
