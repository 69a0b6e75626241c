/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_ENGINE_SESSION_H
#define WISP_ENGINE_SESSION_H

#include <stdatomic.h>

#include "base/pool.h"
#include "engine/model.h"
#include "models/pass.h"
#include "models/stages.h"
#include "sparse/recall.h"

/* What one thread of a session works with. */
struct worker {
    struct workspace text;    /* prompt and text joined */
    struct workspace batch;   /* token ids and where each text starts */
    struct workspace forward; /* pooled rows, and the working memory of the pass */
    struct pass pass;
    wisp_stats stats; /* but for the times, which trace has */
    struct trace trace;
    struct sparse_counts *counts; /* [layers] */
};

struct wisp_session {
    const wisp_model *model;
    struct pool *team;
    atomic_bool cancelled;
    float *thresholds;      /* [layers, wide]; NULL where none are needed */
    struct recall *recalls; /* [layers, n_workers]; NULL where recall is not counted */
    uint32_t n_workers;
    struct worker workers[];
};

#endif
