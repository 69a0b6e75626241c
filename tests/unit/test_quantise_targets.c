/* SPDX-License-Identifier: Apache-2.0
 * wisp_quantize_for_texts with a target: the choice of types beside all choices, and whole models;
 * then models that generate, and ternary types. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "quantise/choose_types.h"
#include "support/builder_llama.h"
#include "support/decoders.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/progress.h"
#include "support/quantise_texts.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static wisp_error error;

/* ---- the choice ----------------------------------------------------------------------------- */

enum { TENSORS = 6, CHOICES = 4, ALL = 4096 }; /* 4 to the power of 6 */

static void draw_choices(uint64_t *random, struct type_choice choices[TENSORS]) {
    for (int i = 0; i < TENSORS; i++) {
        struct type_choice *c = &choices[i];
        const double sensitivity = (double)(random_next(random) % 1000) / 1000 + 0.01;
        *c = (struct type_choice){.n = CHOICES};
        for (int j = 0; j < CHOICES; j++) {
            c->bytes[j] = (uint64_t)(j + 3) * (20 + random_next(random) % 100);
            c->loss[j] = sensitivity * pow(0.3, (double)j) *
                         (0.8 + (double)(random_next(random) % 400) / 1000);
        }
    }
}

/* Choices fit, lose no more than any other by more than the largest step, and need no more bytes
 * for a loss than the best choice and one step. */
static void choices_are_near_the_best(void **state) {
    (void)state;
    uint64_t random = 5;
    for (int round = 0; round < 60; round++) {
        struct type_choice choices[TENSORS], *pointers[TENSORS];
        draw_choices(&random, choices);
        for (int i = 0; i < TENSORS; i++)
            pointers[i] = &choices[i];
        const uint64_t budget = 600 + random_next(&random) % 2400;
        const double loss = (double)(random_next(&random) % 1000) / 1000;
        double least_loss = INFINITY, step = 0;
        uint64_t least_bytes = UINT64_MAX, smallest = UINT64_MAX, byte_step = 0;
        double smallest_loss = INFINITY;
        for (unsigned all = 0; all < ALL; all++) {
            uint64_t bytes = 0;
            double lost = 0;
            for (unsigned i = 0, code = all; i < TENSORS; i++, code /= CHOICES) {
                bytes += choices[i].bytes[code % CHOICES];
                lost += choices[i].loss[code % CHOICES];
            }
            if (bytes <= budget)
                least_loss = fmin(least_loss, lost);
            if (lost <= loss && bytes < least_bytes)
                least_bytes = bytes;
            smallest = bytes < smallest ? bytes : smallest;
            smallest_loss = fmin(smallest_loss, lost);
        }
        for (int i = 0; i < TENSORS; i++)
            for (int j = 0; j < CHOICES; j++)
                for (int k = 0; k < CHOICES; k++) {
                    step = fmax(step, choices[i].loss[j] - choices[i].loss[k]);
                    if (choices[i].bytes[j] > choices[i].bytes[k] + byte_step)
                        byte_step = choices[i].bytes[j] - choices[i].bytes[k];
                }
        assert_int_equal(choose_for_bytes(pointers, TENSORS, budget), smallest <= budget);
        if (smallest <= budget) {
            assert_true(chosen_bytes(pointers, TENSORS) <= budget);
            assert_true(chosen_loss(pointers, TENSORS) <= least_loss + step);
        } else {
            assert_true(chosen_bytes(pointers, TENSORS) == smallest);
        }
        const bool possible = smallest_loss <= loss;
        assert_int_equal(choose_for_loss(pointers, TENSORS, loss), possible);
        if (possible)
            assert_true(chosen_bytes(pointers, TENSORS) <= least_bytes + byte_step);
        else
            assert_true(fabs(chosen_loss(pointers, TENSORS) - smallest_loss) < 1e-9);
    }
}

/* ---- models that embed ---------------------------------------------------------------------- */

enum { TEXTS = QUANTISE_TEXTS };

static const char all_types[] = "q8_0,q5_1,q5_0,q4_1,q4_0,iq4_nl,mxfp4";

