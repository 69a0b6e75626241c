/* SPDX-License-Identifier: Apache-2.0
 * Policies, which choose the types of tensors by their names: files of them that are wrong, and the
 * line that decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "quant/blocks.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static wisp_error error;

static const struct tiny_shape shape_256 = {
    .hidden = 256, .wide = 512, .layers = 1, .heads = 4, .positions = 32, .type = BLOCK_F32};

static void policies_that_are_wrong(void **state) {
    (void)state;
    static const struct {
        const char *text, *field, *says;
    } cases[] = {
        {"* type\n\nblk.[0].* type\n", "line 3", "blk.[0].*"},
        {"# all\n* type\ntoken_embd.weight keep\n", "line 3", "token_embd.weight"},
        {"blk.*", "line 1", "no type follows"},
        {"* q9_9\n", "line 1", "q9_9"},
        {"* f64\n", "line 1", "f64"},
        {"* keep always\n", "line 1", "always"},
        {"* keep optional twice\n", "line 1", "twice"},
        {"blk.7.* keep\n* keep\n", "line 1", "blk.7.*"},
        {"# nothing\n\n", NULL, "no lines"},
        {"", NULL, "no lines"},
    };
    char input[256], policy[256];
    snprintf(input, sizeof input, "%s", write_tiny(&shape_256, "floats.gguf"));
    snprintf(policy, sizeof policy, "%s", temporary_path("wrong.policy"));
    const wisp_quantize_options o = {.policy = policy};
    char output[256];
    snprintf(output, sizeof output, "%s", temporary_path("out.gguf"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file("wrong.policy", cases[i].text, strlen(cases[i].text));
        if (wisp_quantize(input, output, "tq2_0", &o, &error) != WISP_ERROR_FORMAT)
            fail_msg("%s: no error, or %s", cases[i].text, error.message);
        assert_string_equal(error.file, policy);
        assert_string_equal(error.field, cases[i].field ? cases[i].field : "");
        assert_non_null(strstr(error.message, cases[i].says));
        assert_int_equal(access(output, F_OK), -1);
    }
    write_file("wrong.policy", "a\0b", 3);
    assert_int_equal(wisp_quantize(input, NULL, "tq2_0", &o, &error), WISP_ERROR_FORMAT);
    write_file("wrong.policy", "token_embd.weight keep", 22);
    assert_int_equal(wisp_quantize(input, NULL, "tq2_0", &o, &error), WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.file, policy);
    assert_true(strncmp(error.field, "blk.", 4) == 0);
    const wisp_quantize_options none = {.policy = temporary_path("no.policy")};
    assert_int_equal(wisp_quantize(input, NULL, "tq2_0", &none, &error), WISP_ERROR_NOT_FOUND);
}

struct told {
    const char *name;
    char type[32];
};

static void take(void *context, const wisp_quantized_tensor *tensor) {
    for (struct told *told = context; told->name; told++)
        if (strcmp(told->name, tensor->name) == 0)
            snprintf(told->type, sizeof told->type, "%s", tensor->type);
}

/* The first line that is like a name decides, whatever comes later. */
static void policies_choose(void **state) {
    (void)state;
    static const char text[] = "blk.?.attn_k.weight\tq8_0 # the keys\r\n"
                               "*.attn_*.weight f16\n"
                               "*_embd* Keep\n"
                               "*up* TYPE\n"
                               "*missing* q4_0 optional\n"
                               "* f32\n";
    struct told told[] = {{"blk.0.attn_k.weight", ""},   {"blk.0.attn_q.weight", ""},
                          {"token_embd.weight", ""},     {"blk.0.ffn_up.weight", ""},
                          {"blk.0.ffn_down.weight", ""}, {NULL, ""}};
    static const char *const want[] = {"Q8_0", "F16", "F32", "TQ2_0", "F32"};
    char input[256], policy[256];
    snprintf(input, sizeof input, "%s", write_tiny(&shape_256, "floats.gguf"));
    write_file("good.policy", text, sizeof text - 1);
    snprintf(policy, sizeof policy, "%s", temporary_path("good.policy"));
    const wisp_quantize_options o = {.policy = policy, .tensor = take, .context = told};
    if (wisp_quantize(input, NULL, "tq2_0", &o, &error) != WISP_OK)
        fail_msg("%s: %s", error.field, error.message);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(told[i].type, want[i]);
    for (size_t i = 0; wisp_policy_name(i); i++)
        assert_non_null(wisp_policy_text(wisp_policy_name(i)));
    assert_null(wisp_policy_name(SIZE_MAX));
    assert_null(wisp_policy_text("none"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_that_are_wrong),
        cmocka_unit_test(policies_choose),
    };
    return cmocka_run_group_tests_name("policies", tests, NULL, tear_down_temporary_folder);
}
