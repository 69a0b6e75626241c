/* SPDX-License-Identifier: Apache-2.0
 * Sparse models from calibration to embedding, on tiny models with both activations.
 * test_calibrate_parts.c has the parts of calibration. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/model.h"
#include "native/open_path.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

/* ---- tiny models ---------------------------------------------------------------------------- */

/* Embeds texts alone, in one batch, and with three threads: the bits are the same, with every
 * kernel set. */
static void bits_do_not_depend_on_the_batch(void **state) {
    (void)state;
    struct texts texts;
    float rows[3][TEXTS * HIDDEN];
    const char *kernels;
    make_texts(&texts);
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        const struct predicting predicting = {.shape = tiny_shape_of(activations[a]),
                                              .activation = activations[a],
                                              .rank = 32,
                                              .type = BLOCK_Q8_0,
                                              .compensated = true,
                                              .by_text = true};
        const char *path = predicting_model("sparse.gguf", &predicting);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++)
            for (int p = WISP_PREDICTOR_EXACT; p <= WISP_PREDICTOR_SENTENCE; p++) {
                wisp_model *model = open_with(path, WISP_COMPUTE_AUTO, (wisp_predictor)p, kernels);
                wisp_session *one = open_session_or_fail(model, 1);
                wisp_session *three = open_session_or_fail(model, 3);
                for (size_t i = 0; i < TEXTS; i++)
                    embed_or_fail(one, &texts.text[i], 1, rows[0] + i * HIDDEN);
                embed_or_fail(one, texts.text, TEXTS, rows[1]);
                embed_or_fail(three, texts.text, TEXTS, rows[2]);
                assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
                assert_memory_equal(rows[0], rows[2], sizeof rows[0]);
                for (size_t i = 0; i < TEXTS; i++) { /* the threads share its tokens */
                    embed_or_fail(three, &texts.text[i], 1, rows[2]);
                    assert_memory_equal(rows[2], rows[0] + i * HIDDEN, HIDDEN * sizeof rows[0][0]);
                }
                wisp_session_close(one);
                wisp_session_close(three);
                wisp_model_close(model);
            }
    }
}

static double mean_cosine(const float *a, const float *b) {
    double sum = 0;
    for (size_t i = 0; i < TEXTS; i++)
        sum += cosine(a + i * HIDDEN, b + i * HIDDEN, HIDDEN);
    return sum / (double)TEXTS;
}

/* Less sparsity comes nearer to the dense result, exact comes nearest, and the statistics count the
 * computed neurons. */
static void sparsity_trades_work_for_nearness(void **state) {
    (void)state;
    static const float sparsities[] = {0.9f, 0.6f, 0.2f};
    struct texts texts;
    float dense[TEXTS * HIDDEN], sparse[TEXTS * HIDDEN];
    make_texts(&texts);
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        char path[256];
        snprintf(path, sizeof path, "%s", temporary_path("sparse.gguf"));
        calibrate_or_fail(tiny_model("plain.gguf", activations[a]), path, 2);
        wisp_model *reference = open_with(path, WISP_COMPUTE_F32, WISP_PREDICTOR_DENSE, NULL);
        wisp_session *session = open_session_or_fail(reference, 1);
        embed_or_fail(session, texts.text, TEXTS, dense);
        wisp_session_close(session);
        wisp_model_close(reference);
        wisp_model *model = open_with(path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
        double cosines[4], computed[3];
        for (int i = 0; i < 3; i++) {
            wisp_layer_stats s;
            wisp_error error;
            session = open_session_or_fail(model, 1);
            assert_int_equal(wisp_session_set_sparsity(session, sparsities[i], &error), WISP_OK);
            embed_or_fail(session, texts.text, TEXTS, sparse);
            cosines[i] = mean_cosine(sparse, dense);
            computed[i] = 0;
            for (uint32_t l = 0; wisp_session_get_layer_stats(session, l, &s); l++) {
                assert_true(s.tokens > 0 && s.computed <= s.neurons &&
                            s.contributing <= s.computed);
                computed[i] += (double)s.computed / (double)s.neurons;
            }
            wisp_session_close(session);
        }
        wisp_model_close(model);
        model = open_with(path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_EXACT, NULL);
        session = open_session_or_fail(model, 1);
        embed_or_fail(session, texts.text, TEXTS, sparse);
        cosines[3] = mean_cosine(sparse, dense);
        wisp_session_close(session);
        wisp_model_close(model);
        print_message("%s: cosines %.5f %.5f %.5f, exact %.5f\n", activations[a], cosines[0],
                      cosines[1], cosines[2], cosines[3]);
        assert_true(computed[0] < computed[1] && computed[1] < computed[2]);
        assert_true(cosines[0] < cosines[2] && cosines[1] < cosines[2]);
        assert_true(cosines[2] < 1 && cosines[3] > 0.998);
    }
}

