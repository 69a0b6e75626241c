/* SPDX-License-Identifier: Apache-2.0
 * The Node-API addon: the functions that js/native/native-engine.js calls. Each takes the engine
 * that `create` made as its first argument. Nothing is shared between environments, so worker
 * threads may load it too. */
#include <stdlib.h>

#include "node/arguments.h"
#include "node/generate.h"

/* Returns whether the engine has no model yet. Else an exception is pending. */
static bool check_new(napi_env env, const struct native *native) {
    if (native->held)
        napi_throw_error(env, NULL, "the engine has a model");
    return !native->held;
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
    return request_submit(env, arguments.at[0], request, compute_model, keep_model);
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
    return engine_embed(request->native->engine, request->texts, request->n, request->prompt,
                        request->dimensions, request->output);
}

static wisp_status compute_scores(struct request *request) {
    return engine_rank(request->native->engine, request->texts, request->n, request->output);
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
    uint32_t dimensions = 0;
    struct request *request = read_request(env, info, &arguments);
    if (!request || !take_texts(env, arguments.at[1], request))
        return NULL;
    if (!copy_string(env, arguments.at[2], &request->prompt)) {
        request_free(env, request);
        return NULL;
    }
    if (napi_get_value_uint32(env, arguments.at[3], &dimensions) != napi_ok) {
        throw_last(env);
        request_free(env, request);
        return NULL;
    }
    const size_t size =
        dimensions ? dimensions : wisp_model_dimensions(request->native->held->model);
    if (!take_output(env, arguments.at[4], request->n * size, request))
        return NULL;
    request->dimensions = dimensions;
    return request_submit(env, arguments.at[0], request, compute, make_undefined);
}

/* embed(engine, texts, prompt, dimensions, rows) writes embeddings. */
static napi_value embed(napi_env env, napi_callback_info info) {
    return submit_rows(env, info, compute_rows);
}

/* rank(engine, texts, undefined, 1, scores) writes scores of the texts behind the first, which is
 * the query. The last value stays as it is. */
static napi_value rank_texts(napi_env env, napi_callback_info info) {
    return submit_rows(env, info, compute_scores);
}

/* count(engine, texts, undefined, 1, counts) writes how many ids each text has before it is
 * truncated. */
static napi_value count_tokens(napi_env env, napi_callback_info info) {
    return submit_rows(env, info, compute_counts);
}

/* A text has hardly more tokens than bytes; if it has, the count says how many. */
static wisp_status compute_ids(struct request *request) {
    struct engine *engine = request->native->engine;
    const wisp_text text = request->texts[0];
    for (size_t capacity = text.length + 8;; capacity = request->count) {
        int32_t *ids = realloc(request->ids, capacity * sizeof *ids);
        if (!ids)
            return fail_memory(&engine->error, capacity * sizeof *ids);
        request->ids = ids;
        TRY(engine_tokenize(engine, text.bytes, text.length, ids, capacity, &request->count));
        if (request->count <= capacity)
            return WISP_OK;
    }
}

/* tokenize(engine, [text]) resolves to the ids. */
static napi_value tokenize(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    struct request *request = read_request(env, info, &arguments);
    if (!request || !take_text(env, arguments.at[1], request))
        return NULL;
    return request_submit(env, arguments.at[0], request, compute_ids, make_ids);
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

/* info(engine) and stats(engine) return JSON, or undefined if there is no memory. */
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
    static const struct addon_function functions[] = {
        {"create", create},
        {"set", set},
        {"openModel", open_model},
        {"shareModel", share_model},
        {"openSession", open_session},
        {"cancel", cancel},
        {"close", close_engine},
        {"embed", embed},
        {"rank", rank_texts},
        {"tokenize", tokenize},
        {"count", count_tokens},
        {"prompt", prompt},
        {"info", get_info},
        {"stats", get_stats},
    };
    if (napi_set_named_property(env, exports, "version", make_string(env, WISP_VERSION)) !=
            napi_ok ||
        napi_set_named_property(env, exports, "kernels", make_kernel_names(env)) != napi_ok ||
        define_functions(env, exports, functions, sizeof functions / sizeof *functions) !=
            napi_ok ||
        define_generate(env, exports) != napi_ok)
        return throw_last(env);
    return exports;
}
