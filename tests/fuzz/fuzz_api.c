/* SPDX-License-Identifier: Apache-2.0
 * Uses the public API as the input says. The input is a list of calls, each a byte that chooses it
 * and bytes for its arguments: models are opened in memory, from sources that fail or lie, or from
 * files; sessions are opened, embed, generate, are cancelled and closed, in any order that wisp.h
 * allows; and allocations fail. Every call must succeed or give an error that the input explains,
 * and if the source is honest, a text must have one embedding whichever texts are beside it. */
#include <pthread.h>
#include <stdio.h>

#include "api_files.h"
#include "fuzz.h"
#include "support/allocations.h"

enum { MODELS = 2, SESSIONS = 3, MOST_TEXTS = 8, MOST_CALLS = 48 };

/* ---- the input ------------------------------------------------------------------------------ */

struct script {
    const uint8_t *at, *end;
};

static unsigned take(struct script *script) {
    return script->at < script->end ? *script->at++ : 0;
}

static wisp_text take_text(struct script *script) {
    static const char *const texts[] = {"", "the man is eating food",
                                        "a b c a b c a b c a b c a b c a b c a b c, and so on.",
                                        "some one plays the guitar [MASK] \xC3\xA9t\xCC\x81 \xFF"};
    const unsigned choice = take(script);
    if (choice < 192)
        return wisp_text_of(texts[choice % 4]);
    const size_t left = (size_t)(script->end - script->at), wanted = choice - 192;
    const wisp_text text = {(const char *)script->at, wanted < left ? wanted : left};
    script->at += text.length;
    return text;
}

/* ---- the state ------------------------------------------------------------------------------ */

enum doubt { NO, MAYBE, YES };

struct model {
    wisp_model *model;
    struct source source;
    unsigned sessions;
    bool generates;
    bool honest; /* the source gives the bytes of the file, though it may fail */
};

struct session {
    wisp_session *session;
    struct model *model;
    bool traced;
    enum doubt cancelled; /* the next call will be */
};

struct world {
    struct model models[MODELS];
    struct session sessions[SESSIONS];
    bool no_memory; /* allocations may fail in this call */
};

/* Aborts unless the outcome is success or an error from the set `allowed`, with a message. */
static void expect(wisp_status status, const wisp_error *error, unsigned allowed) {
    if (status == WISP_OK)
        return;
    if (error->status != status || !*error->message || !(allowed >> status & 1u)) {
        fprintf(stderr, "%s: %s\n", wisp_status_name(status), error->message);
        abort();
    }
}

static unsigned memory_too(const struct world *world, unsigned allowed) {
    return allowed | (unsigned)world->no_memory << WISP_ERROR_MEMORY;
}

/* The errors that a call that reads the model may give. */
static unsigned errors_of(const struct world *world, const struct model *model) {
    unsigned allowed = 0;
    if (model->source.fails_at)
        allowed |= 1u << WISP_ERROR_IO;
    if (!model->honest)
        allowed |= 1u << WISP_ERROR_FORMAT | 1u << WISP_ERROR_UNSUPPORTED |
                   1u << WISP_ERROR_NOT_FOUND | 1u << WISP_ERROR_MEMORY;
    return memory_too(world, allowed);
}

/* ---- models --------------------------------------------------------------------------------- */

