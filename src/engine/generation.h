/* SPDX-License-Identifier: Apache-2.0
 * A session keeps this of the last text that it generated or read. */
#ifndef WISP_ENGINE_GENERATION_H
#define WISP_ENGINE_GENERATION_H

#include "attention/kv_cache.h"
#include "base/workspace.h"
#include "text/codec.h"

struct generation {
    struct kv_cache cache;
    struct token_list past; /* the tokens whose keys and values are in the cache */
    struct workspace space; /* holds logits and the working memory of the pass */
};

/* Prepares a session to generate. Fails where its model generates no text. */
wisp_status generation_open(wisp_session *session, wisp_error *error);

/* Generates after a prompt of token ids, as wisp_generate does after a text. The session is
 * prepared. `options` and `result` may be NULL. */
wisp_status generate_from(wisp_session *session, const struct token_list *prompt,
                          const wisp_generate_options *options, wisp_generation *result,
                          wisp_error *error);

/* Releases a generation; NULL is allowed. */
void generation_close(struct generation *generation);

#endif
