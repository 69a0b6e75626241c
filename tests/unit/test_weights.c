/* SPDX-License-Identifier: Apache-2.0
 * Weight kinds in the default model: Q4_0 stays 4 bits in memory and is as near to f32 as int8 is.
 * 16-bit floats stay 16 bits and give the bits of 32-bit ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { TEXTS = 4, MOST_DIMENSIONS = 1024 };

static const char *const texts[TEXTS] = {
    "A man is feeding a mouse to a snake.", "hello", "",
    "Weights of a file that are four bits wide need not become eight to be multiplied."};

/* The default model with weights of another type. */
static const char *converted(const char *from, const char *type) {
    const wisp_convert_options options = {.type = type};
    const char *path = temporary_path(type);
    wisp_error error;
    if (wisp_convert(from, path, &options, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return path;
}

struct embedded {
    wisp_model_info info;
    size_t dimensions;
    float rows[TEXTS * MOST_DIMENSIONS];
};

static void embed(const char *path, wisp_compute compute, const char *kernels,
                  struct embedded *result) {
    const wisp_model_options options = {
        .compute = compute, .kernels = kernels, .predictor = WISP_PREDICTOR_DENSE};
    wisp_model *model;
    wisp_text all[TEXTS];
    wisp_error error;
    if (wisp_model_open(path, &options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session *session = open_session_or_fail(model, 1);
    for (size_t i = 0; i < TEXTS; i++)
        all[i] = wisp_text_of(texts[i]);
    wisp_model_get_info(model, &result->info);
    result->dimensions = wisp_model_dimensions(model);
    assert_true(result->dimensions <= MOST_DIMENSIONS);
    assert_int_equal(wisp_embed(session, all, TEXTS, NULL, result->rows, &error), WISP_OK);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void test_q4_0_stays_4_bits(void **state) {
    (void)state;
    static struct embedded q4, int8, exact;
    const char *path = converted("models/wisp-default.gguf", "q4_0");
    const char *kernels;
    embed(path, WISP_COMPUTE_F32, NULL, &exact);
    for (size_t s = 0; (kernels = wisp_kernels_name(s)) != NULL; s++) {
        embed(path, WISP_COMPUTE_AUTO, kernels, &q4);
        embed("models/wisp-default.gguf", WISP_COMPUTE_INT8, kernels, &int8);
        assert_string_equal(q4.info.compute, "int8");
        /* A block of 128 takes 76 bytes, not 136; panels that are not full take more. */
        const uint64_t hidden = q4.info.hidden_size, inner = q4.info.intermediate_size;
        const uint64_t weights = q4.info.layers * (4 * hidden * hidden + 2 * hidden * inner);
        assert_true(int8.info.resident_bytes - q4.info.resident_bytes >= weights / 128 * 60);
        for (size_t i = 0; i < TEXTS; i++) {
            const float *row = q4.rows + i * q4.dimensions;
            assert_true(wisp_dot(row, exact.rows + i * q4.dimensions, q4.dimensions) > 0.995f);
        }
    }
}

static void test_halves_have_the_bits_of_floats(void **state) {
    (void)state;
    static struct embedded half, full;
    const char *path = converted("models/wisp-default.gguf", "f16");
    const char *floats = converted(path, "f32");
    const char *kernels;
    for (size_t s = 0; (kernels = wisp_kernels_name(s)) != NULL; s++) {
        embed(path, WISP_COMPUTE_F32, kernels, &half);
        embed(floats, WISP_COMPUTE_F32, kernels, &full);
        assert_memory_equal(half.rows, full.rows, TEXTS * half.dimensions * sizeof(float));
        assert_true(half.info.resident_bytes <= full.info.resident_bytes);
    }
}

static int clean_up(void **state) {
    (void)state;
    remove_temporary_folder();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_q4_0_stays_4_bits),
        cmocka_unit_test(test_halves_have_the_bits_of_floats),
    };
    return cmocka_run_group_tests_name("weights", tests, NULL, clean_up);
}
