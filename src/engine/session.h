/* SPDX-License-Identifier: Apache-2.0
 * A session is a team of threads with working memory for one model. One call uses it at a time. */
#ifndef WISP_ENGINE_SESSION_H
#define WISP_ENGINE_SESSION_H

#include <stdatomic.h>

#include "base/pool.h"
#include "engine/model.h"
#include "models/pass.h"
#include "models/stages.h"
#include "sparse/recall.h"

/* One member of a session's team, with the memory that only its thread uses. */
struct worker {
    struct workspace text;    /* holds the prompt and a text, joined */
    struct workspace batch;   /* holds the token ids and index of the current batch */
    struct workspace forward; /* holds pooled rows and the working memory of the pass */
    struct workspace head;    /* a part of `forward`, for what follows a pass */
    struct pass pass;
    wisp_stats stats; /* counts texts and tokens; `trace` holds the times */
    struct trace trace;
    struct sparse_counts *counts;       /* [layers] */
    struct attention_counts *attention; /* [layers] */
    struct token_rows tokens;           /* stored token embeddings that were read lately */
    /* The pass waits for cold neurons: it embeds texts [first, end) of the call that waits. */
    bool waits;
    size_t first, end;
};

struct job; /* embed.c */

struct generation; /* sequence.h */

struct prompt_cache; /* text_store.h */

struct judge; /* judge.c */

void judge_close(struct judge *judge);

/* When a pass is to pause, so that the caller can look after other things (requests.h). */
struct pause {
    double at;     /* base/clock.h; INFINITY: never */
    size_t blocks; /* blocks that have begun since the run began */
    bool reached;  /* it has paused */
};

struct wisp_session {
    const wisp_model *model;
    struct pool *team;             /* runs the workers */
    bool has_frames;               /* it has taken the frames of cold neurons (neuron_cold_take) */
    atomic_bool cancelled;         /* asks the current call to stop */
    struct pause pause;            /* only one thread generates, and uses this */
    struct generation *generation; /* NULL until the session has generated text */
    struct device_context *on_device;  /* has the texts of `generation`, if a device computes; else
                                          NULL */
    struct prompt_cache *prompts;      /* NULL: only the session keeps texts */
    struct judge *judge;               /* NULL until it has judged texts */
    wisp_cache_type cache_type;        /* of the key-value caches, as the options have it */
    struct kv_tier *kv_tier;           /* that has them if their memory is limited; else NULL */
    struct attention_choice attention; /* the policies that compute attention */
    float *thresholds;                 /* [layers, intermediate_size]; NULL if no predictor runs */
    struct gate_limit *gates;          /* [layers]; NULL if no layer chooses by its gates */
    struct recall *recalls;            /* [layers, n_workers]; NULL if recall is not counted */
    struct job *job;                   /* the call of wisp_embed that waits; NULL: none */
    struct needs {
        wisp_range *ranges; /* [capacity]: the result of wisp_session_needs */
        size_t capacity;
    } needs;
    uint64_t *chunk_sums; /* [cold chunks]: checksums of those that were compared with their
                             digests, else 0; NULL: none was, or none is kept (provide.c) */
    bool skip_absent;     /* of wisp_session_options */
    uint32_t n_workers;   /* members of the team */
    struct worker workers[];
};

/* The hook of every pass: stops it when the session is cancelled, and pauses it before a block when
 * it is time. `context` is the session. */
wisp_status session_stop_if_cancelled(void *context, struct cursor at, const float *x,
                                      wisp_error *error);

#endif
