/* SPDX-License-Identifier: Apache-2.0
 * A clock that divides the time of one thread into stages: it sums up the seconds of each stage and
 * can also keep every span of time. The caller numbers the stages from 0. */
#ifndef WISP_BASE_TRACE_H
#define WISP_BASE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NO_LAYER = -1 };

struct span {
    double start, end; /* in seconds, as clock_seconds() returns them */
    uint32_t stage;
    int32_t layer; /* the layer's index, or NO_LAYER */
};

struct trace {
    double last;      /* the time of the last mark */
    double *seconds;  /* [stages]: the total time of each stage */
    bool keeps_spans; /* whether single spans are recorded, in addition to the totals */
    struct span *spans;
    size_t n, capacity;
    uint64_t dropped; /* the number of spans that were not recorded, for lack of memory */
};

/* Opens a trace of `stages` stages. Returns false if there is no memory. */
bool trace_open(struct trace *trace, size_t stages, bool keeps_spans);

/* Begins the first span. */
void trace_start(struct trace *trace);

/* Ends the current span, assigns it to `stage` of `layer`, and begins the next span. `trace` may be
 * NULL. */
void trace_mark(struct trace *trace, uint32_t stage, int32_t layer);

/* Frees the trace's memory. The trace may be all zeros. */
void trace_release(struct trace *trace);

#endif
