/* SPDX-License-Identifier: Apache-2.0
 * The stages of embedding and of generating, whose times a session measures. */
#ifndef WISP_MODELS_STAGES_H
#define WISP_MODELS_STAGES_H

#include "wisp.h"

/* Stages in the order of wisp_stats.stage_seconds; wisp_stage_name returns their names. */
enum stage {
    STAGE_TOKENIZE,
    STAGE_LOOK_UP, /* looks up embeddings of tokens, positions and token types */
    STAGE_QKV,
    STAGE_ATTENTION,
    STAGE_ATTENTION_OUTPUT,
    STAGE_FFN_UP,
    STAGE_ACTIVATION,
    STAGE_FFN_DOWN,
    STAGE_FFN_SPARSE, /* a sparse layer spends its time here, not in the three stages above */
    STAGE_NORM,
    STAGE_POOL,
    STAGE_LOGITS,
    STAGE_WAIT, /* waits at a barrier for the other members of the team, or for cold rows */
    STAGES
};

_Static_assert((int)STAGES == (int)WISP_STAGES, "wisp_stats has a time for each stage");

#endif
