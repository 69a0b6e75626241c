/* SPDX-License-Identifier: Apache-2.0
 * wisp_quantize_for_texts: grids of values, the correction of one matrix beside a textbook GPTQ,
 * and whole models. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "calibrate/matrix.h"
#include "quantise/correct.h"
#include "support/builder_llama.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/progress.h"
#include "support/quantise_texts.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static wisp_error error;

static const enum block_type types[] = {BLOCK_Q4_0,  BLOCK_Q4_1, BLOCK_Q5_0,
                                        BLOCK_Q5_1,  BLOCK_Q8_0, BLOCK_IQ4_NL,
                                        BLOCK_MXFP4, BLOCK_T158, BLOCK_TQ2_0};

enum {
    TYPES = sizeof types / sizeof *types,
    FITTING = TYPES - 1
}; /* rows of K; the last does not */

/* Returns a number from -1 to below 1. */
static float draw(uint64_t *random) {
    return (float)((double)(random_next(random) >> 11) * 0x1p-52 - 1);
}

/* ---- grids ---------------------------------------------------------------------------------- */

/* Stored codes are read as the values of the codes, and a number gets the nearest code. */
static void grids_are_what_blocks_hold(void **state) {
    (void)state;
    uint64_t random = 1;
    for (size_t t = 0; t < TYPES; t++) {
        const struct block_grid *grid = block_grid_of(types[t]);
        const struct block_format *format = block_format_by_id(types[t]);
        for (int round = 0; round < 40; round++) {
            const struct grid_scale at = {grid_stored_scale(grid, draw(&random) + 1.5f),
                                          grid->has_offset ? grid_half(draw(&random)) : 0};
            unsigned char block[66];
            int codes[GRID_MOST];
            float back[GRID_MOST];
            for (int i = 0; i < grid->block; i++)
                codes[i] = (int)(random_next(&random) % (uint64_t)grid->n_levels);
            grid_store(grid, at, codes, block);
            format->dequantise(block, (size_t)grid->block, back);
            for (int i = 0; i < grid->block; i++) {
                const float x = 300 * draw(&random);
                const float off = fabsf(x - grid_value(grid, at, grid_code(grid, at, x)));
                assert_true(fabsf(back[i] - grid_value(grid, at, codes[i])) <=
                            1e-6f * (1 + fabsf(back[i])));
                for (int code = 0; code < grid->n_levels; code++)
                    assert_true(off <= fabsf(x - grid_value(grid, at, code)) + 1e-4f);
            }
        }
    }
    assert_null(block_grid_of(BLOCK_Q4_K));
}

/* The weighted squared error of values with a scale and the codes nearest to them. */
static double ternary_error(const float *values, const float *weights, int n, double scale) {
    double error_sum = 0;
    for (int i = 0; i < n; i++) {
        const double magnitude = fabs((double)values[i]);
        const double off = magnitude > scale / 2 ? magnitude - scale : magnitude;
        error_sum += (double)weights[i] * off * off;
    }
    return error_sum;
}

/* No scale of many that are tried leaves a smaller error than the one that is found. */
static void ternary_scales_are_the_best(void **state) {
    (void)state;
    const struct block_grid *grid = block_grid_of(BLOCK_T158);
    uint64_t random = 3;
    for (int round = 0; round < 40; round++) {
        float values[GRID_MOST], weights[GRID_MOST];
        const int n = round % 2 ? GRID_MOST : 1 + round * 6;
        float largest = 0;
        for (int i = 0; i < n; i++) {
            values[i] = draw(&random) * draw(&random) * draw(&random);
            weights[i] = 0.01f + fabsf(draw(&random));
            largest = fmaxf(largest, fabsf(values[i]));
        }
        const struct grid_scale at = grid_fit(grid, values, weights, n);
        const double found = ternary_error(values, weights, n, (double)at.scale);
        double rounding = 0; /* of the scale to a half */
        for (int i = 0; i < n; i++)
            rounding += (double)weights[i] * pow((double)at.scale / 2048, 2);
        for (int step = 1; step <= 4000; step++) {
            const double scale = (double)largest * step / 4000;
            assert_true(found <=
                        ternary_error(values, weights, n, scale) * 1.0001 + rounding + 1e-12);
        }
    }
    const float zeros[GRID_MOST] = {0}, ones[GRID_MOST] = {1};
    assert_true(grid_fit(grid, zeros, ones, GRID_MOST).scale == 0);
}