static void open_model(struct world *world, struct script *script) {
    enum { IN_PLACE, BY_READING, LASTING, BY_PATH, KINDS };
    static const int changes[] = {0, 0, 0, -1, -64, 1, 100};
    struct model *m = &world->models[take(script) % MODELS];
    const unsigned number = take(script) % FILES, kind = take(script) % KINDS;
    const unsigned choice = take(script), kernels = take(script);
    wisp_error error;
    if (m->model)
        return;
    const wisp_model_options options = {.compute = (wisp_compute)(choice % 4),
                                        .predictor = (wisp_predictor)(choice / 3 % 5),
                                        .kernels =
                                            kernels % 8 ? wisp_kernels_name(kernels % 8) : NULL};
    const wisp_model_options *given = kernels == 255 ? NULL : &options;
    *m = (struct model){.source = {.file = &files[number], .size = files[number].size}};
    m->honest = true;
    m->generates = number >= FILES - DECODERS;
    wisp_status status;
    if (kind == BY_PATH) {
        status = wisp_model_open(fuzz_path(file_names[number]), given, &m->model, &error);
    } else {
        struct source *s = &m->source;
        s->size += (uint64_t)(int64_t)changes[take(script) % 7];
        if (kind == IN_PLACE && s->size > s->file->size)
            s->size = s->file->size;
        s->fails_at = take(script);
        s->lies_at = take(script);
        s->fails_on = s->fails_at & 1;
        m->honest = s->size == s->file->size && !s->lies_at;
        if (kind == IN_PLACE) {
            s->copy = malloc((size_t)s->size);
            if (!s->copy)
                return;
            memcpy(s->copy, s->file->data, (size_t)s->size);
            s->fails_at = 0;
            m->honest = s->size == s->file->size;
        }
        const wisp_source source = {.size = s->size,
                                    .data = s->copy,
                                    .read = read_source,
                                    .close = close_source,
                                    .context = s,
                                    .name = choice % 2 ? "source" : NULL,
                                    .lasting = kind == LASTING};
        status = wisp_model_open_source(&source, given, &m->model, &error);
    }
    if ((status == WISP_OK) != (m->model != NULL))
        abort();
    /* A file may lack what the predictor needs. */
    expect(status, &error,
           errors_of(world, m) | 1u << WISP_ERROR_ARGUMENT | 1u << WISP_ERROR_NOT_FOUND |
               1u << WISP_ERROR_UNSUPPORTED);
    if (!m->model) {
        if (kind != BY_PATH && m->source.closed != 1)
            abort();
        free(m->source.copy);
    }
}

static void close_model(struct model *m) {
    const bool from_source = m->source.reads > 0 || m->source.copy;
    if (!m->model || m->sessions > 0)
        return;
    wisp_model_close(m->model);
    if (from_source && m->source.closed != 1)
        abort();
    free(m->source.copy);
    m->model = NULL;
}

static void ask_model(const struct world *world, struct script *script) {
    const struct model *m = &world->models[take(script) % MODELS];
    wisp_model_info info;
    const char *key;
    char value[24];
    if (!m->model)
        return;
    wisp_model_get_info(m->model, &info);
    for (size_t i = 0; wisp_model_metadata(m->model, i, &key, value, 1 + i % sizeof value); i++)
        if (strlen(value) >= 1 + i % sizeof value)
            abort();
    char name[64] = "";
    const wisp_text text = take_text(script);
    memcpy(name, text.bytes, text.length < 63 ? text.length : 63);
    wisp_model_prompt(m->model, name);
    if (!wisp_model_prompt(m->model, NULL) || info.hidden_size != wisp_model_dimensions(m->model))
        abort();
}

static void tokenize(const struct world *world, struct script *script) {
    const struct model *m = &world->models[take(script) % MODELS];
    const size_t capacity = take(script) % 32;
    const wisp_text text = take_text(script);
    size_t count = 0;
    wisp_error error;
    if (!m->model)
        return;
    int32_t *ids = malloc(capacity * sizeof *ids + 1);
    if (!ids)
        return;
    const wisp_status status = wisp_tokenize(m->model, text, ids, capacity, &count, &error);
    expect(status, &error, memory_too(world, 0));
    if (status == WISP_OK && count < 2 && !m->generates)
        abort();
    size_t all = 0;
    const wisp_status counted = wisp_count_tokens(m->model, text, &all, &error);
    expect(counted, &error, memory_too(world, 0));
    if (status == WISP_OK && counted == WISP_OK && (all < count || (m->generates && all > count)))
        abort();
    if (status == WISP_OK) { /* in two parts, and at once */
        char parts[2][1024], whole[2048];
        size_t lengths[2], length;
        const size_t n = count < capacity ? count : capacity, first = n / 2;
        wisp_decoder decoder = {.more = true, .special = capacity % 2};
        const wisp_decoder same = {.special = decoder.special};
        bool good = wisp_detokenize(m->model, ids, first, &decoder, parts[0], 1024, &lengths[0],
                                    &error) == WISP_OK;
        decoder.more = false;
        good = good && wisp_detokenize(m->model, ids + first, n - first, &decoder, parts[1], 1024,
                                       &lengths[1], &error) == WISP_OK;
        decoder = same;
        good = good &&
               wisp_detokenize(m->model, ids, n, &decoder, whole, 2048, &length, &error) == WISP_OK;
        if (!good)
            expect(error.status, &error, memory_too(world, 0));
        else if (length != lengths[0] + lengths[1] || memcmp(whole, parts[0], lengths[0]) != 0 ||
                 memcmp(whole + lengths[0], parts[1], lengths[1]) != 0)
            abort();
    }
    free(ids);
}

