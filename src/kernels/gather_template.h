/* SPDX-License-Identifier: Apache-2.0
 * The kernels of gather.h over the operations of gather_x86.h, gather_neon.h or gather_wasm.h:
 *
 *   gb, gi, gf      are vectors of GB_BYTES bytes, and of GB_BYTES / 4 32-bit integers and floats
 *   gb_load         loads GB_BYTES bytes
 *   gb_load_parts   loads 16 bytes of each block: those at p, p + 32, ...
 *   gb_low, gb_high return the nibbles of bytes
 *   gf_repeat(p)    loads a 16-bit float for each 16 bytes, and repeats it in their lanes
 *   gi_dot_codes(s,a,x,b,y)  adds to each lane of s the dot products of four bytes of a (0..15) and
 *                   x, and of b and y, exactly; gi_dot_bytes takes signed bytes for a and b
 *   gs              sums of 2 GB_BYTES outputs, exact for at most GATHER_BLOCK neurons, with
 *                   gs_zero; gs_add_codes adds two neurons' nibbles (0..15) times their values, and
 *                   gs_widen the sums so far to others of more bits: after at most 8 pairs
 *   gs_add_bytes    adds two neurons' signed bytes times their values, of GB_BYTES outputs
 *   gs_get(s,i)     returns lanes i * GB_BYTES / 4 to (i + 1) * GB_BYTES / 4 - 1 of the sums
 */
#include "kernels/vector.h"

enum {
    GF_LANES = GB_BYTES / 4,
    GATHER_ROWS = 4,  /* rows that are multiplied at a time */
    GATHER_AHEAD = 2, /* times so many rows are fetched ahead */
    GB_BLOCKS = GB_BYTES / 16
};

/* Fetches bytes that are not read in order. */
ALWAYS_INLINE void gather_fetch(const unsigned char *p, size_t bytes) {
#ifndef __wasm__
    for (size_t i = 0; i < bytes; i += CACHE_LINE)
        __builtin_prefetch(p + i, 0, 3);
#else
    (void)p;
    (void)bytes;
#endif
}

/* Returns the products of GB_BLOCKS blocks of a row, from block b on, without scales. */
ALWAYS_INLINE gi gather_dots(const struct gather_input *x, const unsigned char *codes, size_t b,
                             const enum gather_code code) {
    const int8_t *q = x->q + b * GATHER_BLOCK;
    const gb low = gb_load_parts((const unsigned char *)q);
    const gb high = gb_load_parts((const unsigned char *)q + GATHER_BLOCK / 2);
    if (code == GATHER_Q8_0) {
        const unsigned char *p = codes + b * GATHER_BLOCK;
        return gi_dot_bytes(gi_zero(), gb_load_parts(p), low, gb_load_parts(p + GATHER_BLOCK / 2),
                            high);
    }
    const gb bytes = gb_load(codes + b * (GATHER_BLOCK / 2));
    return gi_dot_codes(gi_load(x->first + b * GATHER_LANES), gb_low(bytes), low, gb_high(bytes),
                        high);
}

ALWAYS_INLINE void gather_rows_of(const struct gather_input *x, const unsigned char *packed,
                                  const uint16_t *list, size_t n, size_t k, float *y,
                                  const enum gather_code code) {
    const size_t row_bytes = gather_row_bytes(code, k), scales = gather_scales(k);
    const size_t header = scales * (gather_has_offsets(code) ? 4 : 2);
    const size_t step = gather_row_bytes(code, 2 * GATHER_BLOCK) / 2 * GB_BLOCKS;
    for (size_t i = 0; i < n; i += GATHER_ROWS) {
        const unsigned char *row[GATHER_ROWS], *ahead[GATHER_ROWS];
        gf total[GATHER_ROWS];
        UNROLL
        for (size_t r = 0; r < GATHER_ROWS; r++) {
            const size_t later = i + r + GATHER_AHEAD * GATHER_ROWS;
            row[r] = packed + list[i + r < n ? i + r : i] * row_bytes;
            ahead[r] = packed + list[later < n ? later : n - 1] * row_bytes;
            total[r] = gf_zero();
        }
        for (size_t b = 0; b < k / GATHER_BLOCK; b += GB_BLOCKS) {
            const gf factor = gf_load(x->scale + b * GATHER_LANES);
            UNROLL
            for (size_t r = 0; r < GATHER_ROWS; r++) {
                gather_fetch(ahead[r] + b / GB_BLOCKS * step, step);
                const gi dots = gather_dots(x, row[r] + header, b, code);
                total[r] = gf_fma(gf_mul(gf_of(dots), factor), gf_repeat(row[r] + 2 * b), total[r]);
                if (gather_has_offsets(code))
                    total[r] = gf_fma(gf_load(x->sum + b * GATHER_LANES),
                                      gf_repeat(row[r] + 2 * (scales + b)), total[r]);
            }
        }
        for (size_t r = 0; r < GATHER_ROWS && i + r < n; r++)
            y[i + r] = gf_sum(total[r]);
    }
}

