/* SPDX-License-Identifier: Apache-2.0
 * Routes that tell what is served and how it is. */
#include <stdlib.h>

#include "serve/api.h"

static void run_health(struct call *call) {
    struct text_buffer text = {0};
    text_print(&text, "{\"status\":\"ok\"}");
    reply_json(call, &text);
}

static void run_models(struct call *call) {
    struct models *models = call->api->models;
    struct served_model *served;
    struct text_buffer text = {0};
    text_print(&text, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; (served = models_at(models, i)); i++) {
        text_print(&text, "%s{\"id\":", i ? "," : "");
        text_add_string(&text, wisp_text_of(served->of.name));
        text_print(&text,
                   ",\"object\":\"model\",\"created\":0,\"owned_by\":\"wisp\",\"loaded\":%s}",
                   models_is_open(models, served) ? "true" : "false");
    }
    text_print(&text, "]}");
    reply_json(call, &text);
}

/* Information about the first model, which is always open. */
static void run_info(struct call *call) {
    const struct served_model *first = models_at(call->api->models, 0);
    const wisp_model_info *info = &first->info;
    struct text_buffer text = {0};
    text_print(&text, "{\"model_id\":");
    text_add_string(&text, wisp_text_of(first->of.name));
    text_print(&text,
               ",\"architecture\":\"%s\",\"model_dtype\":\"%s\",\"kernels\":\"%s\","
               "\"max_input_length\":%u,\"max_client_batch_size\":%zu,\"resident_bytes\":%llu,",
               info->architecture, info->compute, info->kernels, info->max_tokens,
               call->api->most_texts, (unsigned long long)info->resident_bytes);
    if (first->writers)
        text_print(&text, "\"cache_type\":\"%s\",",
                   wisp_cache_type_name(wisp_session_get_cache_type(first->session)));
    text_print(&text, "\"version\":\"" WISP_VERSION "\"}");
    reply_json(call, &text);
}

static void run_metrics(struct call *call) {
    const struct models_counts sums = models_get_counts(call->api->models);
    struct text_buffer text = {0};
    metrics_print(&call->api->metrics, &text);
    const struct {
        const char *name, *type;
        uint64_t value;
    } values[] = {
        {"wisp_models_open", "gauge", sums.open},
        {"wisp_models_bytes", "gauge", sums.bytes},
        {"wisp_models_waiting", "gauge", sums.waiting},
        {"wisp_queue_texts", "gauge", sums.embedding.waiting},
        {"wisp_batches_total", "counter", sums.embedding.batches},
        {"wisp_texts_total", "counter", sums.embedding.texts},
        {"wisp_cached_texts_total", "counter", sums.vectors.found},
        {"wisp_writing", "gauge", sums.writing.writing},
        {"wisp_queue_requests", "gauge", sums.writing.waiting},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        text_print(&text, "# TYPE %s %s\n%s %llu\n", values[i].name, values[i].type, values[i].name,
                   (unsigned long long)values[i].value);
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
