/* SPDX-License-Identifier: Apache-2.0
 * Routes that embed texts: OpenAI's /v1/embeddings, and /embed, /similarity and /tokenize of
 * text-embeddings-inference (TEI).
 * Source: OpenAI's API reference; TEI's OpenAPI description. */
#include <stdlib.h>

#include "serve/api.h"
#include "serve/texts.h"

/* The texts of a request and their embeddings. */
struct embedding {
    struct request_texts in;
    size_t width;
    float *rows; /* [in.n, width] */
    struct batcher *batcher;
    bool busy; /* the batcher's queue is full */
};

static bool take_prompt(struct call *call, const char **prompt) {
    const struct json *name = json_get(call->body, "prompt_name");
    if (json_is_absent(name))
        return true;
    if (json_is(name, JSON_STRING))
        *prompt = wisp_model_prompt(call->served->model, name->text);
    if (!*prompt)
        reply_invalid(call, "prompt_name", "the model has no such prompt");
    return *prompt != NULL;
}

static bool take_dimensions(struct call *call, struct embedding *e, size_t *dimensions) {
    const struct json *value = json_get(call->body, "dimensions");
    const size_t all = wisp_model_dimensions(call->served->model);
    uint64_t number = all;
    if (!json_is_absent(value) && (!json_to_u64(value, &number) || number < 1 || number > all)) {
        reply_problem(call, 400, "invalid_request_error", "dimensions",
                      "dimensions: must be a whole number from 1 to %zu", all);
        return false;
    }
    e->width = (size_t)number;
    *dimensions = number == all ? 0 : e->width;
    return true;
}

/* Embeds texts in the batches of the server, for wisp_vector_cache_embed. */
static wisp_status compute(void *context, const wisp_text *texts, size_t n,
                           const wisp_embed_options *options, float *rows, wisp_error *error) {
    struct embedding *e = context;
    const struct batch_job job = {.texts = texts,
                                  .n = n,
                                  .prompt = options->prompt,
                                  .dimensions = options->dimensions,
                                  .rows = rows};
    return batcher_embed(e->batcher, &job, &e->busy, error);
}

/* Embeds the texts of a field. `asked` may have a flag that they may be cut. Returns false after a
 * reply. */
static bool embed(struct call *call, struct embedding *e, const struct json *asked,
                  const char *field) {
    const struct served_model *served = call->served;
    wisp_embed_options options = {0};
    bool may_cut = false;
    if (!take_prompt(call, &options.prompt) || !take_dimensions(call, e, &options.dimensions) ||
        !take_flag(call, asked, "truncate", &may_cut))
        return false;
    const char *prompt = options.prompt ? options.prompt : wisp_model_prompt(served->model, NULL);
    if (!texts_count(call, &e->in, 0, prompt, may_cut, field))
        return false;
    wisp_error error = {0};
    e->batcher = served->batcher;
    e->rows = malloc((e->in.n * e->width + 1) * sizeof *e->rows);
    if (!e->rows) {
        reply_problem(call, 500, "server_error", NULL, "not enough memory for the request");
        return false;
    }
    const wisp_status status = served->vectors
                                   ? wisp_vector_cache_embed(served->vectors, e->in.texts, e->in.n,
                                                             &options, compute, e, e->rows, &error)
                                   : compute(e, e->in.texts, e->in.n, &options, e->rows, &error);
    if (status == WISP_OK)
        return true;
    if (e->busy)
        reply_problem(call, 429, "rate_limit_error", NULL, "the server is busy: %s", error.message);
    else
        reply_error(call, &error);
    free(e->rows);
    return false;
}

static bool can_embed(struct call *call) {
    const bool can = call->served->batcher && !call->served->ranks;
    if (!can)
        reply_problem(call, 400, "invalid_request_error", "model",
                      "the model %s makes no embeddings", call->served->of.name);
    return can;
}

static void run_embeddings(struct call *call) {
    struct embedding e = {0};
    const struct json *format = json_get(call->body, "encoding_format");
    const bool base64 = json_equals(format, "base64");
    if (!can_embed(call))
        return;
    if (!json_is_absent(format) && !base64 && !json_equals(format, "float")) {
        reply_invalid(call, "encoding_format", "must be \"float\" or \"base64\"");
        return;
    }
    if (!texts_take(call, json_get(call->body, "input"), "input", &e.in) ||
        !embed(call, &e, call->body, "input"))
        return;
    struct text_buffer text = {0};
    text_print(&text, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < e.in.n; i++) {
        text_print(&text, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i ? "," : "",
                   i);
        (base64 ? text_add_base64 : text_add_floats)(&text, e.rows + i * e.width, e.width);
        text_add(&text, "}", 1);
    }
    text_print(&text, "],\"model\":");
    text_add_string(&text, wisp_text_of(call->served->of.name));
    text_print(&text, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}}",
               (unsigned long long)e.in.tokens, (unsigned long long)e.in.tokens);
    free(e.rows);
    reply_json(call, &text);
}

