/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/grid.h"

#include "quant/codecs.h"

static const struct block_grid grids[] = {
    {BLOCK_Q4_0, NULL, 16, -8, false},
    {BLOCK_Q4_1, NULL, 16, 0, true},
    {BLOCK_Q5_0, NULL, 32, -16, false},
    {BLOCK_Q5_1, NULL, 32, 0, true},
    {BLOCK_Q8_0, NULL, 255, -127, false},
    {BLOCK_IQ4_NL, iq4_levels, 16, 0, false},
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

static float level_of(const struct block_grid *grid, int code) {
    return (float)(grid->levels ? grid->levels[code] : grid->low + code);
}

float grid_value(const struct block_grid *grid, struct grid_scale at, int code) {
    return at.scale * level_of(grid, code) + at.offset;
}

int grid_code(const struct block_grid *grid, struct grid_scale at, float x) {
    const float y = at.scale != 0 ? (x - at.offset) / at.scale : 0;
    if (grid->levels)
        return iq4_nearest_level(y);
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
    *at = (struct grid_scale){grid_half(at->scale), grid_half(at->offset)};
    for (int i = 0; i < GRID_BLOCK; i++) {
        const float off = values[i] - grid_value(grid, *at, grid_code(grid, *at, values[i]));
        error += weights[i] * off * off;
    }
    return error;
}

/* Searches from ranges that hold all values to ranges that clamp the largest: a smaller scale often
 * rounds the others more exactly. Without an offset, levels are not the same on both sides of 0, so
 * scales of both signs are tried. */
struct grid_scale grid_fit(const struct block_grid *grid, const float *values,
                           const float *weights) {
    enum { STEPS = 16 };
    struct grid_scale best = {0};
    float low = values[0], high = values[0], best_error = INFINITY;
    for (int i = 1; i < GRID_BLOCK; i++) {
        low = fminf(low, values[i]);
        high = fmaxf(high, values[i]);
    }
    const float largest = fmaxf(fabsf(low), fabsf(high));
    const float first = level_of(grid, 0), last = level_of(grid, grid->n_levels - 1);
    for (int step = 0; step < STEPS && largest > 0; step++) {
        const float part = 1.1f - 0.03f * (float)step;
        for (int sign = -1; sign <= (grid->has_offset ? -1 : 1); sign += 2) {
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

void grid_store(const struct block_grid *grid, struct grid_scale at, const int codes[GRID_BLOCK],
                unsigned char *out) {
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
