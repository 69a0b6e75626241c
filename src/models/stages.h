/* SPDX-License-Identifier: Apache-2.0
 * The stages of embedding, whose times a session measures. */
#ifndef WISP_MODELS_STAGES_H
#define WISP_MODELS_STAGES_H

#include "wisp.h"

/* In the order of wisp_stats.stage_seconds; wisp_stage_name has their names. */
enum stage {
    STAGE_TOKENIZE,
    STAGE_LOOK_UP, /* embeddings of tokens, positions and token types */
    STAGE_QKV,
    STAGE_ATTENTION,
    STAGE_ATTENTION_OUTPUT,
    STAGE_FFN_UP,
    STAGE_ACTIVATION,
    STAGE_FFN_DOWN,
    STAGE_FFN_SPARSE, /* a sparse feed-forward layer, which takes the place of the three before */
    STAGE_NORM,
    STAGE_POOL,
    STAGE_WAIT, /* at barriers, for the other threads that share a batch */
    STAGES
};

_Static_assert((int)STAGES == (int)WISP_STAGES, "wisp_stats has a time for each stage");

#endif
