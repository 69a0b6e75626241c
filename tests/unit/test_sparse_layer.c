/* SPDX-License-Identifier: Apache-2.0
 * Compares the results of one sparse layer with double precision and with the dense layer. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"
#include "support/sparse_reference.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum {
    MOST_WIDE = 80,
    MANY = 300, /* more tokens than are computed together */
    ROUNDS = 20
};

/* The error that int8 may have. Gated layers have the errors of two products, and narrow numbers
 * fewer steps. */
static double tolerance(const struct sparse_ffn *f) {
    const double narrow = f->kernels->sparse->narrow ? 1.3 : 1;
    return narrow * (f->activation == ACTIVATION_GATED_SILU ? 0.018 : 0.012);
}

static void fill_tokens(float *x, size_t tokens) {
    for (size_t i = 0; i < tokens * HIDDEN; i++)
        x[i] = sinf((float)i * 1.7f);
}

/* Chooses neurons for a round: none in the first, all in the second. Returns how many. */
static size_t choose(size_t round, size_t wide, bool *computed, float *thresholds) {
    size_t n = 0;
    for (size_t i = 0; i < wide; i++) {
        computed[i] = round == 1 || (round > 0 && (i * (round + 3) + round) % 5 < 2);
        thresholds[i] = computed[i] ? -1e30f : 1e30f;
        n += computed[i];
    }
    return n;
}

/* Forces a choice of neurons on the layer by its thresholds. The result equals that of double
 * precision for the same choice, except for the error of int8. */
static void expect_mask_applied(const char *path, const char *kernels, size_t layer) {
    wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK, kernels);
    const struct sparse_ffn *f = &model->network.feed_forward[layer].sparse;
    struct reference reference = reference_open(model, layer);
    bool computed[MOST_WIDE];
    float thresholds[MOST_WIDE], x[ROUNDS * HIDDEN], y[HIDDEN];
    double wanted[HIDDEN];
    struct difference difference = {0};
    assert_true(f->intermediate_size <= MOST_WIDE && f->hidden_size == HIDDEN);
    fill_tokens(x, ROUNDS);
    for (size_t round = 0; round < ROUNDS; round++) {
        struct sparse_counts counts = {0};
        const size_t n = choose(round, f->intermediate_size, computed, thresholds);
        apply_sparse(f, thresholds, x + round * HIDDEN, 1, y, &counts);
        reference_layer(&reference, computed, x + round * HIDDEN, wanted);
        assert_int_equal(counts.tokens, 1);
        assert_int_equal(counts.computed, n);
        assert_true(counts.contributing <= n && (counts.contributing > 0) == (n > 0));
        difference_add(&difference, y, wanted, HIDDEN);
    }
    print_message("%s: relative error %.2g\n", kernels, difference_of(&difference));
    assert_true(difference_of(&difference) < tolerance(f));
    reference_close(&reference);
    wisp_model_close(model);
}

static struct predicting predicting_of(const char *activation) {
    return (struct predicting){
        .shape = tiny_shape_of(activation), .activation = activation, .rank = 8, .type = BLOCK_F32};
}

static void a_layer_is_its_mask_applied(void **state) {
    (void)state;
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        const struct predicting p = predicting_of(activations[a]);
        const char *kernels, *path = predicting_model("sparse.gguf", &p);
        print_message("%s\n", activations[a]);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++)
            for (size_t layer = 0; layer < p.shape->layers; layer++)
                expect_mask_applied(path, kernels, layer);
    }
}

/* A token has the same bits alone and among other tokens, whichever neurons these want. The counts
 * add up. */
static void tokens_do_not_depend_on_each_other(void **state) {
    (void)state;
    static float x[MANY * HIDDEN], y[MANY * HIDDEN];
    fill_tokens(x, MANY);
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        struct predicting p = predicting_of(activations[a]);
        p.compensated = true;
        const char *kernels, *path = predicting_model("sparse.gguf", &p);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
            wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK, kernels);
            const struct sparse_ffn *f = &model->network.feed_forward[0].sparse;
            struct sparse_counts together = {0}, one = {0};
            apply_sparse(f, f->thresholds, x, MANY, y, &together);
            for (size_t t = 0; t < MANY; t++) {
                float alone[HIDDEN];
                apply_sparse(f, f->thresholds, x + t * HIDDEN, 1, alone, &one);
                assert_memory_equal(alone, y + t * HIDDEN, sizeof alone);
            }
            assert_int_equal(together.tokens, MANY);
            assert_int_equal(together.computed, one.computed);
            assert_int_equal(together.contributing, one.contributing);
            assert_true(one.computed > 0 && one.computed < MANY * f->intermediate_size);
            wisp_model_close(model);
        }
    }
}

