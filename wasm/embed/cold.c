/* SPDX-License-Identifier: Apache-2.0
 * Exports for models without their cold neurons, of modules that only embed. */
#include "../host.h"

/* Returns the bytes that a model opens from without its cold neurons, of a file of `size` bytes of
 * which `available` are there; 0 on failure, WISP_ERROR_IO where more of it must be there. */
EXPORT("engine_hot_bytes")
double engine_hot_bytes(struct engine *engine, double size, double available) {
    wisp_source source = host_source(size);
    source.available = (uint64_t)available;
    uint64_t bytes;
    return wisp_source_hot_bytes(&source, &bytes, &engine->error) == WISP_OK ? (double)bytes : 0;
}

EXPORT("engine_error_status") wisp_status engine_error_status(const struct engine *engine) {
    return engine->error.status;
}

/* Does what engine_embed does, and counts the absent neurons of each text in skipped [n]. Where it
 * returns WISP_NEED_RANGES, all that it was given must stay until the call ends. */
EXPORT("engine_begin")
wisp_status engine_begin(struct engine *engine, const wisp_text *texts, size_t n,
                         const char *prompt, size_t dimensions, float *rows, uint64_t *skipped) {
    const wisp_embed_options options = {
        .prompt = prompt, .dimensions = dimensions, .skipped = skipped};
    return wisp_embed(engine->session, texts, n, &options, rows, &engine->error);
}

EXPORT("engine_continue") wisp_status engine_continue(struct engine *engine) {
    return wisp_embed_continue(engine->session, &engine->error);
}

EXPORT("engine_give_up") void engine_give_up(struct engine *engine) {
    wisp_embed_give_up(engine->session);
}

EXPORT("engine_needs")
wisp_status engine_needs(struct engine *engine, size_t gap, const wisp_range **ranges,
                         size_t *count) {
    return wisp_session_needs(engine->session, gap, ranges, count, &engine->error);
}

EXPORT("engine_text_needs")
wisp_status engine_text_needs(struct engine *engine, const char *bytes, size_t length, size_t gap,
                              const wisp_range **ranges, size_t *count) {
    const wisp_text text = {bytes, length};
    return wisp_session_text_needs(engine->session, text, gap, ranges, count, &engine->error);
}

EXPORT("engine_provide")
wisp_status engine_provide(struct engine *engine, double offset, const void *bytes, size_t length) {
    return wisp_session_provide(engine->session, (uint64_t)offset, bytes, length, &engine->error);
}

_Static_assert(sizeof(wisp_cold_stats) == 18 * sizeof(uint64_t),
               "js/ranges/cold-engine.js reads 18 numbers");
EXPORT("engine_cold_stats") void engine_cold_stats(struct engine *engine, wisp_cold_stats *stats) {
    wisp_model_get_cold_stats(engine->model, stats);
}

EXPORT("engine_trace_tokens")
wisp_status engine_trace_tokens(struct engine *engine, size_t tokens) {
    return wisp_model_trace_tokens(engine->model, tokens, &engine->error);
}

EXPORT("engine_token_neurons")
bool engine_token_neurons(struct engine *engine, size_t layer, size_t token, uint64_t *needed) {
    return wisp_model_get_token_neurons(engine->model, layer, token, needed);
}

/* Writes a wisp_layer_neurons and behind it the masks `present` and `needed`, of `words` words
 * each. */
_Static_assert(sizeof(wisp_layer_neurons) == 4 * sizeof(uint64_t),
               "js/ranges/cold-engine.js reads 4 numbers");
EXPORT("engine_neurons")
bool engine_neurons(struct engine *engine, size_t layer, uint64_t *into, size_t words) {
    return wisp_model_get_neurons(engine->model, layer, (wisp_layer_neurons *)into, into + 4,
                                  into + 4 + words);
}