/* ---- one matrix ----------------------------------------------------------------------------- */

enum { N = 12, K = 96, TOKENS = 400, ACTIVE = 30 };

/* A layer whose inputs occur together: K channels follow ACTIVE ones. */
struct example {
    float x[TOKENS][K], y[TOKENS][N], weights[N * K], bias[N];
    double xx[K * K], xy[K * N], sum_x[K], sum_y[N];
};

static void make_example(struct example *e) {
    uint64_t random = 7;
    static float mix[ACTIVE][K];
    for (int i = 0; i < ACTIVE; i++)
        for (int j = 0; j < K; j++)
            mix[i][j] = draw(&random);
    for (int i = 0; i < N * K; i++)
        e->weights[i] = draw(&random);
    memset(e->bias, 0, sizeof e->bias);
    for (int t = 0; t < TOKENS; t++) {
        for (int j = 0; j < K; j++)
            e->x[t][j] = 0.5f + 0.1f * draw(&random);
        for (int i = 0; i < ACTIVE; i++) {
            const float active = draw(&random);
            for (int j = 0; j < K; j++)
                e->x[t][j] += active * mix[i][j];
        }
        for (int r = 0; r < N; r++) {
            e->y[t][r] = 0;
            for (int j = 0; j < K; j++)
                e->y[t][r] += e->weights[r * K + j] * e->x[t][j];
        }
    }
}

static void correct_example(struct example *e, const struct block_format *format, uint32_t threads,
                            struct corrected *c) {
    struct pool *team;
    struct layer_sums sums = {
        .n = N, .k = K, .tokens = TOKENS, .xx = e->xx, .xy = e->xy, .x = e->sum_x, .y = e->sum_y};
    memset(e->xx, 0, sizeof e->xx);
    memset(e->xy, 0, sizeof e->xy);
    memset(e->sum_x, 0, sizeof e->sum_x);
    memset(e->sum_y, 0, sizeof e->sum_y);
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < K; i++) {
            for (int j = 0; j < K; j++)
                e->xx[i * K + j] += (double)e->x[t][i] * (double)e->x[t][j];
            for (int r = 0; r < N; r++)
                e->xy[i * N + r] += (double)e->x[t][i] * (double)e->y[t][r];
            e->sum_x[i] += (double)e->x[t][i];
            if (i < N)
                e->sum_y[i] += (double)e->y[t][i];
        }
    c->format = format;
    c->weights = e->weights;
    c->bias = e->bias;
    c->tensor_rows = N;
    assert_int_equal(pool_open(threads, &team, &error), WISP_OK);
    assert_int_equal(correct_matrix(&sums, c, team, &error), WISP_OK);
    pool_close(team);
}

/* The squared error of output r on the tokens, without its mean. */
static double error_of_row(const struct example *e, int r, const float *values) {
    double squares = 0, sum = 0;
    for (int t = 0; t < TOKENS; t++) {
        double off = (double)e->y[t][r];
        for (int j = 0; j < K; j++)
            off -= (double)values[r * K + j] * (double)e->x[t][j];
        squares += off * off;
        sum += off;
    }
    return squares - sum * sum / (double)TOKENS;
}

/* GPTQ as its paper writes it: errors are fed back by the Cholesky factor of the inverse of the
 * inputs' squares, which is computed here by solving. */
static void textbook_gptq(const struct example *e, const struct block_grid *grid, float *values) {
    static double inverse[K * K], squares[K * K], upper[K * K];
    double trace = 0;
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++) {
            double sum = 0, a = 0, b = 0;
            for (int t = 0; t < TOKENS; t++) {
                sum += (double)e->x[t][i] * (double)e->x[t][j];
                a += (double)e->x[t][i];
                b += (double)e->x[t][j];
            }
            squares[i * K + j] = sum - a * b / (double)TOKENS;
            inverse[i * K + j] = i == j;
            trace += i == j ? squares[i * K + j] : 0;
        }
    for (int i = 0; i < K; i++)
        squares[i * K + i] += 0.01 * trace / (double)K;
    matrix_solve(squares, inverse, K, K);
    matrix_factor(inverse, K); /* lower: inverse = L L^T, and U = L^T */
    for (int i = 0; i < K; i++)
        for (int j = i; j < K; j++)
            upper[i * K + j] = inverse[j * K + i];
    for (int r = 0; r < N; r++) {
        float wanted[K], weights[K];
        struct grid_scale at = {0};
        memcpy(wanted, e->weights + r * K, sizeof wanted);
        for (int j = 0; j < K; j++)
            weights[j] = (float)(1 / (upper[j * K + j] * upper[j * K + j]));
        for (int j = 0; j < K; j++) {
            if (j % GRID_BLOCK == 0)
                at = grid_fit(grid, wanted + j, weights + j, grid->block);
            values[r * K + j] = grid_value(grid, at, grid_code(grid, at, wanted[j]));
            const double off = (double)(wanted[j] - values[r * K + j]) / upper[j * K + j];
            for (int i = j + 1; i < K; i++)
                wanted[i] -= (float)(off * upper[j * K + i]);
        }
    }
}

