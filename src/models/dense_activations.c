/* SPDX-License-Identifier: Apache-2.0 */
#include "models/dense_activations.h"

#include <math.h>

static float identity(float x) {
    return x;
}

static float hyperbolic_tangent(float x) {
    return (float)tanh((double)x);
}

static float relu(float x) {
    return x > 0 ? x : 0;
}

static float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

static float silu(float x) {
    return x * sigmoid(x);
}

static float gelu(float x) {
    return (float)((double)x * 0.5 * erfc((double)x * -0.70710678118654752440));
}

static float elu(float x) {
    return x > 0 ? x : expm1f(x);
}

static float leaky_relu(float x) {
    return x > 0 ? x : 0.01f * x;
}

static float softplus(float x) {
    return x > 20 ? x : log1pf(expf(x));
}

static float mish(float x) {
    return x * tanhf(softplus(x));
}

static float softsign(float x) {
    return x / (1 + fabsf(x));
}

const struct dense_activation dense_identity = {"identity", identity};
const struct dense_activation dense_tanh = {"tanh", hyperbolic_tangent};
const struct dense_activation dense_relu = {"relu", relu};
const struct dense_activation dense_sigmoid = {"sigmoid", sigmoid};
const struct dense_activation dense_silu = {"silu", silu};
const struct dense_activation dense_gelu = {"gelu", gelu};
const struct dense_activation dense_elu = {"elu", elu};
const struct dense_activation dense_leaky_relu = {"leaky_relu", leaky_relu};
const struct dense_activation dense_softplus = {"softplus", softplus};
const struct dense_activation dense_mish = {"mish", mish};
const struct dense_activation dense_softsign = {"softsign", softsign};
