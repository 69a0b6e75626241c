/* SPDX-License-Identifier: Apache-2.0
 * The Node-API addon: the functions that js/native-engine.js calls. Each takes the engine that
 * `create` made as its first argument. Nothing is shared between environments, so worker threads
 * may load it too. */
#include <stdlib.h>

#include "node/requests.h"

enum { MOST_ARGUMENTS = 5 };

/* The arguments of a call. Those that are not given are undefined. */
struct arguments {
    napi_value at[MOST_ARGUMENTS];
    struct native *native;
};

/* Reads the arguments of a call with an engine, which must have no request, and a session where
 * `with_session` says so. Returns false with an exception pending where it is not so. */
static bool read_arguments(napi_env env, napi_callback_info info, bool with_session,
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

/* Returns whether the engine has no model yet. Else an exception is pending. */
static bool check_new(napi_env env, const struct native *native) {
    if (native->held)
        napi_throw_error(env, NULL, "the engine has a model");
    return !native->held;
}

/* Copies a string as terminated UTF-8 with U+FFFD for lone surrogates. Sets *text to NULL for
 * undefined. Returns false with an exception pending where it cannot. */
static bool copy_string(napi_env env, napi_value value, char **text) {
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

/* Copies an array of strings to the request's texts. Returns false with an exception pending where
 * it cannot. */
static bool copy_texts(napi_env env, napi_value array, struct request *request) {
    uint32_t n = 0;
    size_t bytes = 0;
    if (napi_get_array_length(env, array, &n) != napi_ok)
        goto failed;
    for (uint32_t i = 0; i < n; i++) {
        napi_value text;
        size_t length = 0;
        if (napi_get_element(env, array, i, &text) != napi_ok ||
            napi_get_value_string_utf8(env, text, NULL, 0, &length) != napi_ok)
            goto failed;
        bytes += length + 1;
    }
    request->texts = malloc(n * sizeof(wisp_text) + bytes + 1);
    if (!request->texts) {
        napi_throw_error(env, NULL, "out of memory");
        return false;
    }
    char *at = (char *)(request->texts + n);
    for (uint32_t i = 0; i < n; i++) {
        napi_value text;
        size_t length = 0;
        if (napi_get_element(env, array, i, &text) != napi_ok ||
            napi_get_value_string_utf8(env, text, at, bytes, &length) != napi_ok)
            goto failed;
        request->texts[i] = (wisp_text){at, length};
        at += length + 1;
        bytes -= length + 1;
    }
    request->n = n;
    return true;
failed:
    throw_last(env);
    return false;
}

static napi_status make_undefined(napi_env env, struct request *request, napi_value *value) {
    (void)request;
    return napi_get_undefined(env, value);
}

/* ---- engines -------------------------------------------------------------------------------- */

/* create(threaded) returns an engine. */
static napi_value create(napi_env env, napi_callback_info info) {
    napi_value argument;
    size_t n = 1;
    bool threaded = false;
    if (napi_get_cb_info(env, info, &n, &argument, NULL, NULL) != napi_ok ||
        napi_get_value_bool(env, argument, &threaded) != napi_ok)
        return throw_last(env);
    return native_open(env, threaded);
}

/* set(engine, name, text, number) sets an option as engine_set does. */
static napi_value set(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    char *name = NULL, *text = NULL;
    double number = 0;
    if (!read_arguments(env, info, false, &arguments))
        return NULL;
    struct engine *engine = arguments.native->engine;
    wisp_status status = WISP_OK;
    if (copy_string(env, arguments.at[1], &name) && copy_string(env, arguments.at[2], &text)) {
        if (!name || napi_get_value_double(env, arguments.at[3], &number) != napi_ok)
            throw_last(env);
        else
            status = engine_set(engine, name, text, number);
    }
    free(name);
    free(text);
    return status == WISP_OK ? NULL : throw_error(env, status, &engine->error);
}

static wisp_status compute_model(struct request *request) {
    return held_model_open(request->held, request->native->engine);
}

/* Gives the model that was opened to the engine. */
static napi_status keep_model(napi_env env, struct request *request, napi_value *value) {
    request->native->held = request->held;
    request->held = NULL;
    return napi_get_undefined(env, value);
}

/* openModel(engine, model) resolves when the engine, which has no model yet, has opened it by its
 * options. The model is bytes or a file (held_model_new). */
static napi_value open_model(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    if (!read_arguments(env, info, false, &arguments) || !check_new(env, arguments.native))
        return NULL;
    struct request *request = request_new(env, arguments.native);
    if (!request)
        return NULL;
    request->held = held_model_new(env, arguments.at[1]);
    if (!request->held) {
        request_free(env, request);
        return NULL;
    }
    request->compute = compute_model;
    request->make_value = keep_model;
    return request_submit(env, arguments.at[0], request);
}

/* shareModel(engine, other) gives the model of another engine to an engine that has none. */
static napi_value share_model(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    void *other = NULL;
    if (!read_arguments(env, info, false, &arguments) || !check_new(env, arguments.native))
        return NULL;
    if (napi_get_value_external(env, arguments.at[1], &other) != napi_ok)
        return throw_last(env);
    struct held_model *held = ((struct native *)other)->held;
    if (!held) {
        napi_throw_error(env, NULL, "the other engine has no model");
        return NULL;
    }
    held->users++;
    arguments.native->held = held;
    return NULL;
}

/* openSession(engine) makes the engine compute with its model. */
static napi_value open_session(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    if (!read_arguments(env, info, false, &arguments))
        return NULL;
    struct native *native = arguments.native;
    if (!native->held || native->engine->session) {
        napi_throw_error(env, NULL, "the engine needs a model and no session");
        return NULL;
    }
    native->engine->model = native->held->model;
    const wisp_status status = engine_open_session(native->engine);
    return status == WISP_OK ? NULL : throw_error(env, status, &native->engine->error);
}

/* Returns the engine that is a call's only argument, whatever it does now, and its handle. Returns
 * NULL with an exception pending where there is none. */
static struct native *read_engine(napi_env env, napi_callback_info info, napi_value *handle) {
    size_t n = 1;
    void *native = NULL;
    if (napi_get_cb_info(env, info, &n, handle, NULL, NULL) != napi_ok ||
        napi_get_value_external(env, *handle, &native) != napi_ok)
        throw_last(env);
    return native;
}

/* cancel(engine) makes the request that is being computed, if there is one, fail soon. */
static napi_value cancel(napi_env env, napi_callback_info info) {
    napi_value handle;
    struct native *native = read_engine(env, info, &handle);
    if (native)
        native_cancel(native);
    return NULL;
}

/* close(engine) resolves when its memory is free. A request that is being computed fails. */
static napi_value close_engine(napi_env env, napi_callback_info info) {
    napi_value handle;
    struct native *native = read_engine(env, info, &handle);
    return native ? native_close(env, handle, native) : NULL;
}

/* ---- work ----------------------------------------------------------------------------------- */

static wisp_status compute_rows(struct request *request) {
    struct engine *engine = request->native->engine;
    for (;;) {
        const wisp_status status = engine_embed(engine, request->texts, request->n, request->prompt,
                                                request->dimensions, request->output);
        /* A request may have been cancelled just after it was computed. The next one is not. */
        if (status != WISP_ERROR_CANCELLED || atomic_load(&request->cancelled))
            return status;
    }
}

static wisp_status compute_counts(struct request *request) {
    for (size_t i = 0; i < request->n; i++) {
        const wisp_text text = request->texts[i];
        size_t count;
        TRY(engine_count(request->native->engine, text.bytes, text.length, &count));
        request->output[i] = (float)count;
    }
    return WISP_OK;
}

/* Submits a request with the arguments (engine, texts, prompt, dimensions, rows), which writes to
 * the Float32Array `rows`. */
static napi_value submit_rows(napi_env env, napi_callback_info info,
                              wisp_status (*compute)(struct request *request)) {
    struct arguments arguments;
    if (!read_arguments(env, info, true, &arguments))
        return NULL;
    struct request *request = request_new(env, arguments.native);
    if (!request)
        return NULL;
    napi_typedarray_type type = napi_int8_array;
    uint32_t dimensions = 0;
    size_t length = 0;
    void *output = NULL;
    if (!copy_texts(env, arguments.at[1], request) ||
        !copy_string(env, arguments.at[2], &request->prompt)) {
        request_free(env, request);
        return NULL;
    }
    if (napi_get_value_uint32(env, arguments.at[3], &dimensions) != napi_ok ||
        napi_get_typedarray_info(env, arguments.at[4], &type, &length, &output, NULL, NULL) !=
            napi_ok ||
        napi_create_reference(env, arguments.at[4], 1, &request->rows) != napi_ok) {
        request_free(env, request);
        return throw_last(env);
    }
    const size_t size =
        dimensions ? dimensions : wisp_model_dimensions(request->native->held->model);
    if (type != napi_float32_array || length / size < request->n) {
        request_free(env, request);
        napi_throw_error(env, NULL, "the rows do not fit");
        return NULL;
    }
    request->dimensions = dimensions;
    request->output = output;
    request->compute = compute;
    request->make_value = make_undefined;
    return request_submit(env, arguments.at[0], request);
}

/* embed(engine, texts, prompt, dimensions, rows) writes embeddings. */
static napi_value embed(napi_env env, napi_callback_info info) {
    return submit_rows(env, info, compute_rows);
}

/* count(engine, texts, undefined, 1, counts) writes how many ids each text has before it is
 * truncated. */
static napi_value count_tokens(napi_env env, napi_callback_info info) {
    return submit_rows(env, info, compute_counts);
}

static wisp_status compute_ids(struct request *request) {
    return engine_tokenize(request->native->engine, request->texts[0].bytes,
                           request->texts[0].length, request->ids, request->capacity,
                           &request->count);
}

static napi_status make_ids(napi_env env, struct request *request, napi_value *value) {
    const size_t count = request->count < request->capacity ? request->count : request->capacity;
    const size_t bytes = count * sizeof *request->ids;
    napi_value buffer;
    void *data = NULL;
    napi_status status = napi_create_arraybuffer(env, bytes, &data, &buffer);
    if (status != napi_ok)
        return status;
    if (bytes > 0)
        memcpy(data, request->ids, bytes);
    return napi_create_typedarray(env, napi_int32_array, count, buffer, 0, value);
}

/* tokenize(engine, [text]) resolves to the ids. */
static napi_value tokenize(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    if (!read_arguments(env, info, true, &arguments))
        return NULL;
    struct request *request = request_new(env, arguments.native);
    if (!request)
        return NULL;
    if (!copy_texts(env, arguments.at[1], request)) {
        request_free(env, request);
        return NULL;
    }
    wisp_model_info model;
    wisp_model_get_info(arguments.native->held->model, &model);
    request->capacity = model.max_tokens;
    request->ids = calloc(request->capacity, sizeof *request->ids);
    if (!request->ids || request->n != 1) {
        request_free(env, request);
        napi_throw_error(env, NULL, "out of memory");
        return NULL;
    }
    request->compute = compute_ids;
    request->make_value = make_ids;
    return request_submit(env, arguments.at[0], request);
}

static napi_value make_string(napi_env env, const char *text) {
    napi_value value;
    if (!text) {
        napi_get_undefined(env, &value);
        return value;
    }
    if (napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value) != napi_ok)
        return throw_last(env);
    return value;
}

/* prompt(engine, name) returns the text of a prompt as engine_prompt does, or undefined. */
static napi_value prompt(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    char *name = NULL;
    if (!read_arguments(env, info, true, &arguments) || !copy_string(env, arguments.at[1], &name))
        return NULL;
    napi_value found = make_string(env, engine_prompt(arguments.native->engine, name));
    free(name);
    return found;
}

/* info(engine) and stats(engine) return JSON, or undefined where there is no memory. */
static napi_value get_info(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    if (!read_arguments(env, info, true, &arguments))
        return NULL;
    return make_string(env, engine_info(arguments.native->engine));
}

static napi_value get_stats(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    if (!read_arguments(env, info, true, &arguments))
        return NULL;
    return make_string(env, engine_stats(arguments.native->engine));
}

/* ---- the addon ------------------------------------------------------------------------------ */

/* Describes a property that is a value. */
static napi_property_descriptor constant(const char *name, napi_value value) {
    return (napi_property_descriptor){
        .utf8name = name, .value = value, .attributes = napi_enumerable};
}

static napi_property_descriptor function(const char *name, napi_callback callback) {
    return (napi_property_descriptor){
        .utf8name = name, .method = callback, .attributes = napi_enumerable};
}

/* Returns an array of the names of the kernel sets that run here. */
static napi_value make_kernel_names(napi_env env) {
    napi_value names;
    if (napi_create_array(env, &names) != napi_ok)
        return throw_last(env);
    for (uint32_t i = 0; wisp_kernels_name(i); i++)
        napi_set_element(env, names, i, make_string(env, wisp_kernels_name(i)));
    return names;
}

NAPI_MODULE_INIT() {
    const napi_property_descriptor properties[] = {
        constant("version", make_string(env, WISP_VERSION)),
        constant("kernels", make_kernel_names(env)),
        function("create", create),
        function("set", set),
        function("openModel", open_model),
        function("shareModel", share_model),
        function("openSession", open_session),
        function("cancel", cancel),
        function("close", close_engine),
        function("embed", embed),
        function("tokenize", tokenize),
        function("count", count_tokens),
        function("prompt", prompt),
        function("info", get_info),
        function("stats", get_stats),
    };
    const size_t n = sizeof properties / sizeof properties[0];
    if (napi_define_properties(env, exports, n, properties) != napi_ok)
        return throw_last(env);
    return exports;
}