/* The error on the tokens is that of the textbook's GPTQ or less, for every output together, and
 * for none larger than by rounding; the file's bytes hold the values; the bias leaves no mean
 * error. */
static void corrections_lower_the_error(void **state) {
    (void)state;
    static struct example e;
    static float values[N * K], again[N * K], textbook[N * K], plain[N * K], back[N * K];
    static unsigned char bytes[N * K * 2], other[N * K * 2], rounded[N * K * 2];
    make_example(&e);
    for (size_t t = 0; t < FITTING; t++) {
        const struct block_format *format = block_format_by_id(types[t]);
        const size_t elements = format->elements;
        const size_t size = (N * K + elements - 1) / elements * format->bytes;
        const bool crosses =
            block_crosses_rows(format); /* rows share blocks, and so their errors */
        struct corrected c = {.bytes = bytes, .values = values};
        struct corrected second = {.bytes = other, .values = again};
        correct_example(&e, format, 1, &c);
        format->dequantise(bytes, N * K, back);
        format->quantise(e.weights, N * K, rounded);
        format->dequantise(rounded, N * K, plain);
        if (!crosses)
            textbook_gptq(&e, block_grid_of(types[t]), textbook);
        double sum = 0, of_rounding = 0, of_textbook = 0;
        for (int r = 0; r < N; r++) {
            const double here = error_of_row(&e, r, values);
            assert_true(crosses || here <= error_of_row(&e, r, plain) * 1.02 + 1e-9);
            double mean = 0;
            for (int s = 0; s < TOKENS; s++) {
                mean += (double)e.y[s][r] - (double)e.bias[r];
                for (int j = 0; j < K; j++)
                    mean -= (double)values[r * K + j] * (double)e.x[s][j];
            }
            assert_true(fabs(mean / (double)TOKENS) < 1e-4);
            sum += here;
            of_rounding += error_of_row(&e, r, plain);
            of_textbook += crosses ? INFINITY : error_of_row(&e, r, textbook);
        }
        assert_true(sum < 0.6 * of_rounding);
        assert_true(sum < 1.01 * of_textbook);
        assert_true(c.error < 0.6 * c.plain);
        for (int i = 0; i < N * K; i++)
            assert_true(fabsf(values[i] - back[i]) < 1e-5f);
        correct_example(&e, format, 3, &second);
        assert_memory_equal(bytes, other, size);
    }
}

/* An estimate is of rows of every tensor that is stacked, also if each has few: here the first
 * has only zeros, which lose nothing. */
static void estimates_are_of_every_tensor(void **state) {
    (void)state;
    enum { TENSOR_ROWS = 24, ROWS = 3 * TENSOR_ROWS, COLUMNS = 32 };
    static float weights[ROWS * COLUMNS];
    static double xx[COLUMNS * COLUMNS], xy[COLUMNS * ROWS], x[COLUMNS], y[ROWS];
    uint64_t random = 11;
    struct pool *team;
    for (int tensor = 1; tensor < 3; tensor++) {
        const struct block_format *format = block_format_by_id(BLOCK_Q4_0);
        struct layer_sums sums = {
            .n = ROWS, .k = COLUMNS, .tokens = 1, .xx = xx, .xy = xy, .x = x, .y = y};
        const struct corrected matrix = {.weights = weights, .tensor_rows = TENSOR_ROWS};
        double estimated = 0, plain = 0;
        memset(weights, 0, sizeof weights);
        memset(xx, 0, sizeof xx);
        for (int i = 0; i < TENSOR_ROWS * COLUMNS; i++)
            weights[tensor * TENSOR_ROWS * COLUMNS + i] = draw(&random);
        for (int j = 0; j < COLUMNS; j++) {
            xx[j * COLUMNS + j] = 1;
            for (int r = 0; r < ROWS; r++)
                xy[j * ROWS + r] = (double)weights[r * COLUMNS + j];
        }
        assert_int_equal(pool_open(1, &team, &error), WISP_OK);
        assert_int_equal(
            correct_estimate(&sums, &matrix, &format, 1, 8, &estimated, &plain, team, &error),
            WISP_OK);
        pool_close(team);
        assert_true(estimated > 0 && plain >= estimated);
    }
}

