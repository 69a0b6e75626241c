/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arguments.h"

#include <stdlib.h>
#include <string.h>

bool read_arguments(napi_env env, napi_callback_info info, bool with_session,
                    struct arguments *arguments) {
    size_t n = MOST_ARGUMENTS;
    void *engine = NULL;
    if (napi_get_cb_info(env, info, &n, arguments->at, NULL, NULL) != napi_ok ||
        napi_get_value_external(env, arguments->at[0], &engine) != napi_ok) {
        throw_last(env);
        return false;
    }
    struct native *native = engine;
    arguments->native = native;
    if (native->request)
        napi_throw_error(env, NULL, "the engine is busy");
    else if (!native->engine || native->closing)
        napi_throw_error(env, NULL, "the engine is closed");
    else if (with_session && !native->engine->session)
        napi_throw_error(env, NULL, "the engine has no model");
    else
        return true;
    return false;
}

struct native *read_engine(napi_env env, napi_callback_info info, napi_value *handle) {
    size_t n = 1;
    void *native = NULL;
    if (napi_get_cb_info(env, info, &n, handle, NULL, NULL) != napi_ok ||
        napi_get_value_external(env, *handle, &native) != napi_ok)
        throw_last(env);
    return native;
}

struct request *read_request(napi_env env, napi_callback_info info, struct arguments *arguments) {
    if (!read_arguments(env, info, true, arguments))
        return NULL;
    if (!arguments->native->writing && !arguments->native->search)
        return request_new(env, arguments->native);
    napi_throw_error(env, NULL, "the engine is writing");
    return NULL;
}

bool copy_string(napi_env env, napi_value value, char **text) {
    napi_valuetype type;
    size_t length = 0;
    *text = NULL;
    if (napi_typeof(env, value, &type) == napi_ok && type == napi_undefined)
        return true;
    if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok) {
        throw_last(env);
        return false;
    }
    *text = malloc(length + 1);
    if (!*text) {
        napi_throw_error(env, NULL, "out of memory");
        return false;
    }
    napi_get_value_string_utf8(env, value, *text, length + 1, &length);
    return true;
}

/* ---- parts of requests ---------------------------------------------------------------------- */

/* Throws, and frees the request. Without a message it throws what the last call failed with. */
static bool refuse(napi_env env, struct request *request, const char *message) {
    if (message)
        napi_throw_error(env, NULL, message);
    else
        throw_last(env);
    request_free(env, request);
    return false;
}

bool take_texts(napi_env env, napi_value array, struct request *request) {
    uint32_t n = 0;
    size_t bytes = 0;
    if (napi_get_array_length(env, array, &n) != napi_ok)
        return refuse(env, request, NULL);
    for (uint32_t i = 0; i < n; i++) {
        napi_value text;
        size_t length = 0;
        if (napi_get_element(env, array, i, &text) != napi_ok ||
            napi_get_value_string_utf8(env, text, NULL, 0, &length) != napi_ok)
            return refuse(env, request, NULL);
        bytes += length + 1;
    }
    request->texts = malloc(n * sizeof(wisp_text) + bytes + 1);
    if (!request->texts)
        return refuse(env, request, "out of memory");
    char *at = (char *)(request->texts + n);
    for (uint32_t i = 0; i < n; i++) {
        napi_value text;
        size_t length = 0;
        if (bytes == 0) /* getters of the array gave longer texts the second time */
            return refuse(env, request, "the texts changed while they were read");
        if (napi_get_element(env, array, i, &text) != napi_ok ||
            napi_get_value_string_utf8(env, text, at, bytes, &length) != napi_ok)
            return refuse(env, request, NULL);
        request->texts[i] = (wisp_text){at, length};
        at += length + 1;
        bytes -= length + 1;
    }
    request->n = n;
    return true;
}

bool take_text(napi_env env, napi_value array, struct request *request) {
    if (!take_texts(env, array, request))
        return false;
    return request->n == 1 || refuse(env, request, "expected an array of one text");
}

/* Copies the items of a typed array of `type`, whose items have `size` bytes. Sets *copy to NULL
 * if it cannot. */
static void copy_array(napi_env env, napi_value array, napi_typedarray_type type, size_t size,
                       void **copy, size_t *count) {
    napi_typedarray_type found = napi_float64_array;
    void *items = NULL;
    *copy = NULL;
    if (napi_get_typedarray_info(env, array, &found, count, &items, NULL, NULL) != napi_ok ||
        found != type)
        return;
    *copy = malloc(*count * size + 1);
    if (*copy && *count > 0)
        memcpy(*copy, items, *count * size);
}

bool take_bytes(napi_env env, napi_value array, struct request *request) {
    void *copy;
    copy_array(env, array, napi_uint8_array, 1, &copy, &request->size);
    request->bytes = copy;
    return copy || refuse(env, request, "not a Uint8Array, or no memory for a copy");
}

bool take_ids(napi_env env, napi_value array, struct request *request) {
    void *copy;
    copy_array(env, array, napi_int32_array, sizeof *request->ids, &copy, &request->count);
    request->ids = copy;
    return copy || refuse(env, request, "not an Int32Array, or no memory for a copy");
}

bool take_output(napi_env env, napi_value array, size_t count, struct request *request) {
    napi_typedarray_type type = napi_int8_array;
    size_t length = 0;
    void *output = NULL;
    if (napi_get_typedarray_info(env, array, &type, &length, &output, NULL, NULL) != napi_ok ||
        napi_create_reference(env, array, 1, &request->rows) != napi_ok)
        return refuse(env, request, NULL);
    if (type != napi_float32_array || length < count)
        return refuse(env, request, "the values do not fit");
    request->output = output;
    return true;
}

/* ---- values --------------------------------------------------------------------------------- */

napi_status make_undefined(napi_env env, struct request *request, napi_value *value) {
    (void)request;
    return napi_get_undefined(env, value);
}

/* Makes a typed array of `count` items, which together have `bytes` bytes. */
static napi_status make_array(napi_env env, napi_typedarray_type type, const void *items,
                              size_t count, size_t bytes, napi_value *value) {
    napi_value buffer;
    void *data = NULL;
    const napi_status status = napi_create_arraybuffer(env, bytes, &data, &buffer);
    if (status != napi_ok)
        return status;
    if (bytes > 0)
        memcpy(data, items, bytes);
    return napi_create_typedarray(env, type, count, buffer, 0, value);
}

napi_status make_ids(napi_env env, struct request *request, napi_value *value) {
    return make_array(env, napi_int32_array, request->ids, request->count,
                      request->count * sizeof *request->ids, value);
}

napi_status make_bytes(napi_env env, struct request *request, napi_value *value) {
    return make_array(env, napi_uint8_array, request->bytes, request->size, request->size, value);
}

napi_value make_string(napi_env env, const char *text) {
    napi_value value;
    if (!text) {
        napi_get_undefined(env, &value);
        return value;
    }
    if (napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value) != napi_ok)
        return throw_last(env);
    return value;
}

/* ---- functions ------------------------------------------------------------------------------ */

napi_status define_functions(napi_env env, napi_value exports,
                             const struct addon_function *functions, size_t n) {
    napi_status status = napi_ok;
    for (size_t i = 0; i < n && status == napi_ok; i++) {
        const napi_property_descriptor property = {.utf8name = functions[i].name,
                                                   .method = functions[i].callback,
                                                   .attributes = napi_enumerable};
        status = napi_define_properties(env, exports, 1, &property);
    }
    return status;
}
