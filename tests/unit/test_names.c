/* SPDX-License-Identifier: Apache-2.0
 * The names that the library exports: each value has one name, finding the name gives the value,
 * and there are no other names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "wisp.h"

static void finds_each_compute_mode(void **state) {
    wisp_compute compute;
    size_t i = 0;
    (void)state;
    for (; wisp_compute_name(i); i++) {
        compute = (wisp_compute)-1;
        assert_true(wisp_compute_find(wisp_compute_name(i), &compute));
        assert_int_equal(compute, i);
    }
    assert_int_equal(i, WISP_COMPUTE_BF16 + 1);
    assert_string_equal(wisp_compute_name(WISP_COMPUTE_INT8), "int8");
    assert_null(wisp_compute_name(SIZE_MAX));
}

static void finds_each_predictor(void **state) {
    wisp_predictor predictor;
    size_t i = 0;
    (void)state;
    for (; wisp_predictor_name(i); i++) {
        predictor = (wisp_predictor)-1;
        assert_true(wisp_predictor_find(wisp_predictor_name(i), &predictor));
        assert_int_equal(predictor, i);
    }
    assert_int_equal(i, WISP_PREDICTOR_TOPK + 1);
    assert_string_equal(wisp_predictor_name(WISP_PREDICTOR_EXACT), "exact");
    assert_null(wisp_predictor_name(SIZE_MAX));
}

static void names_each_device(void **state) {
    size_t n = 0;
    (void)state;
    while (wisp_device_name(n))
        n++;
    assert_true(n > 2);
    assert_string_equal(wisp_device_name(0), "cpu");
    assert_string_equal(wisp_device_name(2), "cuda");
    assert_null(wisp_device_name(SIZE_MAX));
}

static void finds_each_cache_type(void **state) {
    wisp_cache_type cache_type;
    size_t i = 0;
    (void)state;
    for (; wisp_cache_type_name(i); i++) {
        cache_type = (wisp_cache_type)-1;
        assert_true(wisp_cache_type_find(wisp_cache_type_name(i), &cache_type));
        assert_int_equal(cache_type, i);
    }
    assert_int_equal(i, WISP_CACHE_F32 + 1);
    assert_string_equal(wisp_cache_type_name(WISP_CACHE_F16), "f16");
    assert_null(wisp_cache_type_name(SIZE_MAX));
}

static void finds_no_other_name(void **state) {
    static const char *const others[] = {"", "int", "int88", "INT8", "dens", "lowrank "};
    wisp_compute compute = WISP_COMPUTE_F32;
    wisp_predictor predictor = WISP_PREDICTOR_EXACT;
    wisp_cache_type cache_type = WISP_CACHE_F16;
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(wisp_compute_find(others[i], &compute));
        assert_false(wisp_predictor_find(others[i], &predictor));
        assert_false(wisp_cache_type_find(others[i], &cache_type));
    }
    assert_int_equal(compute, WISP_COMPUTE_F32);
    assert_int_equal(predictor, WISP_PREDICTOR_EXACT);
    assert_int_equal(cache_type, WISP_CACHE_F16);
}

static void names_each_stage_once(void **state) {
    (void)state;
    for (size_t i = 0; i < WISP_STAGES; i++) {
        assert_non_null(wisp_stage_name(i));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(wisp_stage_name(i), wisp_stage_name(j));
    }
    assert_null(wisp_stage_name(WISP_STAGES));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_each_compute_mode), cmocka_unit_test(finds_each_predictor),
        cmocka_unit_test(names_each_device),       cmocka_unit_test(finds_each_cache_type),
        cmocka_unit_test(finds_no_other_name),     cmocka_unit_test(names_each_stage_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