static void gather_rows(const struct gather_input *x, enum gather_code code,
                        const unsigned char *packed, const uint16_t *list, size_t n, size_t k,
                        float *y) {
    if (code == GATHER_Q4_0)
        gather_rows_of(x, packed, list, n, k, y, GATHER_Q4_0);
    else if (code == GATHER_Q4_1)
        gather_rows_of(x, packed, list, n, k, y, GATHER_Q4_1);
    else
        gather_rows_of(x, packed, list, n, k, y, GATHER_Q8_0);
}

/* ---- columns -------------------------------------------------------------------------------- */

/* One group of columns, and where its scales and offsets begin. */
struct gather_group {
    const unsigned char *scales, *offsets, *columns;
    size_t column; /* bytes */
};

/* Returns the column of the group's active neuron i, from output c on; of the first neuron where
 * there are fewer, whose value then counts as 0. */
ALWAYS_INLINE const unsigned char *gather_column(const struct gather_group *g,
                                                 const struct gather_active *a, size_t i, size_t c,
                                                 const enum gather_code code) {
    return g->columns + a->index[i < a->n ? i : 0] * g->column + c * gather_code_bits(code) / 8;
}

ALWAYS_INLINE int8_t gather_value(const struct gather_active *a, size_t i) {
    return i < a->n ? a->value[i] : 0;
}

/* Adds the sums of GF_LANES outputs to y, as far as y reaches. */
ALWAYS_INLINE void gather_add(const struct gather_group *g, const struct gather_active *a, gi sum,
                              size_t c, size_t end, float *y, const enum gather_code code) {
    float padded[GF_LANES] = {0};
    if (c >= end)
        return;
    const size_t left = end - c;
    float *to = left < GF_LANES ? padded : y + c;
    if (left < GF_LANES)
        memcpy(padded, y + c, left * sizeof *y);
    if (code == GATHER_Q4_0)
        sum = gi_add(sum, gi_set1(-8 * a->total));
    gf value = gf_fma(gf_mul(gf_of(sum), gf_set1(a->scale)), gf_load_halves(g->scales + 2 * c),
                      gf_load(to));
    if (gather_has_offsets(code))
        value =
            gf_fma(gf_set1(a->scale * (float)a->total), gf_load_halves(g->offsets + 2 * c), value);
    gf_store(to, value);
    if (left < GF_LANES)
        memcpy(y + c, padded, left * sizeof *y);
}

/* Adds the outputs of a strip whose codes are nibbles. */
ALWAYS_INLINE void gather_code_strip(const struct gather_group *g, const struct gather_active *a,
                                     size_t c, size_t end, float *y, const enum gather_code code) {
    enum { PARTS = GATHER_STRIP / 2 / GB_BYTES, WIDEN_AFTER = 16 };
    UNROLL
    for (size_t part = 0; part < PARTS; part++) {
        gs sums = gs_zero();
        for (size_t i = 0; i < a->n; i += 2) {
            const gb first = gb_load(gather_column(g, a, i, c, code) + part * GB_BYTES);
            const gb second = gb_load(gather_column(g, a, i + 1, c, code) + part * GB_BYTES);
            if (i == WIDEN_AFTER)
                gs_widen(&sums);
            gs_add_codes(&sums, first, second, a->value[i], gather_value(a, i + 1));
        }
        gs_widen(&sums);
        UNROLL
        for (size_t v = 0; v < 8; v++) {
            const size_t at = part * GB_BYTES + v % 4 * GF_LANES + v / 4 * (GATHER_STRIP / 2);
            gather_add(g, a, gs_get(&sums, v), c + at, end, y, code);
        }
    }
}