/* ---- models --------------------------------------------------------------------------------- */

static const struct tiny_shape gated = {.hidden = 64,
                                        .wide = 128,
                                        .layers = 2,
                                        .heads = 4,
                                        .positions = 32,
                                        .type = BLOCK_F32,
                                        .nomic = true};

enum { TEXTS = QUANTISE_TEXTS };

static void count_better(void *context, const wisp_quantized_tensor *tensor) {
    assert_string_equal(tensor->type, "Q4_0");
    assert_true(tensor->output_error > 0 && tensor->output_error < tensor->plain_error);
    ++*(size_t *)context;
}

/* A quantised model is nearer to its original than a rounded one, on texts that it was not made
 * for; it is the same file for any number of threads. */
static void models_stay_near(void **state) {
    (void)state;
    const struct tiny_shape *const shapes[] = {&quantise_shape, &gated};
    for (size_t s = 0; s < 2; s++) {
        char input[256], output[256], rounded[256];
        size_t tensors = 0, size, second_size;
        wisp_quantize_options o = {.tensor = count_better, .context = &tensors};
        write_shape(shapes[s], input);
        snprintf(output, sizeof output, "%s", temporary_path("texts.gguf"));
        snprintf(rounded, sizeof rounded, "%s", temporary_path("rounded.gguf"));
        const wisp_text *texts = quantise_texts(1);
        if (wisp_quantize_for_texts(input, output, "q4_0", texts, TEXTS, &o, &error) != WISP_OK)
            fail_msg("%s: %s", error.field, error.message);
        assert_true(tensors == (s ? 10 : 12));
        char *first = read_file(output, &size);
        o.threads = 2;
        assert_int_equal(wisp_quantize_for_texts(input, output, "q4_0", texts, TEXTS, &o, &error),
                         WISP_OK);
        char *second = read_file(output, &second_size);
        assert_true(size == second_size && memcmp(first, second, size) == 0);
        free(first);
        free(second);
        const wisp_convert_options plain = {.type = "q4_0"};
        assert_int_equal(wisp_convert(input, rounded, &plain, &error), WISP_OK);
        texts = quantise_texts(99);
        const double near = mean_cosine(output, input, texts);
        const double far = mean_cosine(rounded, input, texts);
        if (!(1 - near < 0.8 * (1 - far)))
            fail_msg("cosine %f, rounded %f", near, far);
        const struct opening opening = open_path(output, 1 << 24);
        expect_outcome(&opening, WISP_OK, NULL, NULL);
    }
}

/* Models that are quantised already, and those whose neurons are rows. */
static void models_of_any_kind(void **state) {
    (void)state;
    static const struct tiny_shape *const shapes[] = {&tiny_shape_q8_0, &tiny_nomic_rows_q8_0,
                                                      &tiny_nomic_q8_0};
    const wisp_text *texts = quantise_texts(1);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char input[256];
        const wisp_quantize_options o = {.embedding_type = "mxfp4", .ffn_type = "q5_1"};
        write_shape(shapes[i], input);
        const char *output = temporary_path("again.gguf");
        if (wisp_quantize_for_texts(input, output, "iq4_nl", texts, TEXTS, &o, &error) != WISP_OK)
            fail_msg("%s: %s", error.field, error.message);
        const struct opening opening = open_path(output, 1 << 24);
        expect_outcome(&opening, WISP_OK, NULL, NULL);
    }
}

