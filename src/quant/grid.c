/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/grid.h"

#include <stdlib.h>
#include <string.h>

#include "quant/codecs.h"

/* Twice the values of MXFP4, rising; the file's codes are in another order. */
static const signed char mxfp4_levels[] = {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12};
static const unsigned char mxfp4_codes[] = {15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7};

static const struct block_grid grids[] = {
    {NULL, BLOCK_Q4_0, 16, -8, false, GRID_BLOCK},
    {NULL, BLOCK_Q4_1, 16, 0, true, GRID_BLOCK},
    {NULL, BLOCK_Q5_0, 32, -16, false, GRID_BLOCK},
    {NULL, BLOCK_Q5_1, 32, 0, true, GRID_BLOCK},
    {NULL, BLOCK_Q8_0, 255, -127, false, GRID_BLOCK},
    {iq4_levels, BLOCK_IQ4_NL, 16, 0, false, GRID_BLOCK},
    {mxfp4_levels, BLOCK_MXFP4, 15, 0, false, GRID_BLOCK},
    {NULL, BLOCK_TQ2_0, 3, -1, false, GRID_MOST},
    {NULL, BLOCK_T158, 3, -1, false, GRID_MOST},
};

const struct block_grid *block_grid_of(enum block_type type) {
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++)
        if (grids[i].type == type)
            return &grids[i];
    return NULL;
}

float grid_half(float value) {
    return float_of_half(half_of_float(fminf(fmaxf(value, -HALF_LARGEST), HALF_LARGEST)));
}

/* MXFP4 has powers of two for scales, of which 2^-126 to 2^126 are used here. */
float grid_stored_scale(const struct block_grid *grid, float value) {
    if (grid->type != BLOCK_MXFP4)
        return grid_half(value);
    return value > 0 ? exp2f(fminf(fmaxf(roundf(log2f(value)), -126), 126)) : 0x1p-126f;
}

static float level_of(const struct block_grid *grid, int code) {
    return (float)(grid->levels ? grid->levels[code] : grid->low + code);
}

float grid_value(const struct block_grid *grid, struct grid_scale at, int code) {
    return at.scale * level_of(grid, code) + at.offset;
}

int grid_code(const struct block_grid *grid, struct grid_scale at, float x) {
    const float y = at.scale != 0 ? (x - at.offset) / at.scale : 0;
    if (grid->levels) {
        int below = 0, above = grid->n_levels - 1; /* y is between, or beyond an end */
        while (above - below > 1) {
            const int middle = (below + above) / 2;
            if (y < (float)grid->levels[middle])
                above = middle;
            else
                below = middle;
        }
        return y - (float)grid->levels[below] < (float)grid->levels[above] - y ? below : above;
    }
    const float low = (float)grid->low, high = (float)(grid->low + grid->n_levels - 1);
    return (int)lrintf(fminf(fmaxf(y, low), high)) - grid->low;
}

/* Replaces *at by the scale and the offset of least weighted squared error for the codes that it
 * gives, and returns the error that the result has with codes of its own. */
static float refit(const struct block_grid *grid, const float *values, const float *weights,
                   struct grid_scale *at) {
    float w = 0, l = 0, ll = 0, x = 0, xl = 0, error = 0;
    for (int i = 0; i < GRID_BLOCK; i++) {
        const float level = level_of(grid, grid_code(grid, *at, values[i]));
        w += weights[i];
        l += weights[i] * level;
        ll += weights[i] * level * level;
        x += weights[i] * values[i];
        xl += weights[i] * values[i] * level;
    }
    const float determinant = w * ll - l * l;
    if (grid->has_offset && determinant > 1e-6f * w * ll)
        *at = (struct grid_scale){(w * xl - l * x) / determinant, (ll * x - l * xl) / determinant};
    else if (!grid->has_offset && ll > 0)
        at->scale = xl / ll;
    *at = (struct grid_scale){grid_stored_scale(grid, at->scale), grid_half(at->offset)};
    for (int i = 0; i < GRID_BLOCK; i++) {
        const float off = values[i] - grid_value(grid, *at, grid_code(grid, *at, values[i]));
        error += weights[i] * off * off;
    }
    return error;
}

/* Searches from ranges that hold all values to ranges that clamp the largest: a smaller scale often
 * rounds the others more exactly. Without an offset, levels are not the same on both sides of 0, so
 * scales of both signs are tried. */