/* ---- sessions ------------------------------------------------------------------------------- */

static void open_session(struct world *world, struct script *script) {
    struct session *s = &world->sessions[take(script) % SESSIONS];
    struct model *m = &world->models[take(script) % MODELS];
    const unsigned choice = take(script);
    wisp_error error;
    if (s->session || !m->model)
        return;
    const wisp_session_options options = {
        .threads = choice % 4, .trace = choice & 4, .recall = choice & 8};
    const wisp_status status =
        wisp_session_open(m->model, choice == 255 ? NULL : &options, &s->session, &error);
    if ((status == WISP_OK) != (s->session != NULL))
        abort();
    expect(status, &error, memory_too(world, 0));
    if (!s->session)
        return;
    s->model = m;
    s->traced = choice != 255 && options.trace;
    s->cancelled = NO;
    m->sessions++;
}

static void close_session(struct session *s) {
    if (!s->session)
        return;
    wisp_session_close(s->session);
    s->session = NULL;
    s->model->sessions--;
}

static void set_sparsity(struct world *world, struct script *script) {
    static const float shares[] = {0, 0.3f, 0.5f, 0.7f, 0.999f, 1, -1, 1e-30f};
    struct session *s = &world->sessions[take(script) % SESSIONS];
    const unsigned choice = take(script);
    float share = shares[choice % 8];
    wisp_error error;
    if (!s->session)
        return;
    if (choice == 255) {
        unsigned char bits[sizeof share];
        for (size_t i = 0; i < sizeof bits; i++)
            bits[i] = (unsigned char)take(script);
        memcpy(&share, bits, sizeof share);
    }
    const wisp_status status = wisp_session_set_sparsity(s->session, share, &error);
    expect(status, &error, memory_too(world, 1u << WISP_ERROR_ARGUMENT));
    if (status == WISP_OK && !(share >= 0 && share < 1))
        abort();
}

static void ask_session(const struct world *world, struct script *script) {
    const struct session *s = &world->sessions[take(script) % SESSIONS];
    wisp_stats stats;
    wisp_layer_stats layer;
    wisp_error error;
    if (!s->session)
        return;
    wisp_session_get_stats(s->session, &stats);
    for (uint32_t l = 0; wisp_session_get_layer_stats(s->session, l, &layer); l++)
        if (layer.computed > layer.neurons || layer.found > layer.needed)
            abort();
    if (take(script) % 4)
        return;
    const wisp_status status =
        wisp_session_write_trace(s->session, fuzz_path("trace.json"), &error);
    expect(status, &error, memory_too(world, s->traced ? 0 : 1u << WISP_ERROR_ARGUMENT));
    if (status == WISP_OK && !s->traced)
        abort();
}

/* ---- embedding ------------------------------------------------------------------------------ */

struct call {
    struct session *s;
    wisp_text texts[MOST_TEXTS];
    size_t n, dimensions;
    const char *prompt;
    float *rows;
    wisp_status status;
    wisp_error error;
};

static void *run_call(void *context) {
    struct call *call = context;
    const wisp_embed_options options = {.prompt = call->prompt, .dimensions = call->dimensions};
    call->status =
        wisp_embed(call->s->session, call->texts, call->n, &options, call->rows, &call->error);
    return NULL;
}

static void *cancel_session(void *context) {
    wisp_session_cancel(context);
    return NULL;
}