static void expect_undoing(const char *activation) {
    char plain[256], paths[4][256];
    size_t sizes[4];
    char *bytes[4];
    wisp_error error;
    const wisp_convert_options undo = {.plain = true};
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "file%d.gguf", i);
        snprintf(paths[i], sizeof paths[i], "%s", temporary_path(name));
    }
    snprintf(plain, sizeof plain, "%s", tiny_model("plain.gguf", activation));
    calibrate_or_fail(plain, paths[0], 1);
    calibrate_or_fail(paths[0], paths[1], 2); /* again, of what is calibrated already */
    assert_int_equal(wisp_convert(plain, paths[2], NULL, &error), WISP_OK);
    assert_int_equal(wisp_convert(paths[1], paths[3], &undo, &error), WISP_OK);
    for (int i = 0; i < 4; i++)
        bytes[i] = read_file(paths[i], &sizes[i]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    assert_int_equal(sizes[2], sizes[3]);
    assert_memory_equal(bytes[2], bytes[3], sizes[2]);
    assert_true(sizes[0] > sizes[2]);
    for (int i = 0; i < 4; i++)
        free(bytes[i]);
}

static void calibration_is_deterministic_and_can_be_undone(void **state) {
    (void)state;
    for (size_t a = 0; a < ACTIVATIONS; a++)
        expect_undoing(activations[a]);
}

static const char *const texts_tensors[] = {
    "blk.1.ffn_sentence_p.weight", "blk.1.ffn_sentence_q.weight", "blk.1.ffn_sentence_p.bias",
    "blk.1.ffn_sentence_q.bias", "blk.1.ffn_sentence_thresholds"};

/* The predictor's tensors, those for texts included, have the requested type. Plain files have none
 * of them. */
static void expect_form(const char *type, uint32_t id, bool by_text) {
    struct texts texts;
    char plain[256], path[256], undone[256];
    const wisp_calibrate_options o = {.sparsity = 0.5f,
                                      .rank = 32,
                                      .seed = 3,
                                      .threads = 2,
                                      .predictor_type = type,
                                      .sentence = by_text};
    const wisp_convert_options undo = {.plain = true};
    wisp_error error;
    struct directory dir;
    make_texts(&texts);
    snprintf(plain, sizeof plain, "%s", tiny_model("plain.gguf", "relu"));
    snprintf(path, sizeof path, "%s", temporary_path("form.gguf"));
    snprintf(undone, sizeof undone, "%s", temporary_path("undone.gguf"));
    assert_int_equal(wisp_calibrate(plain, path, texts.text, TEXTS, &o, &error), WISP_OK);
    assert_int_equal(directory_open_path(&dir, path, &error), WISP_OK);
    const struct tensor *p = directory_find_tensor(&dir, "blk.1.ffn_predictor_p.weight");
    const struct tensor *q = directory_find_tensor(&dir, "blk.1.ffn_predictor_q.weight");
    assert_true(p && q);
    assert_int_equal(p->format->id, id);
    assert_int_equal(q->format->id, id);
    for (size_t i = 0; i < sizeof texts_tensors / sizeof *texts_tensors; i++) {
        const struct tensor *tensor = directory_find_tensor(&dir, texts_tensors[i]);
        assert_true((tensor != NULL) == by_text);
        assert_true(!tensor || tensor->format->id == (i < 2 ? id : BLOCK_F32));
    }
    directory_release(&dir);
    assert_int_equal(wisp_convert(path, undone, &undo, &error), WISP_OK);
    assert_int_equal(directory_open_path(&dir, undone, &error), WISP_OK);
    assert_null(directory_find_tensor(&dir, "blk.1.ffn_predictor_p.weight"));
    assert_null(directory_find_tensor(&dir, "blk.1.ffn_predictor_p.bias"));
    for (size_t i = 0; i < sizeof texts_tensors / sizeof *texts_tensors; i++)
        assert_null(directory_find_tensor(&dir, texts_tensors[i]));
    directory_release(&dir);
}

