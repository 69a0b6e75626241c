/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_reference.h"

#include <float.h>
#include <math.h>

static size_t kv_head_of(const struct attention_case *c, size_t head) {
    return head / (c->shape.heads / c->shape.kv_heads);
}

static size_t keys_seen(const struct attention_case *c, size_t query) {
    const size_t position = c->sequence.keys - c->sequence.queries + query;
    if (c->shape.mask == ATTENTION_NEAR && position + c->shape.ahead < c->sequence.keys)
        return position + c->shape.ahead + 1;
    return c->shape.mask == ATTENTION_ALL_KEYS || c->shape.mask == ATTENTION_NEAR ? c->sequence.keys
                                                                                  : position + 1;
}

/* Returns the first of those keys that the query sees. */
static size_t first_seen(const struct attention_case *c, size_t query) {
    const size_t end = keys_seen(c, query);
    const size_t position = c->sequence.keys - c->sequence.queries + query;
    if (c->shape.mask == ATTENTION_NEAR)
        return position > c->shape.window ? position - c->shape.window : 0;
    return c->shape.mask == ATTENTION_WINDOW && end > c->shape.window ? end - c->shape.window : 0;
}

/* Returns the distance between neighbouring 16-bit numbers of a head, as floats, if `sum` of
 * their products are added; 0 if floats are used. Values that are too small all become 0. */
static double step_of(const struct attention_case *c, const struct attention_rows *rows,
                      size_t count, size_t head, size_t sum) {
    float largest = 0;
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < c->shape.head_size; i++)
            largest = fmaxf(largest, fabsf(vector_at(rows, t, head)[i]));
    if (!c->shape.i16)
        return 0;
    return largest < 0x1p-112f ? 2 * (double)largest : (double)largest / (double)i16_most(sum);
}

struct attention_steps attention_steps_of(const struct attention_case *c, size_t head) {
    const struct attention_sequence *s = &c->sequence;
    const size_t kv_head = kv_head_of(c, head), size = c->shape.head_size;
    return (struct attention_steps){step_of(c, &s->q, s->queries, head, size),
                                    step_of(c, &s->k, s->keys, kv_head, size),
                                    step_of(c, &s->v, s->keys, kv_head, s->keys)};
}

/* Returns the largest magnitude of a query of which products with cached bytes make 127 steps;
 * infinity if they take its numbers as they are. */
static float query_largest(const struct attention_case *c, const float *q) {
    float largest = 0;
    if (!c->policy->needs_cache || c->type != KV_INT8)
        return INFINITY;
    for (size_t j = 0; j < c->shape.head_size; j++)
        largest = fabsf(q[j]) > largest ? fabsf(q[j]) : largest;
    return largest;
}

/* Returns a number of a query as products see it. */
static double query_number(float number, float largest) {
    if (isinf(largest))
        return (double)number;
    return largest < 0x1p-100f ? 0
                               : (double)rintf(number * (127 / largest)) * (double)(largest / 127);
}

/* Returns the score of a query and a key, and bounds its error: the roundings of gemm_f32, which
 * adds in order of c, the two roundings of scaling, and half a step in q and in k. */
static double exact_score(const struct attention_case *c, const struct attention_steps *steps,
                          size_t head, size_t query, size_t key, double *error) {
    const float *q = vector_at(&c->sequence.q, query, head);
    const float *k = vector_at(&c->kept_k, key, kv_head_of(c, head));
    const double scale = (double)c->shape.scale;
    const float largest = query_largest(c, q);
    double sum = 0, magnitudes = 0, rounding = 0;
    for (size_t i = 0; i < c->shape.head_size; i++) {
        const double product = query_number(q[i], largest) * (double)k[i];
        sum += product;
        magnitudes += fabs(product) + fabs(sum);
        rounding +=
            fabs((double)q[i]) * steps->k + fabs((double)k[i]) * steps->q + steps->q * steps->k / 2;
    }
    if (c->shape.bias) {
        const ptrdiff_t position = (ptrdiff_t)(c->sequence.keys - c->sequence.queries + query);
        sum += (double)(c->shape.bias + head * c->shape.bias_stride)[(ptrdiff_t)key - position];
        magnitudes += fabs(sum);
    }
    *error = (ROUNDING * magnitudes + rounding / 2) * scale * 1.01;
    if (c->shape.soft_cap == 0)
        return sum * scale;
    const double cap = (double)c->shape.soft_cap;
    *error += 4e-7 * cap + ROUNDING * fabs(sum * scale);
    return cap * tanh(sum * scale / cap);
}

/* Turns scores into their softmax, and the bounds of their errors into bounds of the weights. A
 * weight is largest where its own score has its highest value and all others their lowest, and
 * least the other way round. */
