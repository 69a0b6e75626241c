/* SPDX-License-Identifier: Apache-2.0
 * Decoders of random weights, as files store them and as floats. */
#ifndef WISP_TESTS_CUDA_DECODER_CASE_H
#define WISP_TESTS_CUDA_DECODER_CASE_H

#include <cstring>

#include "testing.h"

struct stored_tensor {
    device_format format = DEVICE_F32;
    size_t rows = 0, columns = 0;
    std::vector<unsigned char> bytes;
    std::vector<float> values; /* what the bytes stand for */
};

static inline void append_bytes(std::vector<unsigned char> &to, const void *from, size_t n) {
    const auto *bytes = static_cast<const unsigned char *>(from);
    to.insert(to.end(), bytes, bytes + n);
}

/* Stores values as GGUF files do, and replaces them by what is stored. */
static inline stored_tensor store_tensor(device_format format, size_t rows, size_t columns,
                                         std::vector<float> values) {
    stored_tensor t;
    t.format = format;
    t.rows = rows;
    t.columns = columns;
    for (size_t i = 0; i < values.size(); i += 32) {
        if (format == DEVICE_F32) {
            append_bytes(t.bytes, &values[i],
                         std::min<size_t>(32, values.size() - i) * sizeof(float));
            continue;
        }
        if (format == DEVICE_F16) {
            for (size_t k = i; k < i + 32; k++) {
                const uint16_t half = emulated_half(values[k]);
                append_bytes(t.bytes, &half, sizeof half);
                values[k] = emulated_float(half);
            }
            continue;
        }
        const int most = format == DEVICE_Q8_0 ? 127 : 7;
        float largest = 1e-6f;
        for (size_t k = i; k < i + 32; k++)
            largest = std::fmax(largest, std::fabs(values[k]));
        const uint16_t half = emulated_half(largest / static_cast<float>(most));
        const float scale = emulated_float(half);
        int q[32];
        for (int k = 0; k < 32; k++) {
            q[k] = static_cast<int>(
                std::lrint(std::fmax(std::fmin(values[i + k] / scale, most), -most)));
            values[i + k] = static_cast<float>(q[k]) * scale;
        }
        append_bytes(t.bytes, &half, sizeof half);
        for (int k = 0; k < (format == DEVICE_Q8_0 ? 32 : 16); k++)
            t.bytes.push_back(static_cast<unsigned char>(
                format == DEVICE_Q8_0 ? q[k] : (q[k] + 8) | (q[k + 16] + 8) << 4));
    }
    t.values = values;
    return t;
}

struct decoder_case {
    device_decoder_shape shape = {};
    device_format format = DEVICE_Q8_0;
    bool tied = false;
    std::vector<std::vector<stored_tensor>>
        layers; /* [layers][DECODER_TENSORS]: others are of layer 0 */
    const std::vector<float> &values(int tensor, size_t layer = 0) const {
        return layers[layer][tensor].values;
    }
};

/* Returns the rows of a tensor, 0 if the decoder has none, and its columns. */
static inline std::pair<size_t, size_t> tensor_size(const decoder_case &c, int tensor) {
    const device_decoder_shape &s = c.shape;
    const size_t h = s.hidden_size, inner = s.intermediate_size, q = s.heads * s.head_size,
                 kv = s.kv_heads * s.head_size;
    switch (tensor) {
    case DECODER_TOKENS:
        return {s.vocabulary_size, h};
    case DECODER_LOGITS:
        return {c.tied ? 0 : s.vocabulary_size, h};
    case DECODER_ROTATIONS:
        return {s.positions, s.head_size};
    case DECODER_Q:
        return {q, h};
    case DECODER_K:
    case DECODER_V:
        return {kv, h};
    case DECODER_Q_BIAS:
        return {s.qkv_bias, q};
    case DECODER_K_BIAS:
    case DECODER_V_BIAS:
        return {s.qkv_bias, kv};
    case DECODER_Q_NORM:
    case DECODER_K_NORM:
        return {s.qk_norm, s.head_size};
    case DECODER_OUTPUT:
        return {h, q};
    case DECODER_GATE:
    case DECODER_UP:
        return {inner, h};
    case DECODER_DOWN:
        return {h, inner};
    case DECODER_NEURON_WEIGHTS:
        return {s.sparse, inner};
    default:
        return {1, h}; /* norms */
    }
}

