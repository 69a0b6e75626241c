/* SPDX-License-Identifier: Apache-2.0
 * What the WebAssembly module exports, for js/engine.js. One engine is one model with one
 * session. The host reads nothing else from the module's memory than what these functions say. */
#include <stdlib.h>
#include <string.h>

#include "wisp.h"

#define EXPORT(name) __attribute__((export_name(name)))

/* Copies bytes [offset, offset + length) of the model to `buffer`; 0 on success. Offsets are
 * doubles because JavaScript's numbers are. */
__attribute__((import_module("wisp"), import_name("read"))) int
host_read(double offset, void *buffer, size_t length);

struct engine {
    wisp_model *model;
    wisp_session *session;
    wisp_error error;
};

static int read_from_host(void *context, uint64_t offset, void *buffer, size_t length) {
    (void)context;
    return host_read((double)offset, buffer, length);
}

EXPORT("allocate") void *allocate(size_t bytes) {
    return malloc(bytes ? bytes : 1);
}

EXPORT("release") void release(void *block) {
    free(block);
}

/* NULL when there is no memory. */
EXPORT("engine_new") struct engine *engine_new(void) {
    return calloc(1, sizeof(struct engine));
}

EXPORT("engine_free") void engine_free(struct engine *engine) {
    wisp_session_close(engine->session);
    wisp_model_close(engine->model);
    free(engine);
}

/* Opens a model of `size` bytes, read through the host; `lasting` if it can be read later too.
 * `kernels` may be NULL. A wisp_status. */
EXPORT("engine_open")
wisp_status engine_open(struct engine *engine, double size, int lasting, int compute,
                        const char *kernels, int predictor, int recall) {
    const wisp_source source = {
        .size = (uint64_t)size, .read = read_from_host, .name = "model", .lasting = lasting != 0};
    const wisp_model_options options = {.compute = (wisp_compute)compute,
                                        .kernels = kernels,
                                        .predictor = (wisp_predictor)predictor};
    const wisp_session_options session_options = {.recall = recall != 0};
    const wisp_status status =
        wisp_model_open_source(&source, &options, &engine->model, &engine->error);
    return status == WISP_OK ? wisp_session_open(engine->model, &session_options, &engine->session,
                                                 &engine->error)
                             : status;
}

EXPORT("engine_set_sparsity")
wisp_status engine_set_sparsity(struct engine *engine, double sparsity) {
    return wisp_session_set_sparsity(engine->session, (float)sparsity, &engine->error);
}

/* `texts` are n pairs of a pointer and a length. `prompt` may be NULL; dimensions 0 means all. */
EXPORT("engine_embed")
wisp_status engine_embed(struct engine *engine, const wisp_text *texts, size_t n,
                         const char *prompt, size_t dimensions, float *rows) {
    const wisp_embed_options options = {.prompt = prompt, .dimensions = dimensions};
    return wisp_embed(engine->session, texts, n, &options, rows, &engine->error);
}

/* Writes at most `capacity` ids and the number there are to *count. */
EXPORT("engine_tokenize")
wisp_status engine_tokenize(struct engine *engine, const char *bytes, size_t length, int32_t *ids,
                            size_t capacity, size_t *count) {
    const wisp_text text = {bytes, length};
    return wisp_tokenize(engine->model, text, ids, capacity, count, &engine->error);
}

/* The last error's message and field. */
EXPORT("engine_error_message") const char *engine_error_message(const struct engine *engine) {
    return engine->error.message;
}

EXPORT("engine_error_field") const char *engine_error_field(const struct engine *engine) {
    return engine->error.field;
}

/* texts, tokens, truncated_texts, workspace_bytes, and the seconds of each stage */
EXPORT("engine_stats")
void engine_stats(const struct engine *engine, double values[4 + WISP_STAGES]) {
    wisp_stats stats;
    wisp_session_get_stats(engine->session, &stats);
    values[0] = (double)stats.texts;
    values[1] = (double)stats.tokens;
    values[2] = (double)stats.truncated_texts;
    values[3] = (double)stats.workspace_bytes;
    memcpy(values + 4, stats.stage_seconds, sizeof stats.stage_seconds);
}

/* tokens, seconds, neurons, computed, contributing, compared, needed, found */
EXPORT("engine_layer")
void engine_layer(const struct engine *engine, uint32_t layer, double values[8]) {
    wisp_layer_stats stats;
    wisp_session_get_layer_stats(engine->session, layer, &stats);
    values[0] = (double)stats.tokens;
    values[1] = stats.seconds;
    values[2] = (double)stats.neurons;
    values[3] = (double)stats.computed;
    values[4] = (double)stats.contributing;
    values[5] = (double)stats.compared;
    values[6] = (double)stats.needed;
    values[7] = (double)stats.found;
}

/* The stage's name; NULL past the last. */
EXPORT("stage_name") const char *stage_name(size_t stage) {
    return wisp_stage_name(stage);
}

/* hidden_size, intermediate_size, layers, heads, vocabulary_size, max_tokens, parameters,
 * resident_bytes, sparsity */
EXPORT("engine_numbers") void engine_numbers(const struct engine *engine, double values[9]) {
    wisp_model_info info;
    wisp_model_get_info(engine->model, &info);
    values[0] = info.hidden_size;
    values[1] = info.intermediate_size;
    values[2] = info.layers;
    values[3] = info.heads;
    values[4] = info.vocabulary_size;
    values[5] = info.max_tokens;
    values[6] = (double)info.parameters;
    values[7] = (double)info.resident_bytes;
    values[8] = (double)info.sparsity;
}

/* name, architecture, compute, kernels, pooling, predictor, in this order; NULL past the last. */
EXPORT("engine_text") const char *engine_text(const struct engine *engine, size_t index) {
    wisp_model_info info;
    wisp_model_get_info(engine->model, &info);
    const char *const texts[] = {info.name,    info.architecture, info.compute,
                                 info.kernels, info.pooling,      info.predictor};
    return index < sizeof texts / sizeof *texts ? texts[index] : NULL;
}

/* The prompt of that name, or NULL; with NULL the default prompt. */
EXPORT("engine_prompt") const char *engine_prompt(const struct engine *engine, const char *name) {
    return wisp_model_prompt(engine->model, name);
}

EXPORT("build") const char *build(void) {
    return wisp_build();
}

EXPORT("features") const char *features(void) {
    return wisp_cpu_features();
}
