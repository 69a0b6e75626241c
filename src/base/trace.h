/* SPDX-License-Identifier: Apache-2.0
 * Where the time of embedding goes: a total for each stage, and on request each span of time. */
#ifndef WISP_BASE_TRACE_H
#define WISP_BASE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wisp.h"

enum stage {
    STAGE_TOKENIZE,
    STAGE_LOOK_UP,
    STAGE_QKV,
    STAGE_ATTENTION,
    STAGE_ATTENTION_OUTPUT,
    STAGE_FFN_UP,
    STAGE_ACTIVATION,
    STAGE_FFN_DOWN,
    STAGE_FFN_SPARSE,
    STAGE_NORM,
    STAGE_POOL,
    STAGE_WAIT,
    STAGES
};

_Static_assert((int)STAGES == (int)WISP_STAGES, "wisp.h has an array of them");

enum { NO_LAYER = -1 };

struct span {
    double start, end;
    enum stage stage;
    int layer; /* or NO_LAYER */
};

struct trace {
    double last; /* the time of the last mark */
    double seconds[STAGES];
    bool keeps_spans;
    struct span *spans;
    size_t n, capacity;
    uint64_t dropped; /* spans for which there was no room */
};

/* What comes up to the next mark starts now. */
void trace_start(struct trace *trace);

/* The time since the last mark, or start, went into `stage` of `layer`. `trace` may be NULL. */
void trace_mark(struct trace *trace, enum stage stage, int layer);

void trace_release(struct trace *trace);

#endif
