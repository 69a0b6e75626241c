/* SPDX-License-Identifier: Apache-2.0
 * The predictors that choose a sparse layer's neurons, and the compensation for skipped ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "calibrate/compensation.h"
#include "calibrate/fit.h"
#include "calibrate/neurons.h"
#include "support/opening.h"
#include "support/rng.h"
#include "support/sparse_models.h"
#include "support/sparse_reference.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { RANK = 32, WIDE = 64, TOKENS = 45 };

static const uint32_t types[] = {BLOCK_F32, BLOCK_F16, BLOCK_Q8_0};
enum { TYPES = sizeof types / sizeof *types };

static struct predicting predicting_of(uint32_t type) {
    return (struct predicting){
        .shape = &tiny_shape_q8_0, .activation = "gelu", .rank = RANK, .type = type};
}

static void fill_tokens(float *x, size_t tokens) {
    for (size_t i = 0; i < tokens * HIDDEN; i++)
        x[i] = sinf((float)i * 1.7f);
}

/* ---- choice --------------------------------------------------------------------------------- */

/* Computes h [rank] = P x + p of a layer, which may share its P with all layers. */
static void inner_values(const wisp_model *model, size_t layer, const float *x, double *h) {
    char weight[64] = "ffn_predictor_p.weight", bias[64] = "ffn_predictor_p.bias";
    if (!directory_find_tensor(&model->dir, weight)) {
        snprintf(weight, sizeof weight, "blk.%zu.ffn_predictor_p.weight", layer);
        snprintf(bias, sizeof bias, "blk.%zu.ffn_predictor_p.bias", layer);
    }
    float *p = layer_floats(model, weight, RANK, HIDDEN);
    float *p_bias = layer_floats(model, bias, 1, RANK);
    for (size_t r = 0; r < RANK; r++)
        h[r] = reference_product(p, p_bias, r, x, HIDDEN);
    memory_free(p);
    memory_free(p_bias);
}

/* Computes the logits by place. Returns the root of their mean square. */
static double reference_logits(const wisp_model *model, size_t layer, const float *x,
                               double *logits) {
    double h[RANK], squares = 0;
    float *q = block_floats(model, layer, "ffn_predictor_q.weight", WIDE, RANK);
    float *q_bias = block_floats(model, layer, "ffn_predictor_q.bias", 1, WIDE);
    inner_values(model, layer, x, h);
    for (size_t i = 0; i < WIDE; i++) {
        logits[i] = (double)q_bias[i];
        for (size_t r = 0; r < RANK; r++)
            logits[i] += (double)q[i * RANK + r] * h[r];
        squares += logits[i] * logits[i];
    }
    memory_free(q);
    memory_free(q_bias);
    return sqrt(squares / (double)WIDE);
}

/* Thresholds a little above or below a token's logits, by a share of their size, choose exactly the
 * wanted neurons. */
static void expect_choice(const wisp_model *model, size_t layer, double margin) {
    const struct sparse_ffn *f = &model->network.feed_forward[layer].sparse;
    struct reference reference = reference_open(model, layer);
    struct difference difference = {0};
    float x[TOKENS * HIDDEN];
    fill_tokens(x, TOKENS);
    for (size_t t = 0; t < TOKENS; t++) {
        struct sparse_counts counts = {0};
        bool wanted[WIDE];
        double logits[WIDE], y[HIDDEN];
        float thresholds[WIDE], got[HIDDEN];
        const float *token = x + t * HIDDEN;
        const double size = reference_logits(model, layer, token, logits);
        size_t n = 0;
        for (size_t i = 0; i < WIDE; i++) {
            wanted[i] = (i * i + t) % 7 < 3;
            thresholds[i] = (float)(logits[i] + (wanted[i] ? -margin : margin) * size);
            n += wanted[i];
        }
        apply_sparse(f, thresholds, token, 1, got, &counts);
        assert_int_equal(counts.computed, n);
        reference_layer(&reference, wanted, token, y);
        difference_add(&difference, got, y, HIDDEN);
    }
    assert_true(difference_of(&difference) < 0.012);
    reference_close(&reference);
}

