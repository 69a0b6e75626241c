/* SPDX-License-Identifier: Apache-2.0 */
#include "quantise/choose_types.h"

#include <math.h>

/* Returns whether type i of a tensor is to be preferred to type j at the same loss or bytes. */
static bool is_smaller(const struct type_choice *c, size_t i, size_t j) {
    return c->bytes[i] != c->bytes[j] ? c->bytes[i] < c->bytes[j] : c->loss[i] < c->loss[j];
}

static void choose_smallest(struct type_choice *c) {
    c->chosen = 0;
    for (size_t i = 1; i < c->n; i++)
        if (is_smaller(c, i, c->chosen))
            c->chosen = i;
}

/* Finds the larger type that saves the most loss for each byte beyond the chosen one, among those
 * that take up to `most` bytes more. Returns its gain, or 0 if none saves anything. */
static double best_step(const struct type_choice *c, uint64_t most, size_t *type) {
    double best = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (!(c->loss[i] < c->loss[c->chosen]) || c->bytes[i] < c->bytes[c->chosen])
            continue;
        const uint64_t more = c->bytes[i] - c->bytes[c->chosen];
        const double gain = (c->loss[c->chosen] - c->loss[i]) / (more > 0 ? (double)more : 1e-9);
        if (more <= most && gain > best) {
            best = gain;
            *type = i;
        }
    }
    return best;
}

uint64_t chosen_bytes(struct type_choice *const *choices, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += choices[i]->bytes[choices[i]->chosen];
    return sum;
}

double chosen_loss(struct type_choice *const *choices, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += choices[i]->loss[choices[i]->chosen];
    return sum;
}

/* Takes the best step of any tensor until none fits into `bytes`, or the loss is small enough. */
static void take_steps(struct type_choice *const *choices, size_t n, uint64_t bytes, double loss) {
    for (size_t i = 0; i < n; i++)
        choose_smallest(choices[i]);
    for (;;) {
        const uint64_t used = chosen_bytes(choices, n);
        size_t tensor = n, type = 0;
        double best = 0;
        if (used > bytes || chosen_loss(choices, n) <= loss)
            return;
        for (size_t i = 0; i < n; i++) {
            size_t step = 0;
            const double gain = best_step(choices[i], bytes - used, &step);
            if (gain > best) {
                best = gain;
                tensor = i;
                type = step;
            }
        }
        if (tensor == n)
            return;
        choices[tensor]->chosen = type;
    }
}

bool choose_for_bytes(struct type_choice *const *choices, size_t n, uint64_t bytes) {
    take_steps(choices, n, bytes, -INFINITY);
    return chosen_bytes(choices, n) <= bytes;
}

bool choose_for_loss(struct type_choice *const *choices, size_t n, double loss) {
    take_steps(choices, n, UINT64_MAX, loss);
    return chosen_loss(choices, n) <= loss;
}
