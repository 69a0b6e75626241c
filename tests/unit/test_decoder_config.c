/* SPDX-License-Identifier: Apache-2.0
 * Hyper-parameters of decoders from a file's metadata: how positions are scaled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "formats/directory.h"
#include "models/llama.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

static const char TYPE[] = "llama.rope.scaling.type", FACTOR[] = "llama.rope.scaling.factor",
                  LINEAR[] = "llama.rope.scale_linear";

/* With the keys of llama.cpp's converter and those of older ones. */
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
        {"yarn", 8, 0, WISP_ERROR_UNSUPPORTED, "llama.rope.scaling.type", 0},
    };
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"llama.embedding_length", 8},
                 {"llama.feed_forward_length", 12},
                 {"llama.block_count", 1},
                 {"llama.attention.head_count", 2},
                 {"llama.context_length", 64}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct directory dir = {.file = "test.gguf"};
        struct model_config config;
        wisp_error error;
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            assert_int_equal(directory_put_u32(&dir, sizes[k].key, sizes[k].value, &error),
                             WISP_OK);
        assert_int_equal(
            directory_put_f32(&dir, "llama.attention.layer_norm_rms_epsilon", 1e-5f, &error),
            WISP_OK);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_are_scaled_as_in_llama_cpp),
    };
    return cmocka_run_group_tests_name("settings of decoders", tests, NULL, NULL);
}
