/* SPDX-License-Identifier: Apache-2.0
 * Products of bfloats on AMX tiles. One instruction multiplies 16 x 16 x 32 of them. Tiles with
 * fewer rows do the same operations for each output. */
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/x86_64/amx_tiles.h"
#include "kernels/x86_64/bf16_rows.h"

_Static_assert((int)BF16_PANEL == (int)SQUARE && BF16_STEP * sizeof(uint16_t) == TILE_BYTES,
               "a panel is as wide as a square, and a step is the row of a tile");

enum { W_STRIDE = SQUARE * 2 * sizeof(uint16_t), W_STEP = TILE_ROWS * SQUARE * 2 };

/* Weights that are fetched into the second-level cache while others are multiplied: so many cache
 * lines in each step. */
struct ahead {
    const uint16_t *w;
    size_t lines;
};

/* Computes a square of y, of SQUARE columns. `tall` says whether it has more than TILE_ROWS rows.
 */
static inline __attribute__((always_inline)) void
multiply_square(const uint16_t *x, size_t ldx, const uint16_t *w, const float *bias, float *y,
                size_t ldy, struct ahead ahead, const bool tall) {
    const size_t x_stride = ldx * sizeof *x, y_stride = ldy * sizeof *y;
    /* All rows of the sums begin with the biases. */
    _tile_loadd(0, bias, 0);
    _tile_loadd(1, bias + TILE_ROWS, 0);
    if (tall) {
        _tile_loadd(2, bias, 0);
        _tile_loadd(3, bias + TILE_ROWS, 0);
    }
    for (size_t c = 0; c < ldx; c += BF16_STEP, x += BF16_STEP, w += W_STEP) {
        for (size_t i = 0; i < ahead.lines; i++, ahead.w += TILE_BYTES / sizeof *ahead.w)
            __builtin_prefetch(ahead.w, 0, 2);
        _tile_loadd(4, x, x_stride);
        _tile_loadd(6, w, W_STRIDE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, w + TILE_ROWS * 2, W_STRIDE);
        _tile_dpbf16ps(1, 4, 7);
        if (tall) {
            _tile_loadd(5, x + TILE_ROWS * ldx, x_stride);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, y, y_stride);
    _tile_stored(1, y + TILE_ROWS, y_stride);
    if (tall) {
        _tile_stored(2, y + TILE_ROWS * ldy, y_stride);
        _tile_stored(3, y + TILE_ROWS * ldy + TILE_ROWS, y_stride);
    }
}

/* The arguments of a product, from a group of rows on. */
struct rows {
    const uint16_t *x, *w;
    const float *bias;
    float *y;
    size_t ldx, ldy, rows, columns;
};

static void multiply(const uint16_t *x, const struct rows *r, const uint16_t *w, const float *bias,
                     float *y, size_t ldy, struct ahead ahead) {
    if (r->rows > TILE_ROWS)
        multiply_square(x, r->ldx, w, bias, y, ldy, ahead, true);
    else
        multiply_square(x, r->ldx, w, bias, y, ldy, ahead, false);
}

/* Multiplies by a last panel that is not full. */
static void multiply_part(const uint16_t *x, const struct rows *r, size_t j, float *y) {
    const size_t columns = r->columns - j;
    float bias[SQUARE] = {0}, square[SQUARE][SQUARE];
    memcpy(bias, r->bias + j, columns * sizeof *bias);
    multiply(x, r, r->w + j * r->ldx, bias, square[0], SQUARE, (struct ahead){0});
    for (size_t i = 0; i < r->rows; i++)
        memcpy(y + i * r->ldy + j, square[i], columns * sizeof *y);
}

/* Multiplies `groups` groups of r->rows rows. All use the weights of a panel in turn, while these
 * are in the cache. */
static void multiply_groups(const struct rows *r, size_t groups) {
    const size_t lines = W_STEP * sizeof *r->w / TILE_BYTES, most = 8;
    struct ahead ahead = {.lines = lines / groups < most ? lines / groups : most};
    configure(r->rows);
    for (size_t j = 0; j < r->columns; j += SQUARE)
        for (size_t g = 0; g < groups; g++) {
            const uint16_t *x = r->x + g * r->rows * r->ldx;
            float *y = r->y + g * r->rows * r->ldy;
            ahead.w = r->w + (j + SQUARE) * r->ldx + g * ahead.lines * r->ldx;
            if (r->columns - j < SQUARE)
                multiply_part(x, r, j, y);
            else
                multiply(x, r, r->w + j * r->ldx, r->bias + j, y + j, r->ldy, ahead);
        }
    _tile_release();
}

static void gemm(const uint16_t *x, const uint16_t *w, const float *bias, float *y, size_t ldy,
                 size_t m, size_t n, size_t k) {
    const size_t squares = m / SQUARE, left = m % SQUARE;
    struct rows r = {.x = x,
                     .w = w,
                     .bias = bias,
                     .y = y,
                     .ldx = bf16_row(k),
                     .ldy = ldy,
                     .rows = SQUARE,
                     .columns = n};
    if (squares)
        multiply_groups(&r, squares);
    r.x += squares * SQUARE * r.ldx;
    r.y += squares * SQUARE * ldy;
    r.rows = left;
    if (left)
        multiply_groups(&r, 1);
}

const struct bf16_kernels bf16_amx = {
    .runs = cpu_has_amx_bf16, .fastest = true, .round = bf16_round_avx512, .gemm = gemm};
