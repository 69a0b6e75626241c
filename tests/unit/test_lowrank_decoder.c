/* SPDX-License-Identifier: Apache-2.0
 * Decoders with a low-rank predictor: a layer by a plain computation in doubles, what a pass does
 * with threads and batches, neurons that ReLU closes, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/model.h"
#include "engine/session.h"
#include "formats/schema.h"
#include "models/feed_forward_block.h"
#include "models/network.h"
#include "support/decoders.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { TOKENS = 40, VALUES = TOKENS * DECODER_VOCABULARY, RANK = 8 };
enum { K = DECODER_HIDDEN, N = DECODER_WIDE };

static wisp_error error;

static const char *const gated[] = {
    "llama", "llama with gates of ReLU", "llama with gates of squared ReLU", "qwen3", "gemma3",
    NULL};

/* Makes a decoder with predictors of arbitrary weights. */
static void make_predicting_decoder(struct gguf *file, const char *name, uint64_t rank) {
    decoder_make(file, find_tiny(name));
    add_predictors(file, DECODER_LAYERS, K, N, rank);
}

static void logits_of(wisp_session *session, float *logits) {
    if (decoder_logits(session, TOKENS, logits, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

static void dense_logits_of(const char *path, float *logits) {
    wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_DENSE, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    logits_of(session, logits);
    wisp_session_close(session);
    wisp_model_close(model);
}

static wisp_layer_stats all_layers(const wisp_session *session) {
    wisp_layer_stats stats, all = {0};
    for (uint32_t l = 0; wisp_session_get_layer_stats(session, l, &stats); l++) {
        all.neurons += stats.neurons;
        all.computed += stats.computed;
        all.contributing += stats.contributing;
    }
    return all;
}

/* ---- one layer ------------------------------------------------------------------------------ */

static double product(const float *a, const float *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The tensors of layer 1. */
struct reference {
    float *p, *p_bias, *q, *q_bias, *thresholds, *gate, *up, *down;
};

static struct reference read_reference(const wisp_model *model) {
    return (struct reference){.p = block_floats(model, 1, "ffn_predictor_p.weight", RANK, K),
                              .p_bias = block_floats(model, 1, "ffn_predictor_p.bias", 1, RANK),
                              .q = block_floats(model, 1, "ffn_predictor_q.weight", N, RANK),
                              .q_bias = block_floats(model, 1, "ffn_predictor_q.bias", 1, N),
                              .thresholds =
                                  block_floats(model, 1, "ffn_thresholds", PREDICTING_LEVELS, N),
                              .gate = block_floats(model, 1, "ffn_gate.weight", N, K),
                              .up = block_floats(model, 1, "ffn_up.weight", N, K),
                              .down = block_floats(model, 1, "ffn_down.weight", K, N)};
}

static void release_reference(const struct reference *r) {
    memory_free(r->p);
    memory_free(r->p_bias);
    memory_free(r->q);
    memory_free(r->q_bias);
    memory_free(r->thresholds);
    memory_free(r->gate);
    memory_free(r->up);
    memory_free(r->down);
}

/* Computes y [K] of x [K] with the neurons whose logits exceed their thresholds, and returns how
 * many they are. */
static size_t layer_by_definition(const struct reference *r, const float *x, double *y) {
    float h[RANK];
    size_t predicted = 0;
    for (size_t i = 0; i < RANK; i++)
        h[i] = (float)(product(r->p + i * K, x, K) + (double)r->p_bias[i]);
    memset(y, 0, K * sizeof *y);
    for (size_t j = 0; j < N; j++) {
        if (!(product(r->q + j * RANK, h, RANK) + (double)r->q_bias[j] > (double)r->thresholds[j]))
            continue;
        predicted++;
        const double value = fmax(product(r->gate + j * K, x, K), 0) * product(r->up + j * K, x, K);
        for (size_t c = 0; c < K; c++)
            y[c] += value * (double)r->down[c * N + j];
    }
    return predicted;
}

/* The layer is what its definition says, but for rounding to int8, and computes the neurons whose
 * logits exceed their thresholds. */
static void layers_are_as_defined(void **state) {
    struct gguf made;
    struct workspace space = {0};
    (void)state;
    make_predicting_decoder(&made, "llama with gates of ReLU", RANK);
    const char *path = write_made(&made, "layer.gguf");
    wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK, NULL);
    const struct reference r = read_reference(model);
    float thresholds[DECODER_LAYERS * N], x[K], y[K], inner[2 * N];
    memcpy(thresholds + N, r.thresholds, N * sizeof *thresholds);
    assert_int_equal(
        workspace_reserve(&space, ffn_gate.workspace_bytes(&model->network, 1), &error), WISP_OK);
    size_t all = 0;
    for (int i = 0; i < 20; i++) {
        const size_t starts[] = {0, 1};
        struct trace trace;
        struct sparse_counts counts[DECODER_LAYERS] = {{0}};
        assert_true(trace_open(&trace, STAGES, false));
        struct pass pass = {.network = &model->network,
                            .batch = {.texts = 1, .starts = starts},
                            .thresholds = thresholds,
                            .member = {{.trace = &trace, .counts = counts}},
                            .members = 1};
        double want[K], squares = 0, wrong = 0;
        for (int c = 0; c < K; c++)
            x[c] = sinf((float)(c * 37 + i));
        const size_t predicted = layer_by_definition(&r, x, want);
        const struct ffn_rows rows = {.n = 1, .x = x, .y = y, .inner = inner};
        assert_int_equal(
            ffn_gate.run(&pass, 0, (struct cursor){.layer = 1}, NULL, &rows, space, &error),
            WISP_OK);
        assert_int_equal(counts[1].computed, predicted);
        assert_true(counts[1].contributing < predicted);
        all += predicted;
        for (int c = 0; c < K; c++) {
            squares += want[c] * want[c];
            wrong += ((double)y[c] - want[c]) * ((double)y[c] - want[c]);
        }
        if (!(wrong <= 1e-3 * squares))
            fail_msg("input %d: an error of %g of %g", i, wrong, squares);
        trace_release(&trace);
    }
    assert_in_range(all, 20 * N / 4, 20 * N * 3 / 4);
    workspace_release(&space);
    release_reference(&r);
    wisp_model_close(model);
}

/* ---- passes --------------------------------------------------------------------------------- */

/* If all neurons are predicted the logits are those of dense layers but for rounding. Else they
 * have the same bits for any number of threads, and whether tokens come together or alone. */
static void logits_do_not_depend_on_threads_or_batches(void **state) {
    static float dense[VALUES], some[VALUES], again[VALUES];
    (void)state;
    for (const char *const *name = gated; *name; name++) {
        struct gguf made;
        make_predicting_decoder(&made, *name, RANK);
        const char *path = write_made(&made, "pass.gguf");
        dense_logits_of(path, dense);
        wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK, NULL);
        wisp_session *session = open_session_or_fail(model, 1);
        logits_of(session, some);
        const wisp_layer_stats stats = all_layers(session);
        assert_in_range(stats.computed, stats.neurons / 4, stats.neurons * 3 / 4);
        assert_true(cosine(dense, some, VALUES) < 0.9999);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            wisp_session *other = open_session_or_fail(model, threads);
            assert_int_equal(decoder_logits_one_by_one(other, TOKENS, again, &error), WISP_OK);
            assert_memory_equal(some, again, sizeof some);
            wisp_session_close(other);
        }
        for (size_t i = 0; i < DECODER_LAYERS * N; i++)
            session->thresholds[i] = -INFINITY;
        logits_of(session, again);
        if (!(cosine(dense, again, VALUES) > (kernels_at(0)->gemm_int8 ? 0.998 : 0.995)))
            fail_msg("%s: a cosine of %g to the dense logits", *name, cosine(dense, again, VALUES));
        wisp_session_close(session);
        wisp_model_close(model);
    }
}

/* Without calibration gate leaves out what ReLU closes, and nothing else. */
static void closed_gates_are_left_out(void **state) {
    static float dense[VALUES], open[VALUES];
    (void)state;
    for (const char *const *name = gated + 1; name < gated + 3; name++) {
        struct gguf made;
        decoder_make(&made, find_tiny(*name));
        const char *path = write_made(&made, "closed.gguf");
        dense_logits_of(path, dense);
        wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_GATE, NULL);
        wisp_session *session = open_session_or_fail(model, 2);
        logits_of(session, open);
        const wisp_layer_stats stats = all_layers(session);
        assert_in_range(stats.contributing, stats.neurons / 5, stats.neurons * 7 / 10);
        if (!(cosine(dense, open, VALUES) > (kernels_at(0)->gemm_int8 ? 0.998 : 0.995)))
            fail_msg("%s: a cosine of %g to the dense logits", *name, cosine(dense, open, VALUES));
        assert_int_equal(wisp_session_set_sparsity(session, 0, &error), WISP_OK);
        assert_int_equal(wisp_session_set_sparsity(session, 0.5f, &error), WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "sparsity");
        assert_non_null(strstr(error.message, "wisp calibrate"));
        wisp_session_close(session);
        wisp_model_close(model);
    }
}

