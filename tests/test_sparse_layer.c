/* SPDX-License-Identifier: Apache-2.0
 * One sparse layer: what it computes against double precision, and its compensation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/model.h"
#include "golden.h"
#include "opening.h"
#include "rng.h"
#include "sparse/compensation.h"
#include "sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static double activation(enum activation kind, double x, double gate) {
    switch (kind) {
    case ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case ACTIVATION_GELU:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case ACTIVATION_GATED_SILU:
        break;
    }
    return gate / (1 + exp(-gate)) * x;
}

/* Row j of w, or 0 where there is no w, by x. */
static double product(const float *w, size_t j, const float *x, size_t n) {
    double sum = 0;
    for (size_t c = 0; c < n && w; c++)
        sum += (double)w[j * n + c] * (double)x[c];
    return sum;
}

/* The neuron of layer 0 at a place of its quads. */
static size_t neuron_at(const wisp_model *model, size_t place) {
    return model->plan.order ? (size_t)model->plan.order[place] : place;
}

/* How far off int8 may be: what is gated has the errors of two products. */
static double tolerance(const struct sparse_ffn *f) {
    return f->activation == ACTIVATION_GATED_SILU ? 0.016 : 0.012;
}

/* y of one token in double precision, quads skipped where `computed` (NULL: none) is false. */
static void reference_layer(const wisp_model *model, const bool *computed, const float *x,
                            double *y) {
    const struct sparse_ffn *f = &model->bert.layer[0].sparse;
    const enum activation kind = model->bert.config.activation;
    const bool gated = kind == ACTIVATION_GATED_SILU, centered = kind == ACTIVATION_GELU;
    float *up = layer_floats(model, "blk.0.ffn_up.weight", f->wide, f->hidden);
    float *gate = gated ? layer_floats(model, "blk.0.ffn_gate.weight", f->wide, f->hidden) : NULL;
    float *up_bias = gated ? NULL : layer_floats(model, "blk.0.ffn_up.bias", 1, f->wide);
    float *down = layer_floats(model, "blk.0.ffn_down.weight", f->hidden, f->wide);
    float *down_bias = gated ? NULL : layer_floats(model, "blk.0.ffn_down.bias", 1, f->hidden);
    float *center =
        centered && computed ? layer_floats(model, "blk.0.ffn_center", 1, f->wide) : NULL;
    for (size_t c = 0; c < f->hidden; c++)
        y[c] = down_bias ? (double)down_bias[c] : 0;
    for (size_t place = 0; place < f->wide; place++) {
        const size_t j = neuron_at(model, place);
        const double sum = product(up, j, x, f->hidden) + (up_bias ? (double)up_bias[j] : 0);
        double value = center ? (double)center[j] : 0;
        if (!computed || computed[place / QUAD])
            value = activation(kind, sum, product(gate, j, x, f->hidden));
        for (size_t c = 0; c < f->hidden; c++)
            y[c] += value * (double)down[c * f->wide + j];
    }
    memory_free(up);
    memory_free(gate);
    memory_free(up_bias);
    memory_free(down);
    memory_free(down_bias);
    memory_free(center);
}

/* Thresholds that force a choice of quads on the layer: what it gives is what double precision
 * gives for that choice, but for int8. */
static void expect_mask_applied(const char *path, const char *kernels) {
    wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK, kernels);
    const struct sparse_ffn *f = &model->bert.layer[0].sparse;
    void *scratch =
        memory_allocate(sparse_ffn_scratch_bytes(f->hidden, f->wide, f->rank, f->activation));
    bool computed[64];
    float thresholds[64], x[HIDDEN], y[HIDDEN];
    double wanted[HIDDEN], off = 0, squares = 0;
    assert_non_null(scratch);
    assert_true(f->quads <= 64 && f->hidden == HIDDEN);
    for (size_t round = 0; round < 20; round++) {
        struct sparse_counts counts = {0};
        size_t n = 0;
        for (size_t i = 0; i < f->quads; i++) {
            computed[i] = (i * (round + 3) + round) % 5 < 2;
            thresholds[i] = computed[i] ? -1e30f : 1e30f;
            n += computed[i];
        }
        for (size_t c = 0; c < HIDDEN; c++)
            x[c] = sinf((float)(c * 7 + round * 13));
        sparse_ffn_apply(f, thresholds, x, 1, y, scratch, &counts);
        reference_layer(model, computed, x, wanted);
        assert_int_equal(counts.computed, n);
        for (size_t c = 0; c < HIDDEN; c++) {
            off += ((double)y[c] - wanted[c]) * ((double)y[c] - wanted[c]);
            squares += wanted[c] * wanted[c];
        }
    }
    print_message("%s: relative error %.2g\n", kernels, sqrt(off / squares));
    assert_true(sqrt(off / squares) < tolerance(f));
    memory_free(scratch);
    wisp_model_close(model);
}