/* ---- exact ---------------------------------------------------------------------------------- */

/* The first half has the bits of the dense layers: W_up's outputs, then W_gate's. */
static void expect_dense_first_half(const wisp_model *exact, const char *path,
                                    const char *kernels) {
    wisp_model *dense = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_DENSE, kernels);
    const struct linear *wanted[] = {&dense->network.feed_forward[0].up,
                                     &dense->network.feed_forward[0].gate};
    const struct linear *got = &exact->network.feed_forward[0].sparse.neurons->dense;
    const size_t wide = wanted[0]->n;
    float x[HIDDEN], *y = malloc((wide + got->n) * sizeof *y), *all = y + wide;
    struct workspace scratch = {0};
    workspace_reserve(&scratch, linear_workspace_bytes(1, HIDDEN), NULL);
    assert_true(y && scratch.base && got->n == wide + wanted[1]->n);
    fill_tokens(x, 1);
    linear_apply(got, x, 1, all, scratch);
    for (size_t part = 0; part * wide < got->n; part++) {
        linear_apply(wanted[part], x, 1, y, scratch);
        assert_memory_equal(y, all + part * wide, wide * sizeof *y);
    }
    free(y);
    workspace_release(&scratch);
    wisp_model_close(dense);
}

/* Computes y [MANY, HIDDEN] with exact. */
static void expect_exact_layer(const char *path, const char *kernels, float *y) {
    static float x[MANY * HIDDEN];
    wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_EXACT, kernels);
    const struct sparse_ffn *f = &model->network.feed_forward[0].sparse;
    struct sparse_counts counts = {0}, one = {0};
    struct reference reference = reference_open(model, 0);
    struct difference difference = {0};
    double wanted[HIDDEN];
    fill_tokens(x, MANY);
    apply_sparse(f, NULL, x, MANY, y, &counts);
    for (size_t t = 0; t < MANY; t++) {
        float alone[HIDDEN];
        apply_sparse(f, NULL, x + t * HIDDEN, 1, alone, &one);
        assert_memory_equal(alone, y + t * HIDDEN, sizeof alone);
        reference_layer(&reference, NULL, x + t * HIDDEN, wanted);
        difference_add(&difference, alone, wanted, HIDDEN);
    }
    print_message("%s: relative error %.2g\n", kernels, difference_of(&difference));
    assert_true(difference_of(&difference) < tolerance(f));
    assert_int_equal(counts.computed, MANY * f->intermediate_size);
    assert_int_equal(counts.contributing, one.contributing);
    assert_true(counts.contributing > 0 &&
                (f->activation != ACTIVATION_RELU || counts.contributing < counts.computed));
    expect_dense_first_half(model, path, kernels);
    reference_close(&reference);
    wisp_model_close(model);
}

/* Computes all neurons. The result equals that of double precision, except for the error of int8.
 * The predictor and the order in the file change no bit. */
static void exact_skips_nothing_that_counts(void **state) {
    (void)state;
    static float y[2][MANY * HIDDEN];
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        const struct predicting p = predicting_of(activations[a]);
        char plain[256], predicting[256];
        const char *kernels;
        snprintf(plain, sizeof plain, "%s", tiny_model("plain.gguf", activations[a]));
        snprintf(predicting, sizeof predicting, "%s", predicting_model("sparse.gguf", &p));
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
            expect_exact_layer(plain, kernels, y[0]);
            expect_exact_layer(predicting, kernels, y[1]);
            assert_memory_equal(y[0], y[1], sizeof y[0]);
        }
    }
}

