/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/number_text.h"

/* ---- files ---------------------------------------------------------------------------------- */

#ifdef HAS_FILES

/* Adds what the vector cache that is open has done. */
static void count_vectors(const struct engine *engine, wisp_vector_cache_stats *sums) {
    wisp_vector_cache_stats counts;
    if (!engine->vectors)
        return;
    wisp_vector_cache_get_stats(engine->vectors, &counts);
    sums->found += counts.found;
    sums->computed += counts.computed;
    sums->lost += counts.lost;
    sums->truncated += counts.truncated;
}

/* Closes the vector cache, which is of what the session computes. */
static void close_vectors(struct engine *engine) {
    count_vectors(engine, &engine->vector_counts);
    wisp_vector_cache_close(engine->vectors);
    engine->vectors = NULL;
}

/* Puts what the vector cache has done, if there is one. */
static void put_vector_counts(struct engine *engine) {
    wisp_vector_cache_stats counts = engine->vector_counts;
    if (!engine->vector_cache)
        return;
    count_vectors(engine, &counts);
    put(engine,
        ",\"vectorCache\":{\"found\":%llu,\"computed\":%llu,\"lost\":%llu,\"truncated\":%llu}",
        (unsigned long long)counts.found, (unsigned long long)counts.computed,
        (unsigned long long)counts.lost, (unsigned long long)counts.truncated);
}

static wisp_status use_prompt_files(struct engine *engine) {
    if (engine->kv_memory)
        TRY(wisp_session_limit_kv_memory(engine->session, engine->kv_memory, NULL, &engine->error));
    if (engine->prompt_cache)
        TRY(wisp_session_use_prompt_cache(engine->session, engine->prompt_cache,
                                          engine->prompt_cache_bytes, &engine->error));
    return WISP_OK;
}

#else

static void close_vectors(struct engine *engine) {
    (void)engine;
}

static void put_vector_counts(struct engine *engine) {
    (void)engine;
}

static wisp_status use_prompt_files(struct engine *engine) {
    (void)engine;
    return WISP_OK;
}

#endif

/* ---- the engine ----------------------------------------------------------------------------- */

EXPORT("engine_new") struct engine *engine_new(void) {
    return calloc(1, sizeof(struct engine));
}

EXPORT("engine_free") void engine_free(struct engine *engine) {
    close_vectors(engine);
    wisp_session_close(engine->session);
    wisp_model_close(engine->model);
    free(engine->prompt_cache);
    free(engine->vector_cache);
    free(engine->attention);
    free((void *)engine->model_options.device); /* set_option copied it */
    free(engine->text);
    free(engine);
}

/* ---- text for the caller -------------------------------------------------------------------- */

/* Makes room for `length` bytes and a 0 behind them. Returns their place; NULL: there is no memory.
 */
static char *make_room(struct engine *engine, size_t length) {
    if (length >= engine->capacity - engine->length) {
        const size_t capacity = 2 * engine->capacity + length + 1;
        char *text = realloc(engine->text, capacity);
        if (!text) {
            engine->out_of_memory = true;
            return NULL;
        }
        engine->text = text;
        engine->capacity = capacity;
    }
    return engine->text + engine->length;
}

void put(struct engine *engine, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const size_t room = engine->capacity - engine->length;
    const size_t length =
        (size_t)vsnprintf(engine->text ? engine->text + engine->length : NULL, room, format, args);
    char *place = make_room(engine, length);
    if (place && length >= room)
        vsnprintf(place, length + 1, format, again);
    engine->length += place ? length : 0;
    va_end(again);
    va_end(args);
}

static wisp_status write_to_engine(void *context, const void *bytes, size_t length,
                                   wisp_error *error) {
    struct engine *engine = context;
    char *place = make_room(engine, length);
    (void)error;
    if (place && length > 0) {
        memcpy(place, bytes, length);
        place[length] = 0;
        engine->length += length;
    }
    return WISP_OK; /* the engine remembers that there was no memory */
}

void put_string(struct engine *engine, wisp_text text) {
    const struct byte_sink sink = {write_to_engine, engine};
    json_write_string(&sink, text, NULL);
}

void begin(struct engine *engine, const char *start) {
    engine->length = 0;
    engine->out_of_memory = false;
    put(engine, "%s", start);
}

/* ---- options -------------------------------------------------------------------------------- */

/* Sets *chosen to the index of the name `text`. If `text` is NULL the index is 0, the name "auto".
 * Fails if there is no such name. */
static wisp_status choose(struct engine *engine, const char *option, const char *text,
                          const char *(*name_of)(size_t index), uint32_t *chosen) {
    *chosen = 0;
    if (!text)
        return WISP_OK;
    begin(engine, "");
    for (uint32_t i = 0; name_of(i); i++) {
        if (strcmp(name_of(i), text) == 0) {
            *chosen = i;
            return WISP_OK;
        }
        put(engine, i ? ", %s" : "%s", name_of(i));
    }
    return fail(&engine->error, WISP_ERROR_ARGUMENT, NULL, option, "'%s' is not one of %s", text,
                engine->out_of_memory ? "those there are" : engine->text);
}

