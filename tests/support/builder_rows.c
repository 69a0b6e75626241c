/* SPDX-License-Identifier: Apache-2.0
 * Turns a plain file into one whose neurons are rows. It goes byte by byte and shares no code with
 * wisp, so that each checks the other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/directory.h"
#include "support/builder.h"

int32_t tiny_neuron(const struct tiny_shape *shape, size_t layer, size_t place) {
    return (int32_t)((5 * place + layer + 1) %
                     shape->wide); /* 5 divides no intermediate_size in use */
}

size_t tiny_hot(const struct tiny_shape *shape) {
    return shape->wide - (shape->wide + 2) / 4;
}

static size_t bytes_of(const struct block_format *format, size_t n) {
    return n / format->elements * format->bytes;
}

/* Returns the nibble of element i of a row of Q4_0 blocks. */
static unsigned char nibble_at(const unsigned char *blocks, size_t i) {
    const unsigned char byte = blocks[i / 32 * 18 + 2 + i % 16];
    return i % 32 < 16 ? byte & 15 : byte >> 4;
}

static void put_column(struct bytes *out, const struct tiny_shape *shape,
                       const struct gguf_tensor *down, size_t j) {
    const struct block_format *format = block_format_by_id(shape->type);
    for (size_t c = 0; c < shape->hidden; c++) {
        const size_t i = c * shape->wide + j;
        if (shape->type == BLOCK_Q8_0) {
            bytes_put(out, down->data.data + i / 32 * 34 + 2 + i % 32, 1);
        } else if (shape->type == BLOCK_Q4_0) {
            const unsigned char low = nibble_at(down->data.data, i);
            const unsigned char high = nibble_at(down->data.data, i + shape->wide);
            const unsigned char both = (unsigned char)(low | high << 4);
            bytes_put(out, &both, 1);
            c++;
        } else {
            bytes_put(out, down->data.data + i * format->bytes, format->bytes);
        }
    }
}

static struct gguf_tensor new_tensor(size_t layer, const char *suffix, uint32_t type) {
    struct gguf_tensor tensor = {.n_dims = 2, .type = type};
    char name[64];
    snprintf(name, sizeof name, "blk.%zu.%s", layer, suffix);
    bytes_put(&tensor.name, name, strlen(name));
    tensor.name_length = tensor.name.size;
    return tensor;
}

/* The matrices of a layer and their indices among the tensors. */
struct matrices {
    const struct gguf_tensor *of[3]; /* up, gate, down; or up, down */
    size_t n;
};

static struct matrices matrices_of(struct gguf *file, const struct tiny_shape *shape,
                                   size_t layer) {
    static const char *const names[] = {"ffn_up", "ffn_gate", "ffn_down"};
    struct matrices m = {.n = 0};
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%zu.%s.weight", layer, names[i]);
        if (i != 1 || shape->nomic)
            m.of[m.n++] = gguf_tensor(file, name);
    }
    return m;
}

static struct gguf_tensor make_rows(const struct tiny_shape *shape, const struct matrices *m,
                                    size_t layer, size_t first, size_t end) {
    const struct block_format *format = block_format_by_id(shape->type);
    const size_t row_bytes = bytes_of(format, shape->hidden);
    struct gguf_tensor rows = new_tensor(layer, first == 0 ? "ffn_neurons.hot" : "ffn_neurons.cold",
                                         format->elements > 1 ? (uint32_t)BLOCK_I8 : shape->type);
    for (size_t place = first; place < end; place++) {
        const size_t j = (size_t)tiny_neuron(shape, layer, place);
        for (size_t i = 0; i + 1 < m->n; i++)
            bytes_put(&rows.data, m->of[i]->data.data + j * row_bytes, row_bytes);
        put_column(&rows.data, shape, m->of[m->n - 1], j);
    }
    rows.dims[1] = end - first;
    rows.dims[0] = rows.data.size / rows.dims[1];
    if (format->elements == 1)
        rows.dims[0] /= format->bytes;
    return rows;
}

static struct gguf_tensor make_scales(const struct tiny_shape *shape, const struct matrices *m,
                                      size_t layer) {
    const struct block_format *format = block_format_by_id(shape->type);
    const struct gguf_tensor *down = m->of[m->n - 1];
    struct gguf_tensor scales = new_tensor(layer, "ffn_down_scales", BLOCK_F16);
    for (size_t at = 0; at < down->data.size; at += format->bytes)
        bytes_put(&scales.data, down->data.data + at, 2);
    scales.dims[0] = shape->wide / 32;
    scales.dims[1] = shape->hidden;
    return scales;
}

