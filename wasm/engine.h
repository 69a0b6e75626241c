/* SPDX-License-Identifier: Apache-2.0
 * An engine, for the files that export functions of it. */
#ifndef WISP_WASM_ENGINE_H
#define WISP_WASM_ENGINE_H

#include "base/status.h"

#define EXPORT(name) __attribute__((export_name(name)))

struct engine {
    wisp_model *model;
    wisp_session *session;
    wisp_error error;
    uint32_t compute, predictor; /* a wisp_compute and a wisp_predictor */
    uint32_t threads;            /* of a module that has any */
    bool recall, has_kernels;    /* without has_kernels the fastest set is used */
    bool has_sparsity;           /* without it the model's own sparsity is used */
    char kernels[32];
    double sparsity;
    char *text; /* [capacity]: JSON for the caller, valid until the next call that returns text */
    size_t length, capacity;
    bool out_of_memory; /* the text could not grow */
};

/* Appends to the engine's text. */
void put(struct engine *engine, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends what stands in a JSON string for these bytes. */
void put_escaped(struct engine *engine, const char *bytes, size_t length);

/* Replaces the engine's text by `start`. */
void begin(struct engine *engine, const char *start);

#endif