static void a_layer_is_its_mask_applied(void **state) {
    (void)state;
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        char path[256];
        const char *kernels;
        snprintf(path, sizeof path, "%s", temporary_path("sparse.gguf"));
        calibrate_or_fail(tiny_model("plain.gguf", activations[a]), path, 1);
        print_message("%s\n", activations[a]);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++)
            expect_mask_applied(path, kernels);
    }
}

enum { MANY = 45 };

/* The first half is the dense layers', bit by bit, in the order of the quads: W_up's outputs, then
 * W_gate's. */
static void expect_dense_first_half(const wisp_model *exact, const char *path,
                                    const char *kernels) {
    wisp_model *dense = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_DENSE, kernels);
    const struct linear *wanted[] = {&dense->bert.layer[0].up, &dense->bert.layer[0].gate};
    const struct linear *got = &exact->bert.layer[0].sparse.all;
    const size_t wide = wanted[0]->n;
    float x[HIDDEN], *y = malloc((wide + got->n) * sizeof *y), *all = y + wide;
    void *scratch = memory_allocate(linear_scratch_bytes(1, HIDDEN));
    assert_true(y && scratch && got->n == wide + wanted[1]->n);
    for (size_t c = 0; c < HIDDEN; c++)
        x[c] = sinf((float)c);
    linear_apply(got, x, 1, all, scratch);
    for (size_t part = 0; part * wide < got->n; part++) {
        linear_apply(wanted[part], x, 1, y, scratch);
        for (size_t place = 0; place < wide; place++)
            assert_memory_equal(&y[neuron_at(exact, place)], &all[part * wide + place], sizeof *y);
    }
    free(y);
    memory_free(scratch);
    wisp_model_close(dense);
}

static void expect_exact_layer(const char *path, const char *kernels) {
    wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_EXACT, kernels);
    const struct sparse_ffn *f = &model->bert.layer[0].sparse;
    struct sparse_counts counts = {0}, one = {0};
    void *scratch =
        memory_allocate(sparse_ffn_scratch_bytes(f->hidden, f->wide, f->rank, f->activation));
    float x[MANY * HIDDEN], y[MANY * HIDDEN], alone[HIDDEN];
    double wanted[HIDDEN], off = 0, squares = 0;
    assert_non_null(scratch);
    for (size_t i = 0; i < MANY * HIDDEN; i++)
        x[i] = sinf((float)i);
    sparse_ffn_apply(f, NULL, x, MANY, y, scratch, &counts);
    for (size_t t = 0; t < MANY; t++) {
        sparse_ffn_apply(f, NULL, x + t * HIDDEN, 1, alone, scratch, &one);
        assert_memory_equal(alone, y + t * HIDDEN, sizeof alone);
        reference_layer(model, NULL, x + t * HIDDEN, wanted);
        for (size_t c = 0; c < HIDDEN; c++) {
            off += ((double)alone[c] - wanted[c]) * ((double)alone[c] - wanted[c]);
            squares += wanted[c] * wanted[c];
        }
    }
    print_message("%s: relative error %.2g\n", kernels, sqrt(off / squares));
    assert_true(sqrt(off / squares) < tolerance(f));
    assert_int_equal(counts.computed, MANY * f->quads);
    assert_int_equal(counts.contributing, one.contributing);
    assert_true(counts.contributing > 0 &&
                (f->activation != ACTIVATION_RELU || counts.contributing < counts.computed));
    expect_dense_first_half(model, path, kernels);
    memory_free(scratch);
    wisp_model_close(model);
}

