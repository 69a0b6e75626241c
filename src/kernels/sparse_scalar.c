/* SPDX-License-Identifier: Apache-2.0
 * The reference: the plainest loop for each kernel, never optimised. */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/sparse.h"

static size_t quad_at(const uint16_t *quads, size_t i) {
    return quads ? quads[i] : i;
}

static void quantise(const float *x, const float *by, size_t k, struct quantised_row *row) {
    float low = 0, high = 0;
    for (size_t c = 0; c < k; c++) {
        const float value = by ? x[c] * by[c] : x[c];
        low = fminf(low, value);
        high = fmaxf(high, value);
    }
    const float range = quantised_range(low, high);
    const float inverse = range > 0 ? 255 / range : 0;
    row->scale = range / 255;
    row->zero = rintf(-low * inverse);
    for (size_t c = 0; c < k; c++) {
        const float value = by ? x[c] * by[c] : x[c];
        row->q[c] = (uint8_t)fminf(fmaxf(rintf(value * inverse) + row->zero, 0), 255);
    }
    memset(row->q + k, 0, quad_row_bytes(k) - k);
}

static void up(const uint8_t *q, const int8_t *w, const struct quad_use *uses, size_t n, size_t k,
               int32_t *sums) {
    const size_t row_bytes = quad_row_bytes(k);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < QUAD; j++) {
            const uint8_t *row = q + uses[i].token * row_bytes;
            int32_t sum = 0;
            for (size_t c = 0; c < row_bytes; c++)
                sum += row[c] * quad_weight(w, k, j, c);
            sums[QUAD * uses[i].place + j] = sum;
        }
}

static void to_integers(const float *values, size_t n, int32_t *integers) {
    for (size_t i = 0; i < n; i++)
        integers[i] = (int32_t)values[i];
}

static float finished(int32_t sum, const struct quad_parameters *p, size_t j,
                      const struct quantised_row *row) {
    return p->bias[j] + row->scale * p->scale[j] * ((float)sum - row->zero * p->sum[j]);
}

static void finish(const int32_t *sums, const struct quad_parameters *parameters,
                   const uint16_t *quads, size_t n, const struct quantised_row *row, float *y) {
    for (size_t i = 0; i < QUAD * n; i++)
        y[i] = finished(sums[i], &parameters[quad_at(quads, i / QUAD)], i % QUAD, row);
}

static size_t choose(const float *logits, const float *thresholds, size_t n, uint16_t *quads) {
    size_t chosen = 0;
    for (size_t i = 0; i < n; i++)
        if (logits[i] > thresholds[i])
            quads[chosen++] = (uint16_t)i;
    return chosen;
}

static float activation(enum activation kind, float x, float gate) {
    switch (kind) {
    case ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case ACTIVATION_GELU:
        return 0.5f * x * (1 + erff(x * 0.70710678f));
    case ACTIVATION_GATED_SILU:
        break;
    }
    return gate / (1 + expf(-gate)) * x;
}

static float activate(enum activation kind, struct quad_sums up, struct quad_sums gate,
                      const struct quad_columns *columns, const uint16_t *quads, size_t n,
                      const struct quantised_row *row, float *values) {
    float largest = 0;
    for (size_t i = 0; i < QUAD * n; i++) {
        const size_t quad = quad_at(quads, i / QUAD), j = i % QUAD, neuron = QUAD * quad + j;
        const float y = finished(up.sums[i], &up.parameters[quad], j, row);
        float opened = 0;
        if (kind == ACTIVATION_GATED_SILU)
            opened = finished(gate.sums[i], &gate.parameters[quad], j, row);
        values[i] =
            (activation(kind, y, opened) - columns->center[neuron]) * columns->scale[neuron];
        largest = fmaxf(largest, fabsf(values[i]));
    }
    return largest;
}

static float contribute(enum activation kind, const float *y, const float *gate,
                        const float *scales, size_t n, float *values) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) {
        values[i] = activation(kind, y[i], gate ? gate[i] : 0) * scales[i];
        largest = fmaxf(largest, fabsf(values[i]));
    }
    return largest;
}

static size_t compact(const float *values, float largest, const uint16_t *quads, size_t n,
                      uint16_t *kept, int8_t *bytes, int32_t *total) {
    const float inverse = largest > 0x1p-120f ? 127 / largest : 0;
    size_t left = 0;
    *total = 0;
    for (size_t i = 0; i < n; i++) {
        int any = 0;
        for (size_t j = 0; j < QUAD; j++) {
            const int8_t byte = (int8_t)lrintf(values[QUAD * i + j] * inverse);
            bytes[QUAD * left + j] = byte;
            *total += byte;
            any |= byte;
        }
        kept[left] = (uint16_t)quad_at(quads, i);
        left += any != 0;
    }
    return left;
}

static void down(const int8_t *bytes, const uint8_t *w, const uint16_t *quads, size_t n,
                 size_t size, int32_t *sums) {
    const size_t row_bytes = quad_row_bytes(size);
    memset(sums, 0, row_bytes * sizeof *sums);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < row_bytes; c++)
            for (size_t j = 0; j < QUAD; j++)
                sums[c] += bytes[QUAD * i + j] * w[(quads[i] * row_bytes + c) * QUAD + j];
}

static void add_base(const int32_t *sums, int32_t shift, float scale, const float *scales,
                     const float *base, size_t size, float *y) {
    for (size_t c = 0; c < size; c++)
        y[c] = base[c] + scale * scales[c] * (float)(sums[c] - shift);
}

const struct sparse_kernels sparse_scalar = {
    .quantise = quantise,
    .up = up,
    .to_integers = to_integers,
    .finish = finish,
    .choose = choose,
    .activate = activate,
    .contribute = contribute,
    .compact = compact,
    .down = down,
    .add_base = add_base,
};
