/* SPDX-License-Identifier: Apache-2.0
 * Weights of an encoder on the device. They come as floats, and are converted on the host. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/encoder.h"

/* Where a tensor goes: floats, halves, or the bytes of a matrix. */
struct place {
    float *floats;
    uint16_t *halves;
    const device_matrix *bytes;
    size_t rows, columns;
};

static uint16_t half_of(float x) { return (uint16_t)halves_of(x, 0); }

/* Allocates a matrix of bytes whose weights are summed in so many groups, or with 0 one of halves. */
static device_status allocate_matrix(device_encoder *e, device_matrix *m, size_t outputs, size_t inputs, size_t groups,
                                     char message[DEVICE_MESSAGE_BYTES]) {
    m->groups = groups;
    DEVICE_TRY(runtime_allocate(&m->weights, outputs * inputs * (groups > 0 ? 1 : 2), &e->weight_bytes, message));
    if (groups > 0) {
        DEVICE_TRY(runtime_allocate(&m->scale, outputs, &e->weight_bytes, message));
        DEVICE_TRY(runtime_allocate(&m->sums, groups * outputs, &e->weight_bytes, message));
    }
    return runtime_allocate(&m->bias, outputs, &e->weight_bytes, message);
}

static device_status allocate_norm(device_encoder *e, device_norm *n, char message[DEVICE_MESSAGE_BYTES]) {
    DEVICE_TRY(runtime_allocate(&n->weight, e->shape.hidden_size, &e->weight_bytes, message));
    return runtime_allocate(&n->bias, e->shape.hidden_size, &e->weight_bytes, message);
}

device_status encoder_allocate(device_encoder *e, char message[DEVICE_MESSAGE_BYTES]) {
    const device_shape *s = &e->shape;
    const size_t h = s->hidden_size, inner = s->intermediate_size;
    const size_t groups = s->int8 ? h / GROUP : 0; /* of hidden states; of what is between, one shift serves all */
    e->layers = (device_layer *)calloc(s->layers, sizeof *e->layers);
    if (!e->layers)
        return device_fail(DEVICE_NO_MEMORY, message, "the host has no memory for the list of layers");
    DEVICE_TRY(runtime_allocate(&e->tokens, s->vocabulary_size * h, &e->weight_bytes, message));
    DEVICE_TRY(runtime_allocate(&e->positions, s->positions * h, &e->weight_bytes, message));
    DEVICE_TRY(allocate_norm(e, &e->embedding_norm, message));
    for (uint32_t i = 0; i < s->layers; i++) {
        device_layer *l = &e->layers[i];
        DEVICE_TRY(allocate_matrix(e, &l->qkv, 3 * h, h, groups, message));
        DEVICE_TRY(allocate_matrix(e, &l->output, h, h, 0, message));
        DEVICE_TRY(allocate_matrix(e, &l->up, inner, h, groups, message));
        DEVICE_TRY(allocate_matrix(e, &l->down, h, inner, s->int8 ? 1 : 0, message));
        DEVICE_TRY(allocate_norm(e, &l->attention_norm, message));
        DEVICE_TRY(allocate_norm(e, &l->output_norm, message));
    }
    return DEVICE_OK;
}

static void release_matrix(device_matrix *m) {
    cudaFree(m->weights);
    cudaFree(m->scale);
    cudaFree(m->sums);
    cudaFree(m->bias);
}

static void release_norm(device_norm *n) {
    cudaFree(n->weight);
    cudaFree(n->bias);
}

void encoder_release(device_encoder *e) {
    cudaFree(e->tokens);
    cudaFree(e->positions);
    release_norm(&e->embedding_norm);
    for (uint32_t i = 0; e->layers && i < e->shape.layers; i++) {
        device_layer *l = &e->layers[i];
        release_matrix(&l->qkv);
        release_matrix(&l->output);
        release_matrix(&l->up);
        release_matrix(&l->down);
        release_norm(&l->attention_norm);
        release_norm(&l->output_norm);
    }
    free(e->layers);
}

static place place_of_matrix(const device_matrix &m, size_t outputs, size_t inputs) {
    place p = {NULL, m.groups > 0 ? NULL : (uint16_t *)m.weights, m.groups > 0 ? &m : NULL, outputs, inputs};
    return p;
}

static place place_of_vector(float *values, size_t n) {
    place p = {values, NULL, NULL, 1, n};
    return p;
}

