/* SPDX-License-Identifier: Apache-2.0
 * Chooses the next token from logits. */
#ifndef WISP_ENGINE_SAMPLER_H
#define WISP_ENGINE_SAMPLER_H

#include "base/status.h"

/* A token and its logit or, after sampling, its weight among the candidates. */
struct candidate {
    int32_t id;
    float value;
};

struct sampler {
    wisp_sampling options; /* defaults are filled in */
    uint64_t random;       /* the state of base/random.h */
    size_t vocabulary_size;
    struct candidate *candidates; /* [vocabulary_size] */
    uint32_t *counts;             /* [vocabulary_size]: occurrences in the text so far */
};

/* Opens a sampler whose random numbers start from the options' seed. Fails where an option is out
 * of range. The caller releases it with sampler_release, also after an error. */
wisp_status sampler_open(struct sampler *sampler, const wisp_sampling *options,
                         size_t vocabulary_size, wisp_error *error);

/* Counts a token of the prompt or of the text, for the penalties. */
void sampler_count(struct sampler *sampler, int32_t id);

/* Returns the next token for logits [vocabulary_size], which are finite. Of equal logits the lower
 * id wins. */
int32_t sampler_next(struct sampler *sampler, const float *logits);

void sampler_release(struct sampler *sampler);

#endif
