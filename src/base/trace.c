/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace.h"

#include <stdlib.h>

#include "base/clock.h"

/* MOST_SPANS spans take 25 MB, and cover about 15,000 batches of a model with 6 layers. */
enum { FIRST_SPANS = 1024, MOST_SPANS = 1 << 20 };

bool trace_open(struct trace *trace, size_t stages, bool keeps_spans) {
    *trace = (struct trace){.keeps_spans = keeps_spans};
    trace->seconds = calloc(stages, sizeof *trace->seconds);
    return trace->seconds != NULL;
}

void trace_start(struct trace *trace) {
    trace->last = clock_seconds();
}

static bool grow(struct trace *trace) {
    const size_t capacity = trace->capacity ? 2 * trace->capacity : FIRST_SPANS;
    struct span *moved =
        capacity <= MOST_SPANS ? realloc(trace->spans, capacity * sizeof *moved) : NULL;
    if (!moved)
        return false;
    trace->spans = moved;
    trace->capacity = capacity;
    return true;
}

void trace_mark(struct trace *trace, uint32_t stage, int32_t layer) {
    if (!trace)
        return;
    const double start = trace->last;
    trace->last = clock_seconds();
    trace->seconds[stage] += trace->last - start;
    if (!trace->keeps_spans)
        return;
    if (trace->n == trace->capacity && !grow(trace))
        trace->dropped++;
    else
        trace->spans[trace->n++] =
            (struct span){.start = start, .end = trace->last, .stage = stage, .layer = layer};
}

void trace_release(struct trace *trace) {
    free(trace->seconds);
    free(trace->spans);
}
