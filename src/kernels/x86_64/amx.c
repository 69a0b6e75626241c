/* SPDX-License-Identifier: Apache-2.0
 * The AVX-512 set with the int8 product on Intel's AMX tiles (amx_tiles.h). One instruction
 * multiplies 16 x 16 x 64 bytes. Weights are packed as for AVX-512, integer sums are
 * exact, and the operations on the sums are those of AVX-512, so the results have the same bits.
 * The AVX-512 product computes the rows, columns and lengths that do not fill tiles. */
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/vector_avx512.h"

enum {
    F32_ROWS = 12,
    F32_VECTORS = 2,
    INT8_ROWS = 6,
    INT8_VECTORS = 4,
    Q4_ROWS = 5,
    Q4_VECTORS = 2,
    Q4_FEW = 2,
    KV_ROWS = 4,
    KV_VECTORS = 4
};

#include "kernels/rows_template.h"

enum {
    DOWN_VECTORS = 24,
    MOST_PERCENT = 0,
    MOST_PERCENT_RELU = 0,
    MOST_PERCENT_GATE = 10,
    MOST_PERCENT_PREDICTED = 0,
    EXACT_WINS = 0
};

#include "kernels/sparse_template.h"

#include "kernels/kv_step_template.h"

#include "kernels/gemm_template.h"

#include "kernels/pack_template.h"

#include "kernels/gemm_dot_template.h"

#define Q4_UNROLL UNROLL
#include "kernels/gemm_q4_template.h"

#include "kernels/x86_64/amx_tiles.h"

enum {
    STEPS = INT8_BLOCK / TILE_BYTES, /* tiles along k in a block */
    FEWEST_ROWS = 9                  /* the AVX-512 product is faster for fewer rows */
};

_Static_assert(INT8_PANEL % SQUARE == 0, "a panel is cut into squares");

/* The arguments that all squares of a product have in common. */
struct product {
    const unsigned char *w;
    const float *bias;
    size_t k;
};

struct square {
    const uint8_t *q; /* the square's first row */
    size_t row_bytes;
    const float *scale, *zero; /* [rows, blocks] */
    size_t rows, blocks;
    const unsigned char *panel; /* the panel's first block */
    size_t column;              /* the square's first column in the panel */
    const float *bias;
    float *y;
    size_t ldy;
};

typedef int32_t sums[SQUARE][SQUARE];
typedef float totals[SQUARE][SQUARE];

static const unsigned char *block_of(const struct square *s, size_t b) {
    return s->panel + b * INT8_PANEL * (2 * sizeof(float) + INT8_BLOCK);
}

/* Starts the products of one block, which the tile unit computes while the core does other work.
 * `tall` says whether the square has more than TILE_ROWS rows. */
ALWAYS_INLINE void multiply_block(const struct square *s, size_t b, const bool tall) {
    const unsigned char *w = block_of(s, b) + INT8_PANEL * 2 * sizeof(float) + s->column * 4;
    const uint8_t *q = s->q + b * INT8_BLOCK;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int step = 0; step < STEPS; step++) {
        _tile_loadd(4, q, s->row_bytes);
        _tile_loadd(6, w, INT8_PANEL * 4);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(7, w + TILE_BYTES, INT8_PANEL * 4);
        _tile_dpbusd(1, 4, 7);
        if (tall) {
            _tile_loadd(5, q + TILE_ROWS * s->row_bytes, s->row_bytes);
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
        }
        q += TILE_BYTES;
        w += (size_t)TILE_ROWS * INT8_PANEL * 4;
    }
}

ALWAYS_INLINE void store_sums(sums dots, const bool tall) {
    const size_t stride = SQUARE * sizeof(int32_t);
    _tile_stored(0, dots[0], stride);
    _tile_stored(1, dots[0] + TILE_ROWS, stride);
    if (tall) {
        _tile_stored(2, dots[TILE_ROWS], stride);
        _tile_stored(3, dots[TILE_ROWS] + TILE_ROWS, stride);
    }
}

/* Adds a block's products to the outputs by the operations of int8_collect. The sums of earlier
 * blocks are in `total` rather than y, because rows of y can be so far apart that few of them fit
 * the first-level cache. */