/* A predictor that is stored in floats is not rounded. One in blocks is multiplied in int8. */
static void the_predictor_chooses(void **state) {
    (void)state;
    for (size_t i = 0; i < TYPES; i++) {
        const struct predicting p = predicting_of(types[i]);
        const bool int8 = types[i] == BLOCK_Q8_0;
        const char *kernels, *path = predicting_model("choosing.gguf", &p);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
            wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK, kernels);
            for (size_t layer = 0; layer < 2; layer++) {
                const struct sparse_ffn *f = &model->network.feed_forward[layer].sparse;
                assert_true(f->rank == RANK && f->levels == PREDICTING_LEVELS);
                assert_true((f->p.kind->compute == WISP_COMPUTE_INT8) == int8 &&
                            (f->q.kind->compute == WISP_COMPUTE_INT8) == int8);
                expect_choice(model, layer, int8 ? 0.1 : 1e-5);
            }
            wisp_model_close(model);
        }
    }
}

/* Between two levels thresholds are interpolated. Beyond the first and last level they are those of
 * that level. */
static void thresholds_lie_between_levels(void **state) {
    (void)state;
    static const struct {
        float share, part; /* of the second level */
    } cases[] = {{0.1f, 0}, {0.2f, 0}, {0.25f, 0.25f}, {0.3f, 0.5f}, {0.4f, 1}, {0.9f, 1}};
    const struct predicting p = predicting_of(BLOCK_F32);
    wisp_model *model = open_with(predicting_model("levels.gguf", &p), WISP_COMPUTE_INT8,
                                  WISP_PREDICTOR_LOWRANK, NULL);
    for (size_t layer = 0; layer < 2; layer++) {
        const struct sparse_ffn *f = &model->network.feed_forward[layer].sparse;
        float *levels = block_floats(model, layer, "ffn_thresholds", PREDICTING_LEVELS, WIDE);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            float thresholds[WIDE];
            sparse_ffn_thresholds(f, &model->plan, cases[i].share, thresholds);
            for (size_t j = 0; j < WIDE; j++) {
                const float low = levels[j], high = levels[WIDE + j];
                assert_true(fabsf(thresholds[j] - low - cases[i].part * (high - low)) < 1e-5f);
            }
        }
        memory_free(levels);
    }
    wisp_model_close(model);
}

/* If one of two levels never computes a neuron, the nearer level decides. */
static void thresholds_may_be_none(void **state) {
    (void)state;
    float levels[] = {SPARSE_NEVER, 1, 2, 3}, thresholds[2];
    const struct sparse_ffn f = {.intermediate_size = 2, .levels = 2, .thresholds = levels};
    const struct sparse_plan plan = {.levels = 2, .shares = {0.2f, 0.4f}};
    sparse_ffn_thresholds(&f, &plan, 0.4f, thresholds);
    assert_true(thresholds[0] == 2 && thresholds[1] == 3);
    sparse_ffn_thresholds(&f, &plan, 0.399f, thresholds);
    assert_true(thresholds[0] == 2 && thresholds[1] < 3);
    sparse_ffn_thresholds(&f, &plan, 0.21f, thresholds);
    assert_true(thresholds[0] >= SPARSE_NEVER && thresholds[1] > 1);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Computes the outputs of both layers with the model's own thresholds. */
static void outputs_of(const char *path, float y[2][TOKENS * HIDDEN]) {
    float x[TOKENS * HIDDEN];
    wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK, NULL);
    fill_tokens(x, TOKENS);
    for (size_t layer = 0; layer < 2; layer++) {
        const struct sparse_ffn *f = &model->network.feed_forward[layer].sparse;
        struct sparse_counts counts = {0};
        apply_sparse(f, f->thresholds, x, TOKENS, y[layer], &counts);
        assert_true(counts.computed > 0 && counts.computed < TOKENS * WIDE);
    }
    wisp_model_close(model);
}

static void copy_data(struct gguf *to, const char *name, struct gguf *from, const char *source) {
    struct gguf_tensor *tensor = gguf_tensor(to, name);
    const struct gguf_tensor *original = gguf_tensor(from, source);
    assert_int_equal(tensor->data.size, original->data.size);
    memcpy(tensor->data.data, original->data.data, original->data.size);
}

/* Layers without a P of their own use the shared one, and give the bits that they give with a copy
 * each. */
static void layers_may_share_a_predictor(void **state) {
    (void)state;
    static float wanted[2][TOKENS * HIDDEN], got[2][TOKENS * HIDDEN];
    for (size_t i = 0; i < TYPES; i++)
        for (int compensated = 0; compensated < 2; compensated++) {
            struct gguf own, shared;
            struct predicting p = predicting_of(types[i]);
            p.compensated = compensated != 0;
            make_predicting(&own, &p);
            p.shared = true;
            make_predicting(&shared, &p);
            copy_data(&own, "blk.0.ffn_predictor_p.weight", &shared, "ffn_predictor_p.weight");
            copy_data(&own, "blk.0.ffn_predictor_p.bias", &shared, "ffn_predictor_p.bias");
            copy_data(&own, "blk.1.ffn_predictor_p.weight", &shared, "ffn_predictor_p.weight");
            copy_data(&own, "blk.1.ffn_predictor_p.bias", &shared, "ffn_predictor_p.bias");
            outputs_of(write_made(&own, "own.gguf"), wanted);
            outputs_of(write_made(&shared, "shared.gguf"), got);
            assert_memory_equal(got, wanted, sizeof wanted);
        }
}