static place place_of(const device_encoder *e, enum device_tensor tensor, uint32_t layer) {
    const size_t h = e->shape.hidden_size, inner = e->shape.intermediate_size;
    const device_layer &l = e->layers[layer];
    const place tokens = {NULL, e->tokens, NULL, e->shape.vocabulary_size, h};
    const place positions = {NULL, e->positions, NULL, e->shape.positions, h};
    switch (tensor) {
    case DEVICE_TOKENS: return tokens;
    case DEVICE_POSITIONS: return positions;
    case DEVICE_EMBEDDING_NORM: return place_of_vector(e->embedding_norm.weight, h);
    case DEVICE_EMBEDDING_NORM_BIAS: return place_of_vector(e->embedding_norm.bias, h);
    case DEVICE_QKV: return place_of_matrix(l.qkv, 3 * h, h);
    case DEVICE_QKV_BIAS: return place_of_vector(l.qkv.bias, 3 * h);
    case DEVICE_OUTPUT: return place_of_matrix(l.output, h, h);
    case DEVICE_OUTPUT_BIAS: return place_of_vector(l.output.bias, h);
    case DEVICE_ATTENTION_NORM: return place_of_vector(l.attention_norm.weight, h);
    case DEVICE_ATTENTION_NORM_BIAS: return place_of_vector(l.attention_norm.bias, h);
    case DEVICE_UP: return place_of_matrix(l.up, inner, h);
    case DEVICE_UP_BIAS: return place_of_vector(l.up.bias, inner);
    case DEVICE_DOWN: return place_of_matrix(l.down, h, inner);
    case DEVICE_DOWN_BIAS: return place_of_vector(l.down.bias, h);
    case DEVICE_OUTPUT_NORM: return place_of_vector(l.output_norm.weight, h);
    case DEVICE_OUTPUT_NORM_BIAS: return place_of_vector(l.output_norm.bias, h);
    case DEVICE_TENSORS: break;
    }
    return place_of_vector(NULL, 0);
}

/* Quantises a row with one scale. */
static float quantise_row(const float *values, size_t n, int8_t *q) {
    float largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    const float inverse = largest > 0 ? 127 / largest : 0;
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)lrintf(values[i] * inverse);
    return largest / 127;
}

static device_status copy_in(void *to, const void *from, size_t bytes, char message[DEVICE_MESSAGE_BYTES]) {
    return runtime_check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copying weights", message);
}

static const char no_memory[] = "the host has no memory to convert weights";

/* Converts rows [first, first + rows) of a matrix of so many outputs and inputs, with their scales and sums. */
static device_status put_bytes(const device_matrix &m, size_t outputs, size_t inputs, size_t first, size_t rows,
                               const float *values, char message[DEVICE_MESSAGE_BYTES]) {
    const size_t group = inputs / m.groups;
    float *scale = (float *)malloc(rows * (1 + m.groups) * sizeof *scale + rows * inputs);
    if (!scale)
        return device_fail(DEVICE_NO_MEMORY, message, no_memory);
    float *sums = scale + rows;
    int8_t *q = (int8_t *)(sums + rows * m.groups);
    for (size_t r = 0; r < rows; r++) {
        scale[r] = quantise_row(values + r * inputs, inputs, q + r * inputs);
        for (size_t g = 0; g < m.groups; g++) {
            int32_t sum = 0;
            for (size_t i = 0; i < group; i++)
                sum += q[r * inputs + g * group + i];
            sums[g * rows + r] = (float)sum;
        }
    }
    device_status status = copy_in(m.weights + first * inputs, q, rows * inputs, message);
    if (status == DEVICE_OK)
        status = copy_in(m.scale + first, scale, rows * sizeof *scale, message);
    for (size_t g = 0; g < m.groups && status == DEVICE_OK; g++)
        status = copy_in(m.sums + g * outputs + first, sums + g * rows, rows * sizeof *sums, message);
    free(scale);
    return status;
}

device_status encoder_put(device_encoder *e, enum device_tensor tensor, uint32_t layer, size_t first, size_t rows,
                          const float *values, char message[DEVICE_MESSAGE_BYTES]) {
    if (layer >= e->shape.layers)
        return device_fail(DEVICE_UNSUPPORTED, message, "a layer past the last");
    const place p = place_of(e, tensor, layer);
    const size_t count = rows * p.columns, before = first * p.columns;
    if (first > p.rows || rows > p.rows - first)
        return device_fail(DEVICE_UNSUPPORTED, message, "rows past a tensor's end");
    if (p.floats)
        return copy_in(p.floats + before, values, count * sizeof(float), message);
    if (p.bytes)
        return put_bytes(*p.bytes, p.rows, p.columns, first, rows, values, message);
    uint16_t *halves = (uint16_t *)malloc(count * sizeof *halves);
    if (!halves)
        return device_fail(DEVICE_NO_MEMORY, message, no_memory);
    for (size_t i = 0; i < count; i++)
        halves[i] = half_of(values[i]);
    const device_status status = copy_in(p.halves + before, halves, count * sizeof *halves, message);
    free(halves);
    return status;
}