static void exact_softmax(double *scores, double *errors, size_t n) {
    double largest = -INFINITY, top_low = -INFINITY, top_high = -INFINITY;
    double sum = 0, sum_low = 0, sum_high = 0;
    for (size_t j = 0; j < n; j++)
        largest = fmax(largest, scores[j]);
    for (size_t j = 0; j < n; j++) {
        scores[j] -= largest;
        /* This difference and the scale by which it is multiplied are rounded; 2e-7 is the error of
         * exp_of itself. */
        errors[j] += 2e-7 - 4 * ROUNDING * scores[j];
        top_low = fmax(top_low, scores[j] - errors[j]);
        top_high = fmax(top_high, scores[j] + errors[j]);
    }
    for (size_t j = 0; j < n; j++) {
        sum += exp(scores[j]);
        sum_low += exp(scores[j] - errors[j] - top_low);
        sum_high += exp(scores[j] + errors[j] - top_high);
    }
    for (size_t j = 0; j < n; j++) {
        const double low = scores[j] - errors[j], high = scores[j] + errors[j];
        const double others_low = fmax(sum_low - exp(low - top_low), 0);
        const double others_high = fmax(sum_high - exp(high - top_high), 1e-16 * (double)n);
        const double most = 1 / (1 + exp(top_low - high) * others_low);
        const double least = 1 / (1 + exp(top_high - low) * others_high);
        scores[j] = exp(scores[j]) / sum;
        errors[j] = fmax(most - scores[j], scores[j] - least) +
                    scores[j] * (double)(n + 3) * ROUNDING + exp(-87);
    }
}

/* Adds the errors of weights that are rounded to whole numbers up to `most`. */
static void round_shares(const double *shares, double *errors, size_t n, double most) {
    for (size_t j = 0; j < n; j++)
        errors[j] += (0.5 + shares[j] * (double)n / 2) / most * 1.01;
}

/* Returns the scale of the bytes of a key's values. */
static double value_scale(const struct attention_case *c, size_t key, size_t head) {
    double largest = 0;
    for (size_t i = 0; i < c->shape.head_size; i++)
        largest = fmax(largest, fabs((double)vector_at(&c->kept_v, key, kv_head_of(c, head))[i]));
    return largest / 127;
}

/* Adds the errors of shares that are rounded, times the scale of their values, to SHARE_STEPS steps
 * of the largest in their step. */
static void round_steps(const struct attention_case *c, size_t head, size_t first, size_t n,
                        const double *shares, double *errors) {
    for (size_t at = 0, next; at < n; at = next) {
        double most = 0;
        next = at + KV_STEP - (first + at) % KV_STEP;
        next = next < n ? next : n;
        for (size_t j = at; j < next; j++)
            most = fmax(most, (shares[j] + errors[j]) * value_scale(c, first + j, head));
        for (size_t j = at; j < next; j++) {
            const double scale = value_scale(c, first + j, head);
            if (scale > 0)
                errors[j] += fmax(0.51 * most / (double)SHARE_STEPS, 0x1p-100) / scale;
        }
    }
}

void check_attention_head(const struct where *where, const struct attention_case *c, size_t head,
                          size_t query, const struct attention_steps *steps, double *shares,
                          double *errors, const float *got) {
    const size_t first = first_seen(c, query), size = c->shape.head_size;
    const size_t n = keys_seen(c, query) - first;
    for (size_t j = 0; j < n; j++)
        shares[j] = exact_score(c, steps, head, query, first + j, &errors[j]);
    if (c->shape.sinks) { /* a score without a value, from which the largest one is taken, too */
        double most = fabs((double)c->shape.sinks[head]);
        for (size_t j = 0; j < n; j++)
            most = fmax(most, fabs(shares[j]));
        shares[n] = (double)c->shape.sinks[head];
        errors[n] = 4 * ROUNDING * most;
    }
    exact_softmax(shares, errors, n + (c->shape.sinks ? 1 : 0));
    if (c->shape.i16)
        round_shares(shares, errors, n, (double)i16_most(c->sequence.keys));
    const size_t steps_seen = n / KV_STEP + 2;
    if (c->policy->needs_cache) /* sums of steps are scaled down where a score is larger */
        for (size_t j = 0; j < n; j++)
            errors[j] += shares[j] * ((double)steps_seen * 3e-7);
    if (c->policy->needs_cache && c->type == KV_INT8)
        round_steps(c, head, first, n, shares, errors);
    for (size_t i = 0; i < size; i++) {
        double sum = 0, tolerance = steps->v / 2;
        for (size_t j = 0; j < n; j++) {
            const float *v = vector_at(&c->kept_v, first + j, kv_head_of(c, head));
            const double value = (double)v[i];
            sum += shares[j] * value;
            tolerance += errors[j] * fabs(value) + ROUNDING * (fabs(shares[j] * value) + fabs(sum));
        }
        expect_near(where, query, head * size + i, got[head * size + i], sum,
                    tolerance * 1.01 + (double)FLT_MIN);
    }
}
