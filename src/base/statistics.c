/* SPDX-License-Identifier: Apache-2.0 */
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

double pearson(const double *x, const double *y, size_t n) {
    double mean_x = 0, mean_y = 0, xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        mean_x += x[i] / (double)n;
        mean_y += y[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        const double dx = x[i] - mean_x, dy = y[i] - mean_y;
        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : (double)NAN;
}

struct entry {
    double value;
    size_t place;
};

static int compare_entries(const void *a, const void *b) {
    const double x = ((const struct entry *)a)->value, y = ((const struct entry *)b)->value;
    return (x > y) - (x < y);
}

/* Computes the ranks of n values, from 1. Equal values have the mean of their ranks. */
static void rank_values(const double *values, size_t n, struct entry *entries, double *ranks) {
    for (size_t i = 0; i < n; i++)
        entries[i] = (struct entry){values[i], i};
    qsort(entries, n, sizeof *entries, compare_entries);
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && entries[end].value <= entries[first].value;)
            end++;
        for (size_t i = first; i < end; i++)
            ranks[entries[i].place] = (double)(first + end + 1) / 2;
    }
}

wisp_status spearman(const double *x, const double *y, size_t n, double *result,
                     wisp_error *error) {
    struct entry *entries = calloc(n + 1, sizeof *entries);
    double *ranks = calloc(2 * n + 1, sizeof *ranks);
    const wisp_status status = entries && ranks ? WISP_OK : fail_memory(error, n * sizeof *entries);
    if (status == WISP_OK) {
        rank_values(x, n, entries, ranks);
        rank_values(y, n, entries, ranks + n);
        *result = pearson(ranks, ranks + n, n);
    }
    free(entries);
    free(ranks);
    return status;
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double quantile(double *values, size_t n, double fraction) {
    qsort(values, n, sizeof *values, compare_doubles);
    const double place = fraction * (double)(n - 1);
    const size_t below = (size_t)place, above = below + 1 < n ? below + 1 : below;
    return values[below] + (values[above] - values[below]) * (place - (double)below);
}

static int compare_floats(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

float quantile_below(float *values, size_t n, double fraction) {
    qsort(values, n, sizeof *values, compare_floats);
    return values[(size_t)(fraction * (double)(n - 1))];
}