/* A layer prefers its own P to the shared one. */
static void layers_may_have_a_predictor_besides(void **state) {
    (void)state;
    static float own[2][TOKENS * HIDDEN], shared[2][TOKENS * HIDDEN], both[2][TOKENS * HIDDEN];
    struct gguf file;
    struct predicting p = predicting_of(BLOCK_F32);
    outputs_of(predicting_model("own.gguf", &p), own);
    make_predicting(&file, &p);
    gguf_drop_tensor(&file, "blk.1.ffn_predictor_p.weight");
    gguf_drop_tensor(&file, "blk.1.ffn_predictor_p.bias");
    tiny_add_tensor(&file, "ffn_predictor_p.weight", HIDDEN, RANK, BLOCK_F32);
    tiny_add_tensor(&file, "ffn_predictor_p.bias", RANK, 1, BLOCK_F32);
    gguf_settle(&file);
    outputs_of(write_made(&file, "both.gguf"), both);
    p.shared = true;
    outputs_of(predicting_model("shared.gguf", &p), shared);
    assert_memory_equal(both[0], own[0], sizeof own[0]);
    assert_memory_not_equal(both[0], shared[0], sizeof own[0]);
    assert_memory_equal(both[1], shared[1], sizeof own[1]);
}

/* The rank may be larger than the sizes of the layer. */
static void predictors_may_be_large(void **state) {
    (void)state;
    static float y[2][TOKENS * HIDDEN];
    for (size_t i = 0; i < TYPES; i++) {
        struct predicting p = predicting_of(types[i]);
        p.rank = 704;
        p.compensated = true;
        outputs_of(predicting_model("large.gguf", &p), y);
    }
}

/* Another shape with the same number of values. */
static void set_dims(struct gguf_tensor *tensor, const uint64_t *dims) {
    tensor->n_dims = dims[1] > 1 ? 2 : 1;
    memcpy(tensor->dims, dims, 2 * sizeof *dims);
}

static void set_f32(struct gguf *file, const char *name, float value) {
    bytes_set_f32(&gguf_tensor(file, name)->data, 0, value);
}

/* Each file has one fault, and the error names it. */
static void malformed_predictors_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name; /* the tensor that is removed, or the dimension or value that it gets */
        uint64_t dims[2];
        float value;
        wisp_status status;
        const char *field;
    } cases[] = {
        {"blk.0.ffn_predictor_p.weight", {0}, 0, WISP_ERROR_NOT_FOUND, NULL},
        {"blk.1.ffn_predictor_p.bias", {0}, 0, WISP_ERROR_NOT_FOUND, NULL},
        {"blk.1.ffn_predictor_q.weight", {0}, 0, WISP_ERROR_NOT_FOUND, NULL},
        {"blk.1.ffn_predictor_q.bias", {0}, 0, WISP_ERROR_NOT_FOUND, NULL},
        {"blk.1.ffn_thresholds", {0}, 0, WISP_ERROR_NOT_FOUND, NULL},
        {"blk.0.ffn_compensation.bias", {0}, 0, WISP_ERROR_NOT_FOUND, NULL},
        {"blk.1.ffn_predictor_p.weight", {HIDDEN / 2, 2 * RANK}, 0, WISP_ERROR_FORMAT, NULL},
        {"blk.1.ffn_predictor_q.weight", {RANK / 2, 2 * WIDE}, 0, WISP_ERROR_FORMAT, NULL},
        {"blk.1.ffn_thresholds", {2 * WIDE, 1}, 0, WISP_ERROR_FORMAT, NULL},
        {"blk.1.ffn_center", {WIDE / 2, 2}, 0, WISP_ERROR_FORMAT, NULL},
        {"blk.1.ffn_factors", {HIDDEN / 2, 2}, 0, WISP_ERROR_FORMAT, NULL},
        {"blk.1.ffn_compensation.weight", {2 * RANK, HIDDEN / 2}, 0, WISP_ERROR_FORMAT, NULL},
        {"blk.0.ffn_factors", {0}, NAN, WISP_ERROR_FORMAT, NULL},
        {"blk.0.ffn_factors", {0}, -1, WISP_ERROR_FORMAT, "ffn_factors"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const wisp_model_options options = {.predictor = WISP_PREDICTOR_LOWRANK};
        const char *name = cases[i].name;
        struct predicting p = predicting_of(BLOCK_F32);
        struct gguf file;
        wisp_model *model;
        wisp_error error;
        p.compensated = true;
        make_predicting(&file, &p);
        if (cases[i].dims[0] > 0)
            set_dims(gguf_tensor(&file, name), cases[i].dims);
        else if (cases[i].value != 0)
            set_f32(&file, name, cases[i].value);
        else
            gguf_drop_tensor(&file, name);
        assert_int_equal(wisp_model_open(write_made(&file, "wrong.gguf"), &options, &model, &error),
                         cases[i].status);
        assert_string_equal(error.field, cases[i].field ? cases[i].field : name);
    }
}

