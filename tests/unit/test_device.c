/* SPDX-License-Identifier: Apache-2.0
 * The option `device`: names, what only the processor computes, and what happens if no library
 * is. The library of CUDA has tests of its own (tests/cuda). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static wisp_error error;

static const char *device_of(const wisp_model_options *options, wisp_status expected) {
    static wisp_model_info info;
    wisp_model *model;
    const wisp_status status =
        wisp_model_open(tiny_model("device.gguf", "gelu"), options, &model, &error);
    assert_int_equal(status, expected);
    if (status != WISP_OK) {
        assert_null(model);
        assert_string_equal(error.field, "device");
        return error.message;
    }
    wisp_model_get_info(model, &info);
    wisp_model_close(model);
    return info.device;
}

static void the_processor_computes_by_default(void **state) {
    (void)state;
    assert_string_equal(device_of(NULL, WISP_OK), "cpu");
    assert_string_equal(device_of(&(wisp_model_options){.device = "cpu"}, WISP_OK), "cpu");
}

static void auto_falls_back_to_the_processor(void **state) {
    (void)state;
    assert_string_equal(device_of(&(wisp_model_options){.device = "auto"}, WISP_OK), "cpu");
}

static void unknown_names_are_refused(void **state) {
    (void)state;
    const char *message = device_of(&(wisp_model_options){.device = "tpu"}, WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(message, "tpu"));
    assert_non_null(strstr(message, "cpu, auto, cuda"));
}

static void a_missing_library_is_named(void **state) {
    (void)state;
    const char *message =
        device_of(&(wisp_model_options){.device = "cuda"}, WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(message, "cuda"));
}

static void what_only_the_processor_computes_is_refused(void **state) {
    (void)state;
    const wisp_model_options portable = {.device = "cuda", .portable = true};
    const wisp_model_options exact = {.device = "cuda", .predictor = WISP_PREDICTOR_EXACT};
    const wisp_model_options bf16 = {
        .device = "cuda", .compute = WISP_COMPUTE_BF16, .kernels = "scalar"};
    assert_non_null(strstr(device_of(&portable, WISP_ERROR_UNSUPPORTED), "portable"));
    assert_non_null(strstr(device_of(&exact, WISP_ERROR_UNSUPPORTED), "sparse"));
    assert_non_null(strstr(device_of(&bf16, WISP_ERROR_UNSUPPORTED), "bf16"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_processor_computes_by_default),
        cmocka_unit_test(auto_falls_back_to_the_processor),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(a_missing_library_is_named),
        cmocka_unit_test(what_only_the_processor_computes_is_refused),
    };
    setenv("WISP_CUDA_LIBRARY", "/nonexistent/libwisp-cuda.so", 1); /* also if there is one */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