/* Takes the arguments of a call for a session that is open. */
static bool take_call(struct world *world, struct script *script, struct call *call) {
    static const char *const prompts[] = {NULL, "", "query: ", "the the the the the the the the"};
    *call = (struct call){.s = &world->sessions[take(script) % SESSIONS]};
    call->n = take(script) % (MOST_TEXTS + 1);
    const unsigned choice = take(script);
    for (size_t i = 0; i < call->n; i++)
        call->texts[i] = take_text(script);
    if (!call->s->session)
        return false;
    const size_t size = wisp_model_dimensions(call->s->model->model);
    call->prompt = prompts[choice % 4];
    call->dimensions = choice < 128 ? 0 : choice % (size + 2);
    call->rows = malloc((call->n * size + 1) * sizeof *call->rows);
    return call->rows != NULL;
}

/* The embedding of a text must not depend on the other texts. */
static void expect_same_alone(const struct call *call) {
    struct call alone = *call;
    const size_t size =
        call->dimensions ? call->dimensions : wisp_model_dimensions(call->s->model->model);
    float *row = malloc(size * sizeof *row);
    if (!row)
        return;
    alone.texts[0] = call->texts[call->n - 1];
    alone.n = 1;
    alone.rows = row;
    run_call(&alone);
    if (alone.status == WISP_OK &&
        memcmp(row, call->rows + (call->n - 1) * size, size * sizeof *row) != 0)
        abort();
    free(row);
}

static void check_call(const struct world *world, struct call *call) {
    struct session *s = call->s;
    unsigned allowed = errors_of(world, s->model) |
                       (s->model->generates ? 1u << WISP_ERROR_UNSUPPORTED : 0) |
                       (call->dimensions ? 1u << WISP_ERROR_ARGUMENT : 0) |
                       (s->cancelled != NO ? 1u << WISP_ERROR_CANCELLED : 0);
    expect(call->status, &call->error, allowed);
    if (call->status == WISP_OK && s->cancelled == YES && call->n > 0)
        abort();
    if (call->status == WISP_ERROR_CANCELLED)
        s->cancelled = s->cancelled == YES ? NO : MAYBE;
    if (call->status == WISP_OK && s->cancelled == NO && call->n > 0 && s->model->honest)
        expect_same_alone(call);
    free(call->rows);
}

static void embed(struct world *world, struct script *script) {
    struct call call, other;
    pthread_t thread;
    const unsigned manner = take(script);
    if (!take_call(world, script, &call))
        return;
    if (manner % 4 == 1) { /* cancelled by another thread at an unknown moment */
        call.s->cancelled = call.s->cancelled == YES ? YES : MAYBE;
        if (pthread_create(&thread, NULL, cancel_session, call.s->session) != 0)
            abort();
        run_call(&call);
        pthread_join(thread, NULL);
        if (call.s->cancelled == YES && call.status == WISP_ERROR_CANCELLED) {
            check_call(world, &call);
            call.s->cancelled = MAYBE;
            return;
        }
    } else if (manner % 4 == 2 && take_call(world, script, &other)) {
        if (other.s == call.s) {
            free(other.rows);
            run_call(&call);
        } else { /* beside another session, which may have the same model */
            if (pthread_create(&thread, NULL, run_call, &other) != 0)
                abort();
            run_call(&call);
            pthread_join(thread, NULL);
            check_call(world, &other);
        }
    } else {
        run_call(&call);
    }
    check_call(world, &call);
}

/* ---- generating ----------------------------------------------------------------------------- */

/* The text of one call. */
struct written {
    char text[1024];
    size_t length;
};

static bool write_piece(void *context, const wisp_piece *piece) {
    struct written *written = context;
    if (piece->text.length > sizeof written->text - written->length)
        abort();
    if (piece->text.length > 0)
        memcpy(written->text + written->length, piece->text.bytes, piece->text.length);
    written->length += piece->text.length;
    return true;
}

