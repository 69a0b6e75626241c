/* SPDX-License-Identifier: Apache-2.0
 * The order of the steps is that of Hugging Face transformers: penalties, temperature, top_k,
 * top_p, min_p. Sources: Holtzman et al., nucleus sampling (2019); Nguyen et al., min-p (2024);
 * Keskar et al., CTRL (2019), for the repetition penalty. */
#include "engine/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number_text.h"
#include "base/random.h"

static wisp_status check(const wisp_sampling *o, wisp_error *error) {
    const struct {
        const char *name;
        float value, least, most;
    } limits[] = {{"temperature", o->temperature, 0, 1e6f},
                  {"top_p", o->top_p, 0, 1},
                  {"min_p", o->min_p, 0, 1},
                  {"repetition_penalty", o->repetition_penalty, 0, 1e6f},
                  {"presence_penalty", o->presence_penalty, -1e6f, 1e6f},
                  {"frequency_penalty", o->frequency_penalty, -1e6f, 1e6f}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!(limits[i].value >= limits[i].least && limits[i].value <= limits[i].most))
            return fail(error, WISP_ERROR_ARGUMENT, NULL, limits[i].name,
                        "%s is not between %s and %s", number_text((double)limits[i].value, 6).text,
                        number_text((double)limits[i].least, 6).text,
                        number_text((double)limits[i].most, 6).text);
    return WISP_OK;
}

wisp_status sampler_open(struct sampler *sampler, const wisp_sampling *options,
                         size_t vocabulary_size, wisp_error *error) {
    *sampler = (struct sampler){
        .options = *options, .random = options->seed, .vocabulary_size = vocabulary_size};
    TRY(check(options, error));
    if (sampler->options.top_p == 0)
        sampler->options.top_p = 1;
    if (sampler->options.repetition_penalty == 0)
        sampler->options.repetition_penalty = 1;
    sampler->candidates = malloc(vocabulary_size * sizeof *sampler->candidates);
    sampler->counts = calloc(vocabulary_size, sizeof *sampler->counts);
    return sampler->candidates && sampler->counts
               ? WISP_OK
               : fail_memory(error, vocabulary_size * sizeof *sampler->candidates);
}

void sampler_release(struct sampler *sampler) {
    free(sampler->candidates);
    free(sampler->counts);
    *sampler = (struct sampler){0};
}

void sampler_count(struct sampler *sampler, int32_t id) {
    sampler->counts[id]++;
}

static float penalised(const struct sampler *s, float logit, uint32_t count) {
    const wisp_sampling *o = &s->options;
    if (count == 0)
        return logit;
    logit = logit > 0 ? logit / o->repetition_penalty : logit * o->repetition_penalty;
    return logit - o->presence_penalty - (float)count * o->frequency_penalty;
}

static bool is_better(const struct candidate *a, const struct candidate *b) {
    return a->value > b->value || (a->value == b->value && a->id < b->id);
}

static int best_first(const void *a, const void *b) {
    return is_better(a, b) ? -1 : 1;
}

/* Moves the best k of n candidates to the front, in any order: a heap of the best so far, whose
 * worst one is at its root, takes each candidate that is better than that. */
static void select_best(struct candidate *c, size_t n, size_t k) {
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        if (i < k) { /* sift up */
            for (; at > 0 && is_better(&c[(at - 1) / 2], &c[at]); at = (at - 1) / 2) {
                const struct candidate swapped = c[at];
                c[at] = c[(at - 1) / 2];
                c[(at - 1) / 2] = swapped;
            }
            continue;
        }
        if (!is_better(&c[i], &c[0]))
            continue;
        const struct candidate taken = c[i];
        c[i] = c[0];
        at = 0;
        for (size_t child; (child = 2 * at + 1) < k; at = child) { /* sift down */
            if (child + 1 < k && is_better(&c[child], &c[child + 1]))
                child++;
            if (!is_better(&taken, &c[child]))
                break;
            c[at] = c[child];
        }
        c[at] = taken;
    }
}

int32_t sampler_next(struct sampler *s, const float *logits) {
    const wisp_sampling *o = &s->options;
    struct candidate *c = s->candidates;
    size_t n = s->vocabulary_size, best = 0;
    for (size_t i = 0; i < n; i++) {
        c[i] = (struct candidate){(int32_t)i, penalised(s, logits[i], s->counts[i])};
        if (is_better(&c[i], &c[best]))
            best = i;
    }
    if (o->temperature == 0)
        return c[best].id;
    if (o->top_k > 0 && o->top_k < n) {
        select_best(c, n, o->top_k);
        n = o->top_k;
    }
    qsort(c, n, sizeof *c, best_first);
    const double largest = (double)c[0].value;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        c[i].value = (float)exp(((double)c[i].value - largest) / (double)o->temperature);
        sum += (double)c[i].value;
    }
    /* The weight of the best candidate is 1, so min_p is a bound for weights. */
    double kept = 0;
    size_t count = 0;
    while (count < n && (count == 0 || (c[count].value >= o->min_p &&
                                        (o->top_p >= 1 || kept < (double)o->top_p * sum))))
        kept += (double)c[count++].value;
    const double at = (double)(random_next(&s->random) >> 11) * 0x1p-53 * kept;
    double before = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        before += (double)c[i].value;
        if (at < before)
            return c[i].id;
    }
    return c[count - 1].id;
}