/* Adds the outputs of a strip whose codes are bytes. */
ALWAYS_INLINE void gather_byte_strip(const struct gather_group *g, const struct gather_active *a,
                                     size_t c, size_t end, float *y) {
    UNROLL
    for (size_t at = 0; at < GATHER_STRIP; at += GB_BYTES) {
        gi sums[4] = {gi_zero(), gi_zero(), gi_zero(), gi_zero()};
        for (size_t i = 0; i < a->n; i += 2)
            gs_add_bytes(sums, gb_load(gather_column(g, a, i, c, GATHER_Q8_0) + at),
                         gb_load(gather_column(g, a, i + 1, c, GATHER_Q8_0) + at), a->value[i],
                         gather_value(a, i + 1));
        UNROLL
        for (size_t v = 0; v < 4; v++)
            gather_add(g, a, sums[v], c + at + v * GF_LANES, end, y, GATHER_Q8_0);
    }
}

/* Returns the first group from number i on that has active neurons, or `groups`. */
ALWAYS_INLINE size_t gather_next(const struct gather_active *active, size_t groups, size_t i) {
    while (i < groups && active[i].n == 0)
        i++;
    return i;
}

ALWAYS_INLINE struct gather_group gather_group_at(const unsigned char *packed, size_t i,
                                                  size_t size, const enum gather_code code) {
    const size_t length = gather_column_length(size);
    const unsigned char *scales = packed + i * gather_group_bytes(code, size);
    return (struct gather_group){.scales = scales,
                                 .offsets = scales + 2 * length,
                                 .columns = scales + length * (gather_has_offsets(code) ? 4 : 2),
                                 .column = gather_column_bytes(code, size)};
}

/* Fetches what outputs [first, end) read of a group. */
ALWAYS_INLINE void gather_fetch_group(const struct gather_group *g, const struct gather_active *a,
                                      size_t first, size_t end, const enum gather_code code) {
    gather_fetch(g->scales + 2 * first, 2 * (end - first));
    if (gather_has_offsets(code))
        gather_fetch(g->offsets + 2 * first, 2 * (end - first));
    for (size_t i = 0; i < a->n; i++)
        gather_fetch(gather_column(g, a, i, first, code),
                     (end - first) * gather_code_bits(code) / 8);
}

ALWAYS_INLINE void gather_columns_of(const struct gather_active *active, size_t groups,
                                     const unsigned char *packed, size_t size, size_t first,
                                     size_t end, float *y, const enum gather_code code) {
    for (size_t i = gather_next(active, groups, 0), next; i < groups; i = next) {
        const struct gather_active *a = &active[i];
        const struct gather_group g = gather_group_at(packed, i, size, code);
        next = gather_next(active, groups, i + 1);
        if (next < groups) {
            const struct gather_group then = gather_group_at(packed, next, size, code);
            gather_fetch_group(&then, &active[next], first, end, code);
        }
        for (size_t c = first; c < end; c += GATHER_STRIP) {
            if (code == GATHER_Q8_0)
                gather_byte_strip(&g, a, c, end, y);
            else
                gather_code_strip(&g, a, c, end, y, code);
        }
    }
}

static void gather_columns(const struct gather_active *active, size_t groups, enum gather_code code,
                           const unsigned char *packed, size_t size, size_t first, size_t end,
                           float *y) {
    if (code == GATHER_Q4_0)
        gather_columns_of(active, groups, packed, size, first, end, y, GATHER_Q4_0);
    else if (code == GATHER_Q4_1)
        gather_columns_of(active, groups, packed, size, first, end, y, GATHER_Q4_1);
    else
        gather_columns_of(active, groups, packed, size, first, end, y, GATHER_Q8_0);
}

static const struct gather_kernels gather_kernels = {.rows = gather_rows,
                                                     .columns = gather_columns};
