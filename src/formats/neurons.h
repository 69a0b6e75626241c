/* SPDX-License-Identifier: Apache-2.0
 * Feed-forward layers that are stored by neuron: row i of W_up, row i of W_gate and column i of
 * W_down stand side by side as one row. Hot neurons are in one tensor, cold ones in another
 * (docs/formats.md). Readers of a directory see the plain matrices, which are assembled from the
 * rows on demand. */
#ifndef WISP_FORMATS_NEURONS_H
#define WISP_FORMATS_NEURONS_H

#include "formats/directory.h"
#include "formats/schema.h"

/* In the arrays KEY_NEURONS_TYPES and KEY_NEURONS_PLACES: the layer is stored plain. */
enum { NEURONS_NONE = -1 };

struct neuron_shape {
    const struct block_format *format; /* of the matrices */
    uint64_t matrices;                 /* 2, or 3 with W_gate */
    uint64_t hidden, wide;             /* hidden_size and intermediate_size */
    uint64_t part_bytes;               /* of a row of W_up or W_gate */
    uint64_t row_bytes; /* of a neuron: its parts, then its column of W_down without scales */
};

/* Returns whether matrices of this type can be stored by neuron without losing a bit. */
bool neurons_have_format(const struct block_format *format);

/* Sets part_bytes and row_bytes from the other fields, which must describe matrices that a file can
 * hold: nothing overflows then. */
void neuron_shape_measure(struct neuron_shape *shape);

/* Returns the type of the tensors that hold rows: the same type for floats, I8 for quantised ones.
 */
const struct block_format *neurons_stored_format(const struct block_format *format);

/* Returns the bytes of the scale in front of a block's quantised values; 0 for floats. */
static inline size_t neurons_scale_bytes(const struct block_format *format) {
    return format->elements > 1 ? 2 : 0;
}

/* Returns the bits of an element of a column: 32, 16, 8 or 4. Of two elements of 4 bits in a byte
 * the even one is in the low bits. */
static inline size_t neurons_element_bits(const struct block_format *format) {
    return (format->bytes - neurons_scale_bytes(format)) * 8 / format->elements;
}

/* Returns the byte of a row of W_down at which element j begins. An element of Q4_0 is the low half
 * of that byte in the first half of a block of 32, and the high half of it in the second. */
static inline size_t neurons_element_byte(const struct block_format *format, size_t j) {
    const size_t bits = neurons_element_bits(format), inside = j % format->elements;
    return j / format->elements * format->bytes + neurons_scale_bytes(format) +
           (bits == 4 ? inside % 16 : inside * bits / 8);
}

/* Returns the name of matrix `part` of a layer that has `matrices` matrices: W_up is part 0, W_down
 * the last. */
const char *neurons_matrix_name(uint64_t part, uint64_t matrices);

/* Gives KEY_SPARSE_ORDER [layers, wide], checked to name each neuron once. It lives as long as the
 * directory and is NULL where the file has no order. */
wisp_status neurons_read_order(const struct directory *dir, uint64_t layers, uint64_t wide,
                               const int32_t **order, wisp_error *error);

/* Gives KEY_SPARSE_HOT [layers], checked to be from 0 to `wide`, likewise. */
wisp_status neurons_read_hot(const struct directory *dir, uint64_t layers, uint64_t wide,
                             const int32_t **hot, wisp_error *error);

/* Where a file stores layers by neuron, replaces the tensors of rows in the directory by the plain
 * matrices, and keeps the tensors of rows in dir->stored. directory_finish must have been called.
 */
wisp_status neurons_read(struct directory *dir, wisp_error *error);

#endif
