/* SPDX-License-Identifier: Apache-2.0
 * The layout of feed-forward layers that are stored neuron by neuron: row i of W_up, row i of
 * W_gate and column i of W_down are side by side in one row, hot neurons in one tensor and cold
 * ones in another. docs/formats.md specifies it; neurons_read.h reads it, convert/neuron_rows.h
 * writes it. */
#ifndef WISP_FORMATS_NEURONS_H
#define WISP_FORMATS_NEURONS_H

#include "formats/directory.h"
#include "formats/schema.h"

/* The tensors of a layer that is stored as rows; neuron_tensor_parts has their names. */
enum neuron_tensor {
    HOT_ROWS,
    COLD_ROWS,
    DOWN_SCALES,     /* scales of the blocks of W_down, f16 [hidden_size, blocks of a row] */
    DOWN_ROW_SCALES, /* results of neurons_row_scale, f32 [hidden_size] */
    DOWN_BASE,       /* results of neurons_base, f32 [hidden_size] */
    NEURON_TENSORS
};
extern const char *const neuron_tensor_parts[NEURON_TENSORS];

/* This value in KEY_NEURONS_TYPES and KEY_NEURONS_PLACES marks a layer stored as plain matrices. */
enum { NEURONS_NONE = -1 };

struct neuron_shape {
    const struct block_format *format; /* of the plain matrices */
    uint64_t matrices;                 /* 2, or 3 with W_gate; the last is W_down */
    uint64_t hidden_size, intermediate_size;
    uint64_t part_bytes; /* bytes of a row of W_up or W_gate */
    uint64_t row_bytes; /* bytes of a neuron: its parts, then its column of W_down without scales */
};

/* One layer's rows in the file. It lives as long as the directory. */
struct neuron_rows {
    struct neuron_shape shape;
    uint32_t source;
    struct tensor stored[NEURON_TENSORS]; /* has 0 bytes if the file lacks the tensor */
    const int32_t *order;  /* [intermediate_size]: row i holds neuron order[i]; NULL: neuron i */
    const uint32_t *place; /* [intermediate_size]: row place[j] holds neuron j; NULL: row j does */
};

/* Returns whether a layer of this type can be stored as rows and restored with all its bits. */
bool neurons_have_format(const struct block_format *format);

/* Sets part_bytes and row_bytes from the other fields, whose products must fit in 64 bits. */
void neuron_shape_measure(struct neuron_shape *shape);

/* Returns the type of the tensors that hold rows: a float type itself, I8 for quantised types. */
const struct block_format *neurons_stored_format(const struct block_format *format);

/* Returns the bytes of the scale at the start of a block; 0 for float types. */
static inline size_t neurons_scale_bytes(const struct block_format *format) {
    return format->elements > 1 ? 2 : 0;
}

/* Returns the bits of an element of a column: 32, 16, 8 or 4. In a column of four-bit elements the
 * even elements are the low nibbles. */
static inline size_t neurons_element_bits(const struct block_format *format) {
    return (format->bytes - neurons_scale_bytes(format)) * 8 / format->elements;
}

/* Returns the byte at which element j of a row of W_down begins. In Q4_0 the element is the low
 * nibble of that byte if j is in the first half of its block, and the high nibble otherwise. */
static inline size_t neurons_element_byte(const struct block_format *format, size_t j) {
    const size_t bits = neurons_element_bits(format), inside = j % format->elements;
    return j / format->elements * format->bytes + neurons_scale_bytes(format) +
           (bits == 4 ? inside % 16 : inside * bits / 8);
}

/* Returns the tensor name (formats/schema.h) of matrix number `part`, of `matrices`. */
const char *neurons_matrix_name(uint64_t part, uint64_t matrices);

/* ---- values that depend on all of W_down ---------------------------------------------------- */

/* Returns the scale by which a row of W_down [n] is divided before columns are quantised: the
 * square root of its largest magnitude, or 1 if that is 0. A column has int8 values with one
 * scale, and a row with large weights would leave few of these values to the other rows. The square
 * root evens out half of that difference on a logarithmic scale. */
float neurons_row_scale(const float *row, size_t n);

/* Returns bias + sum over i of row[i] * center[i] for one row of W_down [n]: the layer's output
 * if all n neurons are skipped and each activation is replaced by its center. */
float neurons_base(float bias, const float *row, const float *center, size_t n);

/* ---- rows in memory ------------------------------------------------------------------------- */

/* A layer's rows and scales in memory. */
struct neuron_bytes {
    const struct neuron_rows *rows;
    const unsigned char *at[DOWN_SCALES + 1]; /* the bytes of each tensor up to DOWN_SCALES */
};

/* Finds a layer's rows in a source in memory, or reads them into the cache from other sources.
 * If the directory lacks rows, cold rows are neither read nor found. Fails if the source
 * cannot be read. */
wisp_status neurons_find_bytes(const struct directory *dir, const struct neuron_rows *rows,
                               struct tensor_cache *cache, struct neuron_bytes *found,
                               wisp_error *error);

/* Returns the bytes of neuron j's row of matrix `part`, or, for the last matrix, of its column,
 * which neurons_read_column reads. */
const unsigned char *neurons_find_part(const struct neuron_bytes *bytes, uint64_t j, uint64_t part);

/* Writes scales [hidden_size]: for each row of W_down, the scale of the block that element j is in.
 * `stored` is the tensor DOWN_SCALES. The 32 neurons of a block have equal scales. Writes nothing
 * for float types, which have no scales. */
void neurons_read_scales(const struct neuron_shape *shape, const unsigned char *stored, uint64_t j,
                         float *scales);

/* Expands a column of W_down from a neuron's row to column [hidden_size]. `scales` comes from
 * neurons_read_scales. */
void neurons_read_column(const struct neuron_shape *shape, const unsigned char *stored,
                         const float *scales, float *column);

#endif
