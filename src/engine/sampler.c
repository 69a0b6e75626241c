/* SPDX-License-Identifier: Apache-2.0
 * The steps and their order are those of Hugging Face transformers (wisp.h lists them). Sources:
 * Holtzman et al., nucleus sampling (2019); Nguyen et al., min-p (2024); Meister et al., locally
 * typical sampling (2022); Keskar et al., CTRL (2019), for the repetition penalty. */
#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/number_text.h"
#include "base/random.h"

static const float MOST = 1e6f; /* the largest magnitude of an option that is not a share */

wisp_status sampler_check(const wisp_sampling *o, size_t vocabulary_size, wisp_error *error) {
    const struct {
        const char *name;
        float value, least, most;
    } limits[] = {{"temperature", o->temperature, 0, MOST},
                  {"top_p", o->top_p, 0, 1},
                  {"min_p", o->min_p, 0, 1},
                  {"typical_p", o->typical_p, 0, 1},
                  {"repetition_penalty", o->repetition_penalty, 0, MOST},
                  {"presence_penalty", o->presence_penalty, -MOST, MOST},
                  {"frequency_penalty", o->frequency_penalty, -MOST, MOST}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!(limits[i].value >= limits[i].least && limits[i].value <= limits[i].most))
            return fail(error, WISP_ERROR_ARGUMENT, NULL, limits[i].name,
                        "%s is not between %s and %s", number_text((double)limits[i].value, 6).text,
                        number_text((double)limits[i].least, 6).text,
                        number_text((double)limits[i].most, 6).text);
    if (o->biases > 0)
        TRY(require(o->bias, "bias", error));
    for (size_t i = 0; i < o->biases; i++) {
        const wisp_token_value bias = o->bias[i];
        if (bias.id < 0 || (size_t)bias.id >= vocabulary_size)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "bias", "id %d, but there are %zu tokens",
                        bias.id, vocabulary_size);
        if (!(fabsf(bias.value) <= MOST || bias.value == -INFINITY))
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "bias",
                        "%s of token %d is neither -inf nor between %s and %s",
                        number_text((double)bias.value, 6).text, bias.id,
                        number_text((double)-MOST, 6).text, number_text((double)MOST, 6).text);
    }
    return WISP_OK;
}

wisp_status sampler_open(struct sampler *sampler, const wisp_sampling *options,
                         size_t vocabulary_size, wisp_error *error) {
    *sampler = (struct sampler){
        .options = *options, .random = options->seed, .vocabulary_size = vocabulary_size};
    wisp_sampling *o = &sampler->options;
    o->top_p = o->top_p == 0 ? 1 : o->top_p;
    o->typical_p = o->typical_p == 0 ? 1 : o->typical_p;
    o->repetition_penalty = o->repetition_penalty == 0 ? 1 : o->repetition_penalty;
    sampler->candidates = malloc(vocabulary_size * sizeof *sampler->candidates);
    sampler->counts = calloc(vocabulary_size, sizeof *sampler->counts);
    return sampler->candidates && sampler->counts
               ? WISP_OK
               : fail_memory(error, vocabulary_size * sizeof *sampler->candidates);
}

void sampler_release(struct sampler *sampler) {
    free(sampler->candidates);
    free(sampler->counts);
    free(sampler->text.ids);
    *sampler = (struct sampler){0};
}

wisp_status sampler_count(struct sampler *sampler, int32_t id, wisp_error *error) {
    const size_t window = sampler->options.penalty_window;
    if (window > 0) {
        struct token_list *text = &sampler->text;
        TRY(token_list_add(text, id, error));
        if (text->count > window)
            sampler->counts[text->ids[text->count - window - 1]]--;
    }
    sampler->counts[id]++;
    return WISP_OK;
}

/* ---- steps: each takes n candidates and returns how many are left, at the front ------------- */

