/* SPDX-License-Identifier: Apache-2.0
 * An engine for JavaScript: one model with one session. Options go in by name; information and
 * statistics come out as JSON whose keys are those of the JavaScript API. The WebAssembly modules
 * export these functions for js/engine.js, and the addon in src/node calls them. */
#ifndef WISP_BINDING_ENGINE_H
#define WISP_BINDING_ENGINE_H

#include "base/status.h"

#if defined(__wasm__)
#define EXPORT(name) __attribute__((export_name(name)))
#else
#define EXPORT(name)
#endif

struct engine {
    wisp_model *model;
    wisp_session *session;
    wisp_error error;
    uint32_t compute, predictor; /* a wisp_compute and a wisp_predictor */
    uint32_t threads;            /* of the session; 0: one */
    bool recall, has_kernels;    /* without has_kernels the fastest set is used */
    bool has_sparsity;           /* without it the model's own sparsity is used */
    bool skip_absent;            /* of wisp_session_options */
    bool portable;               /* of wisp_model_options */
    uint64_t available; /* bytes of the file that are there, when the model opens without its cold
                           neurons; 0: all are */
    uint64_t memory;    /* of wisp_model_options; needs `available` */
    char kernels[32];
    double sparsity;
    char *text; /* [capacity]: JSON for the caller, valid until the next call that returns text */
    size_t length, capacity;
    bool out_of_memory; /* the text could not grow */
};

/* Makes an engine without a model. Returns NULL where there is no memory. */
struct engine *engine_new(void);

/* Closes session and model; both may be NULL. */
void engine_free(struct engine *engine);

/* Sets the option `name`: compute, kernels, predictor, portable, recall, threads, available,
 * memory and skip_absent before engine_open_model, sparsity before or after. `text` is the value as
 * text and NULL for the default; `number` is the value as a number, for options that are numbers or
 * booleans. */
wisp_status engine_set(struct engine *engine, const char *name, const char *text, double number);

/* Open the engine's model, and a session with it. */
wisp_status engine_open_model(struct engine *engine, const wisp_source *source);
wisp_status engine_open_session(struct engine *engine);

/* Embeds n texts to the rows [n, dimensions]. `prompt` may be NULL. 0 dimensions stand for all of
 * the model. */
wisp_status engine_embed(struct engine *engine, const wisp_text *texts, size_t n,
                         const char *prompt, size_t dimensions, float *rows);

/* Writes at most `capacity` token ids, and to *count the number of ids that the text has. */
wisp_status engine_tokenize(struct engine *engine, const char *bytes, size_t length, int32_t *ids,
                            size_t capacity, size_t *count);

/* Writes the number of ids that the text has before it is truncated. */
wisp_status engine_count(struct engine *engine, const char *bytes, size_t length, size_t *count);

/* Returns the text of the prompt `name`, or NULL where the model has no such prompt. With NULL as
 * the name it returns the default prompt. */
const char *engine_prompt(const struct engine *engine, const char *name);

/* Return the message and the field of the last error. */
const char *engine_error_message(const struct engine *engine);
const char *engine_error_field(const struct engine *engine);

/* Describe the model and how it runs, and sum up the time and work since the engine was opened.
 * Return JSON, or NULL where there is no memory. */
const char *engine_info(struct engine *engine);
const char *engine_stats(struct engine *engine);

/* Appends to the engine's text. */
void put(struct engine *engine, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends what stands in a JSON string for these bytes. */
void put_escaped(struct engine *engine, const char *bytes, size_t length);

/* Replaces the engine's text by `start`. */
void begin(struct engine *engine, const char *start);

#endif
