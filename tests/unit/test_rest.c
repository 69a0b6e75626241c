/* SPDX-License-Identifier: Apache-2.0
 * Weights that rest in the file of a model while its memory is limited (models/rest.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/bert.h"
#include "models/rest.h"
#include "support/cold_split.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { PATH_BYTES = 256 };

/* More memory than any model of these tests takes. */
static const uint64_t MUCH = 1 << 30;

static uint64_t resident_bytes_of(const wisp_model *model) {
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    return info.resident_bytes;
}

/* A model whose weights may rest, and how it is opened. */
struct resting_model {
    char path[PATH_BYTES];
    wisp_model_options options;
    float wanted[TEXTS * HIDDEN]; /* the embeddings with all of its weights in memory */
};

static wisp_model *open_limited(const struct resting_model *m, uint64_t memory) {
    wisp_model_options options = m->options;
    wisp_model *model;
    wisp_error error;
    options.hot_only = true;
    options.memory = memory;
    if (wisp_model_open(m->path, &options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return model;
}

/* Embeds with a limit of memory, with one thread and with four: twice all texts, and one text
 * alone. */
static void check_bits(const struct resting_model *m, const struct texts *texts, uint64_t memory) {
    static float rows[TEXTS * HIDDEN];
    wisp_error error;
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        wisp_model *model = open_limited(m, memory);
        const uint64_t held = resident_bytes_of(model);
        assert_true(held <= memory);
        wisp_session *session = open_session_or_fail(model, threads);
        for (int round = 0; round < 2; round++) {
            memset(rows, 0, sizeof rows);
            if (wisp_embed_from_file(session, texts->text, TEXTS, NULL, rows, &error) != WISP_OK)
                fail_msg("%s", error.message);
            assert_memory_equal(rows, m->wanted, sizeof rows);
            /* One text alone, of which several threads compute parts. */
            memset(rows, 0, HIDDEN * sizeof *rows);
            assert_int_equal(wisp_embed_from_file(session, &texts->text[5], 1, NULL, rows, &error),
                             WISP_OK);
            assert_memory_equal(rows, m->wanted + 5 * HIDDEN, HIDDEN * sizeof *rows);
        }
        assert_int_equal(resident_bytes_of(model), held + cold_stats_of(model).warm_bytes);
        wisp_session_close(session);
        wisp_model_close(model);
    }
}

/* Whatever a model is limited to, down to the least that its error names, it gives the bits of the
 * whole model. */
static void weights_rest_where_memory_is_short(void **state) {
    static struct resting_model m;
    struct texts texts;
    wisp_error error;
    (void)state;
    make_texts(&texts);
    for (size_t a = 0; a < 4 * ACTIVATIONS; a++) {
        static const wisp_predictor predictors[] = {WISP_PREDICTOR_LOWRANK, WISP_PREDICTOR_SENTENCE,
                                                    WISP_PREDICTOR_DENSE, WISP_PREDICTOR_EXACT};
        const char *activation = activations[a / 4];
        unsigned long long least;
        wisp_model *model;
        m.options = (wisp_model_options){.predictor = predictors[a % 4]};
        snprintf(m.path, sizeof m.path, "%s",
                 a % 4 >= 2 ? tiny_model("tiny.gguf", activation)
                            : cold_model("rows.gguf", activation, a % 4 == 1, BLOCK_Q8_0));
        assert_int_equal(wisp_model_open(m.path, &m.options, &model, &error), WISP_OK);
        wisp_session *session = open_session_or_fail(model, 1);
        embed_or_fail(session, texts.text, TEXTS, m.wanted);
        wisp_session_close(session);
        wisp_model_close(model);

        wisp_model_options small = m.options;
        small.hot_only = true;
        small.memory = 1;
        assert_int_equal(wisp_model_open(m.path, &small, &model, &error), WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "memory");
        assert_null(model);
        assert_int_equal(sscanf(strstr(error.message, "memory: ") + 8,
                                "%llu bytes are always in memory, more than the 1 that", &least),
                         1);
        small.memory = least - 1;
        assert_int_equal(wisp_model_open(m.path, &small, &model, &error), WISP_ERROR_ARGUMENT);

        model = open_limited(&m, MUCH);
        const uint64_t held = resident_bytes_of(model);
        assert_int_equal(cold_stats_of(model).least_memory, least);
        wisp_model_close(model);
        model = open_limited(&m, least);
        assert_int_equal(resident_bytes_of(model), least);
        assert_int_equal(cold_stats_of(model).least_memory, least);
        wisp_model_close(model);
        for (uint64_t part = 0; part <= 4; part++)
            check_bits(&m, &texts, least + (held - least) * part / 4);

        /* The limit may also be set later; nothing rests in vain. */
        small.memory = 0;
        assert_int_equal(wisp_model_open(m.path, &small, &model, &error), WISP_OK);
        const uint64_t all = resident_bytes_of(model);
        assert_int_equal(wisp_model_limit_memory(model, 1, &error), WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "memory");
        assert_int_equal(resident_bytes_of(model), all);
        assert_int_equal(wisp_model_limit_memory(model, least, &error), WISP_OK);
        assert_int_equal(resident_bytes_of(model), least);
        wisp_model_close(model);
    }
}

/* Spellings of tokens are not kept if memory is limited, and decoding says so. */
static void limited_models_do_not_spell_tokens(void **state) {
    const int32_t cls[] = {2};
    static struct resting_model m;
    char text[64];
    wisp_text spelling;
    size_t length;
    wisp_error error;
    (void)state;
    snprintf(m.path, sizeof m.path, "%s", cold_model("rows.gguf", "gelu", false, BLOCK_Q8_0));
    for (int limited = 0; limited < 2; limited++) {
        wisp_decoder decoder = {.special = true};
        wisp_model *model = open_limited(&m, limited ? MUCH : 0);
        assert_int_equal(wisp_token_spelling(model, cls[0], &spelling), !limited);
        assert_int_equal(
            wisp_detokenize(model, cls, 1, &decoder, text, sizeof text, &length, &error),
            limited ? WISP_ERROR_UNSUPPORTED : WISP_OK);
        decoder = (wisp_decoder){0};
        assert_int_equal(
            wisp_detokenize(model, cls, 1, &decoder, text, sizeof text, &length, &error), WISP_OK);
        wisp_model_close(model);
    }
}

/* A model in memory. When the bytes at `offset` are read, attention of layer 0 sleeps, or the read
 * fails. */
struct reading {
    const unsigned char *bytes;
    uint64_t offset;
    const struct network *awake; /* NULL: attention of layer 0 is not awake */
    atomic_bool fails;           /* the next read at `offset` does */
};

static int read_bytes(void *context, uint64_t offset, void *buffer, size_t length) {
    struct reading *reading = context;
    if (reading->awake && offset == reading->offset) {
        rest_sleep(reading->awake, REST_ATTENTION, 0);
        reading->awake = NULL;
    }
    if (offset == reading->offset && atomic_exchange(&reading->fails, false))
        return -1;
    memcpy(buffer, reading->bytes + offset, length);
    return 0;
}

/* Threads whose batches are at other layers do not wait for a layer that is read. */
static void layers_do_not_wait_for_each_other(void **state) {
    const wisp_model_options options = {.hot_only = true, .predictor = WISP_PREDICTOR_LOWRANK};
    char path[PATH_BYTES];
    size_t size;
    wisp_model *model;
    wisp_error error;
    (void)state;
    snprintf(path, sizeof path, "%s", cold_model("rows.gguf", "gelu", false, BLOCK_Q8_0));
    unsigned char *bytes = read_file(path, &size);
    struct reading reading = {.bytes = bytes};
    const wisp_source source = {
        .size = size, .read = read_bytes, .context = &reading, .lasting = true};
    assert_int_equal(wisp_model_open_source(&source, &options, &model, &error), WISP_OK);
    assert_int_equal(wisp_model_limit_memory(model, cold_stats_of(model).least_memory, &error),
                     WISP_OK);
    const struct network *network = &model->network;
    const struct bert_weights *weights = network->weights;
    assert_int_equal(rest_wake(network, REST_ATTENTION, 0, &error), WISP_OK);
    reading.offset = directory_find_tensor(&model->dir, "blk.1.attn_q.weight")->offset;
    reading.awake = network;
    assert_int_equal(rest_wake(network, REST_ATTENTION, 1, &error), WISP_OK);
    assert_null(reading.awake);
    assert_null(weights->layer[0].qkv.weights);
    assert_non_null(weights->layer[1].qkv.weights);
    rest_sleep(network, REST_ATTENTION, 1);
    assert_null(weights->layer[1].qkv.weights);
    wisp_model_close(model);
    free(bytes);
}

/* A source that is all available, and a model with all neurons, are refused with a limit, which
 * nothing would keep. */
static void a_source_is_limited_after_it_is_opened(void **state) {
    wisp_model_options options = {.hot_only = true, .memory = MUCH};
    size_t size;
    wisp_error error;
    (void)state;
    unsigned char *bytes = read_file(tiny_model("tiny.gguf", "gelu"), &size);
    struct reading reading = {.bytes = bytes};
    const wisp_source source = {
        .size = size, .read = read_bytes, .context = &reading, .lasting = true};
    wisp_model *model;
    assert_int_equal(wisp_model_open_source(&source, &options, &model, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "memory");
    assert_null(model);
    const wisp_model_options all = {.memory = MUCH}; /* no part of it could be given up */
    assert_int_equal(wisp_model_open(tiny_model("tiny.gguf", "gelu"), &all, &model, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "memory");
    assert_null(model);
    options.memory = 0;
    assert_int_equal(wisp_model_open_source(&source, &options, &model, &error), WISP_OK);
    assert_int_equal(wisp_model_limit_memory(model, MUCH, &error), WISP_OK);
    wisp_model_close(model);
    free(bytes);
}

/* A tensor of each part that a pass reads, and which predictor the model has. */
static const struct {
    const char *tensor, *says; /* says: how an error names the part */
    wisp_predictor predictor;
} parts[] = {
    {"position_embd.weight", "the positions of layer 0 differ", WISP_PREDICTOR_LOWRANK},
    {"blk.1.attn_output.weight", "attention's weights of layer 1 differ", WISP_PREDICTOR_LOWRANK},
    {"blk.1.ffn_down.weight", "feed-forward weights of layer 1 differ", WISP_PREDICTOR_DENSE},
    {"blk.1.ffn_up.weight", "feed-forward weights of layer 1 differ", WISP_PREDICTOR_EXACT},
    {"blk.1.ffn_predictor_q.weight", "weights of the predictor of layer 1 differ",
     WISP_PREDICTOR_LOWRANK},
    {"blk.1.ffn_compensation.weight", "compensation weights of layer 1 differ",
     WISP_PREDICTOR_LOWRANK}};
enum { PASS_PARTS = sizeof parts / sizeof *parts };

/* Makes a model that has part i, and writes the embeddings of all texts to `wanted`. */
static struct split make_model(size_t i, const struct texts *texts, float *wanted) {
    struct split split = {0};
    if (parts[i].predictor == WISP_PREDICTOR_LOWRANK) {
        split = split_open("gelu", false, BLOCK_Q8_0, 0);
    } else {
        snprintf(split.path, sizeof split.path, "%s", tiny_model("tiny.gguf", "gelu"));
        split.bytes = read_file(split.path, &split.size);
        split.hot_bytes = split.size;
    }
    wisp_model *model = open_with(split.path, WISP_COMPUTE_AUTO, parts[i].predictor, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    embed_or_fail(session, texts->text, TEXTS, wanted);
    wisp_session_close(session);
    wisp_model_close(model);
    return split;
}

/* Opens it from a source that is read, with as little memory as goes. */
static wisp_model *open_least(const struct split *split, struct reading *reading, size_t i) {
    const wisp_model_options options = {.hot_only = true, .predictor = parts[i].predictor};
    const wisp_source source = {.size = split->size,
                                .available = split->hot_bytes < split->size ? split->hot_bytes : 0,
                                .read = read_bytes,
                                .context = reading,
                                .name = "model",
                                .lasting = true};
    wisp_model *model;
    wisp_error error;
    assert_int_equal(wisp_model_open_source(&source, &options, &model, &error), WISP_OK);
    assert_int_equal(wisp_model_limit_memory(model, cold_stats_of(model).least_memory, &error),
                     WISP_OK);
    reading->offset = directory_find_tensor(&model->dir, parts[i].tensor)->offset;
    return model;
}

static wisp_status embed(wisp_session *session, const struct split *split, const wisp_text *text,
                         size_t n, float *rows, wisp_error *error) {
    uint64_t random = 3;
    wisp_status status = wisp_embed(session, text, n, NULL, rows, error);
    while (status == WISP_NEED_RANGES) {
        split_provide_some(session, split, 0, &random);
        status = wisp_embed_continue(session, error);
    }
    return status;
}

/* Checks that no weights that rest are in memory. */
static void expect_rest(const wisp_model *model) {
    const struct bert_weights *weights = model->network.weights;
    assert_null(model->network.positions->rows);
    for (size_t l = 0; l < COLD_LAYERS; l++) {
        const struct feed_forward *f = &model->network.feed_forward[l];
        assert_true(!weights->layer[l].qkv.weights && !weights->layer[l].output.weights);
        assert_true(!f->up.weights && !f->gate.weights && !f->down.weights);
        assert_true(!f->sparse.p.weights && !f->sparse.q.weights && !f->sparse.thresholds);
        assert_null(f->sparse.compensation.weights);
        if (f->sparse.neurons && !model->network.neurons.by_rows)
            assert_true(!f->sparse.neurons->dense.weights && !f->sparse.neurons->memory.base);
    }
}

/* A call whose read of a part fails, once, says so and leaves no weights behind; the next one has
 * the bits of the whole model. */
static void a_part_that_cannot_be_read_is_an_error(void **state) {
    static float wanted[TEXTS * HIDDEN], rows[TEXTS * HIDDEN];
    struct texts texts;
    wisp_error error;
    (void)state;
    make_texts(&texts);
    for (size_t i = 0; i < PASS_PARTS; i++) {
        struct split split = make_model(i, &texts, wanted);
        struct reading reading = {.bytes = split.bytes};
        for (uint32_t threads = 1; threads <= 4; threads++) {
            wisp_model *model = open_least(&split, &reading, i);
            wisp_session *session = open_cold_session(model, threads, false);
            for (size_t n = 1; n <= TEXTS; n += TEXTS - 1) {
                const wisp_text *text = &texts.text[TEXTS - n];
                atomic_store(&reading.fails, true);
                assert_int_equal(embed(session, &split, text, n, rows, &error), WISP_ERROR_IO);
                assert_string_equal(error.field, parts[i].tensor);
                assert_int_equal(wisp_embed_continue(session, &error), WISP_ERROR_ARGUMENT);
                expect_rest(model);
                assert_int_equal(embed(session, &split, texts.text, TEXTS, rows, &error), WISP_OK);
                assert_memory_equal(rows, wanted, sizeof rows);
                expect_rest(model);
            }
            wisp_session_close(session);
            wisp_model_close(model);
        }
        split_close(&split);
    }
}

/* Bytes of the file that change while the weights rest are noticed. A change of a weight by one
 * step could be lost in narrow weights, which have fewer. */
enum { CHANGED = 0x40 };

static void a_part_that_changes_is_noticed(void **state) {
    static float wanted[TEXTS * HIDDEN], rows[TEXTS * HIDDEN];
    struct texts texts;
    wisp_error error;
    (void)state;
    make_texts(&texts);
    for (size_t i = 0; i < PASS_PARTS; i++) {
        struct split split = make_model(i, &texts, wanted);
        struct reading reading = {.bytes = split.bytes};
        wisp_model *model = open_least(&split, &reading, i);
        wisp_session *session = open_cold_session(model, 2, false);
        split.bytes[reading.offset + 9] ^= CHANGED;
        assert_int_equal(embed(session, &split, texts.text, TEXTS, rows, &error), WISP_ERROR_IO);
        if (!strstr(error.message, parts[i].says))
            fail_msg("%s: it does not say: %s", error.message, parts[i].says);
        expect_rest(model);
        split.bytes[reading.offset + 9] ^= CHANGED;
        assert_int_equal(embed(session, &split, texts.text, TEXTS, rows, &error), WISP_OK);
        assert_memory_equal(rows, wanted, sizeof rows);
        wisp_session_close(session);
        wisp_model_close(model);
        split_close(&split);
    }
}

/* Thresholds are read when a sparsity is set. If that fails, the session keeps its own. */
static void thresholds_that_cannot_be_read_are_an_error(void **state) {
    static float wanted[TEXTS * HIDDEN], rows[TEXTS * HIDDEN];
    struct texts texts;
    wisp_session *session;
    wisp_error error;
    (void)state;
    make_texts(&texts);
    struct split split = make_model(0, &texts, wanted);
    struct reading reading = {.bytes = split.bytes};
    wisp_model *model = open_least(&split, &reading, 0);
    reading.offset = directory_find_tensor(&model->dir, "blk.1.ffn_thresholds")->offset;
    atomic_store(&reading.fails, true);
    assert_int_equal(wisp_session_open(model, NULL, &session, &error), WISP_ERROR_IO);
    assert_string_equal(error.field, "blk.1.ffn_thresholds");
    session = open_cold_session(model, 1, false);
    atomic_store(&reading.fails, true);
    assert_int_equal(wisp_session_set_sparsity(session, 0.7f, &error), WISP_ERROR_IO);
    expect_rest(model);
    assert_int_equal(embed(session, &split, texts.text, TEXTS, rows, &error), WISP_OK);
    assert_memory_equal(rows, wanted, sizeof rows);
    assert_int_equal(wisp_session_set_sparsity(session, 0.7f, &error), WISP_OK);
    assert_int_equal(embed(session, &split, texts.text, TEXTS, rows, &error), WISP_OK);
    assert_memory_not_equal(rows, wanted, sizeof rows);
    wisp_session_close(session);
    wisp_model_close(model);
    split_close(&split);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_rest_where_memory_is_short),
        cmocka_unit_test(limited_models_do_not_spell_tokens),
        cmocka_unit_test(layers_do_not_wait_for_each_other),
        cmocka_unit_test(a_source_is_limited_after_it_is_opened),
        cmocka_unit_test(a_part_that_cannot_be_read_is_an_error),
        cmocka_unit_test(a_part_that_changes_is_noticed),
        cmocka_unit_test(thresholds_that_cannot_be_read_are_an_error),
    };
    return cmocka_run_group_tests_name("weights that rest", tests, NULL,
                                       tear_down_temporary_folder);
}
