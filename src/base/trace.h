/* SPDX-License-Identifier: Apache-2.0
 * A clock that divides the time of one thread into stages: it sums up the seconds of each stage and
 * can also keep every span of time. Stages are numbers from 0, whose meaning is the caller's. */
#ifndef WISP_BASE_TRACE_H
#define WISP_BASE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NO_LAYER = -1 };

struct span {
    double start, end; /* clock_seconds() */
    uint32_t stage;
    int32_t layer; /* or NO_LAYER */
};

struct trace {
    double last;     /* the time of the last mark */
    double *seconds; /* [stages]: the total of each stage */
    bool keeps_spans;
    struct span *spans;
    size_t n, capacity;
    uint64_t dropped; /* spans for which there was no room */
};

/* Opens a trace of `stages` stages. Returns false where there is no memory. */
bool trace_open(struct trace *trace, size_t stages, bool keeps_spans);

/* Begins a span. */
void trace_start(struct trace *trace);

/* Ends the span that began at the last mark or start: it belongs to `stage` of `layer`. The next
 * span begins. `trace` may be NULL. */
void trace_mark(struct trace *trace, uint32_t stage, int32_t layer);

/* Safe on a zeroed trace. */
void trace_release(struct trace *trace);

#endif
