/* SPDX-License-Identifier: Apache-2.0
 * Feed-forward layers whose neurons are rows: row i of W_up, row i of W_gate and column i of W_down
 * stand side by side, hot neurons in one tensor and cold ones in another (docs/formats.md). */
#ifndef WISP_FORMATS_NEURONS_H
#define WISP_FORMATS_NEURONS_H

#include "formats/directory.h"
#include "formats/schema.h"

/* In the arrays KEY_NEURONS_TYPES and KEY_NEURONS_PLACES: the layer is stored plain. */
enum { NEURONS_NONE = -1 };

struct neuron_shape {
    const struct block_format *format; /* of the matrices */
    uint64_t matrices;                 /* 2, or 3 with W_gate */
    uint64_t hidden, wide;
    uint64_t part_bytes; /* a row of W_up or W_gate */
    uint64_t row_bytes;  /* a neuron: its parts, then its column of W_down without scales */
};

/* Whether rows can be made of a layer of this type and taken apart again, bit by bit. */
bool neurons_have_format(const struct block_format *format);

/* Sets the bytes from the rest, which is no more than a file can hold. */
void neuron_shape_measure(struct neuron_shape *shape);

/* What rows are stored as: a float type as it is, quantised ones as bytes. */
const struct block_format *neurons_stored_format(const struct block_format *format);

/* Bytes of a scale in front of a block's quants; 0 for floats. */
static inline size_t neurons_scale_bytes(const struct block_format *format) {
    return format->elements > 1 ? 2 : 0;
}

/* Bits of an element of a column: 32, 16, 8, or 4, of which the even ones are low. */
static inline size_t neurons_element_bits(const struct block_format *format) {
    return (format->bytes - neurons_scale_bytes(format)) * 8 / format->elements;
}

/* The byte of a row of W_down where its element j is or begins. Of Q4_0 it is the low nibble of
 * that byte in the first half of a block, and the high one in the second. */
static inline size_t neurons_element_byte(const struct block_format *format, size_t j) {
    const size_t bits = neurons_element_bits(format), inside = j % format->elements;
    return j / format->elements * format->bytes + neurons_scale_bytes(format) +
           (bits == 4 ? inside % 16 : inside * bits / 8);
}

/* The name of the layer's matrix `part`, of `matrices`, the last of which is W_down. */
const char *neurons_matrix_name(uint64_t part, uint64_t matrices);

/* Each layer's neurons in the order of their rows, [layers, wide], which lives as long as the
 * directory; NULL where the file has none. */
wisp_status neurons_read_order(const struct directory *dir, uint64_t layers, uint64_t wide,
                               const int32_t **order, wisp_error *error);

/* How many of each layer's neurons are hot, [layers], likewise. */
wisp_status neurons_read_hot(const struct directory *dir, uint64_t layers, uint64_t wide,
                             const int32_t **hot, wisp_error *error);

/* Puts the matrices that rows are made of in the place of the rows, where the file has such: all
 * who read the directory see a plain model. After directory_finish. */
wisp_status neurons_read(struct directory *dir, wisp_error *error);

#endif