static struct grid_scale fit_steps(const struct block_grid *grid, const float *values,
                                   const float *weights) {
    enum { STEPS = 16 };
    struct grid_scale best = {grid_stored_scale(grid, 0), 0};
    float low = values[0], high = values[0], best_error = INFINITY;
    for (int i = 1; i < GRID_BLOCK; i++) {
        low = fminf(low, values[i]);
        high = fmaxf(high, values[i]);
    }
    const float largest = fmaxf(fabsf(low), fabsf(high));
    const float first = level_of(grid, 0), last = level_of(grid, grid->n_levels - 1);
    for (int step = 0; step < STEPS && largest > 0; step++) {
        const float part = 1.1f - 0.03f * (float)step;
        for (int sign = grid->type == BLOCK_MXFP4 ? 1 : -1; sign <= (grid->has_offset ? -1 : 1);
             sign += 2) {
            struct grid_scale at = {(float)sign * largest / -first * part, 0};
            if (grid->has_offset) {
                at.scale = (high - low) * part / last;
                at.offset = (high + low) / 2 - at.scale * last / 2;
            }
            const float error = refit(grid, values, weights, &at);
            if (error < best_error) {
                best_error = error;
                best = at;
            }
        }
    }
    return best;
}

struct place {
    float magnitude;
    int at;
};

static int compare_places(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    return x->magnitude != y->magnitude ? (x->magnitude > y->magnitude ? -1 : 1) : x->at - y->at;
}

/* With any scale, the values above half of it are those that do not become 0. So the best scale is
 * that of the m largest values, for one of the thresholds between them: their weighted mean. */
static struct grid_scale fit_ternary(const float *values, const float *weights, int n) {
    struct place places[GRID_MOST] = {0};
    struct grid_scale best = {0, 0};
    double sum = 0, weight = 0, most = 0;
    for (int i = 0; i < n; i++)
        places[i] = (struct place){fabsf(values[i]), i};
    qsort(places, (size_t)n, sizeof *places, compare_places);
    for (int i = 0; i < n; i++) {
        const double w = (double)weights[places[i].at];
        sum += w * (double)places[i].magnitude;
        weight += w;
        if (sum * sum > most * weight) {
            most = sum * sum / weight;
            best.scale = (float)(sum / weight);
        }
    }
    best.scale = grid_half(best.scale);
    return best;
}

static bool is_ternary(const struct block_grid *grid) {
    return grid->n_levels == 3;
}

struct grid_scale grid_fit(const struct block_grid *grid, const float *values, const float *weights,
                           int n) {
    return is_ternary(grid) ? fit_ternary(values, weights, n) : fit_steps(grid, values, weights);
}

/* Writes the codes 0, 1 and 2 in two bits each, four a byte, and the scale behind them. In TQ2_0 a
 * byte has elements that are 32 apart, in BITNET_T158 neighbours. */
static void store_ternary(enum block_type type, float scale, const int *codes, unsigned char *out) {
    memset(out, 0, GRID_MOST / 4);
    for (int i = 0; i < GRID_MOST; i++)
        if (type == BLOCK_TQ2_0)
            out[i / 128 * 32 + i % 32] |= (unsigned char)(codes[i] << i % 128 / 32 * 2);
        else
            out[i / 4] |= (unsigned char)(codes[i] << i % 4 * 2);
    store_half(scale, out + GRID_MOST / 4);
}

void grid_store(const struct block_grid *grid, struct grid_scale at, const int *codes,
                unsigned char *out) {
    if (is_ternary(grid)) {
        store_ternary(grid->type, at.scale, codes, out);
        return;
    }
    if (grid->type == BLOCK_MXFP4) {
        int stored[GRID_BLOCK];
        for (int i = 0; i < GRID_BLOCK; i++)
            stored[i] = mxfp4_codes[codes[i]];
        /* The scale is half of 2^(exponent - 127). */
        out[0] = (unsigned char)(ilogbf(at.scale) + 128);
        store_low_bits(stored, out + 1);
        return;
    }
    store_half(at.scale, out);
    out += 2;
    if (grid->has_offset) {
        store_half(at.offset, out);
        out += 2;
    }
    if (grid->n_levels > 32) {
        for (int i = 0; i < GRID_BLOCK; i++)
            out[i] = (unsigned char)(grid->low + codes[i]);
        return;
    }
    if (grid->n_levels == 32) {
        store_fifth_bits(codes, out);
        out += 4;
    }
    store_low_bits(codes, out);
}

void grid_quantise(const struct block_grid *grid, const float *values, const float *weights,
                   size_t n, unsigned char *out) {
    const uint32_t bytes = block_format_by_id(grid->type)->bytes;
    const size_t block = (size_t)grid->block;
    float same[GRID_MOST];
    int codes[GRID_MOST];
    for (int i = 0; i < GRID_MOST; i++)
        same[i] = 1;
    for (size_t first = 0; first < n; first += block, out += bytes) {
        const struct grid_scale at =
            grid_fit(grid, values + first, weights ? weights + first : same, grid->block);
        for (size_t i = 0; i < block; i++)
            codes[i] = grid_code(grid, at, values[first + i]);
        grid_store(grid, at, codes, out);
    }
}