static void predictors_have_the_form_that_is_asked_for(void **state) {
    (void)state;
    expect_form(NULL, BLOCK_Q8_0, true);
    expect_form("f32", BLOCK_F32, false);
    expect_form("q8_0", BLOCK_Q8_0, true);
    expect_form("q4_0", BLOCK_Q4_0, true);
}

/* A file with the thresholds of one share alone embeds as one with all of them, and says what it
 * cannot do. */
static void one_sparsity_takes_fewer_bytes(void **state) {
    struct texts texts;
    char paths[2][256], other[256];
    float rows[2][TEXTS * HIDDEN];
    uint64_t bytes[2];
    wisp_error error;
    (void)state;
    make_texts(&texts);
    for (size_t a = 0; a < ACTIVATIONS; a++)
        for (int p = WISP_PREDICTOR_LOWRANK; p <= WISP_PREDICTOR_SENTENCE; p++) {
            const char *plain = tiny_model("plain.gguf", activations[a]);
            for (int one = 0; one < 2; one++) {
                const wisp_calibrate_options options = {
                    .sparsity = 0.6f, .rank = 8, .sentence = true, .one_sparsity = one};
                snprintf(paths[one], sizeof paths[one], "%s",
                         temporary_path(one ? "one.gguf" : "all.gguf"));
                assert_int_equal(
                    wisp_calibrate(plain, paths[one], texts.text, TEXTS, &options, &error),
                    WISP_OK);
                wisp_model *model =
                    open_with(paths[one], WISP_COMPUTE_AUTO, (wisp_predictor)p, NULL);
                wisp_session *session = open_session_or_fail(model, 1);
                bytes[one] = model->dir.sources[0].size;
                embed_or_fail(session, texts.text, TEXTS, rows[one]);
                assert_int_equal(wisp_session_set_sparsity(session, 0.6f, &error), WISP_OK);
                assert_int_equal(wisp_session_set_sparsity(session, 0.5f, &error),
                                 one ? WISP_ERROR_ARGUMENT : WISP_OK);
                if (one)
                    assert_string_equal(error.field, "sparsity");
                wisp_session_close(session);
                wisp_model_close(model);
            }
            assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
            assert_true(bytes[1] < bytes[0]);
            const wisp_convert_options same = {.sparsity = 0.6f}, another = {.sparsity = 0.7f};
            snprintf(other, sizeof other, "%s", temporary_path("other.gguf"));
            assert_int_equal(wisp_convert(paths[1], other, &same, &error), WISP_OK);
            assert_int_equal(wisp_convert(paths[1], other, &another, &error),
                             WISP_ERROR_UNSUPPORTED);
            assert_string_equal(error.field, "wisp.sparse.shares");
        }
}

static const char *ranked_model(uint32_t hidden) {
    const struct tiny_shape shape = {.hidden = hidden,
                                     .wide = 128,
                                     .layers = 2,
                                     .heads = 4,
                                     .positions = 16,
                                     .type = hidden % 32 ? BLOCK_F32 : BLOCK_Q8_0};
    struct gguf file;
    gguf_make(&file, &shape);
    gguf_set_text(&file, "wisp.hidden_act", "relu");
    return write_made(&file, "plain.gguf");
}

/* A rank that is not a whole number of blocks of Q8_0 would make Q f32, which is slow: only those
 * get one who ask for f32. The error names a rank that the model allows. */
