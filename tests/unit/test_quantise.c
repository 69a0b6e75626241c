/* SPDX-License-Identifier: Apache-2.0
 * wisp_quantize: the bytes and the losses of every type, matrices that fit no type, weights that no
 * type can hold, cancelling, and wrong arguments. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/directory.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/progress.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { MOST_TENSORS = 80 };

static wisp_error error;

/* Whole blocks of all types, and of none but those of 32. */
static const struct tiny_shape shape_256 = {
    .hidden = 256, .wide = 512, .layers = 1, .heads = 4, .positions = 32, .type = BLOCK_F32};
static const struct tiny_shape shape_96 = {
    .hidden = 96, .wide = 256, .layers = 1, .heads = 4, .positions = 32, .type = BLOCK_F32};

/* The tensors that wisp_quantize has told of. */
struct told {
    size_t n;
    char names[MOST_TENSORS][64];
    wisp_quantized_tensor tensors[MOST_TENSORS];
};

static void take(void *context, const wisp_quantized_tensor *tensor) {
    struct told *told = context;
    assert_true(told->n < MOST_TENSORS);
    snprintf(told->names[told->n], sizeof told->names[0], "%s", tensor->name);
    told->tensors[told->n++] = *tensor;
}

static const wisp_quantized_tensor *find_told(const struct told *told, const char *name) {
    for (size_t i = 0; i < told->n; i++)
        if (strcmp(told->names[i], name) == 0)
            return &told->tensors[i];
    fail_msg("%s was not told", name);
    return NULL;
}

/* Checks the bytes of a tensor, and that what was told of it is what they lose. */
static void check_tensor(const wisp_file *file, size_t index, const struct told *told,
                         const char *type) {
    wisp_tensor tensor;
    assert_true(wisp_file_get_tensor(file, index, &tensor));
    const size_t n = (size_t)(tensor.shape[0] * (tensor.dimensions > 1 ? tensor.shape[1] : 1));
    const bool is_matrix =
        tensor.dimensions > 1 && strcmp(tensor.name, "position_embd.weight") &&
        strcmp(tensor.name, "token_types.weight") &&
        (strcmp(type, "BITNET_T158") || strcmp(tensor.name, "token_embd.weight"));
    const wisp_quantized_tensor *got = find_told(told, tensor.name);
    const struct block_format *format = block_format_by_name(tensor.type);
    float *values = malloc(n * sizeof *values), *back = malloc(n * sizeof *back);
    unsigned char *stored = malloc(4 * n), *found = malloc(4 * n);
    assert_true(values && back && stored && found);
    assert_string_equal(tensor.type, is_matrix ? type : "F32");
    assert_string_equal(got->type, tensor.type);
    assert_true(got->fits && !got->fallback && got->quantised == is_matrix);
    assert_true(got->elements == n && got->bytes == tensor.bytes);
    tiny_values(tensor.name, values, n);
    format->quantise_as_reference(values, n, stored);
    assert_int_equal(
        wisp_file_read_part(file, 0, tensor.offset, found, (size_t)tensor.bytes, &error), WISP_OK);
    assert_memory_equal(found, stored, (size_t)tensor.bytes);
    format->dequantise(stored, n, back);
    double differences = 0, xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)values[i], y = (double)back[i];
        differences += (x - y) * (x - y);
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    assert_true(fabs(got->mse - differences / (double)n) <= 1e-12 + 1e-9 * got->mse);
    assert_true(!is_matrix || fabs(got->cosine - xy / sqrt(xx * yy)) < 1e-9);
    free(values);
    free(back);
    free(stored);
    free(found);
}

