/* SPDX-License-Identifier: Apache-2.0 */
#include "node/requests.h"

#include <stdlib.h>
#include <string.h>

#include "binding/generate/search.h"
#include "binding/generate/text.h"

/* A part of a request's value. */
struct part {
    struct message message;
    char text[];
};

/* ---- errors --------------------------------------------------------------------------------- */

static napi_status make_error(napi_env env, wisp_status status, const wisp_error *error,
                              napi_value *made) {
    napi_value message, number, field;
    napi_status failed = napi_create_string_utf8(env, error->message, NAPI_AUTO_LENGTH, &message);
    if (failed == napi_ok)
        failed = napi_create_error(env, NULL, message, made);
    if (failed == napi_ok)
        failed = napi_create_int32(env, (int32_t)status, &number);
    if (failed == napi_ok)
        failed = napi_create_string_utf8(env, error->field, NAPI_AUTO_LENGTH, &field);
    if (failed == napi_ok)
        failed = napi_set_named_property(env, *made, "status", number);
    if (failed == napi_ok)
        failed = napi_set_named_property(env, *made, "field", field);
    return failed;
}

napi_value throw_last(napi_env env) {
    const napi_extended_error_info *info = NULL;
    bool pending = false;
    napi_get_last_error_info(env, &info);
    const char *message = info && info->error_message ? info->error_message : "Node-API failed";
    if (napi_is_exception_pending(env, &pending) == napi_ok && !pending)
        napi_throw_error(env, NULL, message);
    return NULL;
}

napi_value throw_error(napi_env env, wisp_status status, const wisp_error *error) {
    napi_value made;
    if (make_error(env, status, error, &made) != napi_ok)
        return throw_last(env);
    napi_throw(env, made);
    return NULL;
}

/* ---- requests ------------------------------------------------------------------------------- */

struct request *request_new(napi_env env, struct native *native) {
    struct request *request = calloc(1, sizeof *request);
    if (!request)
        napi_throw_error(env, NULL, "out of memory");
    else
        *request = (struct request){.native = native, .end = {.request = request}};
    return request;
}

/* Frees what a request owns besides references of Node-API, which are gone when the environment has
 * ended.
 * */
static void free_memory(struct request *request) {
    free(request->texts);
    free(request->prompt);
    free(request->ids);
    free(request->bytes);
    free(request);
}

void request_free(napi_env env, struct request *request) {
    if (request->handle)
        napi_delete_reference(env, request->handle);
    if (request->rows)
        napi_delete_reference(env, request->rows);
    if (request->part)
        napi_delete_reference(env, request->part);
    held_model_release(request->held);
    free_memory(request);
}

/* Resolves or rejects the promise of a request that was computed, and frees the request. */
static void settle(napi_env env, struct request *request) {
    struct native *native = request->native;
    napi_value value = NULL;
    bool kept = false;
    native->request = NULL;
    if (request->status == WISP_OK)
        kept = request->make_value(env, request, &value) == napi_ok;
    else if (make_error(env, request->status, &native->engine->error, &value) != napi_ok)
        value = NULL;
    if (!value) {
        throw_last(env);
        napi_get_and_clear_last_exception(env, &value);
    }
    if (kept)
        napi_resolve_deferred(env, request->promise, value);
    else
        napi_reject_deferred(env, request->promise, value);
    request_free(env, request);
}

/* Computes a request. If the one before was cancelled just after it was computed, its
 * cancellation is still set and stops this one, which is then computed again. Runs, which hand out
 * parts, are not: they have gone on. */
static void compute(struct request *request) {
    do
        request->status = request->compute(request);
    while (request->status == WISP_ERROR_CANCELLED && !atomic_load(&request->cancelled) &&
           !request->part);
}

/* Runs on the engine's thread. The job NULL says that the thread ends. */
static void run_job(void *context, void *job) {
    struct native *native = context;
    struct request *request = job;
    if (request)
        compute(request);
    napi_call_threadsafe_function(native->done, request ? &request->end : NULL,
                                  napi_tsfn_nonblocking);
}

bool request_hand_out(struct request *request, const char *text) {
    const size_t length = strlen(text) + 1;
    struct part *part = malloc(sizeof *part + length);
    if (!part)
        return false;
    part->message = (struct message){.request = request, .is_part = true};
    memcpy(part->text, text, length);
    if (napi_call_threadsafe_function(request->native->done, &part->message,
                                      napi_tsfn_nonblocking) != napi_ok)
        free(part); /* the environment ends */
    return true;
}

/* Calls the request's function with a part. An exception that it throws is an uncaught one. */
static void receive_part(napi_env env, const struct part *part) {
    napi_value function, undefined, text;
    if (napi_get_reference_value(env, part->message.request->part, &function) != napi_ok ||
        napi_get_undefined(env, &undefined) != napi_ok ||
        napi_create_string_utf8(env, part->text, NAPI_AUTO_LENGTH, &text) != napi_ok)
        throw_last(env);
    else
        napi_call_function(env, undefined, function, 1, &text, NULL);
}

napi_value request_submit(napi_env env, napi_value handle, struct request *request,
                          wisp_status (*compute_value)(struct request *request),
                          napi_status (*make_value)(napi_env env, struct request *request,
                                                    napi_value *value)) {
    struct native *native = request->native;
    napi_value promise;
    request->compute = compute_value;
    request->make_value = make_value;
    if (napi_create_reference(env, handle, 1, &request->handle) != napi_ok ||
        napi_create_promise(env, &request->promise, &promise) != napi_ok) {
        throw_last(env);
        request_free(env, request);
        return NULL;
    }
    native->request = request;
    if (native->threaded) {
        napi_ref_threadsafe_function(env, native->done); /* keeps the process running */
        runner_give(&native->runner, request);
    } else {
        compute(request);
        settle(env, request);
    }
    return promise;
}

