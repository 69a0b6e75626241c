/* SPDX-License-Identifier: Apache-2.0
 * Texts are written, and searched for, by openWriting or openSearch, run until they have ended, and
 * endWork. On an engine's thread one run writes to the end, and hands out what it has; on the
 * calling thread a run ends after some time, so that JavaScript does other work between two. */
#include "node/generate.h"

#include <stdlib.h>
#include <string.h>

#include "binding/generate/search.h"
#include "binding/generate/text.h"
#include "engine/session.h"
#include "node/arguments.h"

/* The tokens of SLICE seconds are handed out together, because a small model writes thousands in a
 * second. js/engine/text-worker.js does so too. */
static const double SLICE = 0.008;

/* ---- texts ---------------------------------------------------------------------------------- */

/* Makes the engine ready for work whose runs are requests of their own: a request that was
 * cancelled just after it was computed does not stop it. */
static void begin_work(struct native *native) {
    atomic_store(&native->stopped, false);
    atomic_store(&native->engine->session->cancelled, false);
}

static wisp_status compute_open_writing(struct request *request) {
    struct native *native = request->native;
    native->writing = writing_new(native->engine);
    if (!native->writing)
        return fail_memory(&native->engine->error, 0);
    const wisp_status status =
        writing_open(native->writing, request->bytes, request->size, request->count);
    if (status != WISP_OK)
        native_end_work(native);
    return status;
}

/* openWriting(engine, description, atOnce) resolves when the texts are begun. */
static napi_value open_writing(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    uint32_t at_once = 0;
    struct request *request = read_request(env, info, &arguments);
    if (!request || !take_bytes(env, arguments.at[1], request))
        return NULL;
    if (napi_get_value_uint32(env, arguments.at[2], &at_once) != napi_ok) {
        throw_last(env);
        request_free(env, request);
        return NULL;
    }
    begin_work(arguments.native);
    request->count = at_once;
    return request_submit(env, arguments.at[0], request, compute_open_writing, make_undefined);
}

static wisp_status compute_open_search(struct request *request) {
    struct native *native = request->native;
    const wisp_text prompt = request->texts[0];
    native->search = search_new(native->engine);
    if (!native->search)
        return fail_memory(&native->engine->error, 0);
    const wisp_status status =
        search_open(native->search, prompt.bytes, prompt.length, request->beams,
                    request->max_tokens, request->number, request->ids, request->count);
    if (status != WISP_OK)
        native_end_work(native);
    return status;
}

/* openSearch(engine, [prompt], beams, maxTokens, lengthPenalty, stopIds) resolves when the search
 * is begun. */
static napi_value open_search(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    struct request *request = read_request(env, info, &arguments);
    if (!request || !take_text(env, arguments.at[1], request) ||
        !take_ids(env, arguments.at[5], request))
        return NULL;
    if (napi_get_value_uint32(env, arguments.at[2], &request->beams) != napi_ok ||
        napi_get_value_uint32(env, arguments.at[3], &request->max_tokens) != napi_ok ||
        napi_get_value_double(env, arguments.at[4], &request->number) != napi_ok) {
        throw_last(env);
        request_free(env, request);
        return NULL;
    }
    begin_work(arguments.native);
    return request_submit(env, arguments.at[0], request, compute_open_search, make_undefined);
}

/* Writes to the end, or until it is told to stop, or for one slice on the calling thread. */
static wisp_status compute_run(struct request *request) {
    struct native *native = request->native;
    struct engine *engine = native->engine;
    double seconds = request->number;
    for (;;) {
        bool ended;
        if (native->writing) {
            TRY(writing_run(native->writing, seconds));
            ended = writing_ended(native->writing);
        } else {
            TRY(search_run(native->search, seconds));
            ended = search_ended(native->search);
        }
        if (ended || !native->threaded || atomic_load(&native->stopped))
            return WISP_OK;
        if (native->writing && writing_pieces(native->writing) > 0) {
            if (!request_hand_out(request, engine_text(engine)))
                return fail_memory(&engine->error, engine->length);
            seconds = SLICE;
        }
    }
}

/* Makes a string of what the engine has written for its caller. */
static napi_status make_text(napi_env env, struct request *request, napi_value *value) {
    return napi_create_string_utf8(env, engine_text(request->native->engine), NAPI_AUTO_LENGTH,
                                   value);
}

/* run(engine, seconds, part) resolves to JSON of writing_run or search_run. Before that `part` is
 * called with such JSON, of runs that handed out tokens. */
static napi_value run(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    if (!read_arguments(env, info, true, &arguments))
        return NULL;
    if (!arguments.native->writing && !arguments.native->search) {
        napi_throw_error(env, NULL, "the engine writes nothing");
        return NULL;
    }
    struct request *request = request_new(env, arguments.native);
    if (!request)
        return NULL;
    if (napi_get_value_double(env, arguments.at[1], &request->number) != napi_ok ||
        napi_create_reference(env, arguments.at[2], 1, &request->part) != napi_ok) {
        throw_last(env);
        request_free(env, request);
        return NULL;
    }
    return request_submit(env, arguments.at[0], request, compute_run, make_text);
}

