/* SPDX-License-Identifier: Apache-2.0
 * attention_full against plain loops in double precision, with scratch memory that ends where it
 * says it does. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "attention/full.h"
#include "kernel_case.h"
#include "support/guarded.h"

enum { CAPACITY = 8 << 20 };

static struct guarded scratch, context;

/* A text whose q, k and v lie side by side in one row a token, as the stacked layer leaves them. */
struct text {
    struct attention_shape shape;
    size_t tokens;
    float *qkv; /* [tokens, ld_qkv] */
    const float *q, *k, *v;
    float factor; /* by which the scores are larger than ordinary */
};

static struct text new_text(size_t tokens, size_t heads, size_t head_size, enum fill kind,
                            float factor) {
    const size_t size = heads * head_size;
    struct text text = {.tokens = tokens, .factor = factor};
    text.shape = (struct attention_shape){.heads = heads,
                                          .head_size = head_size,
                                          .ld_qkv = 3 * size + rng_below(&kernel_rng, 4),
                                          .ld_context = size + rng_below(&kernel_rng, 4)};
    float *qkv = new_floats(tokens * text.shape.ld_qkv, FILL_UNIFORM);
    for (size_t t = 0; t < tokens; t++) {
        float *row = qkv + t * text.shape.ld_qkv;
        fill_floats(row, 2 * size, kind);
        for (size_t i = 0; i < size; i++)
            row[i] *= factor;
    }
    text.qkv = qkv;
    text.q = qkv;
    text.k = qkv + size;
    text.v = qkv + 2 * size;
    return text;
}

/* ---- what it should be ---------------------------------------------------------------------- */

/* How far apart numbers of 16 bits are that stand for a head's floats, of which there are `sum`
 * products in a sum; 0 where floats are used. What is too small for a scale counts as 0. */
static double step_of(const struct text *text, const float *values, size_t h, size_t sum) {
    const size_t size = text->shape.head_size;
    float largest = 0;
    for (size_t t = 0; t < text->tokens; t++)
        for (size_t c = 0; c < size; c++)
            largest = fmaxf(largest, fabsf(values[t * text->shape.ld_qkv + h * size + c]));
    if (!text->shape.i16)
        return 0;
    return largest < 0x1p-112f ? 2 * (double)largest : (double)largest / (double)i16_most(sum);
}

/* Of one head. */
struct steps {
    double q, k, v;
};

static struct steps steps_of(const struct text *text, size_t h) {
    const size_t size = text->shape.head_size;
    return (struct steps){step_of(text, text->q, h, size), step_of(text, text->k, h, size),
                          step_of(text, text->v, h, text->tokens)};
}

/* Scores of token t in head h, and how far off they may be: as gemm_f32, whose sums are made in
 * order of c, and the two roundings that scale them; and by half a step in q and k. */
static double exact_score(const struct text *text, const struct steps *steps, size_t h, size_t t,
                          size_t other, double *error) {
    const size_t size = text->shape.head_size, ld = text->shape.ld_qkv;
    const float *q = text->q + t * ld + h * size, *k = text->k + other * ld + h * size;
    const double scale = 1 / sqrt((double)size);
    double sum = 0, magnitudes = 0, rounding = 0;
    for (size_t c = 0; c < size; c++) {
        const double product = (double)q[c] * (double)k[c];
        sum += product;
        magnitudes += fabs(product) + fabs(sum);
        rounding +=
            fabs((double)q[c]) * steps->k + fabs((double)k[c]) * steps->q + steps->q * steps->k / 2;
    }
    *error = (ROUNDING * magnitudes + rounding / 2) * scale * 1.01;
    return sum * scale;
}

/* What softmax makes of scores, in place, and how far off each share may be: an error d of a score
 * is a factor of e^d. */
static void exact_softmax(double *scores, double *errors, size_t n) {
    double largest = -INFINITY, sum = 0, off = 0;
    for (size_t j = 0; j < n; j++)
        largest = fmax(largest, scores[j]);
    for (size_t j = 0; j < n; j++) {
        /* Of the difference to the largest, and the rounded 1 / sqrt(size) by which it is scaled;
         * 2e-7 is exp_of's own. */
        const double exponent = scores[j] - largest;
        errors[j] = expm1(fmin(errors[j] - 4 * ROUNDING * exponent, 700)) + 2e-7;
        scores[j] = exp(exponent);
        sum += scores[j];
        off += scores[j] * errors[j];
    }
    for (size_t j = 0; j < n; j++) {
        scores[j] /= sum;
        const double relative = errors[j] + off / sum + (double)(n + 3) * ROUNDING;
        errors[j] = fmin(scores[j] * relative, 1) + exp(-87);
    }
}

/* Shares of which the largest is a whole number `most` and the others are rounded as well. */
static void round_shares(const double *shares, double *errors, size_t n, double most) {
    for (size_t j = 0; j < n; j++)
        errors[j] += (0.5 + shares[j] * (double)n / 2) / most * 1.01;
}

/* shares and errors: of token t in head h to each token; step: of v. */
static void check_values(const struct where *where, const struct text *text, size_t h, size_t t,
                         const double *shares, const double *errors, double step,
                         const float *got) {
    const size_t size = text->shape.head_size;
    for (size_t c = 0; c < size; c++) {
        double sum = 0, tolerance = step / 2;
        for (size_t j = 0; j < text->tokens; j++) {
            const double value = (double)text->v[j * text->shape.ld_qkv + h * size + c];
            sum += shares[j] * value;
            tolerance += errors[j] * fabs(value) + ROUNDING * (fabs(shares[j] * value) + fabs(sum));
        }
        expect_near(where, t, h * size + c, got[h * size + c], sum,
                    tolerance * 1.01 + (double)FLT_MIN);
    }
}

