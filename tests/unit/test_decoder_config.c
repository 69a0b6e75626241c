/* SPDX-License-Identifier: Apache-2.0
 * Hyper-parameters of decoders from a file's metadata: how positions are scaled. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "formats/directory.h"
#include "models/llama.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

static const char TYPE[] = "llama.rope.scaling.type", FACTOR[] = "llama.rope.scaling.factor",
                  LINEAR[] = "llama.rope.scale_linear";

static void put_sizes(struct directory *dir) {
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"llama.embedding_length", 8},
                 {"llama.feed_forward_length", 12},
                 {"llama.block_count", 1},
                 {"llama.attention.head_count", 2},
                 {"llama.context_length", 64}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        assert_int_equal(directory_put_u32(dir, sizes[k].key, sizes[k].value, NULL), WISP_OK);
    assert_int_equal(directory_put_f32(dir, "llama.attention.layer_norm_rms_epsilon", 1e-5f, NULL),
                     WISP_OK);
}

/* Checks the keys of llama.cpp's converter and those of older converters. */
static void positions_are_scaled_as_in_llama_cpp(void **state) {
    static const struct {
        const char *type;
        float factor, linear; /* 0: no key */
        wisp_status status;
        const char *field;
        float expected;
    } cases[] = {
        {NULL, 0, 0, WISP_OK, NULL, 1},
        {"none", 8, 0, WISP_OK, NULL, 1},
        {"linear", 8, 0, WISP_OK, NULL, 8},
        {NULL, 8, 0, WISP_OK, NULL, 8},
        {NULL, 0, 4, WISP_OK, NULL, 4},
        {"linear", 8, 4, WISP_OK, NULL, 8},
        {"linear", 0, 0, WISP_OK, NULL, 1},
        {"linear", 0.5f, 0, WISP_ERROR_FORMAT, "llama.rope.scaling.factor", 0},
        {NULL, 0, -2, WISP_ERROR_FORMAT, "llama.rope.scale_linear", 0},
        {"yarn", 8, 0, WISP_OK, NULL, 8},
        {"longrope", 0, 0, WISP_OK, NULL, 1},
        {"longrope", 8, 0, WISP_ERROR_UNSUPPORTED, "llama.rope.scaling.factor", 0},
        {"longrope", 0, 4, WISP_ERROR_UNSUPPORTED, "llama.rope.scale_linear", 0},
        {"su", 8, 0, WISP_ERROR_UNSUPPORTED, "llama.rope.scaling.type", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct directory dir = {.file = "test.gguf"};
        struct model_config config;
        wisp_error error;
        put_sizes(&dir);
        if (cases[i].type)
            assert_int_equal(directory_put_text(&dir, TYPE, wisp_text_of(cases[i].type), &error),
                             WISP_OK);
        if (cases[i].factor != 0)
            assert_int_equal(directory_put_f32(&dir, FACTOR, cases[i].factor, &error), WISP_OK);
        if (cases[i].linear != 0)
            assert_int_equal(directory_put_f32(&dir, LINEAR, cases[i].linear, &error), WISP_OK);
        assert_int_equal(directory_finish(&dir, &error), WISP_OK);
        assert_int_equal(architecture_llama.read_config(&dir, &config, &error), cases[i].status);
        if (cases[i].status == WISP_OK)
            assert_true(config.rope_divisor == cases[i].expected);
        else
            assert_string_equal(error.field, cases[i].field);
        directory_release(&dir);
    }
}

/* Each case has one key, or none, beside the type and a factor of 8. */
static void yarn_has_settings(void **state) {
    static const struct {
        const char *key;
        float value;
        wisp_status status;
        uint32_t context;
        float fast, slow, attention;
    } cases[] = {
        {NULL, 0, WISP_OK, 64, 32, 1, 1.2079442f},
        {"rope.scaling.original_context_length", 16, WISP_OK, 16, 32, 1, 1.2079442f},
        {"rope.scaling.yarn_beta_fast", 20, WISP_OK, 64, 20, 1, 1.2079442f},
        {"rope.scaling.yarn_beta_slow", 2, WISP_OK, 64, 32, 2, 1.2079442f},
        {"rope.scaling.attn_factor", 0.5f, WISP_OK, 64, 32, 1, 0.6039721f},
        {"rope.scaling.yarn_attn_factor", 0.5f, WISP_OK, 64, 32, 1, 0.5f},
        {"rope.scaling.yarn_ext_factor", 1, WISP_OK, 64, 32, 1, 1.2079442f},
        {"rope.scaling.yarn_log_multiplier", 0, WISP_OK, 64, 32, 1, 1.2079442f},
        {"rope.scaling.original_context_length", 0, WISP_ERROR_FORMAT, 0, 0, 0, 0},
        {"rope.scaling.yarn_beta_fast", 0, WISP_ERROR_FORMAT, 0, 0, 0, 0},
        {"rope.scaling.yarn_beta_slow", -1, WISP_ERROR_FORMAT, 0, 0, 0, 0},
        {"rope.scaling.attn_factor", 0, WISP_ERROR_FORMAT, 0, 0, 0, 0},
        {"rope.scaling.yarn_attn_factor", 0, WISP_ERROR_FORMAT, 0, 0, 0, 0},
        {"rope.freq_base", 1, WISP_ERROR_FORMAT, 0, 0, 0, 0},
        {"rope.scaling.yarn_ext_factor", 0.5f, WISP_ERROR_UNSUPPORTED, 0, 0, 0, 0},
        {"rope.scaling.yarn_log_multiplier", 1, WISP_OK, 64, 32, 1, 1},
        {"rope.scaling.yarn_log_multiplier", -1, WISP_ERROR_FORMAT, 0, 0, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct directory dir = {.file = "test.gguf"};
        struct model_config config;
        wisp_error error;
        char key[64] = "";
        put_sizes(&dir);
        assert_int_equal(directory_put_text(&dir, TYPE, wisp_text_of("yarn"), NULL), WISP_OK);
        assert_int_equal(directory_put_f32(&dir, FACTOR, 8, NULL), WISP_OK);
        if (cases[i].key)
            snprintf(key, sizeof key, "llama.%s", cases[i].key);
        if (strstr(key, "context_length"))
            assert_int_equal(directory_put_u32(&dir, key, (uint32_t)cases[i].value, NULL), WISP_OK);
        else if (*key)
            assert_int_equal(directory_put_f32(&dir, key, cases[i].value, NULL), WISP_OK);
        assert_int_equal(directory_finish(&dir, &error), WISP_OK);
        assert_int_equal(architecture_llama.read_config(&dir, &config, &error), cases[i].status);
        if (cases[i].status == WISP_OK) {
            assert_int_equal(config.yarn.context, cases[i].context);
            assert_true(config.yarn.beta_fast == cases[i].fast);
            assert_true(config.yarn.beta_slow == cases[i].slow);
            assert_true(fabsf(config.rope_length - cases[i].attention) < 1e-6f);
        } else {
            assert_string_equal(error.field, key);
        }
        directory_release(&dir);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_are_scaled_as_in_llama_cpp),
        cmocka_unit_test(yarn_has_settings),
    };
    return cmocka_run_group_tests_name("settings of decoders", tests, NULL, NULL);
}