/* A predictor that chooses all neurons gives the result of exact, except for how x is quantised. */
static void all_neurons_are_exact(void **state) {
    (void)state;
    static float x[MANY * HIDDEN], y[2][MANY * HIDDEN];
    float thresholds[MOST_WIDE];
    fill_tokens(x, MANY);
    for (size_t i = 0; i < MOST_WIDE; i++)
        thresholds[i] = -1e30f;
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        const struct predicting p = predicting_of(activations[a]);
        const char *kernels, *path = predicting_model("sparse.gguf", &p);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
            for (int exact = 0; exact < 2; exact++) {
                wisp_model *model =
                    open_with(path, WISP_COMPUTE_INT8,
                              exact ? WISP_PREDICTOR_EXACT : WISP_PREDICTOR_LOWRANK, kernels);
                const struct sparse_ffn *f = &model->network.feed_forward[0].sparse;
                struct sparse_counts counts = {0};
                assert_true(f->intermediate_size <= MOST_WIDE);
                apply_sparse(f, exact ? NULL : thresholds, x, MANY, y[exact], &counts);
                assert_int_equal(counts.computed, MANY * f->intermediate_size);
                wisp_model_close(model);
            }
            const double near = cosine(y[0], y[1], MANY * HIDDEN);
            print_message("%s %s: cosine %.6f\n", activations[a], kernels, near);
            assert_true(near > (kernels_find(kernels)->sparse->narrow ? 0.9996 : 0.9998));
        }
    }
}

/* ---- shapes --------------------------------------------------------------------------------- */

/* The number of neurons need not be a multiple of anything, with or without a gate. */
static void any_number_of_neurons_will_do(void **state) {
    (void)state;
    static const uint32_t numbers[] = {1, 30, 67};
    static float y[MANY * HIDDEN];
    for (size_t i = 0; i < 2 * sizeof numbers / sizeof *numbers; i++) {
        const struct tiny_shape shape = {.hidden = HIDDEN,
                                         .wide = numbers[i / 2],
                                         .layers = 1,
                                         .heads = 4,
                                         .positions = 16,
                                         .type = BLOCK_F32,
                                         .nomic = i % 2 != 0};
        struct predicting p = predicting_of(shape.nomic ? "silu" : "gelu");
        p.shape = &shape;
        const char *kernels, *path = predicting_model("sparse.gguf", &p);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
            expect_mask_applied(path, kernels, 0);
            expect_exact_layer(path, kernels, y);
        }
    }
}

/* A gated layer must have its tensors and no others, with each predictor. */
static void gated_layers_have_their_tensors(void **state) {
    (void)state;
    static const struct {
        const char *dropped, *added;
        wisp_status status;
        const char *field;
    } cases[] = {
        {"blk.1.ffn_gate.weight", NULL, WISP_ERROR_NOT_FOUND, "blk.1.ffn_gate.weight"},
        {"blk.0.ffn_up.weight", NULL, WISP_ERROR_NOT_FOUND, "blk.0.ffn_up.weight"},
        {NULL, "blk.0.ffn_gate.bias", WISP_ERROR_UNSUPPORTED, "blk.0.ffn_gate.bias"},
        {NULL, "blk.0.ffn_up.bias", WISP_ERROR_UNSUPPORTED, "blk.0.ffn_up.bias"},
        {NULL, "blk.0.ffn_down.bias", WISP_ERROR_UNSUPPORTED, "blk.0.ffn_down.bias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int exact = 0; exact < 2; exact++) {
            const wisp_model_options options = {.compute = WISP_COMPUTE_INT8,
                                                .predictor = exact ? WISP_PREDICTOR_EXACT
                                                                   : WISP_PREDICTOR_LOWRANK};
            const struct predicting p = predicting_of("silu");
            struct gguf file;
            wisp_model *model;
            wisp_error error;
            make_predicting(&file, &p);
            if (cases[i].dropped)
                gguf_drop_tensor(&file, cases[i].dropped);
            else
                tiny_add_tensor(&file, cases[i].added,
                                strstr(cases[i].added, "down") ? HIDDEN : p.shape->wide, 1,
                                BLOCK_F32);
            gguf_settle(&file);
            assert_int_equal(
                wisp_model_open(write_made(&file, "gated.gguf"), &options, &model, &error),
                cases[i].status);
            assert_string_equal(error.field, cases[i].field);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_is_its_mask_applied),
        cmocka_unit_test(tokens_do_not_depend_on_each_other),
        cmocka_unit_test(exact_skips_nothing_that_counts),
        cmocka_unit_test(all_neurons_are_exact),
        cmocka_unit_test(any_number_of_neurons_will_do),
        cmocka_unit_test(gated_layers_have_their_tensors),
    };
    return cmocka_run_group_tests_name("sparse layers", tests, NULL, tear_down_temporary_folder);
}
