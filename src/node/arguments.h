/* SPDX-License-Identifier: Apache-2.0
 * The arguments and values of the addon's functions, and how these are exported. */
#ifndef WISP_NODE_ARGUMENTS_H
#define WISP_NODE_ARGUMENTS_H

#include "node/requests.h"

enum { MOST_ARGUMENTS = 6 };

/* The arguments of a call. Those that are not given are undefined. */
struct arguments {
    napi_value at[MOST_ARGUMENTS];
    struct native *native;
};

/* Reads the arguments of a call, the first of which is an engine. Returns false with an exception
 * pending if that computes a request, is closed or, with `with_session`, has no session. */
bool read_arguments(napi_env env, napi_callback_info info, bool with_session,
                    struct arguments *arguments);

/* Returns the engine that is a call's only argument, and sets *handle to that argument. The engine
 * may compute a request, or be closed. Returns NULL with an exception pending if there is
 * none. */
struct native *read_engine(napi_env env, napi_callback_info info, napi_value *handle);

/* Reads the arguments of a call, whose engine must have a session and neither texts nor a search,
 * and makes a request of it. Returns NULL with an exception pending if that fails. */
struct request *read_request(napi_env env, napi_callback_info info, struct arguments *arguments);

/* Copies a string as terminated UTF-8 with U+FFFD for lone surrogates. Sets *text to NULL for
 * undefined. Returns false with an exception pending if it cannot. */
bool copy_string(napi_env env, napi_value value, char **text);

/* These set parts of a request. If they fail they free the request, and return false with an
 * exception pending. */

/* Copies an array of strings to the request's texts. */
bool take_texts(napi_env env, napi_value array, struct request *request);

/* Does what take_texts does with an array of one string. */
bool take_text(napi_env env, napi_value array, struct request *request);

/* Copies a Uint8Array to the request's bytes. */
bool take_bytes(napi_env env, napi_value array, struct request *request);

/* Copies an Int32Array to the request's ids. */
bool take_ids(napi_env env, napi_value array, struct request *request);

/* Makes the request write to a Float32Array of at least `count` values. */
bool take_output(napi_env env, napi_value array, size_t count, struct request *request);

/* Make the values of requests that have been computed, for request_submit: undefined, an Int32Array
 * of the ids, a Uint8Array of the bytes. */
napi_status make_undefined(napi_env env, struct request *request, napi_value *value);
napi_status make_ids(napi_env env, struct request *request, napi_value *value);
napi_status make_bytes(napi_env env, struct request *request, napi_value *value);

/* Returns a string; undefined for NULL. */
napi_value make_string(napi_env env, const char *text);

/* A function that the addon exports. */
struct addon_function {
    const char *name;
    napi_callback callback;
};

/* Adds n functions to the addon's exports. */
napi_status define_functions(napi_env env, napi_value exports,
                             const struct addon_function *functions, size_t n);

#endif