static void ranks_are_whole_blocks(void **state) {
    (void)state;
    struct texts texts;
    char plain[256], output[256];
    const wisp_calibrate_options broken = {.rank = 48}, f32 = {.rank = 48, .predictor_type = "f32"};
    const wisp_calibrate_options high = {.rank = 70};
    wisp_error error;
    make_texts(&texts);
    snprintf(output, sizeof output, "%s", temporary_path("blocks.gguf"));
    assert_int_equal(wisp_calibrate(ranked_model(80), output, texts.text, TEXTS, &high, &error),
                     WISP_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "matrices: 64 takes no longer"));
    snprintf(plain, sizeof plain, "%s", ranked_model(64));
    assert_int_equal(wisp_calibrate(plain, output, texts.text, TEXTS, &broken, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "rank");
    assert_non_null(strstr(error.message, "48 is not a multiple of 32"));
    assert_non_null(strstr(error.message, "matrices: 64 takes no longer"));
    assert_int_not_equal(access(output, F_OK), 0);
    assert_int_equal(wisp_calibrate(plain, output, texts.text, TEXTS, &f32, &error), WISP_OK);
    wisp_model *model = open_with(output, WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK, NULL);
    assert_int_equal(model->network.feed_forward[0].sparse.rank, 48);
    wisp_model_close(model);
}

/* ---- errors --------------------------------------------------------------------------------- */

/* The stage in which calibration is to be cancelled, and whether that stage has started. */
struct stopping {
    const char *stage;
    atomic_bool started;
};

static void watch_stage(void *context, const char *stage, size_t done, size_t total) {
    struct stopping *stopping = context;
    assert_true(done <= total);
    if (strcmp(stage, stopping->stage) == 0)
        atomic_store(&stopping->started, true);
}

static bool stop_in_stage(void *context) {
    struct stopping *stopping = context;
    return atomic_load(&stopping->started);
}

static void cancelling_leaves_no_file(void **state) {
    (void)state;
    static const char *const stages[] = {"texts", "layers", "compensation"};
    struct texts texts;
    char output[256];
    wisp_error error;
    make_texts(&texts);
    snprintf(output, sizeof output, "%s", temporary_path("cancelled.gguf"));
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        struct stopping stopping = {.stage = stages[i]};
        const wisp_calibrate_options o = {.context = &stopping,
                                          .progress = watch_stage,
                                          .cancelled = stop_in_stage,
                                          .threads = 2};
        const char *model = tiny_model("plain.gguf", "relu");
        assert_int_equal(wisp_calibrate(model, output, texts.text, TEXTS, &o, &error),
                         WISP_ERROR_CANCELLED);
        assert_true(atomic_load(&stopping.started));
        assert_int_not_equal(access(output, F_OK), 0);
    }
}

static void expect_auto(const char *path, wisp_compute compute, const char *kernels,
                        const char *predictor) {
    wisp_model *model = open_with(path, compute, WISP_PREDICTOR_AUTO, kernels);
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    assert_string_equal(info.predictor, predictor);
    wisp_model_close(model);
}

/* auto needs a calibrated model for lowrank and ReLU for exact, both in int8 and if they are
 * faster. */
static void auto_is_what_is_faster(void **state) {
    (void)state;
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        char plain[256], calibrated[256], dense[256], few[256];
        const bool relu = strcmp(activations[a], "relu") == 0;
        const wisp_convert_options nearly_all = {.sparsity = 0.001f}, a_fifth = {.sparsity = 0.8f};
        wisp_error error;
        snprintf(plain, sizeof plain, "%s", tiny_model("auto.gguf", activations[a]));
        snprintf(few, sizeof few, "%s", temporary_path("few.gguf"));
        snprintf(dense, sizeof dense, "%s", temporary_path("nearly-all.gguf"));
        snprintf(calibrated, sizeof calibrated, "%s", temporary_path("calibrated.gguf"));
        calibrate_or_fail(plain, calibrated, 1);
        assert_int_equal(wisp_convert(calibrated, few, &a_fifth, &error), WISP_OK);
        assert_int_equal(wisp_convert(calibrated, dense, &nearly_all, &error), WISP_OK);
        for (size_t s = 0; kernels_at(s); s++) {
            const struct kernels *set = kernels_at(s);
            const char *without_predictor = relu && set->exact_wins ? "exact" : "dense";
            const float most = relu ? set->lowrank_most_share_relu : set->lowrank_most_share;
            expect_auto(plain, WISP_COMPUTE_INT8, set->name, without_predictor);
            expect_auto(plain, WISP_COMPUTE_F32, set->name, "dense");
            expect_auto(few, WISP_COMPUTE_F32, set->name, "dense");
            expect_auto(few, WISP_COMPUTE_INT8, set->name,
                        most >= 0.2f ? "lowrank" : without_predictor);
            expect_auto(dense, WISP_COMPUTE_INT8, set->name, without_predictor);
        }
    }
}