ALWAYS_INLINE void collect_block(const struct square *s, size_t b, sums dots, totals total) {
    const float *scales = (const float *)(const void *)block_of(s, b) + s->column;
    const vf scale[] = {vf_load(scales), vf_load(scales + VF_LANES)};
    const vf sum[] = {vf_load(scales + INT8_PANEL), vf_load(scales + INT8_PANEL + VF_LANES)};
    const bool first = b == 0, last = b + 1 == s->blocks;
    const float *before = first ? s->bias : total[0];
    float *after = last ? s->y : total[0];
    for (size_t i = 0; i < s->rows; i++) {
        const vf minus_zero = vf_set1(-s->zero[i * s->blocks + b]);
        const vf row_scale = vf_set1(s->scale[i * s->blocks + b]);
        UNROLL
        for (int v = 0; v < 2; v++) {
            const vf dot = vf_of_vi(_mm512_load_si512(&dots[i][v * VF_LANES]));
            const vf centred = vf_fma(minus_zero, sum[v], dot);
            vf_store(after + v * VF_LANES,
                     vf_fma(centred, vf_mul(row_scale, scale[v]), vf_load(before + v * VF_LANES)));
        }
        before += first ? 0 : SQUARE;
        after += last ? s->ldy : SQUARE;
    }
}

ALWAYS_INLINE void multiply_square(const struct square *s, const bool tall) {
    sums dots __attribute__((aligned(64)));
    totals total __attribute__((aligned(64)));
    multiply_block(s, 0, tall);
    store_sums(dots, tall);
    for (size_t b = 1; b < s->blocks; b++) {
        multiply_block(s, b, tall);
        collect_block(s, b - 1, dots, total);
        store_sums(dots, tall);
    }
    collect_block(s, s->blocks - 1, dots, total);
}

/* Multiplies `groups` groups of s.rows rows by n columns, a multiple of SQUARE. All groups use the
 * weights of a square in turn, while these are in the cache. */
static void multiply_groups(struct square s, size_t groups, const struct product *p, size_t n) {
    const size_t panel_bytes = packed_int8_bytes(INT8_PANEL, p->k, INT8_PANEL);
    configure(s.rows);
    for (size_t j = 0; j < n; j += SQUARE) {
        struct square here = s;
        here.panel = p->w + j / INT8_PANEL * panel_bytes;
        here.column = j % INT8_PANEL;
        here.bias = p->bias + j;
        here.y += j;
        for (size_t g = 0; g < groups; g++) {
            if (s.rows > TILE_ROWS)
                multiply_square(&here, true);
            else
                multiply_square(&here, false);
            here.q += s.rows * s.row_bytes;
            here.scale += s.rows * s.blocks;
            here.zero += s.rows * s.blocks;
            here.y += s.rows * s.ldy;
        }
    }
    _tile_release();
}

static struct quantised_rows rows_from(struct quantised_rows x, size_t first, size_t k) {
    const size_t blocks = int8_blocks(k);
    return (struct quantised_rows){.q = x.q + first * int8_row_bytes(k),
                                   .scale = x.scale + first * blocks,
                                   .zero = x.zero + first * blocks};
}

static void gemm_int8_amx(struct quantised_rows x, const void *w, const float *bias, float *y,
                          size_t ldy, size_t m, size_t n, size_t k) {
    const size_t columns = n - n % INT8_PANEL, squares = m / SQUARE, left = m % SQUARE;
    const size_t tiled = k % INT8_BLOCK != 0 || columns == 0 ? 0
                         : left < FEWEST_ROWS                ? m - left
                                                             : m;
    const struct product p = {.w = w, .bias = bias, .k = k};
    struct square s = {.row_bytes = k, .blocks = k / INT8_BLOCK, .ldy = ldy};
    for (size_t row = 0; row < tiled;) {
        const size_t groups = row == 0 && squares ? squares : 1;
        const struct quantised_rows from = rows_from(x, row, k);
        s.rows = row == 0 && squares ? SQUARE : left;
        s.q = from.q;
        s.scale = from.scale;
        s.zero = from.zero;
        s.y = y + row * ldy;
        multiply_groups(s, groups, &p, columns);
        row += groups * s.rows;
    }
    if (tiled && columns < n)
        gemm_int8(x, (const unsigned char *)w + packed_int8_bytes(columns, k, INT8_PANEL),
                  bias + columns, y + columns, ldy, tiled, n - columns, k);
    if (tiled < m)
        gemm_int8(rows_from(x, tiled, k), w, bias, y + tiled * ldy, ldy, m - tiled, n, k);
}

bool amx_permitted(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILE_DATA) == 0;
}

const struct kernels kernels_amx = KERNELS_OF("amx", 0, rows_quantise_unsigned, SPARSE_UNSIGNED,
                                              BLOCK_PRODUCTS.int8_panel = INT8_PANEL,
                                              .gemm_int8 = gemm_int8_amx, .bf16 = &bf16_amx);