/* BERT's position embeddings can be quantised. */
static void positions_of_another_type(void **state) {
    (void)state;
    char input[256], output[256];
    const wisp_text *texts = quantise_texts(1);
    const wisp_quantize_options o = {.position_type = "q8_0"};
    wisp_file *file;
    wisp_tensor tensor = {0};
    write_shape(&quantise_shape, input);
    snprintf(output, sizeof output, "%s", temporary_path("positions.gguf"));
    assert_int_equal(wisp_quantize_for_texts(input, output, "q5_0", texts, TEXTS, &o, &error),
                     WISP_OK);
    assert_int_equal(wisp_file_open(output, &file, &error), WISP_OK);
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++)
        if (strcmp(tensor.name, "position_embd.weight") == 0)
            assert_string_equal(tensor.type, "Q8_0");
    wisp_file_close(file);
    assert_true(mean_cosine(output, input, texts) > 0.99);

    /* Embeddings that have the type already stay as they are. */
    size_t size, second_size;
    snprintf(input, sizeof input, "%s", temporary_path("again.gguf"));
    assert_int_equal(wisp_quantize_for_texts(output, input, "q5_0", texts, TEXTS, &o, &error),
                     WISP_OK);
    free(read_file(output, &size));
    free(read_file(input, &second_size));
    assert_int_equal(size, second_size);
}

static void cancelled_at_any_time(void **state) {
    (void)state;
    char input[256];
    const char *output = temporary_path("cancelled.gguf");
    const wisp_text *texts = quantise_texts(1);
    write_shape(&quantise_shape, input);
    for (size_t most = 0;; most += 3) {
        struct stopping stopping = {.most = most};
        const wisp_quantize_options o = {.progress = stop_after, .context = &stopping};
        const wisp_status status =
            wisp_quantize_for_texts(input, output, "q4_0", texts, TEXTS, &o, &error);
        if (status == WISP_OK)
            break;
        assert_int_equal(status, WISP_ERROR_CANCELLED);
        assert_int_equal(access(output, F_OK), -1);
        assert_true(most < 200);
    }
}

static void expect_refused(wisp_status status, wisp_status wanted, const char *field) {
    assert_int_equal(status, wanted);
    assert_string_equal(error.field, field);
}

static void wrong_arguments(void **state) {
    (void)state;
    char input[256], output[256];
    snprintf(output, sizeof output, "%s", temporary_path("refused.gguf"));
    const wisp_text *texts = quantise_texts(1);
    const wisp_quantize_options positions = {.position_type = "q8_0"},
                                embedding = {.embedding_type = "f16"}, threads = {.threads = 5000};
    struct gguf file;
    gguf_make(&file, &tiny_shape);
    snprintf(input, sizeof input, "%s", write_made(&file, "narrow.gguf"));
    expect_refused(wisp_quantize_for_texts(input, output, "q4_0", texts, TEXTS, NULL, &error),
                   WISP_ERROR_UNSUPPORTED, "embedding_type");
    write_shape(&quantise_shape, input);
    expect_refused(wisp_quantize_for_texts(input, output, "q4_k", texts, TEXTS, NULL, &error),
                   WISP_ERROR_ARGUMENT, "type");
    write_shape(&gated, input);
    expect_refused(wisp_quantize_for_texts(input, output, "q4_0", texts, TEXTS, &positions, &error),
                   WISP_ERROR_ARGUMENT, "position_type");
    write_shape(&quantise_shape, input);
    expect_refused(wisp_quantize_for_texts(input, output, "q4_0", texts, TEXTS, &embedding, &error),
                   WISP_ERROR_ARGUMENT, "embedding_type");
    expect_refused(wisp_quantize_for_texts(input, output, "q4_0", texts, TEXTS, &threads, &error),
                   WISP_ERROR_ARGUMENT, "threads");
    expect_refused(wisp_quantize_for_texts(input, output, "q4_0", texts, 2, NULL, &error),
                   WISP_ERROR_ARGUMENT, "texts");
    expect_refused(wisp_quantize_for_texts(input, NULL, "q4_0", texts, TEXTS, NULL, &error),
                   WISP_ERROR_ARGUMENT, "output");
    assert_int_equal(access(output, F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_are_what_blocks_hold),
        cmocka_unit_test(ternary_scales_are_the_best),
        cmocka_unit_test(corrections_lower_the_error),
        cmocka_unit_test(estimates_are_of_every_tensor),
        cmocka_unit_test(models_stay_near),
        cmocka_unit_test(models_of_any_kind),
        cmocka_unit_test(positions_of_another_type),
        cmocka_unit_test(cancelled_at_any_time),
        cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests_name("quantize_texts", tests, NULL, tear_down_temporary_folder);
}
