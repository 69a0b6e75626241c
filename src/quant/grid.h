/* SPDX-License-Identifier: Apache-2.0
 * Block formats as grids of values, for quantisers that choose each code themselves. A block of 32
 * elements, or of 256 in ternary formats, has the values scale * level[code] + offset. Native only.
 */
#ifndef WISP_QUANT_GRID_H
#define WISP_QUANT_GRID_H

#include "quant/blocks.h"

enum {
    GRID_BLOCK = 32,
    GRID_MOST = 256
}; /* the elements of most types' blocks, and of the longest */

struct block_grid {
    const signed char *levels; /* [n_levels], rising; NULL: low, low + 1, low + 2, ... */
    enum block_type type;
    int n_levels, low;
    bool has_offset;
    int block; /* elements */
};

/* The scale and the offset of a block, as the file holds them. */
struct grid_scale {
    float scale, offset;
};

/* Returns the grid of a type, or NULL if its blocks do not form a grid: they have scales of scales,
 * or no codes. */
const struct block_grid *block_grid_of(enum block_type type);

/* Searches for the scale and the offset with the least sum of weights[i] (values[i] - nearest value
 * of the grid)^2. With a ternary grid, no scale has a smaller sum than that found, before it is
 * rounded to 16 bits. values [n] and weights [n], which are positive; n is grid->block, or less in
 * the last block of a tensor whose blocks cross rows. */
struct grid_scale grid_fit(const struct block_grid *grid, const float *values, const float *weights,
                           int n);

/* Returns the code, 0 to n_levels - 1, whose value is nearest to x, and the value of a code. */
int grid_code(const struct block_grid *grid, struct grid_scale at, float x);
float grid_value(const struct block_grid *grid, struct grid_scale at, int code);

/* Writes a block with the codes [grid->block]. dequantise of the type reads grid_value of each. */
void grid_store(const struct block_grid *grid, struct grid_scale at, const int *codes,
                unsigned char *out);

/* Quantises n values, which are whole blocks, with the least error that grid_fit finds. `weights`
 * [n] says how much the error of each counts; NULL: all the same. */
void grid_quantise(const struct block_grid *grid, const float *values, const float *weights,
                   size_t n, unsigned char *out);

/* Round an offset to a finite 16-bit float, and a scale to one that blocks of the type can hold. */
float grid_half(float value);
float grid_stored_scale(const struct block_grid *grid, float value);

#endif