/* All quads computed, calibrated or not: what double precision gives, but for int8. */
static void exact_skips_nothing_that_counts(void **state) {
    (void)state;
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        char plain[256], calibrated[256];
        const char *kernels;
        snprintf(plain, sizeof plain, "%s", tiny_model("plain.gguf", activations[a]));
        snprintf(calibrated, sizeof calibrated, "%s", temporary_path("sparse.gguf"));
        calibrate_or_fail(plain, calibrated, 1);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
            expect_exact_layer(plain, kernels);
            expect_exact_layer(calibrated, kernels);
        }
    }
}

/* A predictor that chooses all quads gives what exact gives, but for how x is quantised. */
static void all_quads_are_exact(void **state) {
    (void)state;
    float x[MANY * HIDDEN], y[2][MANY * HIDDEN], thresholds[64];
    for (size_t i = 0; i < MANY * HIDDEN; i++)
        x[i] = sinf((float)i);
    for (size_t i = 0; i < 64; i++)
        thresholds[i] = -1e30f;
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        char path[256];
        const char *kernels;
        snprintf(path, sizeof path, "%s", temporary_path("sparse.gguf"));
        calibrate_or_fail(tiny_model("plain.gguf", activations[a]), path, 1);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
            for (int exact = 0; exact < 2; exact++) {
                wisp_model *model =
                    open_with(path, WISP_COMPUTE_INT8,
                              exact ? WISP_PREDICTOR_EXACT : WISP_PREDICTOR_LOWRANK, kernels);
                const struct sparse_ffn *f = &model->bert.layer[0].sparse;
                struct sparse_counts counts = {0};
                void *scratch = memory_allocate(
                    sparse_ffn_scratch_bytes(f->hidden, f->wide, f->rank, f->activation));
                assert_true(scratch && f->quads <= 64);
                sparse_ffn_apply(f, exact ? NULL : thresholds, x, MANY, y[exact], scratch, &counts);
                assert_int_equal(counts.computed, MANY * f->quads);
                memory_free(scratch);
                wisp_model_close(model);
            }
            const double near = cosine(y[0], y[1], MANY * HIDDEN);
            print_message("%s %s: cosine %.6f\n", activations[a], kernels, near);
            assert_true(near > 0.9998);
        }
    }
}

static void add_tensor(struct gguf *file, uint32_t layer, const char *suffix, uint64_t length,
                       uint64_t rows) {
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, suffix);
    assert_true(file->n_tensors < GGUF_MAX_TENSORS);
    struct gguf_tensor *tensor = &file->tensors[file->n_tensors++];
    float *values = calloc(length * rows, sizeof *values);
    assert_non_null(values);
    tiny_values(name, values, length * rows);
    *tensor = (struct gguf_tensor){.name_length = strlen(name),
                                   .n_dims = rows > 1 ? 2 : 1,
                                   .dims = {length, rows},
                                   .type = BLOCK_F32};
    bytes_put(&tensor->name, name, strlen(name));
    bytes_put(&tensor->data, values, length * rows * sizeof *values);
    free(values);
}

/* A tiny model with a predictor of arbitrary weights, and a compensation where that is asked for.
 */
static void make_predicting(struct gguf *file, const struct tiny_shape *shape, uint64_t rank,
                            bool compensated) {
    static const float share = 0.5f;
    const size_t n = shape->layers * shape->wide;
    int32_t *order = calloc(n, sizeof *order);
    struct bytes shares = {0};
    gguf_make(file, shape);
    for (uint32_t l = 0; l < shape->layers; l++) {
        add_tensor(file, l, "ffn_predictor_p.weight", shape->hidden, rank);
        add_tensor(file, l, "ffn_predictor_p.bias", rank, 1);
        add_tensor(file, l, "ffn_predictor_q.weight", rank, shape->wide / QUAD);
        add_tensor(file, l, "ffn_predictor_q.bias", shape->wide / QUAD, 1);
        add_tensor(file, l, "ffn_thresholds", shape->wide / QUAD, 1);
        if (compensated) {
            add_tensor(file, l, "ffn_compensation.weight", rank, shape->hidden);
            add_tensor(file, l, "ffn_compensation.bias", shape->hidden, 1);
        }
    }
    assert_non_null(order);
    for (size_t i = 0; i < n; i++)
        order[i] = (int32_t)(i % shape->wide);
    gguf_set_i32s(file, "wisp.sparse.order", order, n);
    bytes_put_u32(&shares, 6); /* f32 */
    bytes_put_u64(&shares, 1);
    bytes_put(&shares, &share, sizeof share);
    gguf_set(file, "wisp.sparse.shares", 9, shares.data, shares.size);
    gguf_settle(file);
    bytes_release(&shares);
    free(order);
}