static inline bool is_norm(int tensor) {
    return tensor == DECODER_OUTPUT_NORM || tensor == DECODER_ATTENTION_NORM ||
           tensor == DECODER_FFN_NORM || tensor == DECODER_Q_NORM || tensor == DECODER_K_NORM;
}

static inline std::vector<float> rotation_table(const device_decoder_shape &s) {
    std::vector<float> table(s.positions * s.head_size);
    for (size_t p = 0; p < s.positions; p++)
        for (size_t i = 0; i < s.rotary_size / 2; i++) {
            const double angle = static_cast<double>(p) /
                                 std::pow(100.0, 2.0 * static_cast<double>(i) / s.rotary_size);
            table[p * s.head_size + i] = static_cast<float>(std::cos(angle));
            table[p * s.head_size + s.rotary_size / 2 + i] = static_cast<float>(std::sin(angle));
        }
    return table;
}

static inline decoder_case make_decoder(random_source &r, const device_decoder_shape &shape,
                                        device_format format, bool tied) {
    decoder_case c;
    c.shape = shape;
    c.format = format;
    c.tied = tied;
    c.layers.resize(shape.layers, std::vector<stored_tensor>(DECODER_TENSORS));
    for (uint32_t l = 0; l < shape.layers; l++)
        for (int t = l == 0 ? 0 : DECODER_ATTENTION_NORM; t < DECODER_TENSORS; t++) {
            const auto [rows, columns] = tensor_size(c, t);
            const bool matrix = rows > 1 && t != DECODER_ROTATIONS;
            const float scale = t == DECODER_TOKENS ? 1.0f
                                : matrix            ? 1.5f / std::sqrt(static_cast<float>(columns))
                                                    : 0.3f;
            std::vector<float> values =
                t == DECODER_ROTATIONS ? rotation_table(shape) : r.normals(rows * columns, scale);
            for (float &x : values)
                x += is_norm(t) ? 1.0f : 0.0f;
            for (size_t i = 0; t == DECODER_NEURON_WEIGHTS && i < values.size(); i++)
                values[i] =
                    i % 2 ? 1
                          : 1e-6f; /* so that noise in gates does not decide which half is chosen */
            c.layers[l][t] = store_tensor(matrix ? format : DEVICE_F32, rows, columns, values);
        }
    return c;
}

static inline device_decoder *put_decoder(const device_decoder_library &library,
                                          const decoder_case &c,
                                          char message[DEVICE_MESSAGE_BYTES]) {
    device_decoder *d = nullptr;
    CHECK(library.open(&c.shape, &d, message) == DEVICE_OK, "%s", message);
    for (uint32_t l = 0; l < c.shape.layers; l++)
        for (int t = l == 0 ? 0 : DECODER_ATTENTION_NORM; t < DECODER_TENSORS; t++) {
            const stored_tensor &tensor = c.layers[l][t];
            const size_t half = tensor.rows / 2,
                         row_bytes = tensor.rows ? tensor.bytes.size() / tensor.rows : 0;
            for (int part = 0; part < 2 && tensor.rows > 0; part++) /* in two parts */
                CHECK(library.put(d, static_cast<device_decoder_tensor>(t), l, tensor.format,
                                  part ? half : 0, part ? tensor.rows - half : half,
                                  tensor.bytes.data() + (part ? half * row_bytes : 0),
                                  message) == DEVICE_OK,
                      "%s", message);
        }
    return d;
}

#endif
