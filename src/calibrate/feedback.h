/* SPDX-License-Identifier: Apache-2.0
 * Chooses the codes of rows from the first column to the last, each by what the columns before it
 * have left to it. Native only.
 *
 * With inputs whose squares are U D U^T, the error of a row is the sum over columns of D_j times
 * the square of value_j - wanted_j, where wanted_j is the target and what U carries on of the
 * errors before it. GPTQ takes the nearest code in each column. A code or a scale that costs more
 * at first may leave less to later columns, so here a few of the cheapest choices so far are kept,
 * as in the M-algorithm of J. Anderson and S. Mohan, "Sequential coding algorithms" (1984). */
#ifndef WISP_CALIBRATE_FEEDBACK_H
#define WISP_CALIBRATE_FEEDBACK_H

#include "base/arena.h"
#include "quant/grid.h"

struct feedback {
    const struct block_grid *grid;
    size_t k;               /* columns */
    const float *factor;    /* [k, k]: U, whose diagonal is 1 and which is 0 below it */
    const float *variances; /* [k]: D */
};

/* The codes of rows that lie one after the other, and what they stand for. */
struct coded {
    int *codes;               /* [n] */
    float *values;            /* [n]: of the codes */
    struct grid_scale *scale; /* [blocks] */
};

/* Working memory of feed_back. */
struct feedback_paths;

/* Takes the memory for rows of up to n elements together. */
wisp_status feedback_open(struct feedback_paths **paths, const struct block_grid *grid, size_t n,
                          struct arena *arena, wisp_error *error);

/* Codes whole rows, n elements, whose blocks may cross from one row to the next. A scale that rows
 * share is chosen by the targets of both. */
void feed_back(const struct feedback *f, const float *target, size_t n,
               struct feedback_paths *paths, const struct coded *result);

#endif