/* ---- compensation --------------------------------------------------------------------------- */

/* Adds scale (B (P x + p) + b) to y, in double precision. */
static void add_compensation(const wisp_model *model, const float *x, size_t computed, double *y) {
    float *b = block_floats(model, 0, "ffn_compensation.weight", HIDDEN, RANK);
    float *b_bias = block_floats(model, 0, "ffn_compensation.bias", 1, HIDDEN);
    const double skipped = 1 - (double)computed / (double)WIDE;
    double h[RANK];
    inner_values(model, 0, x, h);
    for (size_t c = 0; c < HIDDEN; c++) {
        double sum = (double)b_bias[c];
        for (size_t r = 0; r < RANK; r++)
            sum += (double)b[c * RANK + r] * h[r];
        y[c] += skipped * skipped * sum;
    }
    memory_free(b);
    memory_free(b_bias);
}

/* With a compensation, the output of a layer is the output without it plus the compensation. Narrow
 * products, which take int8's place in sets that have no others, round twice as coarsely. */
static void expect_compensation(uint32_t type, const char *kernels) {
    struct predicting p = predicting_of(type);
    struct difference difference = {0};
    float x[TOKENS * HIDDEN], plain[HIDDEN], y[HIDDEN];
    double wanted[HIDDEN];
    wisp_model *without = open_with(predicting_model("without.gguf", &p), WISP_COMPUTE_INT8,
                                    WISP_PREDICTOR_LOWRANK, kernels);
    p.compensated = true;
    wisp_model *with = open_with(predicting_model("with.gguf", &p), WISP_COMPUTE_INT8,
                                 WISP_PREDICTOR_LOWRANK, kernels);
    const struct sparse_ffn *f = &without->network.feed_forward[0].sparse,
                            *g = &with->network.feed_forward[0].sparse;
    assert_true((g->compensation.kind->compute == WISP_COMPUTE_INT8) == (type == BLOCK_Q8_0));
    fill_tokens(x, TOKENS);
    for (size_t t = 0; t < TOKENS; t++) {
        struct sparse_counts counts = {0}, compensated = {0};
        apply_sparse(f, f->thresholds, x + t * HIDDEN, 1, plain, &counts);
        apply_sparse(g, g->thresholds, x + t * HIDDEN, 1, y, &compensated);
        assert_int_equal(compensated.computed, counts.computed);
        for (size_t c = 0; c < HIDDEN; c++) {
            wanted[c] = 0;
            y[c] -= plain[c];
        }
        add_compensation(with, x + t * HIDDEN, (size_t)counts.computed, wanted);
        difference_add(&difference, y, wanted, HIDDEN);
    }
    print_message("%s: relative error %.2g\n", kernels, difference_of(&difference));
    const double int8_bound = without->network.kernels->gemm_int8 ? 0.01 : 0.02;
    assert_true(difference_of(&difference) < (type == BLOCK_Q8_0 ? int8_bound : 1e-5));
    wisp_model_close(without);
    wisp_model_close(with);
}

static void layers_add_their_compensation(void **state) {
    (void)state;
    const char *kernels;
    for (size_t i = 0; i < TYPES; i++)
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++)
            expect_compensation(types[i], kernels);
}

enum { FIT_HIDDEN = 16, FIT_WIDE = 64, FIT_TOKENS = 2048, FIT_HELD_OUT = 512, FIT_RANK = 8 };

static float *random_floats(struct rng *rng, size_t n, float scale) {
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < n; i++)
        values[i] = scale * rng_between(rng, -1, 1);
    return values;
}