/* Computes the square root of the largest weight of each row of W_down. */
static struct gguf_tensor make_row_scales(const struct tiny_shape *shape, const struct matrices *m,
                                          size_t layer) {
    const struct block_format *format = block_format_by_id(shape->type);
    const struct gguf_tensor *down = m->of[m->n - 1];
    struct gguf_tensor scales = new_tensor(layer, "ffn_down_row_scales", BLOCK_F32);
    float *row = malloc(shape->wide * sizeof *row);
    if (!row)
        abort();
    for (size_t c = 0; c < shape->hidden; c++) {
        float largest = 0;
        format->dequantise(down->data.data + c * bytes_of(format, shape->wide), shape->wide, row);
        for (size_t i = 0; i < shape->wide; i++)
            largest = fmaxf(largest, fabsf(row[i]));
        largest = largest > 0 ? sqrtf(largest) : 1;
        bytes_put_f32s(&scales.data, &largest, 1);
    }
    free(row);
    scales.n_dims = 1;
    scales.dims[0] = shape->hidden;
    scales.dims[1] = 1;
    return scales;
}

static void set_keys(struct gguf *file, const struct tiny_shape *shape, const int32_t *places,
                     size_t n_places) {
    int32_t *order = calloc((size_t)shape->layers * shape->wide, sizeof *order);
    int32_t *each = calloc(shape->layers, sizeof *each);
    if (!order || !each)
        abort();
    for (size_t l = 0; l < shape->layers; l++) {
        each[l] = (int32_t)tiny_hot(shape);
        for (size_t place = 0; place < shape->wide; place++)
            order[l * shape->wide + place] = tiny_neuron(shape, l, place);
    }
    gguf_set_i32s(file, "wisp.sparse.order", order, (size_t)shape->layers * shape->wide);
    gguf_set_i32s(file, "wisp.sparse.hot", each, shape->layers);
    for (size_t l = 0; l < shape->layers; l++)
        each[l] = (int32_t)shape->type;
    gguf_set_i32s(file, "wisp.neurons.types", each, shape->layers);
    gguf_set_i32s(file, "wisp.neurons.places", places, n_places);
    free(order);
    free(each);
}

struct list {
    struct gguf_tensor tensors[GGUF_MAX_TENSORS];
    size_t n;
};

static void add(struct list *list, struct gguf_tensor tensor) {
    if (list->n == GGUF_MAX_TENSORS)
        abort();
    list->tensors[list->n++] = tensor;
}

void gguf_make_rows(struct gguf *file, const struct tiny_shape *shape) {
    struct list *list = calloc(1, sizeof *list);
    int32_t places[GGUF_MAX_TENSORS];
    bool replaced[GGUF_MAX_TENSORS] = {false};
    size_t n_places = 0, hot = tiny_hot(shape);
    struct matrices layers[GGUF_MAX_TENSORS];
    if (!list)
        abort();
    for (size_t l = 0; l < shape->layers; l++) {
        layers[l] = matrices_of(file, shape, l);
        for (size_t i = 0; i < layers[l].n; i++) {
            places[n_places++] = (int32_t)(layers[l].of[i] - file->tensors);
            replaced[layers[l].of[i] - file->tensors] = true;
        }
    }
    for (size_t i = 0; i < file->n_tensors; i++) {
        for (size_t l = 0; l < shape->layers; l++) {
            if (&file->tensors[i] == layers[l].of[0])
                add(list, make_rows(shape, &layers[l], l, 0, hot));
            if (&file->tensors[i] != layers[l].of[layers[l].n - 1])
                continue;
            if (block_format_by_id(shape->type)->elements > 1)
                add(list, make_scales(shape, &layers[l], l));
            add(list, make_row_scales(shape, &layers[l], l));
        }
        if (!replaced[i])
            add(list, file->tensors[i]);
    }
    for (size_t l = 0; l < shape->layers && hot < shape->wide; l++)
        add(list, make_rows(shape, &layers[l], l, hot, shape->wide));
    for (size_t i = 0; i < file->n_tensors; i++)
        if (replaced[i]) {
            bytes_release(&file->tensors[i].name);
            bytes_release(&file->tensors[i].data);
        }
    memcpy(file->tensors, list->tensors, sizeof file->tensors);
    file->n_tensors = list->n;
    free(list);
    set_keys(file, shape, places, n_places);
}
