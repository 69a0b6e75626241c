/* SPDX-License-Identifier: Apache-2.0
 * Passes over the texts of a session whose model generates. */
#ifndef WISP_ENGINE_GENERATION_H
#define WISP_ENGINE_GENERATION_H

#include "engine/sequence.h"
#include "engine/session.h"
#include "engine/token_mask.h"

/* Opens the session's generation with at least n sequences; those that it has keep their texts.
 * Fails if the model does not generate text. */
wisp_status generation_open(wisp_session *session, size_t n, wisp_error *error);

/* Points *order to the order of the model's tokens, which the first call finds. */
wisp_status generation_token_order(wisp_session *session, const struct token_order **order,
                                   wisp_error *error);

/* Returns whether positions of a text of n tokens are rotated by the angles of long texts
 * (config.long_after). A text that becomes long is computed again. */
bool generation_is_long(const wisp_session *session, size_t n);

/* Makes room for a text of n tokens, which keeps what it has. */
wisp_status sequence_reserve(const wisp_session *session, struct sequence *sequence, size_t n,
                             wisp_error *error);

/* Makes the first n tokens of `to` those of `from`, which has as many. Copies what differs. */
wisp_status sequence_copy(const wisp_session *session, struct sequence *to,
                          const struct sequence *from, size_t n, wisp_error *error);

/* Fails if keys and values beyond a limit of memory could not be kept or brought back. Then the
 * session has no text any more. */
wisp_status generation_check(const wisp_session *session, wisp_error *error);

/* Ids that a pass adds to a sequence. */
struct addition {
    struct sequence *sequence;
    const int32_t *ids;
    size_t n;       /* at least 1 */
    bool is_prompt; /* they are a prompt's, which predictors of neurons to generate with leave dense
                     */
};

/* Runs one pass that adds ids to n different sequences. Points *logits to those that follow the
 * last id of each [n, vocabulary_size] or, for `all`, each id [ids, vocabulary_size]. They are
 * finite, and are in the session's memory until the next pass. Their bits depend on the text before
 * them alone. On failure the sequences are as before. */
wisp_status generation_pass(wisp_session *session, const struct addition *additions, size_t n,
                            bool all, const float **logits, wisp_error *error);

/* These do what generation_pass does, in two parts. generation_begin prepares it; generation_end
 * runs it, and adds the ids. If the time `pause_at` comes first (base/clock.h), generation_end
 * sets *paused, and another call continues; with INFINITY it never pauses. */
wisp_status generation_begin(wisp_session *session, const struct addition *additions, size_t n,
                             bool all, wisp_error *error);
wisp_status generation_end(wisp_session *session, const struct addition *additions, size_t n,
                           double pause_at, bool *paused, const float **logits, wisp_error *error);

/* Returns the bytes of weights, keys and values that a pass over the last token of a sequence
 * reads. Layers with a window read the keys and values in it only. */
uint64_t generation_read_bytes(const wisp_session *session, const struct sequence *sequence);

/* Returns how many tokens of a prompt are counted: one that is longer than the context fails with
 * their number, and a text of megabytes would take long. 0: all, because the context may slide. */
size_t prompt_bound(const wisp_model *model, const wisp_generate_options *options);

/* Returns the status of a conversion to a list with this bound, or fails if there were more
 * tokens. */
wisp_status check_prompt_bound(const wisp_model *model, const struct token_list *prompt,
                               wisp_status status, wisp_error *error);

/* Converts a prompt to ids, as many as are counted. */
wisp_status encode_prompt(const wisp_model *model, wisp_text prompt,
                          const wisp_generate_options *options, struct token_list *ids,
                          wisp_error *error);

/* Fails if n, the number of ids of a prompt, is 0 or exceeds the model's context. */
wisp_status check_prompt_length(const wisp_session *session, size_t n, wisp_error *error);

/* Fails if one of n ids is not a token. */
wisp_status check_ids(const wisp_session *session, const int32_t *ids, size_t n, wisp_error *error);

/* Ends a call of the API: returns `status`, or fails if the session was cancelled. */
wisp_status end_call(wisp_session *session, wisp_status status, wisp_error *error);

enum {
    /* Tokens of prompts that one pass computes: enough to use each loaded weight often. */
    PROMPT_TOKENS = 512
};

#endif