static size_t size_of_file(const char *path) {
    size_t size;
    free(read_file(path, &size));
    return size;
}

struct seen {
    size_t tensors;
    double loss;
};

static void see_tensor(void *context, const wisp_quantized_tensor *tensor) {
    struct seen *seen = context;
    seen->tensors++;
    seen->loss += tensor->expected_loss;
    assert_true(tensor->expected_loss >= 0);
}

/* Files have the bytes that are told, no more than were asked for, and more bytes lose less. */
static void sizes_are_kept(void **state) {
    (void)state;
    char input[256], output[256];
    double last = 0;
    write_shape(&quantise_shape, input);
    snprintf(output, sizeof output, "%s", temporary_path("target.gguf"));
    const wisp_text *texts = quantise_texts(1);
    wisp_quantize_outcome outcome;
    wisp_quantize_options o = {.target_bytes = 1, .outcome = &outcome};
    assert_int_equal(wisp_quantize_for_texts(input, output, all_types, texts, TEXTS, &o, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "target_bytes");
    const char *number = strstr(error.message, "has ");
    assert_non_null(number);
    const size_t smallest = (size_t)strtoul(number + 4, NULL, 10);
    assert_int_equal(access(output, F_OK), -1);
    for (size_t i = 0; i < 4; i++) {
        struct seen seen = {0};
        o = (wisp_quantize_options){.target_bytes = smallest + i * 9000,
                                    .outcome = &outcome,
                                    .tensor = see_tensor,
                                    .context = &seen,
                                    .threads = (uint32_t)i};
        if (wisp_quantize_for_texts(input, output, all_types, texts, TEXTS, &o, &error) != WISP_OK)
            fail_msg("%s: %s", error.field, error.message);
        assert_int_equal(size_of_file(output), outcome.bytes);
        assert_true(outcome.bytes <= o.target_bytes && outcome.attempts == 1);
        assert_true(i > 0 || outcome.bytes == smallest);
        assert_true(outcome.held_out == TEXTS / 5);
        assert_true(outcome.mean_cosine > last && outcome.mean_cosine < 1);
        assert_true(outcome.least_cosine <= outcome.mean_cosine);
        assert_true(seen.tensors >= 13 && seen.loss > 0);
        last = outcome.mean_cosine;
        const struct opening opening = open_path(output, 1 << 24);
        expect_outcome(&opening, WISP_OK, NULL, NULL);
    }
    assert_true(last > 0.9999);
}

/* A cosine is reached by a file smaller than that of the next better one; if no type reaches it,
 * nothing is written and the error names what is nearest. */
static void cosines_are_reached(void **state) {
    (void)state;
    static const double wanted[] = {0.99, 0.999, 0.9999};
    char input[256], output[256];
    size_t last = 0;
    write_shape(&quantise_shape, input);
    snprintf(output, sizeof output, "%s", temporary_path("target.gguf"));
    const wisp_text *texts = quantise_texts(1);
    wisp_quantize_outcome outcome;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const wisp_quantize_options o = {.target_cosine = wanted[i], .outcome = &outcome};
        if (wisp_quantize_for_texts(input, output, all_types, texts, TEXTS, &o, &error) != WISP_OK)
            fail_msg("%s: %s", error.field, error.message);
        assert_true(outcome.mean_cosine >= wanted[i]);
        assert_int_equal(size_of_file(output), outcome.bytes);
        assert_true(outcome.bytes >= last && outcome.attempts <= 6);
        last = outcome.bytes;
    }
    unlink(output);
    const wisp_quantize_options o = {.target_cosine = 0.99999, .outcome = &outcome};
    assert_int_equal(wisp_quantize_for_texts(input, output, "q4_0,q4_1", texts, TEXTS, &o, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "target_cosine");
    assert_non_null(strstr(error.message, "the nearest is 0.9"));
    assert_int_equal(access(output, F_OK), -1);
}

static void cancelled_at_any_time(void **state) {
    (void)state;
    char input[256];
    const char *output = temporary_path("cancelled.gguf");
    const wisp_text *texts = quantise_texts(1);
    write_shape(&quantise_shape, input);
    for (size_t most = 0;; most += 97) {
        struct stopping stopping = {.most = most};
        const wisp_quantize_options o = {
            .progress = stop_after, .context = &stopping, .target_cosine = 0.99};
        const wisp_status status =
            wisp_quantize_for_texts(input, output, "q8_0,q4_0", texts, TEXTS, &o, &error);
        if (status == WISP_OK)
            break;
        assert_int_equal(status, WISP_ERROR_CANCELLED);
        assert_int_equal(access(output, F_OK), -1);
        assert_true(most < 2000);
    }
}

static void expect_refused(const char *input, const char *types, size_t n,
                           const wisp_quantize_options *o, wisp_status wanted, const char *field) {
    const char *output = temporary_path("refused.gguf");
    assert_int_equal(wisp_quantize_for_texts(input, output, types, quantise_texts(1), n, o, &error),
                     wanted);
    assert_string_equal(error.field, field);
    assert_int_equal(access(output, F_OK), -1);
}

static void wrong_arguments(void **state) {
    (void)state;
    char input[256], decoder[256];
    struct gguf file;
    const wisp_quantize_options bytes = {.target_bytes = 1 << 20}, cosine = {.target_cosine = 0.9},
                                above = {.target_cosine = 1},
                                not_a_number = {.target_cosine = (double)NAN},
                                both = {.target_bytes = 1, .target_cosine = 0.5},
                                output_type = {.output_type = "q8_0"}, none = {0},
                                ternary = {.embedding_type = "bitnet_t158"};
    write_shape(&quantise_shape, input);
    llama_make(&file, &llama_shapes[0]);
    snprintf(decoder, sizeof decoder, "%s", write_made(&file, "decoder.gguf"));
    expect_refused(input, "q8_0,", TEXTS, &none, WISP_ERROR_ARGUMENT, "type");
    expect_refused(input, "", TEXTS, &bytes, WISP_ERROR_ARGUMENT, "type");
    expect_refused(input, "q8_0,q4_k", TEXTS, &bytes, WISP_ERROR_ARGUMENT, "embedding_type");
    expect_refused(input, "q8_0,bitnet_t158", TEXTS, &bytes, WISP_ERROR_ARGUMENT, "embedding_type");
    expect_refused(input, "q8_0,tq2_0", TEXTS, &bytes, WISP_ERROR_UNSUPPORTED, "embedding_type");
    expect_refused(input, "q8_0,q8_0,q8_0,q8_0,q8_0,q8_0,q8_0,q8_0,q8_0,q8_0,q8_0,q8_0,q8_0", TEXTS,
                   &bytes, WISP_ERROR_ARGUMENT, "embedding_type");
    /* Its blocks cross rows of 64, which are rounded one by one. */
    expect_refused(input, "q8_0", TEXTS, &ternary, WISP_ERROR_UNSUPPORTED, "embedding_type");
    expect_refused(input, "q8_0", 12, &bytes, WISP_ERROR_ARGUMENT, "texts");
    expect_refused(input, "q8_0", TEXTS, &above, WISP_ERROR_ARGUMENT, "target_cosine");
    expect_refused(input, "q8_0", TEXTS, &not_a_number, WISP_ERROR_ARGUMENT, "target_cosine");
    expect_refused(input, "q8_0", TEXTS, &both, WISP_ERROR_ARGUMENT, "target_cosine");
    expect_refused(decoder, "q8_0", TEXTS, &cosine, WISP_ERROR_ARGUMENT, "target_cosine");
    expect_refused(input, "q8_0", TEXTS, &output_type, WISP_ERROR_ARGUMENT, "output_type");
    expect_refused(decoder, "q8_0", TEXTS, &none, WISP_ERROR_UNSUPPORTED, "embedding_type");
}

/* ---- ternary types -------------------------------------------------------------------------- */

static void see_ternary(void *context, const wisp_quantized_tensor *tensor) {
    ++*(size_t *)context;
    assert_string_equal(tensor->type, "BITNET_T158");
    assert_true(tensor->blocks == (tensor->elements + 255) / 256);
    assert_true(tensor->sparsity > 0 && tensor->sparsity < 1 && tensor->scale_mean > 0);
    assert_true(tensor->output_error < tensor->plain_error);
}

/* Blocks of BITNET_T158 cross the rows of 64 values. The file is nearer to the model than one that
 * is rounded, and keeps token embeddings. */
static void ternary_models_stay_nearer(void **state) {
    (void)state;
    char input[256], output[256], rounded[256];
    size_t tensors = 0;
    const wisp_quantize_options o = {.tensor = see_ternary, .context = &tensors};
    wisp_file *file;
    wisp_tensor tensor = {0};
    write_shape(&quantise_shape, input);
    snprintf(output, sizeof output, "%s", temporary_path("texts.gguf"));
    snprintf(rounded, sizeof rounded, "%s", temporary_path("rounded.gguf"));
    const wisp_text *texts = quantise_texts(1);
    if (wisp_quantize_for_texts(input, output, "bitnet_t158", texts, TEXTS, &o, &error) != WISP_OK)
        fail_msg("%s: %s", error.field, error.message);
    assert_int_equal(tensors, 12);
    assert_int_equal(wisp_quantize(input, rounded, "bitnet_t158", NULL, &error), WISP_OK);
    texts = quantise_texts(99);
    const double near = mean_cosine(output, input, texts), far = mean_cosine(rounded, input, texts);
    if (!(1 - near < 0.7 * (1 - far)))
        fail_msg("cosine %f, rounded %f", near, far);
    assert_int_equal(wisp_file_open(output, &file, &error), WISP_OK);
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++)
        if (strcmp(tensor.name, "token_embd.weight") == 0)
            assert_string_equal(tensor.type, "F32");
        else if (strstr(tensor.name, "attn_q.weight"))
            assert_string_equal(tensor.type, "BITNET_T158");
    wisp_file_close(file);
}