static void check_token(const struct where *where, const struct text *text, size_t t,
                        const float *got) {
    double *shares = allocate(text->tokens * sizeof *shares);
    double *errors = allocate(text->tokens * sizeof *errors);
    for (size_t h = 0; h < text->shape.heads; h++) {
        const struct steps steps = steps_of(text, h);
        for (size_t j = 0; j < text->tokens; j++)
            shares[j] = exact_score(text, &steps, h, t, j, &errors[j]);
        exact_softmax(shares, errors, text->tokens);
        if (text->shape.i16)
            round_shares(shares, errors, text->tokens, (double)i16_most(text->tokens));
        check_values(where, text, h, t, shares, errors, steps.v, got);
    }
    free(shares);
    free(errors);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static float *run(const struct kernels *set, const struct text *text) {
    const struct attention_shape *shape = &text->shape;
    const size_t size = shape->heads * shape->head_size;
    const size_t bytes = attention_scratch_bytes(set, text->tokens, shape->head_size);
    void *space = guarded_place(&scratch, bytes, GUARDED_END);
    float *to = guarded_place(
        &context, ((text->tokens - 1) * shape->ld_context + size) * sizeof *to, GUARDED_END);
    struct attention_text part = {text->q, text->k, text->v, text->tokens, 0, 0};
    while (part.first < text->tokens) { /* any part of the queries at a time */
        part.end = part.first + rng_range(&kernel_rng, 1, text->tokens - part.first);
        attention_full(set, shape, &part, to + part.first * shape->ld_context, space);
        part.first = part.end;
    }
    assert_true(guarded_intact(&scratch) && guarded_intact(&context));
    return to;
}

/* Every token of short texts, some of long ones. */
static void check_text(const struct text *text, enum fill kind) {
    const size_t size = text->shape.heads * text->shape.head_size;
    const size_t step = text->tokens > 40 ? text->tokens / 20 : 1;
    for (size_t s = 0; kernels_at(s); s++) {
        if (text->shape.i16 && !kernels_at(s)->i16)
            continue; /* as without */
        const struct where where = {ATTENTION,         kernels_at(s),         text->tokens,
                                    text->shape.heads, text->shape.head_size, kind};
        const float *got = run(kernels_at(s), text);
        expect_padding(&where, got, text->tokens, size, text->shape.ld_context);
        for (size_t t = rng_below(&kernel_rng, step); t < text->tokens; t += step)
            check_token(&where, text, t, got + t * text->shape.ld_context);
    }
}

static void check_shape(size_t tokens, size_t heads, size_t head_size, enum fill kind,
                        float factor) {
    struct text text = new_text(tokens, heads, head_size, kind, factor);
    check_text(&text, kind);
    text.shape.i16 = true;
    check_text(&text, kind);
    free(text.qkv);
}

static void test_small_shapes(void **state) {
    (void)state;
    for (size_t head_size = 1; head_size <= 80; head_size++)
        check_shape(rng_range(&kernel_rng, 1, 20), rng_range(&kernel_rng, 1, 5), head_size,
                    FILL_UNIFORM, 1);
    for (size_t tokens = 1; tokens <= 100; tokens++)
        check_shape(tokens, 1, rng_range(&kernel_rng, 1, 33), FILL_UNIFORM, 1);
}

static void test_random_shapes(void **state) {
    (void)state;
    for (int i = 0; i < 40; i++)
        check_shape(rng_range(&kernel_rng, 1, 300), rng_range(&kernel_rng, 1, 5),
                    rng_range(&kernel_rng, 1, 80), FILL_UNIFORM, 1);
}

/* Scores near to each other, equal, and so far apart that one token takes all. */
static void test_extremes(void **state) {
    (void)state;
    static const enum fill kinds[] = {FILL_ZERO,     FILL_EQUAL, FILL_ALTERNATING,
                                      FILL_DENORMAL, FILL_TINY,  FILL_UNIFORM};
    static const float factors[] = {1, 1e-6f, 30, 1000, 1e16f};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (size_t f = 0; f < sizeof factors / sizeof *factors; f++)
            check_shape(rng_range(&kernel_rng, 1, 90), rng_range(&kernel_rng, 1, 3),
                        rng_range(&kernel_rng, 1, 70), kinds[kind], factors[f]);
}

/* Nothing is written elsewhere, whatever the values. */
static void test_special_values(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) {
        struct text text =
            new_text(rng_range(&kernel_rng, 1, 70), rng_range(&kernel_rng, 1, 3),
                     rng_range(&kernel_rng, 1, 40), i % 2 ? FILL_SPECIAL : FILL_LARGEST, 1);
        text.shape.i16 = rng_coin(&kernel_rng);
        for (size_t s = 0; kernels_at(s); s++)
            run(kernels_at(s), &text);
        free(text.qkv);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_shapes),
        cmocka_unit_test(test_random_shapes),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_special_values),
    };
    kernel_cases_open(rng_seed(), false);
    guarded_open(&scratch, CAPACITY);
    guarded_open(&context, CAPACITY);
    const int failed = cmocka_run_group_tests_name("attention", tests, NULL, NULL);
    print_worst_errors();
    guarded_close(&scratch);
    guarded_close(&context);
    kernel_cases_close();
    return failed;
}
