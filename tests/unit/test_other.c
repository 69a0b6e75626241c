/* SPDX-License-Identifier: Apache-2.0
 * Every feature with architectures that only tests have (support/other.h). An encoder and a decoder
 * whose weights are in other places than BERT's and Llama's are limited in memory, calibrated,
 * quantised by texts and opened without cold neurons. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cold_split.h"
#include "support/decoders.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/other.h"
#include "support/quantise_texts.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { PATH_BYTES = 256, TOKENS = 60, LOGITS = TOKENS * DECODER_VOCABULARY };

static wisp_error error;

static void expect(wisp_status status) {
    if (status != WISP_OK)
        fail_msg("%s: %s", error.field, error.message);
}

/* Writes an encoder, and its path. */
static void write_encoder(const struct tiny_shape *shape, char path[PATH_BYTES]) {
    struct gguf file;
    other_make_encoder(&file, shape);
    snprintf(path, PATH_BYTES, "%s", write_made(&file, "encoder.gguf"));
}

/* Opens a model whose cold neurons are read when they are needed. */
static wisp_model *open_limited(const char *path, wisp_predictor predictor, uint64_t memory) {
    const wisp_model_options options = {.predictor = predictor, .hot_only = true, .memory = memory};
    wisp_model *model;
    expect(wisp_model_open(path, &options, &model, &error));
    return model;
}

/* With little memory, with some and with much, the embeddings have the bits of the whole model. */
static void check_limits(const char *path, wisp_predictor predictor) {
    static float wanted[TEXTS * HIDDEN], rows[TEXTS * HIDDEN];
    struct texts texts;
    wisp_model_info info;
    make_texts(&texts);
    wisp_model *model = open_with(path, WISP_COMPUTE_AUTO, predictor, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    embed_or_fail(session, texts.text, TEXTS, wanted);
    wisp_session_close(session);
    wisp_model_close(model);

    model = open_limited(path, predictor, 1 << 30);
    wisp_model_get_info(model, &info);
    const uint64_t all = info.resident_bytes, least = cold_stats_of(model).least_memory;
    wisp_model_close(model);
    assert_true(least < all);
    for (uint64_t part = 0; part <= 3; part++)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            const uint64_t memory = least + (all - least) * part / 3;
            model = open_limited(path, predictor, memory);
            wisp_model_get_info(model, &info);
            assert_true(info.resident_bytes <= memory);
            session = open_session_or_fail(model, threads);
            expect(wisp_embed_from_file(session, texts.text, TEXTS, NULL, rows, &error));
            assert_memory_equal(rows, wanted, sizeof rows);
            wisp_session_close(session);
            wisp_model_close(model);
        }
}

static void an_encoder_is_limited_in_memory(void **state) {
    char path[PATH_BYTES];
    (void)state;
    write_encoder(&tiny_shape_q8_0, path);
    check_limits(path, WISP_PREDICTOR_DENSE);
    check_limits(path, WISP_PREDICTOR_EXACT);
}

static void an_encoder_is_calibrated(void **state) {
    char path[PATH_BYTES], calibrated[PATH_BYTES];
    size_t layers, neurons;
    (void)state;
    write_encoder(&tiny_shape_q8_0, path);
    snprintf(calibrated, sizeof calibrated, "%s", temporary_path("calibrated.gguf"));
    calibrate_or_fail(path, calibrated, 2);
    check_limits(calibrated, WISP_PREDICTOR_LOWRANK);
    check_limits(calibrated, WISP_PREDICTOR_SENTENCE);
    wisp_file *file;
    expect(wisp_file_open(calibrated, &file, &error));
    expect(wisp_file_get_neurons(file, &layers, &neurons, &error));
    assert_true(layers == tiny_shape_q8_0.layers && neurons == tiny_shape_q8_0.wide);
    wisp_file_close(file);
}

/* An encoder that is quantised by texts is nearer to its original than a rounded one. */
static void an_encoder_is_quantised_by_texts(void **state) {
    char input[PATH_BYTES], output[PATH_BYTES], rounded[PATH_BYTES];
    const wisp_text *texts = quantise_texts(1);
    wisp_quantize_outcome outcome;
    const wisp_quantize_options positions = {.position_type = "q8_0"},
                                target = {.target_cosine = 0.999f, .outcome = &outcome};
    const wisp_convert_options plain = {.type = "q4_0"};
    (void)state;
    write_encoder(&quantise_shape, input);
    snprintf(output, sizeof output, "%s", temporary_path("texts.gguf"));
    snprintf(rounded, sizeof rounded, "%s", temporary_path("rounded.gguf"));
    expect(
        wisp_quantize_for_texts(input, output, "q4_0", texts, QUANTISE_TEXTS, &positions, &error));
    expect(wisp_convert(input, rounded, &plain, &error));
    texts = quantise_texts(99);
    const double near = mean_cosine(output, input, texts);
    const double far = mean_cosine(rounded, input, texts);
    if (!(1 - near < 0.8 * (1 - far)))
        fail_msg("cosine %f, rounded %f", near, far);
    expect(wisp_quantize_for_texts(input, output, "q4_0,q8_0", texts, QUANTISE_TEXTS, &target,
                                   &error));
    assert_true(outcome.mean_cosine >= 0.999);
    assert_true(mean_cosine(output, input, quantise_texts(7)) > 0.99);
}