/* Sets the sparsity, or returns to the model's own if it is not `given`. */
static wisp_status set_sparsity(struct engine *engine, bool given, double sparsity) {
    wisp_model_info info;
    if (engine->session) {
        wisp_model_get_info(engine->model, &info);
        TRY(wisp_session_set_sparsity(engine->session, given ? (float)sparsity : info.sparsity,
                                      &engine->error));
        close_vectors(engine);
    }
    engine->has_sparsity = given;
    engine->sparsity = sparsity;
    return WISP_OK;
}

enum kind { CHOICE, KERNELS, TEXT, FLAG, WHOLE, BYTES, SPARSITY, ABSENT };

/* The kind of an option that needs files. */
#ifdef HAS_FILES
#define OF_FILES(kind) kind
#else
#define OF_FILES(kind) ABSENT
#endif

/* The options, by the names that JavaScript has for them: js/base/options.js says what they may be.
 * cold-engine.js sets `available` and `skip_absent`. */
static const struct option {
    const char *name;
    enum kind kind;
    size_t offset;                        /* in struct engine */
    const char *(*name_of)(size_t index); /* of a CHOICE */
} option_table[] = {
#define MODEL(field) offsetof(struct engine, model_options.field)
#define SESSION(field) offsetof(struct engine, session_options.field)
#define ENGINE(field) offsetof(struct engine, field)
    {"compute", CHOICE, MODEL(compute), wisp_compute_name},
    {"predictor", CHOICE, MODEL(predictor), wisp_predictor_name},
    {"kernels", KERNELS, MODEL(kernels), NULL},
    {"portable", FLAG, MODEL(portable), NULL},
    {"device", TEXT, MODEL(device), NULL},
    {"memory", BYTES, MODEL(memory), NULL},
    {"available", BYTES, ENGINE(available), NULL},
    {"threads", WHOLE, SESSION(threads), NULL},
    {"recall", FLAG, SESSION(recall), NULL},
    {"skip_absent", FLAG, SESSION(skip_absent), NULL},
    {"sparsity", SPARSITY, ENGINE(sparsity), NULL},
    {"attention", TEXT, ENGINE(attention), NULL},
    {"cacheType", CHOICE, SESSION(cache_type), wisp_cache_type_name},
    {"promptCache", OF_FILES(TEXT), ENGINE(prompt_cache), NULL},
    {"promptCacheSize", OF_FILES(BYTES), ENGINE(prompt_cache_bytes), NULL},
    {"kvMemory", OF_FILES(BYTES), ENGINE(kv_memory), NULL},
    {"vectorCache", OF_FILES(TEXT), ENGINE(vector_cache), NULL},
    {"vectorCacheSize", OF_FILES(BYTES), ENGINE(vector_cache_bytes), NULL},
};

_Static_assert(sizeof(wisp_compute) == sizeof(uint32_t) &&
                   sizeof(wisp_predictor) == sizeof(uint32_t) &&
                   sizeof(wisp_cache_type) == sizeof(uint32_t),
               "a CHOICE has 32 bits");

static wisp_status set_option(struct engine *engine, const struct option *option, const char *text,
                              double number) {
    void *place = (char *)engine + option->offset;
    number = text ? number : 0;
    switch (option->kind) {
    case CHOICE: {
        uint32_t chosen;
        TRY(choose(engine, option->name, text, option->name_of, &chosen));
        memcpy(place, &chosen, sizeof chosen);
        return WISP_OK;
    }
    case KERNELS:
        snprintf(engine->kernels, sizeof engine->kernels, "%s", text ? text : "");
        *(const char **)place = text ? engine->kernels : NULL;
        return WISP_OK;
    case TEXT:
        free(*(char **)place);
        *(char **)place = text ? strdup(text) : NULL;
        return !text || *(char **)place ? WISP_OK : fail_memory(&engine->error, strlen(text));
    case FLAG:
        *(bool *)place = number != 0;
        return WISP_OK;
    case WHOLE:
        *(uint32_t *)place = (uint32_t)number;
        return WISP_OK;
    case BYTES:
        *(uint64_t *)place = (uint64_t)number;
        return WISP_OK;
    case SPARSITY:
        return set_sparsity(engine, text != NULL, number);
    case ABSENT:
        if (text)
            return fail(&engine->error, WISP_ERROR_UNSUPPORTED, NULL, option->name,
                        "only native code in Node, on Linux and macOS, keeps files");
    }
    return WISP_OK;
}

EXPORT("engine_set")
wisp_status engine_set(struct engine *engine, const char *name, const char *text, double number) {
    for (size_t i = 0; i < sizeof option_table / sizeof *option_table; i++)
        if (strcmp(option_table[i].name, name) == 0)
            return set_option(engine, &option_table[i], text, number);
    return fail(&engine->error, WISP_ERROR_ARGUMENT, NULL, name, "there is no such option");
}

