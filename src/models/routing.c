/* SPDX-License-Identifier: Apache-2.0 */
#include "models/routing.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* transformers adds this to the sum of sigmoids by which it divides. */
#define LEAST_SUM 1e-6f

static void softmax(const float *x, uint32_t n, float *y) {
    float most = x[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        most = fmaxf(most, x[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += y[i] = expf(x[i] - most);
    for (uint32_t i = 0; i < n; i++)
        y[i] /= sum;
}

static void sigmoid(const float *x, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = 1 / (1 + expf(-x[i]));
}

/* Returns the value that decides the choice of expert e. After overflow it may be NaN. */
static float score_of(const float *shares, const float *choice, uint32_t e) {
    const float score = shares[e] + (choice ? choice[e] : 0);
    return isnan(score) ? -INFINITY : score;
}

void route_token(const struct expert_config *experts, const float *outputs, const float *choice,
                 uint32_t token, float *shares, struct routed *out) {
    const uint32_t n = experts->count, used = experts->used;
    float last = INFINITY, sum = experts->gate == EXPERTS_SIGMOID ? LEAST_SUM : 0;
    uint32_t last_expert = n; /* the one chosen before: all of infinite score come after it */
    (experts->gate == EXPERTS_SIGMOID ? sigmoid : softmax)(outputs, n, shares);
    for (uint32_t k = 0; k < used; k++) {
        uint32_t best = n;
        for (uint32_t e = 0; e < n; e++) {
            const float score = score_of(shares, choice, e);
            const bool is_left =
                last_expert == n || score < last || (score == last && e > last_expert);
            if (is_left && (best == n || score > score_of(shares, choice, best)))
                best = e;
        }
        last = score_of(shares, choice, best);
        last_expert = best;
        sum += shares[best];
        uint32_t at = k;
        for (; at > 0 && out[at - 1].expert > best; at--)
            out[at] = out[at - 1];
        out[at] = (struct routed){.expert = best, .token = token, .weight = shares[best]};
    }
    for (uint32_t k = 0; k < used; k++) {
        if (experts->normalised)
            out[k].weight /= sum;
        out[k].weight *= experts->scale;
    }
}

void route_sort(const struct routed *pairs, size_t n, uint32_t experts, size_t *counts,
                struct routed *sorted) {
    memset(counts, 0, (experts + 1) * sizeof *counts);
    for (size_t i = 0; i < n; i++)
        counts[pairs[i].expert + 1]++;
    for (uint32_t e = 0; e < experts; e++)
        counts[e + 1] += counts[e];
    for (size_t i = 0; i < n; i++) /* moves the beginning of each expert to its end, */
        sorted[counts[pairs[i].expert]++] = pairs[i];
    memmove(counts + 1, counts, experts * sizeof *counts); /* which is the next one's beginning */
    counts[0] = 0;
}
