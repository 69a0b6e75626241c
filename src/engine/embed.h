/* SPDX-License-Identifier: Apache-2.0
 * Calls that run as wisp_embed does, and give something else than an embedding for each text. The
 * caller has ended a call that waits, and renewed the team. */
#ifndef WISP_ENGINE_EMBED_H
#define WISP_ENGINE_EMBED_H

#include "engine/model.h"
#include "models/pass.h"

/* Rows that go through dense modules at a time. */
enum { TOKEN_ROWS = 64 };

/* A call for the vectors of texts of one side. Its functions are reached by it alone, so that
 * modules which make no such calls do not have them. */
struct token_job {
    /* Writes the ids of a text with its prompt to ids [max_tokens], and how many tokens the others
     * see: the first *keys of *count. */
    wisp_status (*encode)(const struct token_job *job, const wisp_model *model, wisp_text text,
                          int32_t *ids, size_t *count, size_t *keys, bool *truncated,
                          wisp_error *error);
    /* Hands over the vectors of the texts of a pass that has ended, of which the first is text
     * `first` of the call. They are made in the place of the pass's hidden states. `space` has room
     * for the dense modules with TOKEN_ROWS rows. */
    wisp_status (*finish)(const struct token_job *job, const wisp_model *model,
                          const struct pass *pass, size_t first, struct workspace space,
                          wisp_error *error);
    wisp_text prompt; /* before each text */
    bool queries;
    /* Takes the vectors [n, dimensions] of a text, which live until it returns. Is called once for
     * each text, on any thread. */
    wisp_status (*take)(void *context, size_t text, const float *rows, size_t n, wisp_error *error);
    void *context;
};

/* Runs a job on n texts. */
wisp_status token_job_run(wisp_session *session, const struct token_job *tokens,
                          const wisp_text *texts, size_t n, wisp_error *error);

/* Scores n texts for a query, to scores [n], by a model of POOLING_RANK. */
wisp_status pair_job_run(wisp_session *session, wisp_text query, const wisp_text *texts, size_t n,
                         float *scores, wisp_error *error);

#endif