/* Releases the file's bytes. */
static wisp_model *open_made(struct gguf *file, const char *kernels) {
    struct bytes bytes = {0};
    gguf_write_bytes(file, &bytes);
    write_file("predicting.gguf", bytes.data, bytes.size);
    gguf_release(file);
    bytes_release(&bytes);
    return open_with(temporary_path("predicting.gguf"), WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK,
                     kernels);
}

static wisp_model *open_predicting(uint64_t rank, bool compensated, const char *kernels) {
    struct gguf file;
    make_predicting(&file, &tiny_shape_q8_0, rank, compensated);
    return open_made(&file, kernels);
}

/* Rows whose sums could be rounded by the dense product, which adds them as floats, stay with the
 * kernels that add integers. */
static void large_sums_stay_integers(void **state) {
    (void)state;
    static const struct tiny_shape wide_input = {
        .hidden = 640, .wide = 8, .layers = 1, .heads = 4, .positions = 16, .type = BLOCK_F32};
    for (int large = 0; large < 2; large++) {
        struct gguf file;
        const float one = 1;
        make_predicting(&file, &wide_input, 4, false);
        struct gguf_tensor *p = gguf_tensor(&file, "blk.0.ffn_predictor_p.weight");
        for (size_t c = 0; large && c < wide_input.hidden; c++)
            memcpy(p->data.data + c * sizeof one, &one, sizeof one);
        wisp_model *model = open_made(&file, NULL);
        const struct quad_rows *rows = &model->bert.layer[0].sparse.p;
        assert_true((rows->rows != NULL) == (large != 0) && (rows->panels == NULL) == (large != 0));
        wisp_model_close(model);
    }
}

/* Neurons need not be a multiple of four, gated or not. */
static void the_last_quad_may_be_short(void **state) {
    (void)state;
    for (int nomic = 0; nomic < 2; nomic++) {
        const struct tiny_shape shape = {.hidden = HIDDEN,
                                         .wide = 30,
                                         .layers = 1,
                                         .heads = 4,
                                         .positions = 16,
                                         .type = BLOCK_F32,
                                         .nomic = nomic != 0};
        char path[256], plain[256];
        struct gguf file;
        struct bytes bytes = {0};
        snprintf(plain, sizeof plain, "%s", temporary_path("short.gguf"));
        snprintf(path, sizeof path, "%s", temporary_path("sparse.gguf"));
        gguf_make(&file, &shape);
        gguf_write_bytes(&file, &bytes);
        write_file("short.gguf", bytes.data, bytes.size);
        gguf_release(&file);
        bytes_release(&bytes);
        calibrate_or_fail(plain, path, 1);
        const char *kernels;
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
            expect_mask_applied(path, kernels);
            expect_exact_layer(path, kernels);
        }
    }
}

