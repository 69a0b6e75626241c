/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/thresholds.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sparse/plan.h"

struct point {
    float logit, loss;
};

enum { DIGIT = 11, DIGITS = 3, VALUES = 1 << DIGIT };

/* A number that falls as the logit rises. */
static uint32_t falling(float logit) {
    uint32_t bits;
    memcpy(&bits, &logit, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7fffffff;
}

static size_t digit_of(const struct point *point, int digit) {
    return falling(point->logit) >> (DIGIT * digit) & (VALUES - 1);
}

/* By falling logits, digit by digit (Knuth, The Art of Computer Programming 3, 5.2.5): a third of
 * calibration's time would go into qsort. `spare` [n] has the result, and points are lost. */
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

/* The hull of one neuron, whose tokens are sorted. Equal logits cannot be told apart. */
static size_t fit_hull(const struct point *points, size_t tokens, struct gain *hull,
                       double *heights) {
    size_t n = 0;
    double gained = 0;
    for (size_t t = 0; t < tokens; t++) {
        gained += (double)points[t].loss;
        const bool last = t + 1 == tokens;
        if (!last && points[t + 1].logit >= points[t].logit)
            continue;
        const float below = last ? points[t].logit - 1 : points[t + 1].logit;
        const struct gain corner = {.computed = (float)(t + 1),
                                    .threshold = below + (points[t].logit - below) / 2};
        n = add_corner(hull, n, corner, gained, heights);
    }
    return n;
}

/* Leaves out corners that are close to the one before, of which there are thousands: shares of
 * tokens need not be told apart more finely than by a sixty-fourth. */
static size_t thin_hull(struct gain *hull, size_t n, const double *heights) {
    size_t kept = 0;
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

/* What one neuron's hull is found in. */
struct work {
    struct point *points, *sorted; /* [tokens] */
    struct gain *hull;             /* [tokens] */
    double *heights;               /* [tokens] */
};

static wisp_status keep_corners(struct gains *g, const struct gain *hull, size_t n,
                                wisp_error *error) {
    const size_t used = g->starts[g->neurons];
    if (used + n > g->capacity) {
        const size_t capacity = 2 * (used + n);
        struct gain *moved = realloc(g->corners, capacity * sizeof *moved);
        if (!moved)
            return fail_memory(error, capacity * sizeof *moved);
        g->corners = moved;
        g->capacity = capacity;
    }
    memcpy(g->corners + used, hull, n * sizeof *hull);
    g->starts[++g->neurons] = used + n;
    return WISP_OK;
}

static wisp_status add_all(struct gains *g, const float *logits, const float *losses, size_t n,
                           const struct work *w, wisp_error *error) {
    for (size_t i = 0; i < n; i++) {
        for (size_t t = 0; t < g->tokens; t++)
            w->points[t] = (struct point){logits[t * n + i], losses[t * n + i]};
        sort_points(w->points, g->tokens, w->sorted);
        const size_t corners = fit_hull(w->sorted, g->tokens, w->hull, w->heights);
        TRY(keep_corners(g, w->hull, thin_hull(w->hull, corners, w->heights), error));
    }
    return WISP_OK;
}

wisp_status gains_open(size_t tokens, size_t most_neurons, struct gains *gains, wisp_error *error) {
    *gains =
        (struct gains){.tokens = tokens, .starts = calloc(most_neurons + 1, sizeof *gains->starts)};
    return gains->starts ? WISP_OK : fail_memory(error, most_neurons * sizeof *gains->starts);
}

wisp_status gains_add(struct gains *gains, const float *logits, const float *losses, size_t n,
                      wisp_error *error) {
    const size_t tokens = gains->tokens;
    const struct work w = {.points = malloc(tokens * sizeof *w.points),
                           .sorted = malloc(tokens * sizeof *w.sorted),
                           .hull = malloc(tokens * sizeof *w.hull),
                           .heights = malloc(tokens * sizeof *w.heights)};
    const wisp_status status = w.points && w.sorted && w.hull && w.heights
                                   ? add_all(gains, logits, losses, n, &w, error)
                                   : fail_memory(error, tokens * sizeof *w.hull);
    free(w.points);
    free(w.sorted);
    free(w.hull);
    free(w.heights);
    return status;
}

void gains_release(struct gains *gains) {
    free(gains->corners);
    free(gains->starts);
    *gains = (struct gains){0};
}

/* The corner up to which a neuron is worth the price; NULL where it is never. */
static const struct gain *corner_at(const struct gains *g, size_t neuron, float price) {
    const struct gain *at = NULL;
    for (size_t i = g->starts[neuron]; i < g->starts[neuron + 1]; i++)
        if (g->corners[i].steepness > price)
            at = &g->corners[i];
    return at;
}

double gains_thresholds(const struct gains *layer, float price, float *thresholds) {
    double computed = 0;
    for (size_t i = 0; i < layer->neurons; i++) {
        const struct gain *corner = corner_at(layer, i, price);
        computed += corner ? (double)corner->computed : 0;
        if (thresholds)
            thresholds[i] = corner ? corner->threshold : SPARSE_NEVER;
    }
    return computed / ((double)layer->tokens * (double)layer->neurons);
}

float gains_price(const struct gains *layers, size_t n, float share) {
    double low = -80, high = 40; /* natural logarithms of prices: all and none */
    for (int step = 0; step < 60; step++) {
        const double middle = (low + high) / 2;
        double computed = 0;
        for (size_t l = 0; l < n; l++)
            computed += gains_thresholds(&layers[l], (float)exp(middle), NULL) / (double)n;
        if (computed > (double)share)
            low = middle;
        else
            high = middle;
    }
    return (float)exp(high);
}
