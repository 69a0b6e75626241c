/* SPDX-License-Identifier: Apache-2.0
 * Quantises a matrix so that its products with given inputs change little. Rounding each weight by
 * itself makes errors that add up along inputs that occur together; here each code makes up for the
 * errors of the others. Sources: E. Frantar et al., "GPTQ" (2022); J. Chee et al., "QuIP" (2023),
 * which shows that GPTQ's feedback is that of a factorisation U D U^T of the inputs' squares. */
#ifndef WISP_QUANTISE_CORRECT_H
#define WISP_QUANTISE_CORRECT_H

#include "base/pool.h"
#include "quant/grid.h"

/* Sums over tokens of a layer's inputs x [k] and of the outputs y [n] that it should have. */
struct layer_sums {
    size_t n, k;
    double tokens;
    double *xx; /* [k, k]: x x^T */
    double *xy; /* [k, n]: x y^T */
    double *x;  /* [k] */
    double *y;  /* [n] */
};

/* The weights to quantise, in the order of a stack's rows, and the results. */
struct corrected {
    const struct block_format *format; /* block_grid_of(format->id) is not NULL */
    const float *weights;              /* [n, k] */
    size_t tensor_rows;   /* of each tensor that is stacked; blocks that cross rows end with it */
    float *bias;          /* [n], replaced by the one that leaves no mean error; NULL: none */
    unsigned char *bytes; /* written: the bytes of one tensor after the other */
    float *values;        /* [n, k]: written: what `bytes` are read as */
    double plain, error;  /* the sum over outputs of squared errors on these inputs, relative to the
                             outputs: of rounding to the nearest, and of `bytes` */
};

/* Quantises a matrix. Finds the real weights that best give the outputs, near those given;
 * quantises them column by column with feedback of errors; then lowers the error by changing scales
 * and codes one at a time. A row for which rounding would be better is rounded; if blocks cross
 * rows, rows that share blocks are taken together. `sums` is overwritten. The result does not
 * depend on the team. Fails if there is no memory. */
wisp_status correct_matrix(struct layer_sums *sums, struct corrected *matrix, struct pool *team,
                           wisp_error *error);

/* Estimates what correct_matrix would leave, with each of `count` formats: errors[i] and plain[i]
 * are like struct corrected's, of one in `step` groups of rows of each tensor. `matrix` has
 * weights, tensor_rows and, if there is a bias, any bias that is not NULL. `sums` is
 * overwritten. */
wisp_status correct_estimate(struct layer_sums *sums, const struct corrected *matrix,
                             const struct block_format *const *formats, size_t count, size_t step,
                             double *errors, double *plain, struct pool *team, wisp_error *error);

#endif
