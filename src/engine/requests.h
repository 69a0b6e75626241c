/* SPDX-License-Identifier: Apache-2.0
 * Texts that a session generates little by little, for callers that cannot wait for them:
 *
 *     status = requests_open(&r, session, requests, n, at_once, results, &error);
 *     while (status == WISP_OK && !requests_ended(&r))
 *         status = requests_run(&r, 0.01, &error);
 *     requests_close(&r);
 *
 * Meanwhile the session makes no other call. Texts that are not wanted any more are just closed.
 * They have the same bytes as those of wisp_generate_batch. */
#ifndef WISP_ENGINE_REQUESTS_H
#define WISP_ENGINE_REQUESTS_H

#include "base/status.h"

struct addition;   /* generation.h */
struct token_list; /* tokenizers/token_list.h */
struct slot;       /* generate.c */

struct requests {
    wisp_session *session;
    size_t n, next; /* the next request to join */
    const wisp_generate_options **options;
    wisp_generation *results;
    bool owns_results;
    struct token_list *prompts;
    bool *failed;       /* [n]: these do not join any more */
    struct slot *slots; /* [count], of `most` */
    size_t count, most;
    struct addition *additions; /* [most] */
    size_t *added;              /* [most]: the slot of each addition */
    size_t in_pass;             /* additions of a pass that is paused */
};

/* Opens n requests, n > 0, of which at most `at_once` (0: 8) are computed at a time. All that the
 * requests point to must outlive them, and so must `results`, which may be NULL. Fails as
 * wisp_generate_batch does. The caller closes them also after an error. */
wisp_status requests_open(struct requests *r, wisp_session *session, const wisp_request *requests,
                          size_t n, size_t at_once, wisp_generation *results, wisp_error *error);

/* Goes on until all texts have ended or for about `seconds`, and for one block of a pass at least.
 * After a failure the requests may only be closed. */
wisp_status requests_run(struct requests *r, double seconds, wisp_error *error);

bool requests_ended(const struct requests *r);

void requests_close(struct requests *r);

#endif
