/* SPDX-License-Identifier: Apache-2.0
 * An engine of the addon, and what JavaScript asks it for. Each request is answered by a promise.
 * An engine has one request at a time, which its own thread computes, or the calling thread if
 * it has none. All other work, and every call of Node-API, is on the environment's thread. */
#ifndef WISP_NODE_REQUESTS_H
#define WISP_NODE_REQUESTS_H

#include "node/held_model.h"
#include "node/runner.h"

struct native {
    struct engine *engine; /* NULL when it is closed */
    struct held_model *held;
    struct request *request; /* the one that is being computed; NULL: none */
    napi_env env;
    bool threaded; /* only then are there a runner and `done` */
    struct runner runner;
    napi_threadsafe_function done; /* takes computed requests to the environment's thread */
    napi_deferred closing;         /* the promise that waits for the thread to end */
    napi_ref closing_handle;       /* keeps the engine until then */

    /* The texts that an engine writes, or its search; at most one of the two is not NULL. */
    struct writing *writing;
    struct search *search;
    atomic_bool stopped; /* nobody wants more of the texts or the search */
};

struct request;

/* A message of the engine's thread to the environment's: a request has been computed, or a part of
 * its value has.
 * */
struct message {
    struct request *request;
    bool is_part;
};

struct request {
    struct native *native;
    struct message end;
    wisp_status (*compute)(struct request *request); /* this and the next: see request_submit */
    napi_status (*make_value)(napi_env env, struct request *request, napi_value *value);
    napi_deferred promise;
    napi_ref handle; /* keeps the engine */
    napi_ref rows;   /* keeps the array that is written to */
    napi_ref part;   /* the function that is called with each part */
    wisp_status status;
    atomic_bool cancelled;

    struct held_model *held; /* the model that is being opened; NULL: none */

    wisp_text *texts; /* [n], and after them their bytes */
    size_t n;
    char *prompt; /* NULL for the model's own */
    size_t dimensions;
    float *output; /* [n, dimensions]: the values of `rows` */

    int32_t *ids; /* [count] */
    size_t count;

    char *bytes; /* [size] */
    size_t size;
    uint32_t beams, max_tokens;
    double number;
};

/* Opens an engine and returns its handle. The engine is freed when no JavaScript has the handle any
 * more. Returns NULL with an exception pending if it cannot. */
napi_value native_open(napi_env env, bool threaded);

/* Makes a request of an engine. Returns NULL, with an exception pending, if there is no memory.
 */
struct request *request_new(napi_env env, struct native *native);

/* Frees a request that was not submitted. */
void request_free(napi_env env, struct request *request);

/* Computes the request by `compute_value`, on the engine's thread if it has one, and then has
 * `make_value` make the value to which the promise resolves that this function returns. Owns the
 * request from now on. Returns NULL with an exception pending if there is no memory. */
napi_value request_submit(napi_env env, napi_value handle, struct request *request,
                          wisp_status (*compute_value)(struct request *request),
                          napi_status (*make_value)(napi_env env, struct request *request,
                                                    napi_value *value));

/* Gives a copy of a text to the request's function `part`, from the engine's thread, while the
 * request is computed. Returns false if there is no memory. */
bool request_hand_out(struct request *request, const char *text);

/* Frees the texts or the search of an engine that has no request. */
void native_end_work(struct native *native);

/* Makes the request that is being computed, if there is one, fail soon with WISP_ERROR_CANCELLED.
 */
void native_cancel(struct native *native);

/* Closes the engine. Returns a promise that resolves when its memory is free; NULL, with an
 * exception pending, if it is closed already. */
napi_value native_close(napi_env env, napi_value handle, struct native *native);

/* Throws an error that js/native/native-engine.js makes a WispError of. Returns NULL. */
napi_value throw_error(napi_env env, wisp_status status, const wisp_error *error);

/* Throws what the last call of Node-API failed with. Returns NULL. */
napi_value throw_last(napi_env env);

#endif