/* stop(engine) makes its run end soon, with what has been written. */
static napi_value stop(napi_env env, napi_callback_info info) {
    napi_value handle;
    struct native *native = read_engine(env, info, &handle);
    if (native)
        atomic_store(&native->stopped, true);
    return NULL;
}

/* endWork(engine) frees what was opened, when no run is under way. */
static napi_value end_work(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    if (read_arguments(env, info, true, &arguments))
        native_end_work(arguments.native);
    return NULL;
}

/* ---- tokens --------------------------------------------------------------------------------- */

static wisp_status compute_logits(struct request *request) {
    return engine_logits(request->native->engine, request->ids, request->count, request->output);
}

/* logits(engine, ids, logits) writes a row of the vocabulary's size for each id. */
static napi_value logits(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    wisp_model_info model;
    struct request *request = read_request(env, info, &arguments);
    if (!request || !take_ids(env, arguments.at[1], request))
        return NULL;
    wisp_model_get_info(arguments.native->held->model, &model);
    if (!take_output(env, arguments.at[2], request->count * model.vocabulary_size, request))
        return NULL;
    return request_submit(env, arguments.at[0], request, compute_logits, make_undefined);
}

static wisp_status compute_score(struct request *request) {
    return engine_score(request->native->engine, request->ids, request->count,
                        (size_t)request->number, request->output);
}

/* score(engine, ids, first, logprobs) writes the log-probabilities of the ids from `first` on. */
static napi_value score(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    uint32_t first = 0;
    struct request *request = read_request(env, info, &arguments);
    if (!request || !take_ids(env, arguments.at[1], request))
        return NULL;
    if (napi_get_value_uint32(env, arguments.at[2], &first) != napi_ok || first > request->count) {
        napi_throw_error(env, NULL, "the first token is not one of them");
        request_free(env, request);
        return NULL;
    }
    if (!take_output(env, arguments.at[3], request->count - first, request))
        return NULL;
    request->number = first;
    return request_submit(env, arguments.at[0], request, compute_score, make_undefined);
}

static wisp_status compute_text(struct request *request) {
    return engine_detokenize(request->native->engine, request->ids, request->count,
                             request->number != 0);
}

/* detokenize(engine, ids, continues) resolves to the text that the ids stand for, as JSON. */
static napi_value detokenize(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    struct request *request = read_request(env, info, &arguments);
    if (!request || !take_ids(env, arguments.at[1], request))
        return NULL;
    bool continues = false;
    napi_get_value_bool(env, arguments.at[2], &continues);
    request->number = continues;
    return request_submit(env, arguments.at[0], request, compute_text, make_text);
}

/* ---- states --------------------------------------------------------------------------------- */

static wisp_status compute_save(struct request *request) {
    struct engine *engine = request->native->engine;
    size_t size = 0;
    TRY(engine_save(engine, NULL, 0, &size));
    request->bytes = malloc(size + 1);
    if (!request->bytes)
        return fail_memory(&engine->error, size);
    return engine_save(engine, request->bytes, size, &request->size);
}

/* saveState(engine) resolves to the bytes of engine_save. */
static napi_value save_state(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    struct request *request = read_request(env, info, &arguments);
    if (!request)
        return NULL;
    return request_submit(env, arguments.at[0], request, compute_save, make_bytes);
}

static wisp_status compute_load(struct request *request) {
    return engine_load(request->native->engine, request->bytes, request->size);
}

/* loadState(engine, bytes) replaces the engine's texts by those that saveState has saved. */
static napi_value load_state(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    struct request *request = read_request(env, info, &arguments);
    if (!request || !take_bytes(env, arguments.at[1], request))
        return NULL;
    return request_submit(env, arguments.at[0], request, compute_load, make_undefined);
}

/* ---- the engine ----------------------------------------------------------------------------- */

/* chatTemplate(engine) returns the model's chat template, or undefined. */
static napi_value chat_template(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    if (!read_arguments(env, info, true, &arguments))
        return NULL;
    return make_string(env, engine_chat_template(arguments.native->engine));
}

/* cacheType(engine) returns the type of keys and values. */
static napi_value cache_type(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    if (!read_arguments(env, info, true, &arguments))
        return NULL;
    return make_string(env, engine_cache_type(arguments.native->engine));
}

/* threads(engine) returns how many compute a text. */
static napi_value threads(napi_env env, napi_callback_info info) {
    struct arguments arguments;
    napi_value count;
    if (!read_arguments(env, info, true, &arguments))
        return NULL;
    if (napi_create_uint32(env, pool_size(arguments.native->engine->session->team), &count) !=
        napi_ok)
        return throw_last(env);
    return count;
}

napi_status define_generate(napi_env env, napi_value exports) {
    static const struct addon_function functions[] = {
        {"openWriting", open_writing},
        {"openSearch", open_search},
        {"run", run},
        {"stop", stop},
        {"endWork", end_work},
        {"logits", logits},
        {"score", score},
        {"detokenize", detokenize},
        {"saveState", save_state},
        {"loadState", load_state},
        {"chatTemplate", chat_template},
        {"cacheType", cache_type},
        {"threads", threads},
    };
    return define_functions(env, exports, functions, sizeof functions / sizeof *functions);
}