/* Computes logits of a file of a decoder. */
static void logits_of(const char *path, wisp_compute compute, float *logits) {
    int32_t ids[TOKENS];
    for (int32_t t = 0; t < TOKENS; t++)
        ids[t] = (t * t * 31 + t * 7 + 3) % DECODER_VOCABULARY;
    wisp_model *model = open_model_or_fail(path, compute, NULL);
    wisp_session *session = open_session_or_fail(model, 2);
    expect(wisp_logits(session, ids, TOKENS, logits, &error));
    wisp_session_close(session);
    wisp_model_close(model);
}

/* A decoder that computes what Llama does gives the bits of a Llama with the same tensors, also
 * after both were quantised by texts. */
static void a_decoder_is_as_its_likeness(void **state) {
    static const char *const names[] = {"llama", "other-decoder"};
    static float logits[2][2][2][LOGITS];
    const wisp_text *texts = quantise_texts(1);
    const wisp_quantize_options options = {.pad_neurons = true, .target_bytes = 60000};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct tiny_decoder tiny = {.name = names[i], .architecture = names[i]};
        char path[PATH_BYTES], quantised[PATH_BYTES];
        struct gguf file;
        decoder_make(&file, &tiny);
        snprintf(path, sizeof path, "%s", write_made(&file, "decoder.gguf"));
        snprintf(quantised, sizeof quantised, "%s", temporary_path("quantised.gguf"));
        expect(wisp_quantize_for_texts(path, quantised, "q4_0,q8_0,q5_0", texts, QUANTISE_TEXTS,
                                       &options, &error));
        logits_of(path, WISP_COMPUTE_F32, logits[i][0][0]);
        logits_of(path, WISP_COMPUTE_INT8, logits[i][0][1]);
        logits_of(quantised, WISP_COMPUTE_F32, logits[i][1][0]);
        logits_of(quantised, WISP_COMPUTE_INT8, logits[i][1][1]);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    assert_memory_not_equal(logits[0][0][0], logits[0][1][0], sizeof logits[0][0][0]);
}

/* All files of the library know these architectures through the table alone. */
static void files_say_what_they_are(void **state) {
    char path[PATH_BYTES];
    wisp_model_info info;
    wisp_weights weights;
    (void)state;
    write_encoder(&tiny_shape_q8_0, path);
    wisp_model *model = open_model_or_fail(path, WISP_COMPUTE_AUTO, NULL);
    wisp_model_get_info(model, &info);
    assert_string_equal(info.architecture, "other-encoder");
    assert_true(wisp_model_get_weights(model, 0, &weights));
    assert_true(weights.bytes > 0 && weights.bytes < info.resident_bytes);
    wisp_model_close(model);
}

/* A decoder judges texts if its architecture says so: this one does, but its vocabulary lacks the
 * words. */
static void a_decoder_says_that_it_judges(void **state) {
    static const char *const names[] = {"llama", "other-decoder"};
    const wisp_text text = wisp_text_of("a");
    float score;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct tiny_decoder tiny = {.name = names[i], .architecture = names[i]};
        struct gguf file;
        decoder_make(&file, &tiny);
        wisp_model *model =
            open_model_or_fail(write_made(&file, "judge.gguf"), WISP_COMPUTE_AUTO, NULL);
        wisp_session *session = open_session_or_fail(model, 1);
        assert_int_equal(wisp_model_ranks(model), i == 1);
        assert_int_equal(wisp_judge(session, text, &text, 1, &score, &error),
                         WISP_ERROR_UNSUPPORTED);
        assert_string_equal(error.field, i == 1 ? "tokenizer.ggml.tokens" : "general.architecture");
        wisp_session_close(session);
        wisp_model_close(model);
    }
}

/* A session is refused whose attention policy does not compute what the architecture asks for. */
static void attention_that_no_policy_computes(void **state) {
    struct gguf file;
    wisp_session *session;
    (void)state;
    other_make_encoder(&file, &tiny_shape);
    gguf_set_u32(&file, "other-encoder.window", 4);
    wisp_model *model =
        open_model_or_fail(write_made(&file, "window.gguf"), WISP_COMPUTE_AUTO, NULL);
    assert_int_equal(wisp_session_open(model, NULL, &session, &error), WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "attention");
    assert_null(session);
    wisp_model_close(model);
}

/* Whatever allocation is refused, opening ends with an error and leaks nothing. */
static void memory_may_run_out(void **state) {
    char path[PATH_BYTES];
    (void)state;
    write_encoder(&tiny_shape, path);
    expect_memory_errors(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_encoder_is_limited_in_memory),
        cmocka_unit_test(an_encoder_is_calibrated),
        cmocka_unit_test(an_encoder_is_quantised_by_texts),
        cmocka_unit_test(a_decoder_is_as_its_likeness),
        cmocka_unit_test(files_say_what_they_are),
        cmocka_unit_test(a_decoder_says_that_it_judges),
        cmocka_unit_test(attention_that_no_policy_computes),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests_name("architectures that only tests have", tests, NULL,
                                       tear_down_temporary_folder);
}
