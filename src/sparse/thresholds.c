/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/thresholds.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

struct point {
    float logit, loss;
};

static int by_logit(const void *a, const void *b) {
    const float x = ((const struct point *)a)->logit, y = ((const struct point *)b)->logit;
    return (x < y) - (x > y);
}

/* Adds a corner at the end of a hull that starts at `first`, dropping those it overtops. */
static size_t add_corner(struct gain *hull, size_t first, size_t n, struct gain corner,
                         double gained, double *heights) {
    while (n > first) {
        const double height = n > first + 1 ? heights[n - 2 - first] : 0;
        const float computed = n > first + 1 ? hull[n - 2].computed : 0;
        const double through = (gained - height) / (double)(corner.computed - computed);
        if (through < (double)hull[n - 1].steepness)
            break;
        n--;
    }
    const double height = n > first ? heights[n - 1 - first] : 0;
    const float computed = n > first ? hull[n - 1].computed : 0;
    corner.steepness = (float)((gained - height) / (double)(corner.computed - computed));
    heights[n - first] = gained;
    hull[n] = corner;
    return n + 1;
}

/* The hull of one quad, whose tokens are sorted. Equal logits cannot be told apart. */
static size_t fit_hull(const struct point *points, size_t tokens, struct gain *hull, size_t n,
                       double *heights) {
    const size_t first = n;
    double gained = 0;
    for (size_t t = 0; t < tokens; t++) {
        gained += (double)points[t].loss;
        const bool last = t + 1 == tokens;
        if (!last && points[t + 1].logit >= points[t].logit)
            continue;
        const float below = last ? points[t].logit - 1 : points[t + 1].logit;
        const struct gain corner = {.computed = (float)(t + 1),
                                    .threshold = below + (points[t].logit - below) / 2};
        n = add_corner(hull, first, n, corner, gained, heights);
    }
    return n;
}

static wisp_status fit_all(const float *logits, const float *losses, struct gains *g,
                           struct point *points, struct gain *hull, double *heights,
                           wisp_error *error) {
    size_t n = 0, capacity = 0;
    for (size_t i = 0; i < g->quads; i++) {
        for (size_t t = 0; t < g->tokens; t++)
            points[t] = (struct point){logits[t * g->quads + i], losses[t * g->quads + i]};
        qsort(points, g->tokens, sizeof *points, by_logit);
        const size_t corners = fit_hull(points, g->tokens, hull, 0, heights);
        if (n + corners > capacity) {
            capacity = 2 * (n + corners);
            struct gain *moved = realloc(g->corners, capacity * sizeof *moved);
            if (!moved)
                return fail_memory(error, capacity * sizeof *moved);
            g->corners = moved;
        }
        for (size_t c = 0; c < corners; c++)
            g->corners[n + c] = hull[c];
        n += corners;
        g->starts[i + 1] = n;
    }
    return WISP_OK;
}

wisp_status gains_fit(const float *logits, const float *losses, size_t tokens, size_t quads,
                      struct gains *gains, wisp_error *error) {
    struct point *points = malloc(tokens * sizeof *points);
    struct gain *hull = malloc(tokens * sizeof *hull);
    double *heights = malloc(tokens * sizeof *heights);
    *gains = (struct gains){
        .quads = quads, .tokens = tokens, .starts = calloc(quads + 1, sizeof *gains->starts)};
    wisp_status status = points && hull && heights && gains->starts
                             ? fit_all(logits, losses, gains, points, hull, heights, error)
                             : fail_memory(error, tokens * sizeof *hull);
    free(points);
    free(hull);
    free(heights);
    if (status != WISP_OK)
        gains_release(gains);
    return status;
}

void gains_release(struct gains *gains) {
    free(gains->corners);
    free(gains->starts);
    *gains = (struct gains){0};
}

/* The corner up to which a quad is worth the price; NULL where it is never. */
static const struct gain *corner_at(const struct gains *g, size_t quad, float price) {
    const struct gain *at = NULL;
    for (size_t i = g->starts[quad]; i < g->starts[quad + 1]; i++)
        if (g->corners[i].steepness > price)
            at = &g->corners[i];
    return at;
}

double gains_thresholds(const struct gains *layer, float price, float *thresholds) {
    double computed = 0;
    for (size_t i = 0; i < layer->quads; i++) {
        const struct gain *corner = corner_at(layer, i, price);
        computed += corner ? (double)corner->computed : 0;
        if (thresholds)
            thresholds[i] = corner ? corner->threshold : 1e30f;
    }
    return computed / ((double)layer->tokens * (double)layer->quads);
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
