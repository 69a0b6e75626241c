/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/metrics.h"

static const double bounds[METRICS_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                               0.1,   0.25,   0.5,   1,    2.5,   10};

void metrics_begin(struct metrics *metrics) {
    pthread_mutex_init(&metrics->lock, NULL);
}

static struct route_counts *find(struct metrics *metrics, const char *path) {
    for (size_t i = 0; i < metrics->n_routes; i++)
        if (strcmp(metrics->routes[i].path, path) == 0)
            return &metrics->routes[i];
    if (metrics->n_routes == METRICS_ROUTES)
        return NULL;
    metrics->routes[metrics->n_routes].path = path;
    return &metrics->routes[metrics->n_routes++];
}

void metrics_count(struct metrics *metrics, const char *path, int status, double seconds) {
    pthread_mutex_lock(&metrics->lock);
    struct route_counts *counts = find(metrics, path);
    if (counts) {
        size_t bucket = 0;
        while (bucket < METRICS_BUCKETS && seconds > bounds[bucket])
            bucket++;
        counts->statuses[status / 100 % 6]++;
        counts->buckets[bucket]++;
        counts->seconds += seconds;
    }
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_count_tokens(struct metrics *metrics, uint64_t tokens) {
    pthread_mutex_lock(&metrics->lock);
    metrics->tokens += tokens;
    pthread_mutex_unlock(&metrics->lock);
}

static void print_route(const struct route_counts *counts, struct text_buffer *text) {
    uint64_t sum = 0;
    for (size_t i = 0; i <= METRICS_BUCKETS; i++) {
        sum += counts->buckets[i];
        text_print(text, "wisp_request_seconds_bucket{path=\"%s\",le=\"", counts->path);
        if (i < METRICS_BUCKETS)
            text_add_number(text, bounds[i], 6);
        else
            text_print(text, "+Inf");
        text_print(text, "\"} %llu\n", (unsigned long long)sum);
    }
    text_print(text, "wisp_request_seconds_sum{path=\"%s\"} ", counts->path);
    text_add_number(text, counts->seconds, 9);
    text_print(text, "\nwisp_request_seconds_count{path=\"%s\"} %llu\n", counts->path,
               (unsigned long long)sum);
}

void metrics_print(struct metrics *metrics, struct text_buffer *text) {
    pthread_mutex_lock(&metrics->lock);
    text_print(text, "# TYPE wisp_requests_total counter\n");
    for (size_t i = 0; i < metrics->n_routes; i++)
        for (int status = 0; status < 6; status++)
            if (metrics->routes[i].statuses[status] > 0)
                text_print(text, "wisp_requests_total{path=\"%s\",status=\"%dxx\"} %llu\n",
                           metrics->routes[i].path, status,
                           (unsigned long long)metrics->routes[i].statuses[status]);
    text_print(text, "# TYPE wisp_request_seconds histogram\n");
    for (size_t i = 0; i < metrics->n_routes; i++)
        print_route(&metrics->routes[i], text);
    text_print(text, "# TYPE wisp_tokens_total counter\nwisp_tokens_total %llu\n",
               (unsigned long long)metrics->tokens);
    pthread_mutex_unlock(&metrics->lock);
}
