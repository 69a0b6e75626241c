/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "peak.h"

/* The operand of ldtilecfg, which sets the shapes of the tiles. */
struct tiles {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64 };

double peak_amx(uint64_t steps, volatile int32_t *sink) {
    struct tiles tiles = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        tiles.row_bytes[i] = ROW_BYTES;
        tiles.rows[i] = ROWS;
    }
    _Alignas(64) uint8_t bytes[ROWS * ROW_BYTES];
    _Alignas(64) int32_t sums[ROWS * ROW_BYTES / 4];
    memset(bytes, *sink | 3, sizeof bytes);
    _tile_loadconfig(&tiles);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, bytes, ROW_BYTES);
    _tile_loadd(5, bytes, ROW_BYTES);
    _tile_loadd(6, bytes, ROW_BYTES);
    _tile_loadd(7, bytes, ROW_BYTES);
    for (uint64_t step = 0; step < steps; step++) {
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, sums, ROW_BYTES);
    *sink = sums[0];
    _tile_release();
    return (double)(UINT64_C(4) * ROWS * (ROW_BYTES / 4) * ROW_BYTES * steps);
}
