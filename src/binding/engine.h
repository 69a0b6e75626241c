/* SPDX-License-Identifier: Apache-2.0
 * An engine for JavaScript: one model with one session. Options go in by name; information and
 * statistics come out as JSON whose keys are those of the JavaScript API. The WebAssembly modules
 * export these functions for js/engine/engine.js, and the addon in src/node calls them. */
#ifndef WISP_BINDING_ENGINE_H
#define WISP_BINDING_ENGINE_H

#include "base/status.h"

#if defined(__wasm__)
#define EXPORT(name) __attribute__((export_name(name)))
#else
#define EXPORT(name)
#endif

/* Modules have no files, and the addon for Windows has not been tried with any. */
#if !defined(__wasm__) && !defined(_WIN32)
#define HAS_FILES
#endif

struct engine {
    wisp_model *model;
    wisp_session *session;
    wisp_error error;
    wisp_model_options model_options;
    wisp_session_options session_options;
    uint64_t available; /* bytes of the file that are there, when the model opens without its cold
                           neurons; 0: all are */
    bool has_sparsity;  /* without it the model's own sparsity is used */
    double sparsity;
    char kernels[32];   /* that model_options points to */
    char *prompt_cache; /* a folder; NULL: none */
    char *attention;    /* policies; NULL: full */
    uint64_t prompt_cache_bytes;
    char *vector_cache; /* a folder; NULL: none */
    uint64_t vector_cache_bytes;
    wisp_vector_cache *vectors;            /* of what the session computes; NULL: not open */
    wisp_vector_cache_stats vector_counts; /* of those that were closed */
    uint64_t kv_memory;                    /* 0: no limit */
    char *text; /* [capacity]: JSON for the caller, valid until the next call that returns text */
    size_t length, capacity;
    bool out_of_memory; /* the text could not grow */
};

/* Makes an engine without a model. Returns NULL if there is no memory. */
struct engine *engine_new(void);

/* Closes session and model; both may be NULL. */
void engine_free(struct engine *engine);

/* Sets an option of the table in engine.c, sparsity before or after engine_open_model, all others
 * before. `text` is the value as text and NULL for the default; `number` is the value as a number,
 * for options that are numbers or booleans. */
wisp_status engine_set(struct engine *engine, const char *name, const char *text, double number);

/* Open the engine's model, and a session with it. */
wisp_status engine_open_model(struct engine *engine, const wisp_source *source);
wisp_status engine_open_session(struct engine *engine);

/* Embeds n texts to the rows [n, dimensions]. `prompt` may be NULL. 0 dimensions stand for all of
 * the model. With a vector cache, opens it, too, also if n is 0. */
wisp_status engine_embed(struct engine *engine, const wisp_text *texts, size_t n,
                         const char *prompt, size_t dimensions, float *rows);

/* Scores texts[1] to texts[n - 1] for the query texts[0], by a cross-encoder, to scores [n - 1]. n
 * is at least 1. */
wisp_status engine_rank(struct engine *engine, const wisp_text *texts, size_t n, float *scores);

/* Writes at most `capacity` token ids, and to *count the number of ids that the text has. */
wisp_status engine_tokenize(struct engine *engine, const char *bytes, size_t length, int32_t *ids,
                            size_t capacity, size_t *count);

/* Writes the number of ids that the text has before it is truncated. */
wisp_status engine_count(struct engine *engine, const char *bytes, size_t length, size_t *count);

/* Returns the text of the prompt `name`, or NULL if the model has no such prompt. With NULL as
 * the name it returns the default prompt. */
const char *engine_prompt(const struct engine *engine, const char *name);

/* Return the message and the field of the last error. */
const char *engine_error_message(const struct engine *engine);
const char *engine_error_field(const struct engine *engine);

/* Describe the model and how it runs, and sum up the time and work since the engine was opened.
 * Return JSON, or NULL if there is no memory. */
const char *engine_info(struct engine *engine);
const char *engine_stats(struct engine *engine);

/* Appends to the engine's text. */
void put(struct engine *engine, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a text as a string of JSON. */
void put_string(struct engine *engine, wisp_text text);

/* Replaces the engine's text by `start`. */
void begin(struct engine *engine, const char *start);

#endif
