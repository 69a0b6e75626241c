/* SPDX-License-Identifier: Apache-2.0
 * A search for the likeliest texts by an engine for JavaScript: search_new, search_open, search_run
 * until it has ended, search_free. Meanwhile the engine makes no other call. */
#ifndef WISP_BINDING_GENERATE_SEARCH_H
#define WISP_BINDING_GENERATE_SEARCH_H

#include "binding/engine.h"

struct search;

/* Returns NULL if there is no memory. */
struct search *search_new(struct engine *engine);

void search_free(struct search *search);

/* Begins the search for `n` texts that continue the prompt. Tokens stop_id [stop_ids] end one.
 * After a failure the search may only be freed. */
wisp_status search_open(struct search *search, const char *prompt, size_t length, uint32_t n,
                        uint32_t max_tokens, double length_penalty, const int32_t *stop_id,
                        size_t stop_ids);

/* Goes on for about `seconds`, or until the search has ended. engine_text then has JSON: what it
 * found, and whether it has ended. */
wisp_status search_run(struct search *search, double seconds);

bool search_ended(const struct search *search);

#endif
