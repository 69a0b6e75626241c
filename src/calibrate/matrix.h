/* SPDX-License-Identifier: Apache-2.0
 * The linear algebra that calibration needs. Matrices are dense, row by row. Large products run on
 * the kernels in f32, small systems are solved in double precision. Functions that return a status
 * fail only if there is no working memory. */
#ifndef WISP_CALIBRATE_MATRIX_H
#define WISP_CALIBRATE_MATRIX_H

#include "base/status.h"
#include "kernels/kernels.h"

/* Computes y [m, n] = x [m, k] w [k, n], where w is the first n columns of a matrix [k, ld]. */
wisp_status matrix_multiply(const struct kernels *kernels, const float *x, const float *w,
                            size_t ld, float *y, size_t m, size_t n, size_t k, wisp_error *error);

/* Computes y [m, n] = x [m, k] w [n, k]^T. */
wisp_status matrix_multiply_transposed(const struct kernels *kernels, const float *x,
                                       const float *w, float *y, size_t m, size_t n, size_t k,
                                       wisp_error *error);

/* Computes y [m, n] = x [k, m]^T w [k, n]. Sums over long k are added up in parts, in double
 * precision. */
wisp_status matrix_gram(const struct kernels *kernels, const float *x, const float *w, double *y,
                        size_t m, size_t n, size_t k, wisp_error *error);

/* Computes out [columns, rows] = x [rows, columns]^T. */
void matrix_transpose(const float *x, size_t rows, size_t columns, float *out);

/* Replaces the lower triangle of a [n, n], which is symmetric and positive definite, by its
 * Cholesky factor: L of a = L L^T. If rounding has left a pivot that is not above 0, solutions
 * are near 0 in its direction. */
void matrix_factor(double *a, size_t n);

/* Replace b [n, m] by the solution z of L z = b, and of L^T z = b. */
void matrix_solve_lower(const double *l, double *b, size_t n, size_t m);
void matrix_solve_upper(const double *l, double *b, size_t n, size_t m);

/* Replaces b [n, m] by the solution z of a z = b, and a [n, n], which is symmetric and positive
 * definite, by its Cholesky factor. */
void matrix_solve(double *a, double *b, size_t n, size_t m);

/* Sets the columns of v [n, r] to the eigenvectors of a [n, n], which is symmetric and positive
 * semidefinite, that belong to the r largest eigenvalues, by subspace iteration. The start is
 * fixed, so that the result depends only on `a`. */
wisp_status matrix_eigenvectors(const double *a, size_t n, size_t r, double *v, wisp_error *error);

#endif
