/* SPDX-License-Identifier: Apache-2.0
 * Weights of a decoder on the device. Those that are quantised stay so: scales are taken out of the blocks. */
#include <new>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/decoder.h"

enum { SCALE_BYTES = sizeof(uint16_t) };

/* Where a tensor goes: a matrix, or a vector or table of floats. */
struct tensor_place {
    decoder_matrix *matrix;
    float **floats;
    size_t rows, columns;
};

static tensor_place place_of(device_decoder *d, device_decoder_tensor tensor, uint32_t layer) {
    const device_decoder_shape &s = d->shape;
    const size_t h = s.hidden_size, inner = s.intermediate_size, q = (size_t)s.heads * s.head_size;
    const size_t kv = (size_t)s.kv_heads * s.head_size;
    decoder_layer &l = d->layers[layer];
    switch (tensor) {
    case DECODER_TOKENS: return {&d->tokens, NULL, s.vocabulary_size, h};
    case DECODER_LOGITS: return {&d->logits, NULL, s.vocabulary_size, h};
    case DECODER_OUTPUT_NORM: return {NULL, &d->output_norm, 1, h};
    case DECODER_ROTATIONS: return {NULL, &d->rotations, s.positions, s.head_size};
    case DECODER_ATTENTION_NORM: return {NULL, &l.attention_norm, 1, h};
    case DECODER_Q: return {&l.q, NULL, q, h};
    case DECODER_K: return {&l.k, NULL, kv, h};
    case DECODER_V: return {&l.v, NULL, kv, h};
    case DECODER_Q_BIAS: return {NULL, &l.q_bias, s.qkv_bias, q};
    case DECODER_K_BIAS: return {NULL, &l.k_bias, s.qkv_bias, kv};
    case DECODER_V_BIAS: return {NULL, &l.v_bias, s.qkv_bias, kv};
    case DECODER_Q_NORM: return {NULL, &l.q_norm, s.qk_norm, s.head_size};
    case DECODER_K_NORM: return {NULL, &l.k_norm, s.qk_norm, s.head_size};
    case DECODER_OUTPUT: return {&l.output, NULL, h, q};
    case DECODER_FFN_NORM: return {NULL, &l.ffn_norm, 1, h};
    case DECODER_GATE: return {&l.gate, NULL, inner, h};
    case DECODER_UP: return {&l.up, NULL, inner, h};
    case DECODER_DOWN: return {&l.down, NULL, h, inner};
    case DECODER_NEURON_WEIGHTS: return {NULL, &l.neuron_weights, s.sparse, inner};
    case DECODER_TENSORS: break;
    }
    return {NULL, NULL, 0, 0};
}

device_status decoder_open(const device_decoder_shape *shape, device_decoder **decoder, char message[DEVICE_MESSAGE_BYTES]) {
    cudaDeviceProp properties;
    *decoder = NULL;
    DEVICE_TRY(runtime_find(&properties, message));
    DEVICE_TRY(decoder_check(shape, message));
    device_decoder *d = new (std::nothrow) device_decoder();
    decoder_layer *layers = new (std::nothrow) decoder_layer[shape->layers]();
    if (!d || !layers) {
        delete d;
        delete[] layers;
        return device_fail(DEVICE_NO_MEMORY, message, "the host has no memory for a decoder");
    }
    d->shape = *shape;
    d->layers = layers;
    d->overlaps = properties.major >= 9;
    d->multiprocessors = (unsigned)properties.multiProcessorCount;
    d->warpgroups = properties.major == 9 && shape->hidden_size % STAGE_VALUES == 0 &&
                    shape->intermediate_size % STAGE_VALUES == 0 && shape->heads * shape->head_size % STAGE_VALUES == 0;
    *decoder = d;
    return DEVICE_OK;
}

static void release_place(const tensor_place &place) {
    if (place.floats)
        cudaFree(*place.floats);
    if (place.matrix) {
        cudaFree(place.matrix->values);
        cudaFree(place.matrix->scale);
    }
}

void decoder_close(device_decoder *d) {
    if (!d)
        return;
    for (int tensor = 0; tensor < DECODER_TENSORS; tensor++)
        for (uint32_t l = 0; l < (tensor < DECODER_ATTENTION_NORM ? 1 : d->shape.layers); l++)
            release_place(place_of(d, (device_decoder_tensor)tensor, l));
    for (uint32_t l = 0; l < d->shape.layers; l++) {
        cudaFree(d->layers[l].down_neurons.values);
        cudaFree(d->layers[l].down_neurons.scale);
    }
    delete[] d->layers;
    delete d;
}

uint64_t decoder_bytes(const device_decoder *d) { return d->weight_bytes; }

