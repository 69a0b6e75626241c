/* SPDX-License-Identifier: Apache-2.0
 * Chooses the next token from logits. */
#ifndef WISP_ENGINE_SAMPLER_H
#define WISP_ENGINE_SAMPLER_H

#include "base/status.h"
#include "engine/candidates.h"
#include "tokenizers/token_list.h"

struct sampler {
    wisp_sampling options; /* defaults are filled in */
    uint64_t random;       /* the state of base/random.h */
    size_t vocabulary_size;
    struct candidate *candidates; /* [vocabulary_size] */
    uint32_t *counts;             /* [vocabulary_size]: occurrences that the penalties count */
    struct token_list text;       /* the tokens so far; kept only for a penalty_window */
};

/* Fails if an option is out of range. */
wisp_status sampler_check(const wisp_sampling *options, size_t vocabulary_size, wisp_error *error);

/* Opens a sampler whose random numbers start from the options' seed. The options must have
 * passed sampler_check, and their bias outlives the sampler. The caller releases it with
 * sampler_release, also after an error. */
wisp_status sampler_open(struct sampler *sampler, const wisp_sampling *options,
                         size_t vocabulary_size, wisp_error *error);

/* Counts a token of the prompt or of the text, for the penalties. */
wisp_status sampler_count(struct sampler *sampler, int32_t id, wisp_error *error);

/* Sets *id to the next token for logits [vocabulary_size], which are finite. Among equal logits the
 * lower id wins. If `allowed` is not NULL, only tokens whose bit is set in it, the lowest bit of
 * the first byte being that of token 0, can be chosen. Fails if no token is left. */
wisp_status sampler_next(struct sampler *sampler, const float *logits, const uint8_t *allowed,
                         int32_t *id, wisp_error *error);

/* Takes the steps of sampler_next that come before the draw: leaves the tokens that could be drawn,
 * with their weights, in sampler->candidates and sets *n to their number. */
wisp_status sampler_narrow(struct sampler *sampler, const float *logits, const uint8_t *allowed,
                           size_t *n, wisp_error *error);

void sampler_release(struct sampler *sampler);

#endif
