/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/thresholds.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "sparse/plan.h"

enum { DIGIT = 11, DIGITS = 3, VALUES = 1 << DIGIT };

/* Returns a digit of a number that falls as the logit rises. */
static size_t digit_of(const struct point *point, int digit) {
    uint32_t bits;
    memcpy(&bits, &point->logit, sizeof bits);
    const uint32_t falling = bits >> 31 ? bits : ~bits & 0x7fffffff;
    return falling >> (DIGIT * digit) & (VALUES - 1);
}

/* Sorts by falling logits, digit by digit (Knuth, The Art of Computer Programming 3, 5.2.5): with
 * qsort, sorting would take a third of calibration's time. The result is in `spare` [n]; `points`
 * is overwritten. */
static void sort_points(struct point *points, size_t n, struct point *spare) {
    for (int digit = 0; digit < DIGITS; digit++) {
        size_t starts[VALUES + 1] = {0};
        for (size_t i = 0; i < n; i++)
            starts[digit_of(&points[i], digit) + 1]++;
        for (size_t v = 0; v < VALUES; v++)
            starts[v + 1] += starts[v];
        for (size_t i = 0; i < n; i++)
            spare[starts[digit_of(&points[i], digit)]++] = points[i];
        struct point *const sorted = spare;
        spare = points;
        points = sorted;
    }
}

/* Adds a corner at the end of a hull of n, dropping those it overtops. */
static size_t add_corner(struct gain *hull, size_t n, struct gain corner, double gained,
                         double *heights) {
    while (n > 0) {
        const double height = n > 1 ? heights[n - 2] : 0;
        const float computed = n > 1 ? hull[n - 2].computed : 0;
        const double through = (gained - height) / (double)(corner.computed - computed);
        if (through < (double)hull[n - 1].steepness)
            break;
        n--;
    }
    const double height = n > 0 ? heights[n - 1] : 0;
    const float computed = n > 0 ? hull[n - 1].computed : 0;
    corner.steepness = (float)((gained - height) / (double)(corner.computed - computed));
    heights[n] = gained;
    hull[n] = corner;
    return n + 1;
}

/* Finds the corners of the hull over the points [tokens] of one neuron, which are sorted, and
 * returns their number. */
static size_t find_hull(const struct point *points, size_t tokens, struct gain *hull,
                        double *heights) {
    size_t n = 0, kept = 0;
    double gained = 0;
    for (size_t t = 0; t < tokens; t++) {
        gained += (double)points[t].loss;
        const bool is_last = t + 1 == tokens;
        if (!is_last && points[t + 1].logit >= points[t].logit)
            continue; /* no threshold can separate equal logits */
        const float below = is_last ? points[t].logit - 1 : points[t + 1].logit;
        const struct gain corner = {.computed = (float)(t + 1),
                                    .threshold = below + (points[t].logit - below) / 2};
        n = add_corner(hull, n, corner, gained, heights);
    }

    /* There are thousands of corners. Those that compute less than a sixty-fourth more tokens than
     * the corner before are left out: nobody needs a share to be more exact. */
    double height = 0;
    float computed = 0;
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && hull[i].computed - computed < fmaxf(1, computed / 64))
            continue;
        hull[kept] = hull[i];
        hull[kept++].steepness =
            (float)((heights[i] - height) / (double)(hull[i].computed - computed));
        height = heights[i];
        computed = hull[kept - 1].computed;
    }
    return kept;
}

wisp_status gains_open(size_t tokens, size_t most_neurons, struct arena *arena,
                       struct arena *scratch, struct gains *g, wisp_error *error) {
    *g = (struct gains){.tokens = tokens, .arena = arena};
    ARENA_TAKE(arena, g->hulls, most_neurons, error);
    ARENA_TAKE(scratch, g->points, tokens, error);
    ARENA_TAKE(scratch, g->sorted, tokens, error);
    ARENA_TAKE(scratch, g->corners, tokens, error);
    ARENA_TAKE(scratch, g->heights, tokens, error);
    return WISP_OK;
}

wisp_status gains_add(struct gains *g, const float *logits, const float *losses, size_t n,
                      wisp_error *error) {
    for (size_t i = 0; i < n; i++) {
        for (size_t t = 0; t < g->tokens; t++)
            g->points[t] = (struct point){logits[t * n + i], losses[t * n + i]};
        sort_points(g->points, g->tokens, g->sorted);
        struct hull *hull = &g->hulls[g->neurons++];
        hull->n = find_hull(g->sorted, g->tokens, g->corners, g->heights);
        ARENA_TAKE(g->arena, hull->corners, hull->n, error);
        memcpy(hull->corners, g->corners, hull->n * sizeof *hull->corners);
    }
    return WISP_OK;
}

double gains_thresholds(const struct gains *g, float price, float *thresholds) {
    double computed = 0;
    for (size_t i = 0; i < g->neurons; i++) {
        const struct hull *hull = &g->hulls[i];
        const struct gain *corner = NULL; /* the last that is worth the price, if there is one */
        for (size_t c = 0; c < hull->n; c++)
            if (hull->corners[c].steepness > price)
                corner = &hull->corners[c];
        computed += corner ? (double)corner->computed : 0;
        if (thresholds)
            thresholds[i] = corner ? corner->threshold : SPARSE_NEVER;
    }
    return computed / ((double)g->tokens * (double)g->neurons);
}

float gains_price(const struct gains *gains, size_t layers, float share) {
    double low = -80, high = 40; /* logarithms of prices: all neurons, none */
    for (int step = 0; step < 60; step++) {
        const double middle = (low + high) / 2;
        double computed = 0;
        for (size_t l = 0; l < layers; l++)
            computed += gains_thresholds(&gains[l], (float)exp(middle), NULL) / (double)layers;
        if (computed > (double)share)
            low = middle;
        else
            high = middle;
    }
    return (float)exp(high);
}