/* A gated layer's tensors, and none that it does not have, by whichever way they are read. */
static void gated_layers_have_their_tensors(void **state) {
    (void)state;
    static const struct {
        const char *dropped, *bias;
        wisp_status status;
        const char *field;
    } cases[] = {
        {"blk.1.ffn_gate.weight", NULL, WISP_ERROR_NOT_FOUND, "blk.1.ffn_gate.weight"},
        {"blk.0.ffn_up.weight", NULL, WISP_ERROR_NOT_FOUND, "blk.0.ffn_up.weight"},
        {NULL, "ffn_gate.bias", WISP_ERROR_UNSUPPORTED, "blk.0.ffn_gate.bias"},
        {NULL, "ffn_up.bias", WISP_ERROR_UNSUPPORTED, "blk.0.ffn_up.bias"},
        {NULL, "ffn_down.bias", WISP_ERROR_UNSUPPORTED, "blk.0.ffn_down.bias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int exact = 0; exact < 2; exact++) {
            const wisp_model_options options = {.compute = WISP_COMPUTE_INT8,
                                                .predictor = exact ? WISP_PREDICTOR_EXACT
                                                                   : WISP_PREDICTOR_LOWRANK};
            struct gguf file;
            struct bytes bytes = {0};
            wisp_model *model;
            wisp_error error;
            make_predicting(&file, &tiny_nomic_q8_0, 4, true);
            if (cases[i].dropped)
                gguf_drop_tensor(&file, cases[i].dropped);
            else
                add_tensor(&file, 0, cases[i].bias, strstr(cases[i].bias, "down") ? HIDDEN : 64, 1);
            gguf_settle(&file);
            gguf_write_bytes(&file, &bytes);
            write_file("gated.gguf", bytes.data, bytes.size);
            gguf_release(&file);
            bytes_release(&bytes);
            assert_int_equal(
                wisp_model_open(temporary_path("gated.gguf"), &options, &model, &error),
                cases[i].status);
            assert_string_equal(error.field, cases[i].field);
        }
}

/* The model's first layer, with the thresholds of its only level; quads computed. */
static uint64_t apply_first(const wisp_model *model, const float *x, size_t n, float *y) {
    const struct sparse_ffn *f = &model->bert.layer[0].sparse;
    void *scratch =
        memory_allocate(sparse_ffn_scratch_bytes(f->hidden, f->wide, f->rank, f->activation));
    struct sparse_counts counts = {0};
    assert_non_null(scratch);
    sparse_ffn_apply(f, f->thresholds, x, n, y, scratch, &counts);
    memory_free(scratch);
    return counts.computed;
}

/* A predictor may have a rank above the layer's own sizes. */
static void predictors_may_be_large(void **state) {
    (void)state;
    enum { RANK = 700 };
    float x[HIDDEN], y[HIDDEN];
    wisp_model *model = open_predicting(RANK, true, NULL);
    const struct sparse_ffn *f = &model->bert.layer[0].sparse;
    assert_int_equal(f->rank, RANK);
    for (size_t c = 0; c < HIDDEN; c++)
        x[c] = sinf((float)c);
    const uint64_t computed = apply_first(model, x, 1, y);
    assert_true(computed > 0 && computed < f->quads);
    wisp_model_close(model);
}

/* ---- compensation --------------------------------------------------------------------------- */

enum { RANK = 8 };

/* Adds scale (B (P x + p) + b) to y, in double precision. */
static void add_compensation(const wisp_model *model, const float *x, size_t computed, double *y) {
    const struct sparse_ffn *f = &model->bert.layer[0].sparse;
    float *p = layer_floats(model, "blk.0.ffn_predictor_p.weight", RANK, HIDDEN);
    float *p_bias = layer_floats(model, "blk.0.ffn_predictor_p.bias", 1, RANK);
    float *b = layer_floats(model, "blk.0.ffn_compensation.weight", HIDDEN, RANK);
    float *b_bias = layer_floats(model, "blk.0.ffn_compensation.bias", 1, HIDDEN);
    const double skipped = 1 - (double)computed / (double)f->quads;
    for (size_t c = 0; c < HIDDEN; c++) {
        double sum = (double)b_bias[c];
        for (size_t r = 0; r < RANK; r++) {
            double h = (double)p_bias[r];
            for (size_t i = 0; i < HIDDEN; i++)
                h += (double)p[r * HIDDEN + i] * (double)x[i];
            sum += (double)b[c * RANK + r] * h;
        }
        y[c] += skipped * skipped * sum;
    }
    memory_free(p);
    memory_free(p_bias);
    memory_free(b);
    memory_free(b_bias);
}

/* With a compensation a layer gives what it gives without it and the compensation; to the bit the
 * same for a token alone and among others. */
static void layers_add_their_compensation(void **state) {
    (void)state;
    const char *kernels;
    float x[MANY * HIDDEN], plain[HIDDEN], y[HIDDEN], together[MANY * HIDDEN];
    for (size_t i = 0; i < MANY * HIDDEN; i++)
        x[i] = sinf((float)i * 1.7f);
    for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
        double wanted[HIDDEN], off = 0, squares = 0;
        wisp_model *without = open_predicting(RANK, false, kernels);
        wisp_model *with = open_predicting(RANK, true, kernels);
        apply_first(with, x, MANY, together);
        for (size_t t = 0; t < MANY; t++) {
            const uint64_t computed = apply_first(without, x + t * HIDDEN, 1, plain);
            assert_int_equal(apply_first(with, x + t * HIDDEN, 1, y), computed);
            assert_memory_equal(y, together + t * HIDDEN, sizeof y);
            for (size_t c = 0; c < HIDDEN; c++)
                wanted[c] = (double)plain[c];
            add_compensation(with, x + t * HIDDEN, (size_t)computed, wanted);
            for (size_t c = 0; c < HIDDEN; c++) {
                off += ((double)y[c] - wanted[c]) * ((double)y[c] - wanted[c]);
                squares += (wanted[c] - (double)plain[c]) * (wanted[c] - (double)plain[c]);
            }
        }
        print_message("%s: relative error %.2g\n", kernels, sqrt(off / squares));
        assert_true(squares > 0 && sqrt(off / squares) < 0.01);
        wisp_model_close(without);
        wisp_model_close(with);
    }
}