/* ---- the model ------------------------------------------------------------------------------ */

wisp_status engine_open_model(struct engine *engine, const wisp_source *source) {
    engine->model_options.hot_only = engine->available > 0;
    return wisp_model_open_source(source, &engine->model_options, &engine->model, &engine->error);
}

wisp_status engine_open_session(struct engine *engine) {
    engine->session_options.attention = engine->attention;
    TRY(wisp_session_open(engine->model, &engine->session_options, &engine->session,
                          &engine->error));
    TRY(use_prompt_files(engine));
    return engine->has_sparsity ? set_sparsity(engine, true, engine->sparsity) : WISP_OK;
}

EXPORT("engine_tokenize")
wisp_status engine_tokenize(struct engine *engine, const char *bytes, size_t length, int32_t *ids,
                            size_t capacity, size_t *count) {
    const wisp_text text = {bytes, length};
    return wisp_tokenize(engine->model, text, ids, capacity, count, &engine->error);
}

EXPORT("engine_count")
wisp_status engine_count(struct engine *engine, const char *bytes, size_t length, size_t *count) {
    const wisp_text text = {bytes, length};
    return wisp_count_tokens(engine->model, text, count, &engine->error);
}

EXPORT("engine_prompt") const char *engine_prompt(const struct engine *engine, const char *name) {
    return wisp_model_prompt(engine->model, name);
}

EXPORT("engine_error_message") const char *engine_error_message(const struct engine *engine) {
    return engine->error.message;
}

EXPORT("engine_error_field") const char *engine_error_field(const struct engine *engine) {
    return engine->error.field;
}

/* ---- information and statistics ------------------------------------------------------------- */

/* Converts a time to whole nanoseconds: integers are formatted much faster than floating-point
 * numbers. */
static unsigned long long nanoseconds(double seconds) {
    return (unsigned long long)(seconds * 1e9);
}

EXPORT("engine_info") const char *engine_info(struct engine *engine) {
    wisp_model_info info;
    wisp_model_get_info(engine->model, &info);
    begin(engine, "{\"name\":");
    put_string(engine, wisp_text_of(info.name));
    put(engine,
        ",\"architecture\":\"%s\",\"compute\":\"%s\",\"kernels\":\"%s\",\"predictor\":\"%s\","
        "\"sparsity\":%s,\"pooling\":\"%s\",",
        info.architecture, info.compute, info.kernels, info.predictor,
        engine->has_sparsity ? number_text(engine->sparsity, 17).text
                             : number_text((double)info.sparsity, 6).text,
        info.pooling);
    put(engine,
        "\"dimensions\":%zu,\"hiddenSize\":%u,\"intermediateSize\":%u,\"layers\":%u,\"heads\":%u,"
        "\"vocabularySize\":%u,\"maxTokens\":%u,\"parameters\":%llu,\"residentBytes\":%llu,"
        "\"ranks\":%s,\"build\":\"%s\",\"features\":\"%s\"}",
        wisp_model_dimensions(engine->model), info.hidden_size, info.intermediate_size, info.layers,
        info.heads, info.vocabulary_size, info.max_tokens, (unsigned long long)info.parameters,
        (unsigned long long)info.resident_bytes, wisp_model_ranks(engine->model) ? "true" : "false",
        wisp_build(), wisp_cpu_features());
    return engine->out_of_memory ? NULL : engine->text;
}

EXPORT("engine_stats") const char *engine_stats(struct engine *engine) {
    wisp_stats stats;
    wisp_layer_stats s;
    wisp_session_get_stats(engine->session, &stats);
    begin(engine, "{\"stageSeconds\":{");
    for (size_t i = 0; i < WISP_STAGES; i++)
        put(engine, "%s\"%s\":%llue-9", i ? "," : "", wisp_stage_name(i),
            nanoseconds(stats.stage_seconds[i]));
    put(engine,
        "},\"texts\":%llu,\"tokens\":%llu,\"truncatedTexts\":%llu,\"workspaceBytes\":%llu,"
        "\"layers\":[",
        (unsigned long long)stats.texts, (unsigned long long)stats.tokens,
        (unsigned long long)stats.truncated_texts, (unsigned long long)stats.workspace_bytes);
    for (uint32_t l = 0; wisp_session_get_layer_stats(engine->session, l, &s); l++)
        put(engine,
            "%s{\"tokens\":%llu,\"seconds\":%llue-9,\"neurons\":%llu,\"computed\":%llu,"
            "\"contributing\":%llu,\"compared\":%llu,\"needed\":%llu,\"found\":%llu}",
            l ? "," : "", (unsigned long long)s.tokens, nanoseconds(s.seconds),
            (unsigned long long)s.neurons, (unsigned long long)s.computed,
            (unsigned long long)s.contributing, (unsigned long long)s.compared,
            (unsigned long long)s.needed, (unsigned long long)s.found);
    put(engine, "]");
    put_vector_counts(engine);
    put(engine, "}");
    return engine->out_of_memory ? NULL : engine->text;
}
