/* SPDX-License-Identifier: Apache-2.0
 * Keeps the keys and values of texts beyond the session that computed them: a prompt that begins
 * like a known text is computed from the first difference. A store has the blocks of texts
 * (text_block.h) by their names. A block that is damaged counts as absent. */
#ifndef WISP_ENGINE_PROMPT_CACHE_H
#define WISP_ENGINE_PROMPT_CACHE_H

#include "engine/text_block.h"
#include "engine/text_store.h"

/* Makes the session keep its texts in a store, which it owns from then on, also on failure. The
 * session has none yet. Fails as digest_weights does. */
wisp_status prompt_cache_open(wisp_session *session, const struct text_store *store,
                              wisp_error *error);

/* Lets a sequence that has the first `known` of n ids, n > 0, have more of them, at most n - 1.
 * Sets *known to the number that it has then; the sequence keeps it until sequence_rewind. Fails
 * with WISP_ERROR_MEMORY. */
wisp_status prompt_cache_read(wisp_session *session, struct sequence *sequence, const int32_t *ids,
                              size_t n, size_t *known, wisp_error *error);

/* Writes the whole blocks of a sequence that the store has not. `done` is the number of blocks that
 * an earlier call has looked at; returns that of this call. */
size_t prompt_cache_write(wisp_session *session, const struct sequence *sequence, size_t done);

/* Says that the text of a sequence was used now, so that it stays in the store for longer than
 * texts that were not, and its beginning for longer than its end. */
void prompt_cache_touch(const wisp_session *session, const struct sequence *sequence);

#endif
