/* SPDX-License-Identifier: Apache-2.0
 * Routes that tell what is served and how it is. */
#include <stdlib.h>

#include "serve/api.h"
#include "serve/writers.h"

static void run_health(struct call *call) {
    struct text_buffer text = {0};
    text_print(&text, "{\"status\":\"ok\"}");
    reply_json(call, &text);
}

static void run_models(struct call *call) {
    struct text_buffer text = {0};
    text_print(&text, "{\"object\":\"list\",\"data\":[{\"id\":");
    text_add_string(&text, wisp_text_of(call->api->name));
    text_print(&text, ",\"object\":\"model\",\"created\":0,\"owned_by\":\"wisp\"}]}");
    reply_json(call, &text);
}

static void run_info(struct call *call) {
    const wisp_model_info *info = &call->api->info;
    struct text_buffer text = {0};
    text_print(&text, "{\"model_id\":");
    text_add_string(&text, wisp_text_of(call->api->name));
    text_print(&text,
               ",\"architecture\":\"%s\",\"model_dtype\":\"%s\",\"kernels\":\"%s\","
               "\"max_input_length\":%u,\"max_client_batch_size\":%zu,\"resident_bytes\":%llu,"
               "\"version\":\"" WISP_VERSION "\"}",
               info->architecture, info->compute, info->kernels, info->max_tokens,
               call->api->most_texts, (unsigned long long)info->resident_bytes);
    reply_json(call, &text);
}

static void run_metrics(struct call *call) {
    struct text_buffer text = {0};
    metrics_print(&call->api->metrics, &text);
    if (call->api->batcher) {
        const struct batcher_counts counts = batcher_get_counts(call->api->batcher);
        text_print(&text,
                   "# TYPE wisp_queue_texts gauge\nwisp_queue_texts %zu\n"
                   "# TYPE wisp_batches_total counter\nwisp_batches_total %llu\n"
                   "# TYPE wisp_texts_total counter\nwisp_texts_total %llu\n",
                   counts.waiting, (unsigned long long)counts.batches,
                   (unsigned long long)counts.texts);
    }
    if (call->api->writers) {
        const struct writers_counts counts = writers_get_counts(call->api->writers);
        text_print(&text,
                   "# TYPE wisp_writing gauge\nwisp_writing %zu\n"
                   "# TYPE wisp_queue_requests gauge\nwisp_queue_requests %zu\n",
                   counts.writing, counts.waiting);
    }
    if (text.failed)
        reply_json(call, &text);
    else {
        web_reply(call->request, 200, "text/plain; version=0.0.4", text.bytes, text.length, NULL);
        free(text.bytes);
    }
}

const struct route info_routes[] = {
    {"GET", "/health", run_health}, {"GET", "/v1/models", run_models}, {"GET", "/info", run_info},
    {"GET", "/props", run_info},    {"GET", "/metrics", run_metrics},  {0}};