static void every_type(void **state) {
    (void)state;
    const char *type;
    char input[256];
    snprintf(input, sizeof input, "%s", write_tiny(&shape_256, "floats.gguf"));
    for (size_t t = 0; (type = wisp_quantize_type(t)) != NULL; t++) {
        static struct told written, measured, sampled;
        const wisp_quantize_options on_writing = {.tensor = take, .context = &written};
        const wisp_quantize_options on_measuring = {.tensor = take, .context = &measured};
        const wisp_quantize_options on_sampling = {
            .tensor = take, .context = &sampled, .sample = 2000};
        const char *output = temporary_path("quantised.gguf");
        written.n = measured.n = sampled.n = 0;
        wisp_file *file;
        if (wisp_quantize(input, output, type, &on_writing, &error) != WISP_OK)
            fail_msg("%s: %s", type, error.message);
        assert_int_equal(wisp_file_open(output, &file, &error), WISP_OK);
        wisp_tensor tensor;
        size_t n = 0;
        for (; wisp_file_get_tensor(file, n, &tensor); n++)
            check_tensor(file, n, &written, type);
        assert_true(n == written.n);
        wisp_file_close(file);
        const struct opening opening = open_path(output, 1 << 24);
        expect_outcome(&opening, WISP_OK, NULL, NULL);

        /* Measuring tells what writing told, and a sample about as much. */
        assert_int_equal(wisp_quantize(input, NULL, type, &on_measuring, &error), WISP_OK);
        assert_int_equal(wisp_quantize(input, NULL, type, &on_sampling, &error), WISP_OK);
        assert_true(measured.n == n && sampled.n == n);
        for (size_t i = 0; i < n; i++) {
            const wisp_quantized_tensor *a = &written.tensors[i], *b = &measured.tensors[i];
            assert_string_equal(written.names[i], measured.names[i]);
            assert_true(a->bytes == b->bytes && fabs(a->cosine - b->cosine) < 1e-9);
            assert_true(fabs(a->cosine - sampled.tensors[i].cosine) < 0.05);
        }
    }
}

/* ---- matrices that do not fit --------------------------------------------------------------- */

static const char up[] = "blk.0.ffn_up.weight", down[] = "blk.0.ffn_down.weight";

static void rows_that_are_no_whole_blocks(void **state) {
    (void)state;
    static struct told told;
    char input[256];
    const char *output = temporary_path("unfit.gguf");
    snprintf(input, sizeof input, "%s", write_tiny(&shape_96, "odd.gguf"));
    wisp_quantize_options o = {.tensor = take, .context = &told};
    told.n = 0;
    assert_int_equal(wisp_quantize(input, output, "q4_k", &o, &error), WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "token_embd.weight");
    assert_non_null(strstr(error.message, "256"));
    assert_int_equal(told.n, 0);
    assert_int_equal(access(output, F_OK), -1);

    /* A fallback that does not fit either is named. */
    o.fallback = "q6_k";
    assert_int_equal(wisp_quantize(input, output, "q4_k", &o, &error), WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "Q6_K"));

    o.fallback = "q5_0";
    assert_int_equal(wisp_quantize(input, output, "q4_k", &o, &error), WISP_OK);
    assert_true(find_told(&told, up)->fallback && !find_told(&told, down)->fallback);
    assert_string_equal(find_told(&told, up)->type, "Q5_0");
    assert_string_equal(find_told(&told, down)->type, "Q4_K");
    const struct opening opening = open_path(output, 1 << 24);
    expect_outcome(&opening, WISP_OK, NULL, NULL);

    /* A run that writes nothing tells of such a matrix. */
    told.n = 0;
    o.fallback = NULL;
    assert_int_equal(wisp_quantize(input, NULL, "q4_k", &o, &error), WISP_OK);
    assert_true(!find_told(&told, up)->fits && !find_told(&told, up)->type);
    assert_true(find_told(&told, down)->fits);
}

static void embedding_of_another_type(void **state) {
    (void)state;
    static struct told told;
    char input[256];
    snprintf(input, sizeof input, "%s", write_tiny(&shape_256, "floats.gguf"));
    const wisp_quantize_options o = {
        .embedding_type = "q6_k", .output_type = "f16", .tensor = take, .context = &told};
    told.n = 0;
    assert_int_equal(wisp_quantize(input, NULL, "Q2_K", &o, &error), WISP_OK);
    assert_string_equal(find_told(&told, "token_embd.weight")->type, "Q6_K");
    assert_false(find_told(&told, "token_embd.weight")->fallback);
    assert_string_equal(find_told(&told, up)->type, "Q2_K");
}

/* A quantised model, and one whose neurons are rows, are quantised as well. */
static void models_of_any_kind(void **state) {
    (void)state;
    char input[256];
    const char *output = temporary_path("again.gguf");
    static const struct tiny_shape *const shapes[] = {&tiny_shape_q8_0, &tiny_nomic_rows_q8_0,
                                                      &tiny_nomic_q8_0};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        snprintf(input, sizeof input, "%s", write_tiny(shapes[i], "other.gguf"));
        if (wisp_quantize(input, output, "iq4_nl", NULL, &error) != WISP_OK)
            fail_msg("%s", error.message);
        const struct opening opening = open_path(output, 1 << 24);
        expect_outcome(&opening, WISP_OK, NULL, NULL);
    }
}

/* ---- weights that cannot be quantised ------------------------------------------------------- */