static void what_cannot_be_done_is_said(void **state) {
    (void)state;
    char path[256];
    struct texts texts;
    wisp_model *model;
    wisp_error error;
    const wisp_model_options lowrank = {.predictor = WISP_PREDICTOR_LOWRANK};
    const wisp_model_options f32 = {.compute = WISP_COMPUTE_F32, .predictor = WISP_PREDICTOR_EXACT};
    const wisp_calibrate_options rank = {.rank = 1000}, sparsity = {.sparsity = 1.5f};
    const wisp_calibrate_options type = {.predictor_type = "q5_0"};
    const wisp_calibrate_options broken = {.predictor_type = "q4_0", .rank = 8};
    make_texts(&texts);
    snprintf(path, sizeof path, "%s", tiny_model("plain.gguf", "relu"));
    assert_int_equal(wisp_model_open(path, &lowrank, &model, &error), WISP_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "wisp calibrate"));
    assert_int_equal(wisp_model_open(path, &f32, &model, &error), WISP_ERROR_UNSUPPORTED);
    model = open_with(path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    assert_int_equal(wisp_session_set_sparsity(session, 0.5f, &error), WISP_ERROR_ARGUMENT);
    wisp_session_close(session);
    wisp_model_close(model);
    const char *output = temporary_path("never.gguf");
    assert_int_equal(wisp_calibrate(path, output, texts.text, TEXTS, &rank, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "rank");
    assert_int_equal(wisp_calibrate(path, output, texts.text, TEXTS, &sparsity, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "sparsity");
    assert_int_equal(wisp_calibrate(path, output, texts.text, TEXTS, &type, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "predictor_type");
    assert_int_equal(wisp_calibrate(path, output, texts.text, TEXTS, &broken, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "predictor_type");
    assert_int_equal(wisp_calibrate(path, output, texts.text, 1, NULL, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "texts");
    assert_int_not_equal(access(output, F_OK), 0);
}

/* A model may be so small that a third of its hidden_size is not a whole number above 0. */
static void smallest_models_are_calibrated(void **state) {
    (void)state;
    char plain[256], path[256];
    struct texts texts;
    wisp_error error = {0};
    make_texts(&texts);
    snprintf(path, sizeof path, "%s", temporary_path("smallest-calibrated.gguf"));
    for (uint32_t hidden = 1; hidden <= 3; hidden++) {
        const struct tiny_shape shape = {
            .hidden = hidden, .wide = 8, .layers = 1, .heads = 1, .positions = 16};
        struct gguf file;
        gguf_make(&file, &shape);
        snprintf(plain, sizeof plain, "%s", write_made(&file, "smallest.gguf"));
        if (wisp_calibrate(plain, path, texts.text, TEXTS, NULL, &error) != WISP_OK)
            fail_msg("hidden_size %u: %s", hidden, error.message);
        wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK, NULL);
        wisp_session *session = open_session_or_fail(model, 1);
        float row[3];
        embed_or_fail(session, texts.text, 1, row);
        wisp_session_close(session);
        wisp_model_close(model);
    }
}

/* A file whose plan has one fault. A `share` of 0 is not written. */
static void expect_bad_plan(const int32_t *order, size_t n, const float *shares, uint64_t levels,
                            float share, const char *field) {
    struct gguf file;
    struct bytes bytes = {0}, value = {0};
    gguf_make(&file, &tiny_shape_q8_0);
    if (order)
        gguf_set_i32s(&file, "wisp.sparse.order", order, n);
    if (share != 0)
        gguf_set_f32(&file, "wisp.sparse.share", share);
    bytes_put_u32(&value, 6); /* f32 */
    bytes_put_u64(&value, levels);
    bytes_put_f32s(&value, shares, levels);
    gguf_set(&file, "wisp.sparse.shares", 9, value.data, value.size);
    gguf_write_bytes(&file, &bytes);
    expect_opening(&bytes, WISP_ERROR_FORMAT, field, NULL);
    gguf_release(&file);
    bytes_release(&bytes);
    bytes_release(&value);
}

static void malformed_plans_are_refused(void **state) {
    (void)state;
    static const float good[] = {0.1f, 0.5f}, falling[] = {0.5f, 0.1f}, much[] = {0.5f, 1.5f};
    const size_t n = tiny_shape_q8_0.layers * tiny_shape_q8_0.wide;
    int32_t *order = calloc(n, sizeof *order);
    assert_non_null(order);
    for (size_t i = 0; i < n; i++)
        order[i] = (int32_t)(i % tiny_shape_q8_0.wide);
    expect_bad_plan(NULL, 0, good, 2, 0, "wisp.sparse.order");
    expect_bad_plan(order, n - 1, good, 2, 0, "wisp.sparse.order");
    expect_bad_plan(order, n, falling, 2, 0, "wisp.sparse.shares");
    expect_bad_plan(order, n, much, 2, 0, "wisp.sparse.shares");
    expect_bad_plan(order, n, good, 0, 0, "wisp.sparse.shares");
    expect_bad_plan(order, n, good, 2, 1.5f, "wisp.sparse.share");
    /* A session takes the sparsity 1 - share, which is 1 as a float here. */
    expect_bad_plan(order, n, good, 2, 1e-12f, "wisp.sparse.share");
    order[n - 1] = order[n - 2];
    expect_bad_plan(order, n, good, 2, 0, "wisp.sparse.order");
    order[n - 1] = -1;
    expect_bad_plan(order, n, good, 2, 0, "wisp.sparse.order");
    free(order);
}

/* Fills each row of a matrix of floats with a value near the largest one, of alternating sign, so
 * that the products of any input overflow, half of them to each side. */
static void fill_with_huge_rows(struct gguf_tensor *tensor) {
    const size_t row_bytes = (size_t)tensor->dims[0] * sizeof(float);
    for (size_t at = 0; at < tensor->data.size; at += sizeof(float)) {
        const float value = at / row_bytes % 2 ? -3e38f : 3e38f;
        memcpy(tensor->data.data + at, &value, sizeof value);
    }
}

/* The activations of such weights are infinite, and NaN if W_down is 0. Both are errors: a NaN
 * among finite contributions was once quantised like a number. */
static void weights_near_the_largest_float_are_an_error(void **state) {
    (void)state;
    struct tiny_shape shape = tiny_shape_q8_0;
    shape.type = BLOCK_F32;
    for (int zero = 0; zero < 2; zero++) {
        struct gguf file;
        const char *kernels;
        gguf_make(&file, &shape);
        gguf_set_text(&file, "wisp.hidden_act", "relu");
        fill_with_huge_rows(gguf_tensor(&file, "blk.0.ffn_up.weight"));
        struct gguf_tensor *down = gguf_tensor(&file, "blk.0.ffn_down.weight");
        if (zero)
            memset(down->data.data, 0, down->data.size);
        const char *path = write_made(&file, "huge.gguf");
        for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++) {
            const wisp_text text = wisp_text_of("the man is eat food");
            wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_EXACT, kernels);
            wisp_session *session = open_session_or_fail(model, 1);
            wisp_error error;
            float row[HIDDEN];
            assert_int_equal(wisp_embed(session, &text, 1, NULL, row, &error), WISP_ERROR_FORMAT);
            assert_non_null(strstr(error.message, "is not finite"));
            wisp_session_close(session);
            wisp_model_close(model);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_near_the_largest_float_are_an_error),
        cmocka_unit_test(bits_do_not_depend_on_the_batch),
        cmocka_unit_test(sparsity_trades_work_for_nearness),
        cmocka_unit_test(calibration_is_deterministic_and_can_be_undone),
        cmocka_unit_test(predictors_have_the_form_that_is_asked_for),
        cmocka_unit_test(one_sparsity_takes_fewer_bytes),
        cmocka_unit_test(ranks_are_whole_blocks),
        cmocka_unit_test(cancelling_leaves_no_file),
        cmocka_unit_test(auto_is_what_is_faster),
        cmocka_unit_test(what_cannot_be_done_is_said),
        cmocka_unit_test(smallest_models_are_calibrated),
        cmocka_unit_test(malformed_plans_are_refused),
    };
    return cmocka_run_group_tests_name("sparse", tests, NULL, tear_down_temporary_folder);
}
