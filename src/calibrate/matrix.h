/* SPDX-License-Identifier: Apache-2.0
 * The linear algebra that calibration needs. Matrices are dense, row by row. Large products run on
 * the kernels in f32, small systems are solved in double precision. Functions that need working
 * memory return false where there is none. */
#ifndef WISP_CALIBRATE_MATRIX_H
#define WISP_CALIBRATE_MATRIX_H

#include <stdbool.h>

#include "kernels/kernels.h"

/* y [m, n] = x [m, k] w [k, n] */
bool matrix_multiply(const struct kernels *kernels, const float *x, const float *w, float *y,
                     size_t m, size_t n, size_t k);

/* The same with the first n columns of w [k, ld]. */
bool matrix_multiply_columns(const struct kernels *kernels, const float *x, const float *w,
                             size_t ld, float *y, size_t m, size_t n, size_t k);

/* y [m, n] = x [m, k] w [n, k]^T */
bool matrix_multiply_transposed(const struct kernels *kernels, const float *x, const float *w,
                                float *y, size_t m, size_t n, size_t k);

/* y [m, n] = x [k, m]^T w [k, n], for any k: summed in parts, which are added in double. */
bool matrix_gram(const struct kernels *kernels, const float *x, const float *w, double *y, size_t m,
                 size_t n, size_t k);

/* a [n, n], symmetric and positive definite: its lower triangle becomes L of a = L L^T. */
void matrix_factor(double *a, size_t n);

/* Solve L z = b and L^T z = b for z, in b's place: b [n, m]. */
void matrix_solve_lower(const double *l, double *b, size_t n, size_t m);
void matrix_solve_upper(const double *l, double *b, size_t n, size_t m);

/* Solves a z = b for z, in b's place: a [n, n] symmetric and positive definite (overwritten by its
 * Cholesky factor), b [n, m]. */
void matrix_solve(double *a, double *b, size_t n, size_t m);

/* The r eigenvectors of a symmetric positive semidefinite a [n, n] with the largest eigenvalues, as
 * columns of v [n, r], by subspace iteration from a start that depends on nothing else. */
bool matrix_eigenvectors(const double *a, size_t n, size_t r, double *v);

#endif