static const char *spoilt(float value) {
    struct gguf file;
    gguf_make(&file, &shape_256);
    bytes_set_f32(&gguf_tensor(&file, up)->data, 4 * 777, value);
    return write_made(&file, "spoilt.gguf");
}

static void weights_that_no_type_holds(void **state) {
    (void)state;
    const char *output = temporary_path("spoilt-output.gguf"), *type;
    char input[256];
    for (size_t t = 0; (type = wisp_quantize_type(t)) != NULL; t++) {
        snprintf(input, sizeof input, "%s", spoilt(NAN));
        assert_int_equal(wisp_quantize(input, output, type, NULL, &error), WISP_ERROR_FORMAT);
        assert_string_equal(error.field, up);
        snprintf(input, sizeof input, "%s", spoilt(INFINITY));
        assert_int_equal(wisp_quantize(input, NULL, type, NULL, &error), WISP_ERROR_FORMAT);
        /* Scales are half floats, except in BF16 and MXFP4; those of BITNET_T158 that are too large
         * become epsilon. */
        const bool holds = strcmp(type, "BF16") == 0 || strcmp(type, "MXFP4") == 0 ||
                           strcmp(type, "BITNET_T158") == 0;
        snprintf(input, sizeof input, "%s", spoilt(3e30f));
        const wisp_status status = wisp_quantize(input, output, type, NULL, &error);
        if (status != (holds ? WISP_OK : WISP_ERROR_UNSUPPORTED))
            fail_msg("%s: %s", type, status == WISP_OK ? "holds 3e30" : error.message);
        if (!holds)
            assert_true(strcmp(error.field, up) == 0 && strstr(error.message, type) != NULL);
        remove(output);
    }
}

/* ---- cancelling and arguments --------------------------------------------------------------- */

static void cancelled_at_any_time(void **state) {
    (void)state;
    char input[256];
    const char *output = temporary_path("cancelled.gguf");
    snprintf(input, sizeof input, "%s", write_tiny(&shape_256, "floats.gguf"));
    for (size_t most = 0;; most++) {
        struct stopping stopping = {.most = most}, measuring = {.most = most};
        wisp_quantize_options o = {.progress = stop_after, .context = &stopping};
        const wisp_status status = wisp_quantize(input, output, "q8_0", &o, &error);
        o.context = &measuring;
        assert_true(wisp_quantize(input, NULL, "q8_0", &o, &error) == WISP_ERROR_CANCELLED ||
                    status == WISP_OK);
        if (status == WISP_OK)
            break;
        assert_int_equal(status, WISP_ERROR_CANCELLED);
        assert_int_equal(access(output, F_OK), -1);
        /* The embedding and the feed-forward matrices are longer than what is read at a time. */
        assert_true(most < 40);
    }
}

static void expect_refused(wisp_status status, const char *argument) {
    assert_int_equal(status, WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, argument);
}

static void wrong_arguments(void **state) {
    (void)state;
    char input[256];
    const char *output = temporary_path("refused.gguf");
    const wisp_quantize_options embedding = {.embedding_type = "q9"}, last = {.output_type = "f32"},
                                fallback = {.fallback = "iq1_s"};
    snprintf(input, sizeof input, "%s", write_tiny(&shape_256, "floats.gguf"));
    expect_refused(wisp_quantize(NULL, output, "q8_0", NULL, &error), "input");
    expect_refused(wisp_quantize(input, output, NULL, NULL, &error), "type");
    expect_refused(wisp_quantize(input, output, "q8_1", NULL, &error), "type");
    expect_refused(wisp_quantize(input, output, "", NULL, &error), "type");
    expect_refused(wisp_quantize(input, output, "q8_0", &embedding, &error), "embedding_type");
    expect_refused(wisp_quantize(input, output, "q8_0", &last, &error), "output_type");
    expect_refused(wisp_quantize(input, NULL, "q8_0", &fallback, &error), "fallback");
    assert_int_equal(wisp_quantize(temporary_path("none"), NULL, "q8_0", NULL, &error),
                     WISP_ERROR_NOT_FOUND);
    assert_int_equal(wisp_quantize(input, temporary_path("no/where.gguf"), "q8_0", NULL, &error),
                     WISP_ERROR_IO);
    assert_null(wisp_quantize_type(SIZE_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type),
        cmocka_unit_test(rows_that_are_no_whole_blocks),
        cmocka_unit_test(embedding_of_another_type),
        cmocka_unit_test(models_of_any_kind),
        cmocka_unit_test(weights_that_no_type_holds),
        cmocka_unit_test(cancelled_at_any_time),
        cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests_name("quantize", tests, NULL, tear_down_temporary_folder);
}