enum { FIT_HIDDEN = 16, FIT_WIDE = 64, FIT_TOKENS = 2048, FIT_HELD_OUT = 512 };

static float *random_floats(struct rng *rng, size_t n, float scale) {
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < n; i++)
        values[i] = scale * rng_between(rng, -1, 1);
    return values;
}

static double held_out_error(const struct layer_sample *s, const struct layer_fit *fit,
                             const float *thresholds) {
    float errors[FIT_HELD_OUT * FIT_HIDDEN];
    double sum = 0;
    wisp_error error;
    assert_int_equal(
        layer_errors(s, fit, thresholds, s->held_out, s->held_out_tokens, errors, &error), WISP_OK);
    for (size_t i = 0; i < FIT_HELD_OUT * FIT_HIDDEN; i++)
        sum += (double)errors[i] * (double)errors[i];
    return sum;
}

/* A layer whose activations are nearly linear in x loses by skipping what can be told from x. It
 * keeps its compensation where quads are dear, and not where they are cheap. */
static void compensation_is_kept_where_it_pays(void **state) {
    (void)state;
    struct rng rng = {7};
    struct layer_sample s = {.kernels = kernels_at(0),
                             .hidden = FIT_HIDDEN,
                             .wide = FIT_WIDE,
                             .up = random_floats(&rng, FIT_WIDE * FIT_HIDDEN, 0.3f),
                             .up_bias = random_floats(&rng, FIT_WIDE, 0.1f),
                             .down = random_floats(&rng, FIT_WIDE * FIT_HIDDEN, 0.3f),
                             .down_bias = random_floats(&rng, FIT_HIDDEN, 0.1f),
                             .x = random_floats(&rng, FIT_TOKENS * FIT_HIDDEN, 1),
                             .tokens = FIT_TOKENS,
                             .held_out = random_floats(&rng, FIT_HELD_OUT * FIT_HIDDEN, 1),
                             .held_out_tokens = FIT_HELD_OUT};
    struct layer_fit fit;
    float thresholds[FIT_WIDE / QUAD];
    wisp_error error;
    for (size_t j = 0; j < FIT_WIDE; j++)
        s.up_bias[j] += 1;
    assert_int_equal(layer_fit(&s, RANK, 0.3f, 1, &fit, &error), WISP_OK);
    const float price = gains_price(&fit.gains, 1, 0.3f);
    gains_thresholds(&fit.gains, price, thresholds);
    const double before = held_out_error(&s, &fit, thresholds);
    assert_int_equal(compensation_fit(&s, thresholds, 1e6f * price, &fit, &error), WISP_OK);
    assert_null(fit.compensation);
    assert_int_equal(compensation_fit(&s, thresholds, price, &fit, &error), WISP_OK);
    assert_non_null(fit.compensation);
    const double after = held_out_error(&s, &fit, thresholds);
    print_message("%.0f %% of the error is left\n", 100 * after / before);
    assert_true(after < 0.7 * before);
    layer_fit_release(&fit);
    free(s.up);
    free(s.up_bias);
    free(s.down);
    free(s.down_bias);
    free(s.x);
    free(s.held_out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_is_its_mask_applied),
        cmocka_unit_test(exact_skips_nothing_that_counts),
        cmocka_unit_test(all_quads_are_exact),
        cmocka_unit_test(the_last_quad_may_be_short),
        cmocka_unit_test(gated_layers_have_their_tensors),
        cmocka_unit_test(large_sums_stay_integers),
        cmocka_unit_test(predictors_may_be_large),
        cmocka_unit_test(layers_add_their_compensation),
        cmocka_unit_test(compensation_is_kept_where_it_pays),
    };
    return cmocka_run_group_tests_name("sparse layers", tests, NULL, remove_models);
}
