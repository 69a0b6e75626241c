/* SPDX-License-Identifier: Apache-2.0
 * Routes that score texts for a query: /rerank of text-embeddings-inference (TEI), and /v1/rerank
 * as Jina, vLLM and llama.cpp have it. Source: TEI's OpenAPI description; Jina's API reference. */
#include <stdlib.h>

#include "serve/api.h"
#include "serve/texts.h"

/* A query and its texts, with their scores. */
struct ranking {
    wisp_text query;
    struct request_texts in;
    float *scores;  /* [in.n] */
    size_t *order;  /* [in.n]: indices of texts, best first */
    size_t shown;   /* of these that the reply has */
    bool has_texts; /* the reply has the texts, too */
};

static bool take_request(struct call *call, const char *field, bool may_cut, struct ranking *r) {
    const struct json *query = json_get(call->body, "query");
    const struct json *top = json_get(call->body, "top_n");
    uint64_t most = UINT64_MAX;
    size_t tokens = 0;
    wisp_error error = {0};
    if (!json_is(query, JSON_STRING))
        return reply_invalid(call, "query", "must be a string");
    r->query = json_text(query);
    if (!json_is_absent(top) && (!json_to_u64(top, &most) || most == 0))
        return reply_invalid(call, "top_n", "must be a whole number from 1 on");
    if (wisp_count_tokens(call->served->model, r->query, &tokens, &error) != WISP_OK) {
        reply_error(call, &error);
        return false;
    }
    /* A text follows the query and what ends it. */
    if (!texts_take(call, json_get(call->body, field), field, &r->in) ||
        !texts_count(call, &r->in, tokens > 0 ? tokens - 1 : 0, "", may_cut, field))
        return false;
    r->shown = most < r->in.n ? (size_t)most : r->in.n;
    r->scores = arena_allocate(&call->arena, r->in.n * sizeof *r->scores);
    r->order = arena_allocate(&call->arena, r->in.n * sizeof *r->order);
    if (!r->scores || !r->order)
        reply_problem(call, 500, "server_error", NULL, "not enough memory for the request");
    return r->scores && r->order;
}

/* Compares two pairs of a score and an index: higher scores come first, of equal ones the lower
 * index. */
static int compare(const void *a, const void *b) {
    const float *const *x = a, *const *y = b;
    if (**x != **y)
        return **x > **y ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

static bool sort(struct call *call, struct ranking *r) {
    const float **places = arena_allocate(&call->arena, r->in.n * sizeof *places);
    if (!places) {
        reply_problem(call, 500, "server_error", NULL, "not enough memory for the request");
        return false;
    }
    for (size_t i = 0; i < r->in.n; i++)
        places[i] = &r->scores[i];
    qsort(places, r->in.n, sizeof *places, compare);
    for (size_t i = 0; i < r->in.n; i++)
        r->order[i] = (size_t)(places[i] - r->scores);
    return true;
}

/* Scores the texts. Returns false after a reply. */
static bool rank(struct call *call, struct ranking *r) {
    const struct batch_job job = {
        .texts = r->in.texts, .n = r->in.n, .rows = r->scores, .query = &r->query};
    wisp_error error = {0};
    bool busy = false;
    if (batcher_embed(call->served->batcher, &job, &busy, &error) == WISP_OK)
        return sort(call, r);
    if (busy)
        reply_problem(call, 429, "rate_limit_error", NULL, "the server is busy: %s", error.message);
    else
        reply_error(call, &error);
    return false;
}

static bool can_rank(struct call *call) {
    if (!call->served->ranks)
        reply_problem(call, 400, "invalid_request_error", "model", "the model %s scores no texts",
                      call->served->of.name);
    return call->served->ranks;
}

static void run_tei(struct call *call) {
    struct ranking r = {0};
    bool raw = false, truncate = false;
    if (!can_rank(call) || !take_flag(call, call->body, "raw_scores", &raw) ||
        !take_flag(call, call->body, "truncate", &truncate) ||
        !take_flag(call, call->body, "return_text", &r.has_texts))
        return;
    if (raw) {
        reply_invalid(call, "raw_scores", "the model says whether scores go through a sigmoid");
        return;
    }
    if (!take_request(call, "texts", truncate, &r) || !rank(call, &r))
        return;
    struct text_buffer text = {0};
    for (size_t i = 0; i < r.shown; i++) {
        text_print(&text, "%s{\"index\":%zu,\"score\":", i ? "," : "[", r.order[i]);
        text_add_number(&text, (double)r.scores[r.order[i]], 9);
        if (r.has_texts) {
            text_print(&text, ",\"text\":");
            text_add_string(&text, r.in.texts[r.order[i]]);
        }
        text_print(&text, "}");
    }
    text_print(&text, "]");
    reply_json(call, &text);
}

static void run_jina(struct call *call) {
    struct ranking r = {0};
    bool truncate = false;
    if (!can_rank(call) || !take_flag(call, call->body, "truncate", &truncate) ||
        !take_flag(call, call->body, "return_documents", &r.has_texts) ||
        !take_request(call, "documents", truncate, &r) || !rank(call, &r))
        return;
    struct text_buffer text = {0};
    text_print(&text, "{\"model\":");
    text_add_string(&text, wisp_text_of(call->served->of.name));
    text_print(&text, ",\"object\":\"list\",\"usage\":{\"total_tokens\":%llu},\"results\":[",
               (unsigned long long)r.in.tokens);
    for (size_t i = 0; i < r.shown; i++) {
        text_print(&text, "%s{\"index\":%zu,\"relevance_score\":", i ? "," : "", r.order[i]);
        text_add_number(&text, (double)r.scores[r.order[i]], 9);
        if (r.has_texts) {
            text_print(&text, ",\"document\":{\"text\":");
            text_add_string(&text, r.in.texts[r.order[i]]);
            text_print(&text, "}");
        }
        text_print(&text, "}");
    }
    text_print(&text, "]}");
    reply_json(call, &text);
}

const struct route rerank_routes[] = {
    {"POST", "/rerank", run_tei}, {"POST", "/v1/rerank", run_jina}, {0}};
