/* SPDX-License-Identifier: Apache-2.0
 * The scalar reference for the sparse kernels: the plainest loop for each, not optimised.
 * Compiled for size in WebAssembly. */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/sparse.h"

static size_t neuron_at(const uint16_t *list, size_t i) {
    return list ? list[i] : i;
}

static void quantise(const float *x, const float *input_scale, size_t k,
                     struct quantised_row *row) {
    float low = 0, high = 0;
    for (size_t c = 0; c < k; c++) {
        const float value = x[c] * input_scale[c];
        low = fminf(low, value);
        high = fmaxf(high, value);
    }
    const float range = quantised_range(low, high);
    const float inverse = range > 0 ? 255 / range : 0;
    row->scale = range / 255;
    row->zero = rintf(-low * inverse);
    for (size_t c = 0; c < k; c++) {
        const float value = x[c] * input_scale[c];
        row->q[c] = (uint8_t)fminf(fmaxf(rintf(value * inverse) + row->zero, 0), 255);
    }
    memset(row->q + k, 0, sparse_row_bytes(k) - k);
}

static void choose(const float *logits, const float *thresholds, size_t n, uint64_t *mask) {
    memset(mask, 0, (n + 63) / 64 * sizeof *mask);
    for (size_t i = 0; i < n; i++)
        mask[i / 64] |= (uint64_t)(logits[i] > thresholds[i]) << i % 64;
}

static int32_t row_sum(const uint8_t *q, const int8_t *row, size_t k) {
    int32_t sum = 0;
    for (size_t c = 0; c < k; c++)
        sum += q[c] * row[c];
    return sum;
}

static void up(const uint8_t *q, const int8_t *rows, const uint16_t *list, size_t n, size_t k,
               int32_t *sums) {
    for (size_t i = 0; i < n; i++)
        sums[i] = row_sum(q, rows + list[i] * sparse_row_bytes(k), k);
}

static float finished(int32_t sum, const struct neuron *neuron, const struct quantised_row *row) {
    return neuron->bias + row->scale * neuron->scale * ((float)sum - row->zero * neuron->sum);
}

static float gelu(float x) {
    return 0.5f * x * (1 + erff(x * 0.70710678f));
}

#ifdef DECODER_KERNELS
static float gelu_tanh(float x) {
    return x / (1 + expf(-1.59576912f * (x + 0.044715f * x * x * x)));
}
#endif

static float activation(enum activation kind, float x, float gate) {
    switch (kind) {
    case ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case ACTIVATION_GELU:
        return gelu(x);
#ifdef DECODER_KERNELS
    case ACTIVATION_GELU_TANH:
        return gelu_tanh(x);
    case ACTIVATION_RELU_SQUARED:
        return x > 0 ? x * x : 0;
    case ACTIVATION_GATED_RELU:
        return gate > 0 ? gate * x : 0;
    case ACTIVATION_GATED_RELU_SQUARED:
        return gate > 0 ? gate * gate * x : 0;
    case ACTIVATION_GATED_GELU_TANH:
        return gelu_tanh(gate) * x;
    case ACTIVATION_GATED_GELU:
        return gelu(gate) * x;
#endif
#ifndef __wasm__
    case ACTIVATION_QUICK_GELU:
        return x / (1 + expf(-1.702f * x));
#endif
    default: /* ACTIVATION_GATED_SILU */
        break;
    }
    return gate / (1 + expf(-gate)) * x;
}

/* Returns the larger of a magnitude and that of x, or NaN if one of them is NaN. */
static float larger_magnitude(float magnitude, float x) {
    return magnitude >= fabsf(x) || isnan(magnitude) ? magnitude : fabsf(x);
}

static float activate(enum activation kind, struct neuron_sums sums, const float *centers,
                      const uint16_t *list, size_t n, const struct quantised_row *row,
                      float *values) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t j = neuron_at(list, i);
        const float y = finished(sums.up[i], &sums.neurons[j], row);
        const bool gated = activation_is_gated(kind);
        const float gate = gated ? finished(sums.gate[i], &sums.gates[j], row) : 0;
        const float above = activation(kind, y, gate) - (centers ? centers[j] : 0);
        values[i] = above * sums.neurons[j].column;
        largest = larger_magnitude(largest, values[i]);
    }
    return largest;
}

static float contribute(enum activation kind, const float *y, const float *gate,
                        const float *scales, size_t n, float *values) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) {
        values[i] = activation(kind, y[i], gate ? gate[i] : 0) * scales[i];
        largest = larger_magnitude(largest, values[i]);
    }
    return largest;
}

static size_t compact(const float *values, float largest, const uint16_t *list, size_t n,
                      uint16_t *kept, int8_t *bytes, int32_t *total) {
    const float inverse = largest > 0x1p-120f ? 127 / largest : 0;
    size_t count = 0;
    *total = 0;
    if (!isfinite(largest))
        return 0;
    for (size_t i = 0; i < n; i++) {
        const int8_t byte = (int8_t)lrintf(values[i] * inverse);
        if (byte == 0)
            continue;
        bytes[count] = byte;
        kept[count++] = (uint16_t)neuron_at(list, i);
        *total += byte;
    }
    for (size_t i = count; i % DOWN_NEURONS != 0; i++) {
        bytes[i] = 0;
        kept[i] = 0;
    }
    return count;
}

static void down(const int8_t *bytes, const uint8_t *w, const uint16_t *list, size_t n, size_t size,
                 int32_t *sums) {
    const size_t columns = sparse_row_bytes(size);
    memset(sums, 0, columns * sizeof *sums);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < columns; c++)
            sums[c] += bytes[i] * w[list[i] * columns + column_place(c, sparse_scalar.lanes)];
}

static void add_base(const int32_t *sums, int32_t shift, float scale, const float *scales,
                     const float *base, size_t size, float *y) {
    for (size_t c = 0; c < size; c++)
        y[c] = base[c] + scale * scales[c] * (float)(sums[c] - shift);
}

const struct sparse_kernels sparse_scalar = {
    .lanes = 4,
    .quantise = quantise,
    .choose = choose,
    .up = up,
    .activate = activate,
    .contribute = contribute,
    .compact = compact,
    .down = down,
    .add_base = add_base,
};
