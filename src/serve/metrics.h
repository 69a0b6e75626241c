/* SPDX-License-Identifier: Apache-2.0
 * Counters in Prometheus' text format. Threads may count at the same time. */
#ifndef WISP_SERVE_METRICS_H
#define WISP_SERVE_METRICS_H

#include <pthread.h>

#include "serve/text_buffer.h"

enum { METRICS_ROUTES = 32, METRICS_BUCKETS = 12 };

struct route_counts {
    const char *path;
    uint64_t statuses[6]; /* replies by the first digit of their status; [0]: the client left */
    uint64_t buckets[METRICS_BUCKETS + 1];
    double seconds;
};

struct metrics {
    pthread_mutex_t lock;
    struct route_counts routes[METRICS_ROUTES];
    size_t n_routes;
    uint64_t tokens;
};

void metrics_begin(struct metrics *metrics);

/* Counts a reply. `path` is that of a route, which lasts. */
void metrics_count(struct metrics *metrics, const char *path, int status, double seconds);
void metrics_count_tokens(struct metrics *metrics, uint64_t tokens);

void metrics_print(struct metrics *metrics, struct text_buffer *text);

#endif