/* Continues a text, or replies to one, twice: what the session keeps must not change the text. */
static void generate(struct world *world, struct script *script) {
    struct session *s = &world->sessions[take(script) % SESSIONS];
    const unsigned choice = take(script), seed = take(script);
    const wisp_message messages[] = {{WISP_ROLE_SYSTEM, take_text(script)},
                                     {WISP_ROLE_USER, take_text(script)}};
    const wisp_conversation conversation = {.messages = messages + choice % 2,
                                            .n = 2 - choice % 2,
                                            .format = choice & 64 ? "plain" : NULL,
                                            .no_thinking = choice & 32};
    static const char *const stops[] = {"a", "the"};
    struct written written[2] = {{.length = 0}, {.length = 0}};
    if (!s->session)
        return;
    for (int twice = 0; twice < 2; twice++) {
        const wisp_generate_options options = {
            .max_tokens = 1 + choice / 2 % 8,
            .sampling = {.temperature = (float)(seed % 3), .top_k = seed % 5, .seed = seed},
            .stop = stops,
            .stops = seed % 3,
            .piece = write_piece,
            .context = &written[twice]};
        wisp_error error;
        wisp_generation result;
        const wisp_status status =
            choice & 16 ? wisp_chat(s->session, &conversation, &options, &result, &error)
                        : wisp_generate(s->session, messages[0].content, &options, &result, &error);
        /* A prompt may be empty or too long, and a format may have no switch for thinking. */
        unsigned allowed = errors_of(world, s->model) | 1u << WISP_ERROR_ARGUMENT;
        if (!s->model->generates)
            allowed |= 1u << WISP_ERROR_UNSUPPORTED;
        if (s->cancelled != NO)
            allowed |= 1u << WISP_ERROR_CANCELLED;
        expect(status, &error, allowed);
        if (status == WISP_ERROR_CANCELLED)
            s->cancelled = s->cancelled == YES ? NO : MAYBE;
        if (status != WISP_OK)
            return;
        if (!s->model->generates || s->cancelled == YES)
            abort();
    }
    if (s->model->honest && (written[0].length != written[1].length ||
                             memcmp(written[0].text, written[1].text, written[0].length) != 0))
        abort();
}

static void cancel(struct world *world, struct script *script) {
    struct session *s = &world->sessions[take(script) % SESSIONS];
    if (!s->session)
        return;
    wisp_session_cancel(s->session);
    s->cancelled = YES;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void find_names(struct script *script) {
    wisp_compute compute;
    wisp_predictor predictor;
    char name[64] = "";
    const wisp_text text = take_text(script);
    memcpy(name, text.bytes, text.length < 63 ? text.length : 63);
    if (wisp_compute_find(name, &compute) && strcmp(wisp_compute_name(compute), name) != 0)
        abort();
    if (wisp_predictor_find(name, &predictor) && strcmp(wisp_predictor_name(predictor), name) != 0)
        abort();
    if (wisp_compute_name(250) || wisp_predictor_name(250) || wisp_stage_name(WISP_STAGES))
        abort();
}

static void make_one_call(struct world *world, struct script *script) {
    const unsigned choice = take(script);
    switch (choice % 12) {
    case 0:
    case 1:
        open_model(world, script);
        break;
    case 2:
        open_session(world, script);
        break;
    case 3:
    case 4:
        embed(world, script);
        break;
    case 5:
        if (choice < 128)
            embed(world, script);
        else
            generate(world, script);
        break;
    case 6:
        set_sparsity(world, script);
        break;
    case 7:
        cancel(world, script);
        break;
    case 8:
        ask_session(world, script);
        break;
    case 9:
        close_session(&world->sessions[take(script) % SESSIONS]);
        break;
    case 10:
        close_model(&world->models[take(script) % MODELS]);
        break;
    default:
        if (choice < 80)
            tokenize(world, script);
        else if (choice < 160)
            ask_model(world, script);
        else
            find_names(script);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct script script = {data, data + size};
    struct world world = {0};
    make_files();
    for (int i = 0; i < MOST_CALLS && script.at < script.end; i++) {
        world.no_memory = *script.at == 255;
        if (world.no_memory) {
            take(&script);
            const unsigned n = take(&script);
            allocations_fail_after(n / 2, n & 1);
        }
        make_one_call(&world, &script);
        allocations_succeed();
    }
    for (size_t i = 0; i < SESSIONS; i++)
        close_session(&world.sessions[i]);
    for (size_t i = 0; i < MODELS; i++)
        close_model(&world.models[i]);
    return 0;
}
