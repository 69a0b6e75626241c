/* SPDX-License-Identifier: Apache-2.0
 * A reply is one text that is being generated: it takes the logits that a pass computed, chooses
 * the next token and hands out text. */
#ifndef WISP_ENGINE_REPLY_H
#define WISP_ENGINE_REPLY_H

#include "engine/held_text.h"
#include "engine/model.h"
#include "engine/sampler.h"
#include "engine/token_mask.h"

struct reply {
    const struct codec *codec;
    const wisp_generate_options *options; /* the caller's, as is `result` */
    wisp_generation *result;
    struct sampler sampler;
    struct held_text held;
    wisp_token_value *likely; /* [likely_count] */
    size_t likely_count;
    struct token_mask mask; /* of the options' grammar */
    size_t most;            /* tokens that may be generated */
};

/* Tells whether a token ends a text: one of stop_id [stop_ids], or the model's own. */
bool token_ends_text(const struct codec *codec, const int32_t *stop_id, size_t stop_ids,
                     int32_t id);

/* Fails if an option is out of range. */
wisp_status reply_check(const wisp_model *model, const wisp_generate_options *options,
                        wisp_error *error);

/* Opens a reply to a prompt of n ids, which the penalties count. The options must have been
 * checked. `order` is needed only if they have a grammar, and outlives the reply. The caller
 * releases it with reply_release, also after an error. */
wisp_status reply_open(struct reply *reply, const wisp_model *model,
                       const wisp_generate_options *options, const struct token_order *order,
                       const int32_t *prompt, size_t n, wisp_generation *result, wisp_error *error);

/* Computes which tokens the grammar, if there is one, lets follow (token_mask_prepare). */
wisp_status reply_prepare(struct reply *reply, mask_check *check, void *context, bool *paused,
                          wisp_error *error);

/* Chooses the token that follows, for logits [vocabulary_size], and hands it out. Sets *more to
 * whether the text goes on: it needs the logits after token *id then. If it does not, the result
 * says why. */
wisp_status reply_step(struct reply *reply, const float *logits, int32_t *id, bool *more,
                       wisp_error *error);

void reply_release(struct reply *reply);

#endif
