/* SPDX-License-Identifier: Apache-2.0
 * The texts that a session computes with a model that generates, and passes over them. */
#ifndef WISP_ENGINE_GENERATION_H
#define WISP_ENGINE_GENERATION_H

#include "attention/kv_cache.h"
#include "base/workspace.h"
#include "engine/session.h"
#include "text/codec.h"

/* A text, or what was computed of it. */
struct sequence {
    struct kv_cache cache;
    struct token_list past; /* the tokens whose keys and values are in the cache */
};

struct generation {
    /* [count]: texts that are kept between calls. The first is that of the session's last call;
     * calls with several texts use all. */
    struct sequence *sequences;
    size_t count;
    struct workspace space; /* holds logits and the working memory of the pass */
};

/* Opens the session's generation with at least n sequences; those that it has keep their texts.
 * Fails where the model generates no text. */
wisp_status generation_open(wisp_session *session, size_t n, wisp_error *error);

/* Releases a generation; NULL is allowed. */
void generation_close(struct generation *generation);

/* Returns how many of the n ids the sequence begins with. */
size_t sequence_shared(const struct sequence *sequence, const int32_t *ids, size_t n);

/* Keeps the first n tokens of the text only. */
void sequence_rewind(struct sequence *sequence, size_t n);

/* Makes the first n tokens of `to` those of `from`, which has as many. Copies what differs. */
wisp_status sequence_copy(const wisp_session *session, struct sequence *to,
                          const struct sequence *from, size_t n, wisp_error *error);

/* Ids that a pass adds to a sequence. */
struct addition {
    struct sequence *sequence;
    const int32_t *ids;
    size_t n; /* at least 1 */
};

/* Runs one pass that adds ids to n different sequences. Points *logits to those that follow the
 * last id of each [n, vocabulary_size] or, for `all`, each id [ids, vocabulary_size]. They are
 * finite, and lie in the session's memory until the next pass. Their bits depend on the text before
 * them alone. On failure the sequences are as before. */
wisp_status generation_pass(wisp_session *session, const struct addition *additions, size_t n,
                            bool all, const float **logits, wisp_error *error);

/* The same pass in two parts. generation_begin prepares it; generation_end runs it, and adds the
 * ids. Where the time `pause_at` comes first (base/clock.h), generation_end sets *paused, and a
 * further call goes on; with INFINITY it never does. */
wisp_status generation_begin(wisp_session *session, const struct addition *additions, size_t n,
                             bool all, wisp_error *error);
wisp_status generation_end(wisp_session *session, const struct addition *additions, size_t n,
                           double pause_at, bool *paused, const float **logits, wisp_error *error);

/* Fails where a prompt of n ids is empty or has more than the model's context. */
wisp_status check_prompt_length(const wisp_session *session, size_t n, wisp_error *error);

/* Fails where one of n ids is no token. */
wisp_status check_ids(const wisp_session *session, const int32_t *ids, size_t n, wisp_error *error);

/* Ends a call of the API: returns `status`, or fails where the session was cancelled. */
wisp_status end_call(wisp_session *session, wisp_status status, wisp_error *error);

enum {
    /* Tokens of prompts that one pass computes: enough to use each loaded weight often. */
    PROMPT_TOKENS = 512
};

#endif