static double held_out_error(const struct layer *layer, const struct layer_fit *fit,
                             const float *thresholds, struct arena *scratch) {
    float errors[LOSS_TOKENS * FIT_HIDDEN];
    double sum = 0;
    struct loss_work work;
    wisp_error error;
    assert_int_equal(loss_work_open(layer, fit, scratch, &work, &error), WISP_OK);
    for (size_t t = 0; t < FIT_HELD_OUT; t += LOSS_TOKENS) {
        const float *x = layer->held_out + t * FIT_HIDDEN;
        assert_int_equal(
            layer_errors(layer, fit, thresholds, x, x, LOSS_TOKENS, &work, errors, &error),
            WISP_OK);
        for (size_t i = 0; i < LOSS_TOKENS * FIT_HIDDEN; i++)
            sum += (double)errors[i] * (double)errors[i];
    }
    return sum;
}

/* If activations are nearly linear in x, a linear function of x restores most of the loss. The
 * layer keeps its compensation if neurons are expensive, and drops it if they are cheap. */
static void compensation_is_kept_where_it_pays(void **state) {
    (void)state;
    struct rng rng = {7};
    struct arena arena = {0}, scratch = {0};
    struct layer layer = {.arena = &arena,
                          .kernels = kernels_at(0),
                          .hidden_size = FIT_HIDDEN,
                          .intermediate_size = FIT_WIDE,
                          .up = random_floats(&rng, FIT_WIDE * FIT_HIDDEN, 0.3f),
                          .up_bias = random_floats(&rng, FIT_WIDE, 0.1f),
                          .down = random_floats(&rng, FIT_WIDE * FIT_HIDDEN, 0.3f),
                          .down_bias = random_floats(&rng, FIT_HIDDEN, 0.1f),
                          .x = random_floats(&rng, FIT_TOKENS * FIT_HIDDEN, 1),
                          .tokens = FIT_TOKENS,
                          .held_out = random_floats(&rng, FIT_HELD_OUT * FIT_HIDDEN, 1),
                          .held_out_tokens = FIT_HELD_OUT};
    const struct predictor_formats formats = {block_format_by_id(BLOCK_F32),
                                              block_format_by_id(BLOCK_F32)};
    const struct fit_options options = {
        .rank = FIT_RANK, .computed = 0.3f, .steps = FIT_STEPS, .seed = 1};
    struct layer_fit fit = {0};
    struct gains gains;
    float thresholds[FIT_WIDE];
    wisp_error error;
    layer.predictor_x = layer.x;
    layer.predictor_held_out = layer.held_out;
    for (size_t j = 0; j < FIT_WIDE; j++)
        layer.up_bias[j] += 1;
    assert_int_equal(layer_study_neurons(&layer, &scratch, &error), WISP_OK);
    assert_int_equal(predictor_fit(&layer, &options, &scratch, &fit.trained, &error), WISP_OK);
    assert_int_equal(layer_find_gains(&layer, &formats, &fit, &gains, &scratch, &error), WISP_OK);
    const float price = gains_price(&gains, 1, 0.3f);
    gains_thresholds(&gains, price, thresholds);
    const double before = held_out_error(&layer, &fit, thresholds, &scratch);
    assert_int_equal(compensation_fit(&layer, thresholds, 1e6f * price, &fit, &scratch, &error),
                     WISP_OK);
    assert_null(fit.compensation);
    assert_int_equal(compensation_fit(&layer, thresholds, price, &fit, &scratch, &error), WISP_OK);
    assert_non_null(fit.compensation);
    const double after = held_out_error(&layer, &fit, thresholds, &scratch);
    print_message("%.0f %% of the error is left\n", 100 * after / before);
    assert_true(after < 0.7 * before);
    arena_release(&arena);
    arena_release(&scratch);
    free(layer.up);
    free(layer.up_bias);
    free(layer.down);
    free(layer.down_bias);
    free(layer.x);
    free(layer.held_out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_predictor_chooses),
        cmocka_unit_test(thresholds_lie_between_levels),
        cmocka_unit_test(thresholds_may_be_none),
        cmocka_unit_test(layers_may_share_a_predictor),
        cmocka_unit_test(layers_may_have_a_predictor_besides),
        cmocka_unit_test(predictors_may_be_large),
        cmocka_unit_test(malformed_predictors_are_refused),
        cmocka_unit_test(layers_add_their_compensation),
        cmocka_unit_test(compensation_is_kept_where_it_pays),
    };
    return cmocka_run_group_tests_name("predictors of sparse layers", tests, NULL,
                                       tear_down_temporary_folder);
}
