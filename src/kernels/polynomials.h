/* SPDX-License-Identifier: Apache-2.0
 * The polynomials of the vector sets and of the portable scalar set (rows_template.h, scalar.c). */
#ifndef WISP_KERNELS_POLYNOMIALS_H
#define WISP_KERNELS_POLYNOMIALS_H

#include "base/half.h"

#define LOG2_E 1.44269504f

/* GELU with erf is max(x, 0) - h(|x|), where h(u) = u erfc(u / sqrt 2) / 2 has fallen to 1e-7 at
 * u = 5.5. h is a minimax polynomial of degree 16 in t = u / 2.75 - 1, fitted by Lawson's
 * iteration. Its error is 1.2e-7, and 4e-7 with rounding. */
enum { GELU_DEGREE = 16, GELU_LIMIT = GELU_DEGREE + 1, GELU_SCALE, GELU_TERMS };
static const float gelu_terms[GELU_TERMS] = {
    0.0081943804f,  -0.0605777502f, 0.1912619025f,  -0.3086897731f, 0.1789810508f,
    0.2605161667f,  -0.6286078691f, 0.4592227638f,  0.1525606960f,  -0.5440987945f,
    0.2695961893f,  0.2308407873f,  -0.2537053823f, -0.0364081189f, 0.0968958512f,
    -0.0008053257f, -0.0151767945f, 5.5f,           1 / 2.75f};

/* 2^r for r in [-1/2, 1/2] is a minimax polynomial of degree 5, fitted by Lawson's iteration.
 * Adding the rounder, 1.5 * 2^23, to a number of magnitude below 2^22 leaves the nearest whole
 * number, ties to even, in the low bits of the sum. */
enum { EXP2_DEGREE = 5, EXP2_LEAST = EXP2_DEGREE + 1, EXP2_ROUNDER, EXP2_TERMS };
static const float exp2_terms[EXP2_TERMS] = {
    1,    0.6931469440f, 0.2402212024f, 0.0555071309f, 0.0096755419f, 0.0013276472f,
    -126, 12582912.0f};

/* Computes what exp2_of of rows_template.h computes in portable sets. */
static inline float exp2_portable(float x) {
    const float least = exp2_terms[EXP2_LEAST], rounder = exp2_terms[EXP2_ROUNDER];
    const float clamped = x > least ? x : least;
    const float whole = clamped + rounder;
    const float r = clamped - (whole - rounder);
    float p = exp2_terms[EXP2_DEGREE];
    for (int term = EXP2_DEGREE - 1; term >= 0; term--)
        p = p * r + exp2_terms[term];
    return float_of_bits(bits_of_float(p) + (bits_of_float(whole) << 23));
}

#endif