static void run_embed(struct call *call) {
    struct embedding e = {0};
    bool normalize = true;
    if (!can_embed(call) || !take_flag(call, call->body, "normalize", &normalize))
        return;
    if (!normalize) {
        reply_invalid(call, "normalize", "the model says whether embeddings are normalised");
        return;
    }
    if (!texts_take(call, json_get(call->body, "inputs"), "inputs", &e.in) ||
        !embed(call, &e, call->body, "inputs"))
        return;
    struct text_buffer text = {0};
    for (size_t i = 0; i < e.in.n; i++) {
        text_add(&text, i ? "," : "[", 1);
        text_add_floats(&text, e.rows + i * e.width, e.width);
    }
    text_add(&text, "]", 1);
    free(e.rows);
    reply_json(call, &text);
}

static void run_similarity(struct call *call) {
    const struct json *inputs = json_get(call->body, "inputs");
    const struct json *source = json_get(inputs, "source_sentence");
    struct embedding e = {0};
    if (!can_embed(call))
        return;
    if (!json_is(source, JSON_STRING)) {
        reply_invalid(call, "inputs.source_sentence", "must be a string");
        return;
    }
    if (!texts_take(call, json_get(inputs, "sentences"), "inputs.sentences", &e.in))
        return;
    wisp_text *texts = arena_allocate(&call->arena, (e.in.n + 1) * sizeof *texts);
    if (!texts) {
        reply_problem(call, 500, "server_error", NULL, "not enough memory for the request");
        return;
    }
    memcpy(texts, e.in.texts, e.in.n * sizeof *texts);
    texts[e.in.n++] = json_text(source);
    e.in.texts = texts;
    if (!embed(call, &e, json_get(call->body, "parameters"), "inputs"))
        return;
    struct text_buffer text = {0};
    for (size_t i = 0; i + 1 < e.in.n; i++) {
        text_add(&text, i ? "," : "[", 1);
        text_add_number(
            &text, (double)wisp_dot(e.rows + i * e.width, e.rows + (e.in.n - 1) * e.width, e.width),
            9);
    }
    text_add(&text, "]", 1);
    free(e.rows);
    reply_json(call, &text);
}

/* Adds the tokens of a text as TEI lists them. */
static bool add_tokens(struct call *call, wisp_text text, bool special, struct text_buffer *out) {
    wisp_error error = {0};
    const wisp_model *model = call->served->model;
    size_t most = text.length + 16, n = 0; /* seldom more: normal forms can be longer than texts */
    int32_t *ids = arena_allocate(&call->arena, most * sizeof *ids);
    wisp_status status =
        ids ? wisp_tokenize(model, text, ids, most, &n, &error) : fail_memory(&error, most);
    if (status == WISP_OK && n > most) {
        most = n;
        ids = arena_allocate(&call->arena, most * sizeof *ids);
        status = ids ? wisp_tokenize(model, text, ids, most, &n, &error) : fail_memory(&error, n);
    }
    if (status != WISP_OK) {
        reply_error(call, &error);
        return false;
    }
    bool begun = false;
    text_add(out, "[", 1);
    for (size_t i = 0; i < n && i < most; i++) {
        wisp_text spelling = {"", 0}, bytes = {"", 0};
        wisp_token_spelling(call->served->model, ids[i], &spelling);
        const bool control =
            !call->served->writers
                ? i == 0 || i + 1 == n
                : wisp_token_text(call->served->model, ids[i], &bytes) && bytes.length == 0;
        if (control && !special)
            continue;
        text_print(out, "%s{\"id\":%d,\"text\":", begun ? "," : "", (int)ids[i]);
        text_add_string(out, spelling);
        text_print(out, ",\"special\":%s}", control ? "true" : "false");
        begun = true;
    }
    text_add(out, "]", 1);
    return true;
}

static void run_tokenize(struct call *call) {
    struct embedding e = {0};
    bool special = true;
    if (!take_flag(call, call->body, "add_special_tokens", &special) ||
        !texts_take(call, json_get(call->body, "inputs"), "inputs", &e.in))
        return;
    struct text_buffer text = {0};
    for (size_t i = 0; i < e.in.n; i++) {
        text_add(&text, i ? "," : "[", 1);
        if (!add_tokens(call, e.in.texts[i], special, &text)) {
            free(text.bytes);
            return;
        }
    }
    text_add(&text, "]", 1);
    reply_json(call, &text);
}

const struct route embed_routes[] = {{"POST", "/v1/embeddings", run_embeddings},
                                     {"POST", "/embed", run_embed},
                                     {"POST", "/similarity", run_similarity},
                                     {"POST", "/tokenize", run_tokenize},
                                     {0}};