/* Makes candidates, ranked by logit, of the tokens that bias and mask leave. */
static size_t take_logits(struct sampler *s, const float *logits, const uint8_t *allowed) {
    const wisp_sampling *o = &s->options;
    struct candidate *c = s->candidates;
    const size_t size = s->vocabulary_size;
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        c[i].logit = logits[i];
    for (size_t i = 0; i < o->biases; i++)
        c[o->bias[i].id].logit += o->bias[i].value;
    for (size_t i = 0; i < size; i++) {
        float logit = c[i].logit;
        if (s->counts[i] > 0) {
            logit = logit > 0 ? logit / o->repetition_penalty : logit * o->repetition_penalty;
            logit -= o->presence_penalty + (float)s->counts[i] * o->frequency_penalty;
        }
        if (logit > -INFINITY && (!allowed || allowed[i / 8] >> i % 8 & 1))
            c[n++] = (struct candidate){.id = (int32_t)i, .rank = logit, .logit = logit};
    }
    return n;
}

/* Sets the weights to exp(logit / temperature), the largest of which is 1. */
static void weigh(struct candidate *c, size_t n, float temperature) {
    float largest = c[0].logit;
    for (size_t i = 1; i < n; i++)
        largest = c[i].logit > largest ? c[i].logit : largest;
    for (size_t i = 0; i < n; i++)
        c[i].weight = exp(((double)c[i].logit - (double)largest) / (double)temperature);
}

static double sum_of(const struct candidate *c, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += c[i].weight;
    return sum;
}

/* Keeps the fewest candidates by rank whose share of the weights reaches `share`. */
static size_t keep_share(struct candidate *c, size_t n, float share) {
    return candidates_reach(c, n, (double)share * sum_of(c, n));
}

static size_t keep_top_k(struct candidate *c, size_t n, size_t k) {
    if (k == 0 || k >= n)
        return n;
    candidates_select(c, n, k);
    return k;
}

static size_t keep_top_p(struct candidate *c, size_t n, float share) {
    return share < 1 ? keep_share(c, n, share) : n;
}

static size_t keep_min_p(struct candidate *c, size_t n, float least) {
    double largest = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, c[i].weight);
    for (size_t i = 0; i < n; i++)
        if (c[i].weight >= (double)least * largest)
            c[kept++] = c[i];
    return kept;
}

/* Ranks candidates by how near their information, -log p, is to its expected value. */
static size_t keep_typical(struct candidate *c, size_t n, float share) {
    if (share >= 1)
        return n;
    const double sum = sum_of(c, n);
    double expected = 0;
    for (size_t i = 0; i < n; i++) {
        const double p = c[i].weight / sum; /* the least weights become 0 here */
        if (p > 0)
            expected -= p * log(p);
    }
    for (size_t i = 0; i < n; i++) {
        const double p = c[i].weight / sum;
        c[i].rank = p > 0 ? (float)-fabs(-log(p) - expected) : -INFINITY;
    }
    n = keep_share(c, n, share);
    for (size_t i = 0; i < n; i++)
        c[i].rank = c[i].logit;
    return n;
}

/* ---- the whole ------------------------------------------------------------------------------ */

wisp_status sampler_narrow(struct sampler *s, const float *logits, const uint8_t *allowed,
                           size_t *n, wisp_error *error) {
    const wisp_sampling *o = &s->options;
    struct candidate *c = s->candidates;
    size_t left = take_logits(s, logits, allowed);
    if (left == 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, allowed ? "grammar" : "bias",
                    "no token is left to choose");
    if (o->temperature == 0)
        left = keep_top_k(c, left, 1);
    left = keep_top_k(c, left, o->top_k);
    weigh(c, left, o->temperature_last || o->temperature == 0 ? 1 : o->temperature);
    if (o->temperature_last)
        left = keep_typical(c, left, o->typical_p);
    left = keep_top_p(c, left, o->top_p);
    left = keep_min_p(c, left, o->min_p);
    if (o->temperature_last && o->temperature > 0)
        weigh(c, left, o->temperature);
    else
        left = keep_typical(c, left, o->typical_p);
    *n = left;
    return WISP_OK;
}

wisp_status sampler_next(struct sampler *s, const float *logits, const uint8_t *allowed,
                         int32_t *id, wisp_error *error) {
    const struct candidate *c = s->candidates;
    size_t n, i = 0;
    TRY(sampler_narrow(s, logits, allowed, &n, error));
    if (n > 1) {
        const double at = (double)(random_next(&s->random) >> 11) * 0x1p-53 * sum_of(c, n);
        double before = c[0].weight; /* of the candidates up to i */
        while (i + 1 < n && at >= before)
            before += c[++i].weight;
    }
    *id = c[i].id;
    return WISP_OK;
}
