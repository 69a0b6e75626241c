/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_KERNELS_CUDA_ACTIVATION_H
#define WISP_KERNELS_CUDA_ACTIVATION_H

#include "device/library.h"
#include "kernels/cuda/ptx.h"

/* x times the normal distribution function, within 5e-7. erf is that of Abramowitz and Stegun,
 * Handbook of Mathematical Functions, 7.1.28, with the argument's factor 1 / sqrt(2) in the
 * coefficients: 1 - 1 / p^16. */
static __device__ __forceinline__ float gelu(float x) {
    const float a = fabsf(x);
    float p = fmaf(5.3829750e-6f, a, 4.8890634e-5f);
    p = fmaf(p, a, 3.8003573e-5f);
    p = fmaf(p, a, 3.2776264e-3f);
    p = fmaf(p, a, 2.1141006e-2f);
    p = fmaf(p, a, 4.9867347e-2f);
    p = fmaf(p, a, 1.0f);
    p *= p;
    p *= p;
    p *= p;
    p *= p;
    return fmaf(-0.5f * a, reciprocal_near(p), fmaxf(x, 0.0f));
}

/* GELU with tanh instead of erf: tanh(u) = 1 - 2 / (1 + e^2u). */
static __device__ __forceinline__ float gelu_tanh(float x) {
    const float u = 0.7978845608028654f * fmaf(0.044715f * x * x, x, x);
    return x - x * reciprocal_near(1 + exp2_near(2.8853900817779268f * u));
}

template <int ACTIVATION> static __device__ __forceinline__ float activate(float x) {
    return ACTIVATION == DEVICE_RELU        ? fmaxf(x, 0.0f)
           : ACTIVATION == DEVICE_GELU_TANH ? gelu_tanh(x)
                                            : gelu(x);
}

/* The shift added to an activation's results before they are quantised, so that none is negative:
 * GELU is at least -0.1701, and the rest is for rounding. A half holds it exactly. */
template <int ACTIVATION> static __host__ __device__ constexpr float activation_shift(void) {
    return ACTIVATION == DEVICE_RELU ? 0 : 0.171875f;
}

/* Two values at a time in f16, within 1e-3 or 2^-10 of x, which is less than half a step of what is
 * quantised to bytes: x / 2 (1 + tanh(x (a + b x^2))). Of GELU with erf, a and b are those whose
 * largest error, 2.7e-4, is least. */
template <int ACTIVATION> static __device__ __forceinline__ uint32_t activate_halves(uint32_t x) {
    if (ACTIVATION == DEVICE_RELU)
        return halves_max(x, 0);
    const bool by_tanh = ACTIVATION == DEVICE_GELU_TANH;
    const float a = by_tanh ? 0.7978845608f : 0.8001550635f,
                b = by_tanh ? 0.0356774081f : 0.0347015946f, shift = activation_shift<ACTIVATION>();
    const uint32_t t =
        halves_tanh(halves_mul(x, halves_fma(halves_mul(x, x), halves_of(b, b), halves_of(a, a))));
    const uint32_t half = halves_mul(x, halves_of(0.5f, 0.5f));
    return halves_add(halves_fma(half, t, half), halves_of(shift, shift));
}

#endif
