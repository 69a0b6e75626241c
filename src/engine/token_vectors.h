/* SPDX-License-Identifier: Apache-2.0
 * Models of late interaction (ColBERT): a text has a vector for each of its tokens, and a
 * document's score is the sum, over the vectors of a query, of the largest product with one of the
 * document's (MaxSim). Sources: Khattab and Zaharia, ColBERT (2020); Santhanam et al., ColBERTv2
 * (2022); settings as those of sentence-transformers' MultiVectorEncoder. */
#ifndef WISP_ENGINE_TOKEN_VECTORS_H
#define WISP_ENGINE_TOKEN_VECTORS_H

#include "engine/model.h"
#include "models/pass.h"

/* How the texts of one side are read. */
struct token_side {
    wisp_text prompt; /* before each text */
    int32_t prefix;   /* a token behind the first one, before the prompt; -1: none */
    uint32_t limit;   /* of tokens; longer texts are truncated */
};

struct token_settings {
    struct token_side documents, queries;
    uint32_t expanded; /* tokens of every query, which mask tokens fill up; 0: as many as it has */
    bool attends;      /* other tokens see the mask tokens, too */
    int32_t mask;      /* this token */
    size_t n_skipped;
    int32_t skipped[]; /* [n_skipped]: tokens of documents that have no vector */
};

/* Reads the settings of a model if its pooling is POOLING_TOKENS: sets model->tokens. Its tokenizer
 * and network are there. A step of model_steps (model.h). */
wisp_status token_settings_load(wisp_model *model, wisp_error *error);

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
    bool queries;
    /* Takes the vectors [n, dimensions] of a text, which live until it returns. Is called once for
     * each text, on any thread. */
    wisp_status (*take)(void *context, size_t text, const float *rows, size_t n, wisp_error *error);
    void *context;
};

/* Runs a job on texts. embed.c */
wisp_status token_job_run(wisp_session *session, const struct token_job *tokens,
                          const wisp_text *texts, size_t n, wisp_error *error);

/* Scores texts by MaxSim. */
wisp_status token_rerank(wisp_session *session, wisp_text query, const wisp_text *texts, size_t n,
                         float *scores, wisp_error *error);

#endif
