/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number_text.h"

EXPORT("engine_new") struct engine *engine_new(void) {
    return calloc(1, sizeof(struct engine));
}

EXPORT("engine_free") void engine_free(struct engine *engine) {
    wisp_session_close(engine->session);
    wisp_model_close(engine->model);
    free(engine->text);
    free(engine);
}

/* ---- text for the caller -------------------------------------------------------------------- */

void put(struct engine *engine, const char *format, ...) {
    for (;;) {
        const size_t room = engine->capacity - engine->length;
        va_list args;
        va_start(args, format);
        const int length = vsnprintf(engine->text + engine->length, room, format, args);
        va_end(args);
        if ((size_t)length < room) {
            engine->length += (size_t)length;
            return;
        }
        const size_t capacity = 2 * engine->capacity + (size_t)length + 1;
        char *text = realloc(engine->text, capacity);
        if (!text) {
            engine->out_of_memory = true;
            return;
        }
        engine->text = text;
        engine->capacity = capacity;
    }
}

void begin(struct engine *engine, const char *start) {
    engine->length = 0;
    engine->out_of_memory = false;
    put(engine, "%s", start);
}

void put_escaped(struct engine *engine, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        put(engine, c < 0x20 || c == '"' || c == '\\' ? "\\u%04x" : "%c", c);
    }
}

/* ---- options -------------------------------------------------------------------------------- */

/* Sets *chosen to the index of the name `text`. Where `text` is NULL the index is 0, the name
 * "auto". Fails where there is no such name. */
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

/* Sets the sparsity, or returns to the model's own where it is not `given`. */
static wisp_status set_sparsity(struct engine *engine, bool given, double sparsity) {
    wisp_model_info info;
    if (engine->session) {
        wisp_model_get_info(engine->model, &info);
        TRY(wisp_session_set_sparsity(engine->session, given ? (float)sparsity : info.sparsity,
                                      &engine->error));
    }
    engine->has_sparsity = given;
    engine->sparsity = sparsity;
    return WISP_OK;
}

EXPORT("engine_set")
wisp_status engine_set(struct engine *engine, const char *name, const char *text, double number) {
    const bool compute = strcmp(name, "compute") == 0;
    if (compute || strcmp(name, "predictor") == 0)
        return choose(engine, name, text, compute ? wisp_compute_name : wisp_predictor_name,
                      compute ? &engine->compute : &engine->predictor);
    if (strcmp(name, "kernels") == 0) {
        engine->has_kernels = text != NULL;
        snprintf(engine->kernels, sizeof engine->kernels, "%s", text ? text : "");
        return WISP_OK;
    }
    if (strcmp(name, "recall") == 0) {
        engine->recall = text && number != 0;
        return WISP_OK;
    }
    if (strcmp(name, "portable") == 0) {
        engine->portable = text && number != 0;
        return WISP_OK;
    }
    if (strcmp(name, "threads") == 0) {
        engine->threads = (uint32_t)number;
        return WISP_OK;
    }
    if (strcmp(name, "available") == 0) {
        engine->available = (uint64_t)number;
        return WISP_OK;
    }
    if (strcmp(name, "memory") == 0) {
        engine->memory = (uint64_t)number;
        return WISP_OK;
    }
    if (strcmp(name, "skip_absent") == 0) {
        engine->skip_absent = number != 0;
        return WISP_OK;
    }
    if (strcmp(name, "sparsity") == 0)
        return set_sparsity(engine, text != NULL, number);
    return fail(&engine->error, WISP_ERROR_ARGUMENT, NULL, name, "there is no such option");
}

/* ---- the model ------------------------------------------------------------------------------ */

wisp_status engine_open_model(struct engine *engine, const wisp_source *source) {
    const wisp_model_options options = {.compute = (wisp_compute)engine->compute,
                                        .kernels = engine->has_kernels ? engine->kernels : NULL,
                                        .predictor = (wisp_predictor)engine->predictor,
                                        .hot_only = engine->available > 0,
                                        .memory = engine->memory,
                                        .portable = engine->portable};
    return wisp_model_open_source(source, &options, &engine->model, &engine->error);
}

wisp_status engine_open_session(struct engine *engine) {
    const wisp_session_options options = {
        .recall = engine->recall, .threads = engine->threads, .skip_absent = engine->skip_absent};
    TRY(wisp_session_open(engine->model, &options, &engine->session, &engine->error));
    return engine->has_sparsity ? set_sparsity(engine, true, engine->sparsity) : WISP_OK;
}

EXPORT("engine_embed")
wisp_status engine_embed(struct engine *engine, const wisp_text *texts, size_t n,
                         const char *prompt, size_t dimensions, float *rows) {
    const wisp_embed_options options = {.prompt = prompt, .dimensions = dimensions};
    return wisp_embed(engine->session, texts, n, &options, rows, &engine->error);
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
    begin(engine, "{\"name\":\"");
    put_escaped(engine, info.name, strlen(info.name));
    put(engine,
        "\",\"architecture\":\"%s\",\"compute\":\"%s\",\"kernels\":\"%s\",\"predictor\":\"%s\","
        "\"sparsity\":%s,\"pooling\":\"%s\",",
        info.architecture, info.compute, info.kernels, info.predictor,
        engine->has_sparsity ? number_text(engine->sparsity, 17).text
                             : number_text((double)info.sparsity, 6).text,
        info.pooling);
    put(engine,
        "\"dimensions\":%zu,\"hiddenSize\":%u,\"intermediateSize\":%u,\"layers\":%u,\"heads\":%u,"
        "\"vocabularySize\":%u,\"maxTokens\":%u,\"parameters\":%llu,\"residentBytes\":%llu,"
        "\"build\":\"%s\",\"features\":\"%s\"}",
        wisp_model_dimensions(engine->model), info.hidden_size, info.intermediate_size, info.layers,
        info.heads, info.vocabulary_size, info.max_tokens, (unsigned long long)info.parameters,
        (unsigned long long)info.resident_bytes, wisp_build(), wisp_cpu_features());
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
    put(engine, "]}");
    return engine->out_of_memory ? NULL : engine->text;
}
