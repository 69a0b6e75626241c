/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/matrix.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/memory.h"

enum { PART = 1024, ITERATIONS = 60 };

static wisp_status multiply(const struct kernels *kernels, const float *x, const float *w,
                            size_t ld, bool transposed, float *y, size_t m, size_t n, size_t k,
                            wisp_error *error) {
    const size_t bytes = packed_f32_floats(n, k, kernels->f32_panel) * sizeof(float);
    float *packed = memory_allocate(bytes);
    if (!packed)
        return fail_memory(error, bytes);
    (transposed ? pack_f32 : pack_f32_transposed)(w, ld, n, k, kernels->f32_panel, packed);
    kernels->gemm_f32(x, k, packed, NULL, y, n, m, n, k);
    memory_free(packed);
    return WISP_OK;
}

wisp_status matrix_multiply(const struct kernels *kernels, const float *x, const float *w,
                            size_t ld, float *y, size_t m, size_t n, size_t k, wisp_error *error) {
    return multiply(kernels, x, w, ld, false, y, m, n, k, error);
}

wisp_status matrix_multiply_transposed(const struct kernels *kernels, const float *x,
                                       const float *w, float *y, size_t m, size_t n, size_t k,
                                       wisp_error *error) {
    return multiply(kernels, x, w, k, true, y, m, n, k, error);
}

void matrix_transpose(const float *x, size_t rows, size_t columns, float *out) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            out[j * rows + i] = x[i * columns + j];
}

wisp_status matrix_gram(const struct kernels *kernels, const float *x, const float *w, double *y,
                        size_t m, size_t n, size_t k, wisp_error *error) {
    float *turned = memory_allocate(m * PART * sizeof *turned);
    float *part = memory_allocate(m * n * sizeof *part);
    wisp_status status =
        turned && part ? WISP_OK : fail_memory(error, m * (n + PART) * sizeof *part);
    for (size_t i = 0; i < m * n; i++)
        y[i] = 0;
    for (size_t first = 0; first < k && status == WISP_OK; first += PART) {
        const size_t rows = smaller(k - first, PART);
        matrix_transpose(x + first * m, rows, m, turned);
        status = matrix_multiply(kernels, turned, w + first * n, n, part, m, n, rows, error);
        for (size_t i = 0; i < m * n && status == WISP_OK; i++)
            y[i] += (double)part[i];
    }
    memory_free(turned);
    memory_free(part);
    return status;
}

void matrix_factor(double *a, size_t n) {
    const double left_out = 1e150; /* solutions are divided by it, twice */
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = a[i * n + j];
            for (size_t c = 0; c < j; c++)
                sum -= a[i * n + c] * a[j * n + c];
            if (i == j)
                a[i * n + j] = sum > 0 ? sqrt(sum) : left_out;
            else
                a[i * n + j] = sum / a[j * n + j];
        }
}

void matrix_solve_lower(const double *l, double *b, size_t n, size_t m) {
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < i; c++)
            for (size_t r = 0; r < m; r++)
                b[i * m + r] -= l[i * n + c] * b[c * m + r];
        for (size_t r = 0; r < m; r++)
            b[i * m + r] /= l[i * n + i];
    }
}

void matrix_solve_upper(const double *l, double *b, size_t n, size_t m) {
    for (size_t i = n; i-- > 0;) {
        for (size_t c = i + 1; c < n; c++)
            for (size_t r = 0; r < m; r++)
                b[i * m + r] -= l[c * n + i] * b[c * m + r];
        for (size_t r = 0; r < m; r++)
            b[i * m + r] /= l[i * n + i];
    }
}

void matrix_solve(double *a, double *b, size_t n, size_t m) {
    matrix_factor(a, n);
    matrix_solve_lower(a, b, n, m);
    matrix_solve_upper(a, b, n, m);
}

/* Makes the columns of v [n, r] orthonormal, the first ones first. */
static void orthonormalise(double *v, size_t n, size_t r) {
    for (size_t j = 0; j < r; j++) {
        for (size_t c = 0; c < j; c++) {
            double dot = 0;
            for (size_t i = 0; i < n; i++)
                dot += v[i * r + j] * v[i * r + c];
            for (size_t i = 0; i < n; i++)
                v[i * r + j] -= dot * v[i * r + c];
        }
        double squares = 0;
        for (size_t i = 0; i < n; i++)
            squares += v[i * r + j] * v[i * r + j];
        const double inverse = squares > 0 ? 1 / sqrt(squares) : 0;
        for (size_t i = 0; i < n; i++)
            v[i * r + j] *= inverse;
    }
}

wisp_status matrix_eigenvectors(const double *a, size_t n, size_t r, double *v, wisp_error *error) {
    double *next = calloc(n * r, sizeof *next);
    uint32_t state = 1;
    if (!next)
        return fail_memory(error, n * r * sizeof *next);
    for (size_t i = 0; i < n * r; i++) {
        state = state * 1664525u + 1013904223u;
        v[i] = (double)(state >> 8) / (1 << 23) - 1;
    }
    orthonormalise(v, n, r);
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        for (size_t i = 0; i < n * r; i++)
            next[i] = 0;
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; c < n; c++)
                for (size_t j = 0; j < r; j++)
                    next[i * r + j] += a[i * n + c] * v[c * r + j];
        for (size_t i = 0; i < n * r; i++)
            v[i] = next[i];
        orthonormalise(v, n, r);
    }
    free(next);
    return WISP_OK;
}