/* ---- models that generate ------------------------------------------------------------------- */

static void see_better(void *context, const wisp_quantized_tensor *tensor) {
    ++*(size_t *)context;
    assert_true(tensor->output_error < tensor->plain_error);
}

/* Every architecture is quantised, with neurons of zeros if rows are not whole blocks, and to a
 * size. tests/oracle/quantise_texts.py says how near the files are. */
enum { FEW = 25 }; /* texts, of which each byte is a token */

static void families_of_decoders(void **state) {
    (void)state;
    const wisp_text *texts = quantise_texts(1);
    char input[256], output[256];
    snprintf(output, sizeof output, "%s", temporary_path("decoder-q.gguf"));
    for (const struct tiny_decoder *d = tiny_decoders; d->name; d++) {
        struct gguf file;
        size_t tensors = 0;
        wisp_quantize_options o = {.tensor = see_better, .context = &tensors, .pad_neurons = true};
        if (d->experts > 0) /* are refused: test_experts */
            continue;
        decoder_make(&file, d);
        snprintf(input, sizeof input, "%s", write_made(&file, "decoder.gguf"));
        if (wisp_quantize_for_texts(input, output, "q4_0", texts, FEW, &o, &error) != WISP_OK)
            fail_msg("%s: %s: %s", d->name, error.field, error.message);
        assert_true(tensors > 0);
        const struct opening opening = open_path(output, 1 << 24);
        expect_outcome(&opening, WISP_OK, NULL, NULL);
        const size_t size = size_of_file(output);
        wisp_quantize_outcome outcome;
        o.target_bytes = size + 2000;
        o.outcome = &outcome;
        o.tensor = NULL;
        assert_int_equal(
            wisp_quantize_for_texts(input, output, "q8_0,q4_0", texts, FEW, &o, &error), WISP_OK);
        assert_int_equal(size_of_file(output), outcome.bytes);
        assert_true(outcome.bytes <= o.target_bytes && outcome.divergence > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_near_the_best), cmocka_unit_test(sizes_are_kept),
        cmocka_unit_test(cosines_are_reached),       cmocka_unit_test(cancelled_at_any_time),
        cmocka_unit_test(wrong_arguments),           cmocka_unit_test(ternary_models_stay_nearer),
        cmocka_unit_test(families_of_decoders),
    };
    return cmocka_run_group_tests_name("quantize_targets", tests, NULL, tear_down_temporary_folder);
}
