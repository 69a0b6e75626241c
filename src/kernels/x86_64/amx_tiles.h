/* SPDX-License-Identifier: Apache-2.0
 * The tile registers of Intel's AMX, which have 16 rows of 64 bytes, for products of squares of
 * outputs. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter
 * 18. */
#ifndef WISP_KERNELS_AMX_TILES_H
#define WISP_KERNELS_AMX_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <immintrin.h>

enum {
    TILE_ROWS = 16,
    TILE_BYTES = 64,       /* the bytes of a tile's row */
    SQUARE = 2 * TILE_ROWS /* rows, and columns, of outputs that tiles hold at a time */
};

/* The operand of _tile_loadconfig. Tiles 0 to 3 hold the sums of a square, 4 and 5 activations, 6
 * and 7 weights. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Configures the tiles for squares of `rows` rows, at most SQUARE. */
static inline void configure(size_t rows) {
    struct tile_config config = {.palette = 1};
    const size_t upper = rows < TILE_ROWS ? rows : TILE_ROWS, lower = rows - upper;
    for (int i = 0; i < 8; i++) {
        const bool is_lower = i == 2 || i == 3 || i == 5;
        config.row_bytes[i] = TILE_BYTES;
        config.rows[i] = (uint8_t)(i > 5 ? TILE_ROWS : is_lower && lower ? lower : upper);
    }
    _tile_loadconfig(&config);
}

#endif
