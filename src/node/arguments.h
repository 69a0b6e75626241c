/* SPDX-License-Identifier: Apache-2.0
 * The arguments of the addon's functions. */
#ifndef WISP_NODE_ARGUMENTS_H
#define WISP_NODE_ARGUMENTS_H

#include "node/requests.h"

enum { MOST_ARGUMENTS = 6 };

/* The arguments of a call. Those that are not given are undefined. */
struct arguments {
    napi_value at[MOST_ARGUMENTS];
    struct native *native;
};

/* Reads the arguments of a call with an engine, which must have no request, and a session where
 * `with_session` says so. Returns false with an exception pending where it is not so. */
bool read_arguments(napi_env env, napi_callback_info info, bool with_session,
                    struct arguments *arguments);

/* Returns the engine that is a call's only argument, whatever it does now, and its handle. Returns
 * NULL with an exception pending where there is none. */
struct native *read_engine(napi_env env, napi_callback_info info, napi_value *handle);

/* Makes a request of an engine that has a session and writes no text. Returns NULL with an
 * exception pending where it cannot. */
struct request *read_request(napi_env env, napi_callback_info info, struct arguments *arguments);

/* Copies a string as terminated UTF-8 with U+FFFD for lone surrogates. Sets *text to NULL for
 * undefined. Returns false with an exception pending where it cannot. */
bool copy_string(napi_env env, napi_value value, char **text);

/* These set parts of a request. They return false with an exception pending, and without the
 * request, which is freed, where they cannot. */

/* Copies an array of strings to the request's texts. */
bool take_texts(napi_env env, napi_value array, struct request *request);

/* Copies a Uint8Array to the request's bytes. */
bool take_bytes(napi_env env, napi_value array, struct request *request);

/* Copies an Int32Array to the request's ids. */
bool take_ids(napi_env env, napi_value array, struct request *request);

/* Makes the request write to a Float32Array of at least `count` values. */
bool take_output(napi_env env, napi_value array, size_t count, struct request *request);

/* Values of requests that have been computed (struct request). */
napi_status make_undefined(napi_env env, struct request *request, napi_value *value);
napi_status make_ids(napi_env env, struct request *request, napi_value *value);
napi_status make_bytes(napi_env env, struct request *request, napi_value *value);

/* Returns a string; undefined for NULL. */
napi_value make_string(napi_env env, const char *text);

#endif