void native_cancel(struct native *native) {
    struct request *request = native->request;
    if (!request)
        return;
    atomic_store(&request->cancelled, true);
    if (request->held)
        atomic_store(&request->held->given_up, true);
    else
        wisp_session_cancel(native->engine->session);
}

/* ---- opening and closing -------------------------------------------------------------------- */

void native_end_work(struct native *native) {
    if (native->writing)
        writing_free(native->writing);
    if (native->search)
        search_free(native->search);
    native->writing = NULL;
    native->search = NULL;
}

static void free_engine(struct native *native) {
    native_end_work(native);
    native->engine->model = NULL; /* the held model's */
    wisp_session_close(native->engine->session);
    native->engine->session = NULL;
    engine_free(native->engine);
    held_model_release(native->held);
    native->engine = NULL;
    native->held = NULL;
}

/* Node calls it when the environment ends, as a worker thread's does while requests are computed.
 */
static void end_with_environment(void *argument) {
    struct native *native = argument;
    if (native->threaded) {
        native_cancel(native);
        runner_end(&native->runner, false);
        runner_join(&native->runner);
        if (native->request) { /* nobody keeps its promise any more, nor the model that it opened */
            held_model_release(native->request->held);
            native->request->held = NULL;
        }
    }
    free_engine(native);
}

/* Node calls it when no JavaScript has the engine any more, and so no request is computed. */
static void finalize(napi_env env, void *data, void *hint) {
    (void)hint;
    struct native *native = data;
    if (native->engine) {
        napi_remove_env_cleanup_hook(env, end_with_environment, native);
        end_with_environment(native);
        if (native->threaded)
            napi_release_threadsafe_function(native->done, napi_tsfn_release);
    }
    free(native);
}

/* Frees an engine whose thread has ended, and resolves the promise of closing it. */
static void finish_closing(napi_env env, struct native *native) {
    napi_value nothing;
    napi_remove_env_cleanup_hook(env, end_with_environment, native);
    if (native->threaded) {
        runner_join(&native->runner);
        napi_release_threadsafe_function(native->done, napi_tsfn_release);
    }
    free_engine(native);
    napi_get_undefined(env, &nothing);
    napi_resolve_deferred(env, native->closing, nothing);
    native->closing = NULL;
    napi_delete_reference(env, native->closing_handle);
}

/* Takes a message of the engine's thread, which is NULL when that ends, on the environment's
 * thread. */
static void receive(napi_env env, napi_value function, void *context, void *data) {
    (void)function;
    struct native *native = context;
    struct message *message = data;
    if (message && message->is_part) {
        if (env)
            receive_part(env, data);
        free(message);
    } else if (!env) { /* the environment ends, and with it references and promises */
        if (message)
            free_memory(message->request);
    } else if (message) {
        if (!native->closing)
            napi_unref_threadsafe_function(env, native->done);
        settle(env, message->request);
    } else if (native->engine) {
        finish_closing(env, native);
    }
}

static bool start_thread(napi_env env, struct native *native) {
    napi_value name;
    if (napi_create_string_utf8(env, "wisp", NAPI_AUTO_LENGTH, &name) != napi_ok ||
        napi_create_threadsafe_function(env, NULL, NULL, name, 0, 1, NULL, NULL, native, receive,
                                        &native->done) != napi_ok)
        return false;
    napi_unref_threadsafe_function(env, native->done);
    if (runner_open(&native->runner, run_job, native))
        return true;
    napi_release_threadsafe_function(native->done, napi_tsfn_release);
    napi_throw_error(env, NULL, "the system grants no thread");
    return false;
}

napi_value native_open(napi_env env, bool threaded) {
    napi_value handle;
    struct native *native = calloc(1, sizeof *native);
    struct engine *engine = engine_new();
    if (!native || !engine) {
        napi_throw_error(env, NULL, "out of memory");
        goto failed;
    }
    native->env = env;
    native->threaded = threaded;
    if (threaded && !start_thread(env, native)) {
        throw_last(env);
        goto failed;
    }
    /* Hooks run in the reverse order: this one before that which closes the function `done`. */
    native->engine = engine;
    napi_add_env_cleanup_hook(env, end_with_environment, native);
    if (napi_create_external(env, native, finalize, NULL, &handle) != napi_ok) {
        throw_last(env);
        finalize(env, native, NULL);
        return NULL;
    }
    return handle;
failed:
    if (engine)
        engine_free(engine);
    free(native);
    return NULL;
}

napi_value native_close(napi_env env, napi_value handle, struct native *native) {
    napi_value promise;
    if (!native->engine || native->closing) {
        napi_throw_error(env, NULL, "the engine is closed");
        return NULL;
    }
    if (napi_create_reference(env, handle, 1, &native->closing_handle) != napi_ok ||
        napi_create_promise(env, &native->closing, &promise) != napi_ok)
        return throw_last(env);
    if (!native->threaded) {
        finish_closing(env, native);
        return promise;
    }
    native_cancel(native);
    napi_ref_threadsafe_function(env, native->done);
    runner_end(&native->runner, true);
    return promise;
}
