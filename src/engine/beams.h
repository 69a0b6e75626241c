/* SPDX-License-Identifier: Apache-2.0
 * A beam search that goes on little by little, for callers that cannot wait for it:
 *
 *     status = beams_open(&search, session, prompt, options, &error);
 *     while (status == WISP_OK && !beams_ended(search))
 *         status = beams_run(search, 0.01, &error);
 *     beams_close(search);
 *
 * Meanwhile the session makes no other call. A search that is not wanted any more is just closed.
 * It finds what wisp_beam_search finds. */
#ifndef WISP_ENGINE_BEAMS_H
#define WISP_ENGINE_BEAMS_H

#include "base/status.h"

struct beam_search;

/* Opens a search. `options` is copied, but its array of ids must outlive the search. Fails as
 * wisp_beam_search does. *search is NULL after an error. */
wisp_status beams_open(struct beam_search **search, wisp_session *session, wisp_text prompt,
                       const wisp_beam_options *options, wisp_error *error);

/* Goes on until the search has ended, and hands out what it found, or for about `seconds`, and for
 * one block of a pass at least. After a failure the search may only be closed. */
wisp_status beams_run(struct beam_search *search, double seconds, wisp_error *error);

bool beams_ended(const struct beam_search *search);

/* Accepts NULL. */
void beams_close(struct beam_search *search);

#endif