/* Takes the memory of a matrix when its first rows come. */
static device_status allocate_matrix(device_decoder *d, const tensor_place &place, device_format format,
                                     char message[DEVICE_MESSAGE_BYTES]) {
    decoder_matrix made = {NULL, NULL, place.rows, place.columns, format};
    const size_t blocks = place.rows * (place.columns / VALUES);
    DEVICE_TRY(runtime_allocate(&made.values, blocks * format_bytes(format), &d->weight_bytes, message));
    place.matrix->values = made.values; /* decoder_close frees it */
    if (format != DEVICE_F16)
        DEVICE_TRY(runtime_allocate(&made.scale, blocks + 1, &d->weight_bytes, message)); /* they are read in pairs */
    *place.matrix = made;
    return DEVICE_OK;
}

/* Moves the bytes of a block of Q4_0 so that each lane of an mma finds its values in a word (decoder_product.h). In a
 * file, byte i has numbers i and 16 + i. */
static void order_nibbles(const unsigned char *file, unsigned char *device) {
    const auto number = [file](int i) { return i < 16 ? file[i] & 15 : file[i - 16] >> 4; };
    for (int byte = 0; byte < 16; byte++) {
        const int low = byte / 4 * 8 + byte % 4;
        device[byte] = (unsigned char)(number(low) | number(low + 4) << 4);
    }
}

/* Takes blocks apart: their scales, and their numbers. */
static void split_blocks(device_format format, const unsigned char *stored, size_t blocks, unsigned char *values,
                         uint16_t *scale) {
    const size_t bytes = format_bytes(format);
    for (size_t i = 0; i < blocks; i++, stored += SCALE_BYTES + bytes, values += bytes) {
        memcpy(&scale[i], stored, SCALE_BYTES);
        if (format == DEVICE_Q4_0)
            order_nibbles(stored + SCALE_BYTES, values);
        else
            memcpy(values, stored + SCALE_BYTES, bytes);
    }
}

static device_status copy_in(void *to, const void *from, size_t bytes, char message[DEVICE_MESSAGE_BYTES]) {
    return runtime_check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copying weights", message);
}

/* Keeps rows of W_down by neuron, too. */
static device_status put_columns(device_decoder *d, decoder_layer *l, size_t first, size_t rows,
                                 char message[DEVICE_MESSAGE_BYTES]) {
    const size_t count = l->down.rows * l->down.columns;
    if (!l->down_neurons.values)
        DEVICE_TRY(runtime_allocate(&l->down_neurons.values, count, &d->weight_bytes, message));
    if (!l->down_neurons.scale)
        DEVICE_TRY(runtime_allocate(&l->down_neurons.scale, count / VALUES, &d->weight_bytes, message));
    return decoder_copy_columns(l, first, rows, message);
}

static device_status put_rows(const decoder_matrix &m, size_t first, size_t rows, const void *stored,
                              char message[DEVICE_MESSAGE_BYTES]) {
    const size_t bytes = format_bytes(m.format), per_row = m.columns / VALUES, blocks = rows * per_row;
    unsigned char *to = m.values + first * per_row * bytes;
    if (m.format == DEVICE_F16)
        return copy_in(to, stored, blocks * bytes, message);
    unsigned char *values = (unsigned char *)malloc(blocks * (bytes + SCALE_BYTES));
    if (!values)
        return device_fail(DEVICE_NO_MEMORY, message, "the host has no memory to convert weights");
    uint16_t *scale = (uint16_t *)(values + blocks * bytes);
    split_blocks(m.format, (const unsigned char *)stored, blocks, values, scale);
    device_status status = copy_in(to, values, blocks * bytes, message);
    if (status == DEVICE_OK)
        status = copy_in(m.scale + first * per_row, scale, blocks * SCALE_BYTES, message);
    free(values);
    return status;
}

device_status decoder_put(device_decoder *d, device_decoder_tensor tensor, uint32_t layer, device_format format,
                          size_t first, size_t rows, const void *stored, char message[DEVICE_MESSAGE_BYTES]) {
    if (layer >= d->shape.layers)
        return device_fail(DEVICE_UNSUPPORTED, message, "a layer past the last");
    const tensor_place place = place_of(d, tensor, layer);
    if (first > place.rows || rows > place.rows - first)
        return device_fail(DEVICE_UNSUPPORTED, message, "rows past a tensor's end");
    if (place.floats) {
        if (format != DEVICE_F32)
            return device_fail(DEVICE_UNSUPPORTED, message, "a vector that is not of floats");
        if (!*place.floats)
            DEVICE_TRY(runtime_allocate(place.floats, place.rows * place.columns, &d->weight_bytes, message));
        return copy_in(*place.floats + first * place.columns, stored, rows * place.columns * sizeof(float), message);
    }
    if (format == DEVICE_F32 || (format == DEVICE_F16) != d->shape.halves ||
        (place.matrix->values && place.matrix->format != format))
        return device_fail(DEVICE_UNSUPPORTED, message, "rows of another format than the matrix");
    if (!place.matrix->values)
        DEVICE_TRY(allocate_matrix(d, place, format, message));
    DEVICE_TRY(put_rows(*place.matrix, first, rows, stored, message));
    return tensor == DECODER_DOWN && d->shape.sparse && rows > 0 ? put_columns(d, &d->layers[layer], first, rows, message)
                                                                 : DEVICE_OK;
}
