/* SPDX-License-Identifier: Apache-2.0
 * Embeds the texts of many requests together. Requests wait in a queue. Threads, the lanes, take
 * the next texts of each in turn, so that a request of one text does not wait for one of a
 * thousand, and embed them in one call, or score those of one query. A lane replies and takes the
 * next texts without waiting for others; texts that are alone are computed by all threads. Rows
 * have the same bits whatever they are computed with. */
#ifndef WISP_SERVE_BATCHER_H
#define WISP_SERVE_BATCHER_H

#include "base/status.h"

struct batcher;

struct batcher_options {
    wisp_model *model;
    wisp_session *session; /* with all threads; used by the batcher only, until it is closed */
    size_t lanes;          /* at least 1; several have sessions of their own, of one thread each */
    float sparsity;        /* as of the session; 0: the model's */
    size_t most_waiting;   /* texts in the queue; more are refused */
    size_t batch_tokens;   /* of a call, at most about */
};

/* The texts of one request. */
struct batch_job {
    const wisp_text *texts; /* [n] */
    size_t n;
    const char *prompt; /* as in wisp_embed_options, and the next one, too */
    size_t dimensions;
    float *rows;            /* [n, dimensions]: receives the embeddings */
    const wisp_text *query; /* rows are scores of the texts for this query, [n]. NULL: embeddings */
};

struct batcher_counts {
    size_t waiting; /* texts in the queue now */
    uint64_t batches, texts;
};

wisp_status batcher_open(const struct batcher_options *options, struct batcher **batcher,
                         wisp_error *error);

/* Waits for the jobs that are under way, and frees the batcher. NULL is allowed. */
void batcher_close(struct batcher *batcher);

/* Waits until the rows of a job are written. Sets *busy and returns WISP_ERROR_MEMORY if the queue
 * is full: nothing was embedded then. */
wisp_status batcher_embed(struct batcher *batcher, const struct batch_job *job, bool *busy,
                          wisp_error *error);

struct batcher_counts batcher_get_counts(struct batcher *batcher);

#endif
