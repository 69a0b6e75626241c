/* SPDX-License-Identifier: Apache-2.0
 * Weight kinds: Q4_0 in the default model stays 4 bits in memory and is as near to f32 as int8 is;
 * 16-bit floats stay 16 bits and give the bits of 32-bit ones; a model of any type computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "support/golden.h"
#include "support/opening.h"
#include "weights/weight_kind.h"

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

/* Types whose weights stay as they are, alone in a layer and beside another type. */
static void test_kinds_of_types(void **state) {
    (void)state;
    static const struct {
        enum block_type type;
        const char *kind; /* NULL: int8, or narrow if the set has no int8 products */
    } kept[] = {{BLOCK_Q4_0, "q4_0"},        {BLOCK_Q4_1, "q4_1"},     {BLOCK_Q4_K, "q4_k"},
                {BLOCK_Q6_K, "q6_k"},        {BLOCK_TQ1_0, "tq1_0"},   {BLOCK_TQ2_0, "tq2_0"},
                {BLOCK_T158, "bitnet_t158"}, {BLOCK_I2_S, "i2_s"},     {BLOCK_Q2_K, "q2_k"},
                {BLOCK_Q3_K, "q3_k"},        {BLOCK_Q5_K, "q5_k"},     {BLOCK_Q5_0, "q5_0"},
                {BLOCK_Q5_1, "q5_1"},        {BLOCK_Q1_0, "q1_0"},     {BLOCK_Q2_0, "q2_0"},
                {BLOCK_PQ2_0, "pq2_0"},      {BLOCK_IQ4_NL, "iq4_nl"}, {BLOCK_IQ4_XS, "iq4_xs"},
                {BLOCK_MXFP4, "mxfp4"},      {BLOCK_Q8_0, NULL},       {BLOCK_F32, NULL}};
    for (size_t s = 0; kernels_at(s); s++)
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
            const struct block_format *format = block_format_by_id(kept[i].type);
            const struct block_format *alike[] = {format, format, format};
            const struct block_format *mixed[] = {format, block_format_by_id(BLOCK_F16)};
            const struct kernels *set = kernels_at(s);
            const char *converted = set->gemm_int8 ? "int8" : "narrow";
            assert_string_equal(weight_kind_for(set, alike, 3, WISP_COMPUTE_INT8)->name,
                                kept[i].kind ? kept[i].kind : converted);
            assert_string_equal(weight_kind_for(set, mixed, 2, WISP_COMPUTE_INT8)->name, converted);
            assert_string_equal(weight_kind_for(set, alike, 1, WISP_COMPUTE_F32)->name, "f32");
        }
}

/* Bits in memory of a weight, as docs/formats.md has them. */
static void test_bits_in_memory(void **state) {
    (void)state;
    static const struct {
        const struct weight_kind *kind;
        double bits;
    } kinds[] = {{&weights_q4_0, 4.75},    {&weights_q4_1, 5.25},    {&weights_q4_k, 5},
                 {&weights_q2_k, 3},       {&weights_q3_k, 3.875},   {&weights_q5_k, 6},
                 {&weights_q6_k, 6.875},   {&weights_int8, 8.5},     {&weights_narrow, 9},
                 {&weights_tq1_0, 2.1875}, {&weights_tq2_0, 2.1875}, {&weights_bitnet_t158, 2.1875},
                 {&weights_q5_0, 5.75},    {&weights_q5_1, 6.25},    {&weights_q1_0, 2.25},
                 {&weights_q2_0, 2.5},     {&weights_pq2_0, 2.25},   {&weights_iq4_nl, 4.75},
                 {&weights_iq4_xs, 4.625}, {&weights_mxfp4, 4.75}};
    for (size_t s = 0; kernels_at(s); s++)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (kinds[i].kind->panel(kernels_at(s)) == 0)
                continue;
            const size_t bytes = kinds[i].kind->bytes(kernels_at(s), 1024, 2048);
            assert_true((double)bytes * 8 == kinds[i].bits * 1024 * 2048);
        }
}

/* A model of each type computes in int8 about what it computes in f32. */
static void test_every_type_computes(void **state) {
    (void)state;
    static struct embedded int8, exact;
    static const struct tiny_shape shape = {
        .hidden = 256, .wide = 512, .layers = 2, .heads = 4, .positions = 64, .type = BLOCK_F32};
    struct gguf made;
    struct bytes bytes = {0};
    wisp_error error;
    const char *type, *kernels;
    char plain[256], path[256];
    gguf_make(&made, &shape);
    gguf_write_bytes(&made, &bytes);
    write_file("plain.gguf", bytes.data, bytes.size);
    bytes_release(&bytes);
    gguf_release(&made);
    snprintf(plain, sizeof plain, "%s", temporary_path("plain.gguf"));
    snprintf(path, sizeof path, "%s", temporary_path("typed.gguf"));
    for (size_t t = 0; (type = wisp_quantize_type(t)) != NULL; t++) {
        assert_int_equal(wisp_quantize(plain, path, type, NULL, &error), WISP_OK);
        embed(path, WISP_COMPUTE_F32, NULL, &exact);
        for (size_t s = 0; (kernels = wisp_kernels_name(s)) != NULL; s++) {
            embed(path, WISP_COMPUTE_INT8, kernels, &int8);
            for (size_t i = 0; i < TEXTS; i++) {
                const float *row = int8.rows + i * int8.dimensions;
                const float near = wisp_dot(row, exact.rows + i * int8.dimensions, int8.dimensions);
                if (!(near > 0.9f)) /* a model of random weights is far from smooth */
                    fail_msg("%s, %s, text %zu: cosine %.4f", type, kernels, i, (double)near);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_q4_0_stays_4_bits),
        cmocka_unit_test(test_halves_have_the_bits_of_floats),
        cmocka_unit_test(test_kinds_of_types),
        cmocka_unit_test(test_bits_in_memory),
        cmocka_unit_test(test_every_type_computes),
    };
    return cmocka_run_group_tests_name("weights", tests, NULL, tear_down_temporary_folder);
}
