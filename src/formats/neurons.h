/* SPDX-License-Identifier: Apache-2.0
 * Feed-forward layers whose neurons are rows: row i of W_up, row i of W_gate and column i of W_down
 * stand side by side, hot neurons in one tensor and cold ones in another (docs/formats.md). This
 * file has the layout, for who reads it and for who writes it (convert/neuron_rows.h). */
#ifndef WISP_FORMATS_NEURONS_H
#define WISP_FORMATS_NEURONS_H

#include "formats/directory.h"
#include "formats/schema.h"

/* The tensors of a layer that is stored as rows, and their names in formats/schema.h. */
enum neuron_tensor {
    HOT_ROWS,
    COLD_ROWS,
    DOWN_SCALES,     /* the scales of W_down's blocks */
    DOWN_ROW_SCALES, /* see neurons_row_scale */
    DOWN_BASE,       /* see neurons_base */
    NEURON_TENSORS
};
extern const char *const neuron_tensor_parts[NEURON_TENSORS];

/* Stands in KEY_NEURONS_TYPES and KEY_NEURONS_PLACES for a layer that is stored plain. */
enum { NEURONS_NONE = -1 };

struct neuron_shape {
    const struct block_format *format; /* of the matrices */
    uint64_t matrices;                 /* 2, or 3 with W_gate; the last is W_down */
    uint64_t hidden_size, intermediate_size;
    uint64_t part_bytes; /* a row of W_up or W_gate */
    uint64_t row_bytes;  /* a neuron: its parts, then its column of W_down without scales */
};

/* A layer's rows in the file, for as long as the directory. */
struct neuron_rows {
    struct neuron_shape shape;
    uint32_t source;
    struct tensor stored[NEURON_TENSORS]; /* of 0 bytes where absent */
    const int32_t *order;  /* [intermediate_size]: row i is neuron order[i]'s; NULL: neuron i's */
    const uint32_t *place; /* [intermediate_size]: neuron j is row place[j]; NULL: row j */
};

/* Whether rows can be made of a layer of this type and taken apart again, bit by bit. */
bool neurons_have_format(const struct block_format *format);

/* Sets the bytes from the rest, which is no more than a file can hold. */
void neuron_shape_measure(struct neuron_shape *shape);

/* The type that rows are stored as: a float type as it is, bytes for quantised ones. */
const struct block_format *neurons_stored_format(const struct block_format *format);

/* Bytes of a scale in front of a block's quants; 0 for floats. */
static inline size_t neurons_scale_bytes(const struct block_format *format) {
    return format->elements > 1 ? 2 : 0;
}

/* Bits of an element of a column: 32, 16, 8, or 4, of which the even ones are low. */
static inline size_t neurons_element_bits(const struct block_format *format) {
    return (format->bytes - neurons_scale_bytes(format)) * 8 / format->elements;
}

/* The byte of a row of W_down where its element j is or begins. In Q4_0 it is the low nibble of
 * that byte in the first half of a block, and the high one in the second. */
static inline size_t neurons_element_byte(const struct block_format *format, size_t j) {
    const size_t bits = neurons_element_bits(format), inside = j % format->elements;
    return j / format->elements * format->bytes + neurons_scale_bytes(format) +
           (bits == 4 ? inside % 16 : inside * bits / 8);
}

/* The name of the layer's matrix `part`, of `matrices`, the last of which is W_down. */
const char *neurons_matrix_name(uint64_t part, uint64_t matrices);

/* ---- what one neuron needs of all of W_down ------------------------------------------------- */

/* A column of W_down is kept in int8 with one scale: rows whose weights are larger than most would
 * leave few of its steps to the others. So each row is divided by the square root of its largest
 * magnitude first, which is half of the way, in logarithms, to rows of one size; by 1 where all
 * its n weights are 0. */
float neurons_row_scale(const float *row, size_t n);

/* b_down + W_down center, for one row of W_down and its bias: what the layer gives where all of its
 * n neurons are skipped and taken to be their centers. */
float neurons_base(float bias, const float *row, const float *center, size_t n);

/* ---- rows in memory ------------------------------------------------------------------------- */

/* A layer's rows and scales in memory. */
struct neuron_bytes {
    const struct neuron_rows *rows;
    const unsigned char *at[DOWN_SCALES + 1];
};

/* Finds them in place or, in a source that is read by calls, reads them into the cache. */
wisp_status neurons_find_bytes(const struct directory *dir, const struct neuron_rows *rows,
                               struct tensor_cache *cache, struct neuron_bytes *found,
                               wisp_error *error);

/* Neuron j's row of matrix `part`; of the last one its column, as neurons_read_column takes it. */
const unsigned char *neurons_find_part(const struct neuron_bytes *bytes, uint64_t j, uint64_t part);

/* The scales of W_down's blocks that neuron j is in, [hidden_size], from all of the layer's, which
 * are f16; nothing for a type that has none. Neighbours share them: those of a block of 32. */
void neurons_read_scales(const struct neuron_shape *shape, const unsigned char *stored, uint64_t j,
                         float *scales);

/* A column of W_down, [hidden_size], as it stands in a neuron's row; `scales` are the neuron's. */
void neurons_read_column(const struct neuron_shape *shape, const unsigned char *stored,
                         const float *scales, float *column);

#endif