/* ---- calibration ---------------------------------------------------------------------------- */

enum { LINES = 48 };

struct told {
    uint32_t layers;
    double share, needed, recall, precision;
};

static void keep(void *context, uint32_t layer, const wisp_calibrated_layer *found) {
    struct told *told = context;
    const double part = 1.0 / (double)DECODER_LAYERS;
    assert_int_equal(layer, told->layers++);
    assert_int_equal(found->rank, 16);
    told->share += found->lowrank.share * part;
    told->needed += found->lowrank.needed * part;
    told->recall += found->lowrank.recall * part;
    told->precision += found->lowrank.precision * part;
}

static void make_lines(wisp_text *texts) {
    static char lines[LINES][64];
    for (int i = 0; i < LINES; i++) {
        for (int j = 0; j < 40; j++)
            lines[i][j] = (char)('a' + (i * j * j + 3 * j + i) % 26);
        texts[i] = wisp_text_of(lines[i]);
    }
}

/* Calibrated models find the neurons that count more often than by chance, with the same file for
 * any number of threads. */
static void calibrated_models_predict(void **state) {
    static float logits[VALUES];
    wisp_text texts[LINES];
    (void)state;
    make_lines(texts);
    for (const char *const *name = gated; *name; name++) {
        struct gguf made;
        char input[256], output[2][256];
        struct told told = {0};
        decoder_make(&made, find_tiny(*name));
        snprintf(input, sizeof input, "%s", write_made(&made, "input.gguf"));
        for (int i = 0; i < 2; i++) {
            const wisp_calibrate_options o = {.sparsity = 0.5f,
                                              .rank = 16,
                                              .threads = i ? 3 : 1,
                                              .context = &told,
                                              .layer = i ? NULL : keep};
            snprintf(output[i], sizeof output[i], "%s", temporary_path(i ? "b.gguf" : "a.gguf"));
            if (wisp_calibrate(input, output[i], texts, LINES, &o, &error) != WISP_OK)
                fail_msg("%s: %s", *name, error.message);
        }
        size_t size, other_size;
        char *bytes = read_file(output[0], &size), *others = read_file(output[1], &other_size);
        assert_int_equal(size, other_size);
        assert_memory_equal(bytes, others, size);
        free(bytes);
        free(others);
        assert_int_equal(told.layers, DECODER_LAYERS);
        if (!(told.share > 0.3 && told.share < 0.7 && told.precision > 1.1 * told.needed &&
              told.recall > 1.1 * told.share))
            fail_msg("%s: computes %g, finds %g of %g, %g of what it computes", *name, told.share,
                     told.recall, told.needed, told.precision);
        wisp_model *model = open_with(output[0], WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK, NULL);
        wisp_session *session = open_session_or_fail(model, 1);
        wisp_model_info info;
        wisp_model_get_info(model, &info);
        assert_string_equal(info.predictor, "lowrank");
        assert_true(info.sparsity == 0.5f);
        logits_of(session, logits);
        const wisp_layer_stats half = all_layers(session);
        assert_in_range(half.computed, half.neurons / 4, half.neurons * 3 / 4);
        assert_int_equal(wisp_session_set_sparsity(session, 0.9f, &error), WISP_OK);
        logits_of(session, logits);
        const wisp_layer_stats tenth = all_layers(session);
        assert_in_range(tenth.computed - half.computed, 1, half.computed / 2);
        wisp_session_close(session);
        wisp_model_close(model);
    }
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void expect_refused(struct gguf *made, wisp_status status, const char *field,
                           const char *message) {
    const wisp_model_options options = {.compute = WISP_COMPUTE_INT8,
                                        .predictor = WISP_PREDICTOR_LOWRANK};
    wisp_model *model;
    const char *path = write_made(made, "refused.gguf");
    assert_int_equal(wisp_model_open(path, &options, &model, &error), status);
    assert_string_equal(error.field, field);
    if (!strstr(error.message, message))
        fail_msg("%s", error.message);
}

/* Makes a predicting llama without a tensor. */
static void make_without(struct gguf *made, const char *tensor) {
    make_predicting_decoder(made, "llama", RANK);
    gguf_drop_tensor(made, tensor);
}

static void what_cannot_be_is_refused(void **state) {
    static const int32_t order[DECODER_LAYERS * N];
    struct gguf made;
    (void)state;
    decoder_make(&made, find_tiny("llama"));
    expect_refused(&made, WISP_ERROR_NOT_FOUND, "wisp.sparse.shares", "wisp calibrate makes one");
    make_predicting_decoder(&made, "gpt2", RANK);
    expect_refused(&made, WISP_ERROR_UNSUPPORTED, "predictor", "gated layers without biases");
    make_predicting_decoder(&made, "llama", RANK);
    gguf_set_i32s(&made, "wisp.sparse.order", order, DECODER_LAYERS * N);
    expect_refused(&made, WISP_ERROR_UNSUPPORTED, "wisp.sparse.order", "have no order");
    make_predicting_decoder(&made, "llama", 27);
    expect_refused(&made, WISP_ERROR_UNSUPPORTED, "blk.0.ffn_predictor_p.weight",
                   "a rank of 27; at most 26 is supported for 64 neurons");

    static const char *const tensors[] = {
        "blk.2.ffn_predictor_p.weight", "blk.2.ffn_predictor_p.bias",
        "blk.0.ffn_predictor_q.weight", "blk.0.ffn_predictor_q.bias", "blk.1.ffn_thresholds"};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        make_without(&made, tensors[i]);
        expect_refused(&made, WISP_ERROR_NOT_FOUND, tensors[i], "missing");
    }
    make_without(&made, "blk.0.ffn_predictor_q.weight");
    tiny_add_tensor(&made, "blk.0.ffn_predictor_q.weight", RANK + 1, N, BLOCK_F32);
    gguf_settle(&made);
    expect_refused(&made, WISP_ERROR_FORMAT, "blk.0.ffn_predictor_q.weight", "[64, 9]");
    make_without(&made, "blk.1.ffn_thresholds");
    tiny_add_tensor(&made, "blk.1.ffn_thresholds", N, 1, BLOCK_F32);
    gguf_settle(&made);
    expect_refused(&made, WISP_ERROR_FORMAT, "blk.1.ffn_thresholds", "[1, 64]");
    make_predicting_decoder(&made, "llama", RANK);
    bytes_set_f32(&gguf_tensor(&made, "blk.1.ffn_predictor_p.weight")->data, 12, NAN);
    expect_refused(&made, WISP_ERROR_FORMAT, "blk.1.ffn_predictor_p.weight", "finite");
    make_predicting_decoder(&made, "llama", RANK);
    tiny_add_tensor(&made, "blk.0.ffn_compensation.weight", RANK, K, BLOCK_F32);
    tiny_add_tensor(&made, "blk.0.ffn_compensation.bias", K, 1, BLOCK_F32);
    gguf_settle(&made);
    expect_refused(&made, WISP_ERROR_UNSUPPORTED, "blk.0.ffn_compensation.weight",
                   "have no compensation");
}

/* A file with predictors computes the same as before with every other predictor, and with auto,
 * which does not choose lowrank for small models. */
static void other_predictors_read_no_predictor(void **state) {
    static const wisp_predictor predictors[] = {WISP_PREDICTOR_DENSE, WISP_PREDICTOR_EXACT,
                                                WISP_PREDICTOR_TOPK, WISP_PREDICTOR_AUTO};
    static float with[VALUES], without[VALUES];
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct gguf made;
        for (int predicts = 0; predicts < 2; predicts++) {
            decoder_make(&made, find_tiny("llama"));
            if (predicts)
                add_predictors(&made, DECODER_LAYERS, K, N, RANK);
            const char *path = write_made(&made, "other.gguf");
            wisp_model *model = open_with(path, WISP_COMPUTE_INT8, predictors[i], NULL);
            wisp_session *session = open_session_or_fail(model, 1);
            logits_of(session, predicts ? with : without);
            wisp_session_close(session);
            wisp_model_close(model);
        }
        assert_memory_equal(with, without, sizeof with);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_as_defined),
        cmocka_unit_test(logits_do_not_depend_on_threads_or_batches),
        cmocka_unit_test(closed_gates_are_left_out),
        cmocka_unit_test(calibrated_models_predict),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(other_predictors_read_no_predictor),
    };
    return cmocka_run_group_tests_name("lowrank_decoder", tests, NULL, tear_down_temporary_folder);
}
