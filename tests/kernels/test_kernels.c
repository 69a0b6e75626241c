/* SPDX-License-Identifier: Apache-2.0
 * Compares every kernel of every set that runs here with plain double-precision sums (quantise:
 * with the scalar set and the rule), at many shapes and extreme values, in guarded buffers, and
 * checks that a row has the same bits in any batch. The scalar set passes the same checks, so that
 * no two sets differ by more than twice a tolerance. test_kernels --bench prints times instead,
 * --bench memory those of one row whose weights come from memory, --bench blocks those of few rows
 * whose weights come from the caches, --bench int8 those of int8 products, and --bench sparse those
 * of sparse layers. --bench count prints the instructions of small calls (counts.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_case.h"
#include "wisp.h"

static void test_find(void **state) {
    (void)state;
    size_t count = 0;
    assert_ptr_equal(kernels_find(NULL), kernels_at(0));
    assert_null(kernels_find("none"));
    for (; kernels_at(count); count++) {
        assert_ptr_equal(kernels_find(kernels_at(count)->name), kernels_at(count));
        assert_string_equal(wisp_kernels_name(count), kernels_at(count)->name);
    }
    assert_ptr_equal(kernels_at(count - 1), &kernels_scalar);
    assert_non_null(kernels_find_portable(NULL));
    assert_null(kernels_find_portable("none"));
#ifndef __wasm__
    assert_ptr_equal(kernels_find_portable("scalar"), &kernels_scalar_portable);
#endif
    assert_null(wisp_kernels_name(count));
    assert_non_null(wisp_cpu_features());
}

static int run_all(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_pack_f32),
        cmocka_unit_test(test_set_packing),
        cmocka_unit_test(test_pack_int8),
        cmocka_unit_test(test_weights_packed),
        cmocka_unit_test(test_weights_moved),
        cmocka_unit_test(test_gemm_f32_small_shapes),
        cmocka_unit_test(test_gemm_f32_every_k),
        cmocka_unit_test(test_gemm_f32_random_shapes),
        cmocka_unit_test(test_gemm_f32_extremes),
        cmocka_unit_test(test_gemm_f32_special_values),
        cmocka_unit_test(test_gemm_int8_small_shapes),
        cmocka_unit_test(test_gemm_int8_every_k),
        cmocka_unit_test(test_gemm_int8_random_shapes),
        cmocka_unit_test(test_gemm_int8_long_rows),
        cmocka_unit_test(test_gemm_int8_extremes),
        cmocka_unit_test(test_gemm_int8_never_saturates),
        cmocka_unit_test(test_gemm_int8_special_values),
        cmocka_unit_test(test_pack_q4),
        cmocka_unit_test(test_gemm_q4_small_shapes),
        cmocka_unit_test(test_gemm_q4_random_shapes),
        cmocka_unit_test(test_gemm_q4_extremes),
        cmocka_unit_test(test_gemm_q4_never_saturates),
        cmocka_unit_test(test_gemm_q4_1),
        cmocka_unit_test(test_gemm_q4_k),
        cmocka_unit_test(test_gemm_q2_k),
        cmocka_unit_test(test_gemm_q3_k),
        cmocka_unit_test(test_gemm_q5_k),
        cmocka_unit_test(test_gemm_q6_k),
        cmocka_unit_test(test_gemm_q5_0),
        cmocka_unit_test(test_gemm_q5_1),
        cmocka_unit_test(test_pack_levels),
        cmocka_unit_test(test_gemm_iq4_nl),
        cmocka_unit_test(test_gemm_iq4_xs),
        cmocka_unit_test(test_gemm_mxfp4),
        cmocka_unit_test(test_pack_ternary),
        cmocka_unit_test(test_gemm_ternary),
        cmocka_unit_test(test_gemm_q2_0),
        cmocka_unit_test(test_gemm_pq2_0),
        cmocka_unit_test(test_gemm_i2_s),
        cmocka_unit_test(test_gemm_blocks_never_saturate),
        cmocka_unit_test(test_gemm_f16),
#ifndef __wasm__
        cmocka_unit_test(test_bf16_rounding),
        cmocka_unit_test(test_pack_bf16),
        cmocka_unit_test(test_bf16_gemm),
        cmocka_unit_test(test_bf16_special_values),
#endif
        cmocka_unit_test(test_add_and_relu),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_silu_mul),
        cmocka_unit_test(test_kv_score_int8),
        cmocka_unit_test(test_kv_shares),
        cmocka_unit_test(test_kv_shares_int8),
        cmocka_unit_test(test_kv_mass),
        cmocka_unit_test(test_kv_add_up),
        cmocka_unit_test(test_elementwise_special_values),
        cmocka_unit_test(test_dot),
#ifndef __wasm__
        cmocka_unit_test(test_dots_int8),
#endif
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_softmax_exponential),
        cmocka_unit_test(test_rows_special_values),
        cmocka_unit_test(test_quantise),
        cmocka_unit_test(test_quantise_special_values),
        cmocka_unit_test(test_gelu_tanh),
        cmocka_unit_test(test_multiply),
        cmocka_unit_test(test_soft_cap),
        cmocka_unit_test(test_i16_numbers),
        cmocka_unit_test(test_i16_gemm),
        cmocka_unit_test(test_i16_softmax),
        cmocka_unit_test(test_i16_special_values),
        cmocka_unit_test(test_portable_elementwise),
        cmocka_unit_test(test_portable_layer_norm),
        cmocka_unit_test(test_portable_gemm),
        cmocka_unit_test(test_portable_i16),
        cmocka_unit_test(test_pack_neurons),
        cmocka_unit_test(test_pack_narrow_rows),
        cmocka_unit_test(test_sparse_random_layers),
        cmocka_unit_test(test_sparse_extremes),
        cmocka_unit_test(test_sparse_special_values),
        cmocka_unit_test(test_sparse_never_saturates),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}

int main(int argc, char **argv) {
    const bool bench = argc > 1 && strcmp(argv[1], "--bench") == 0;
    kernel_cases_open(bench ? 1 : rng_seed(), bench);
    int failed = 0;
    if (bench) {
        kernel_bench(argc > 2 ? argv[2] : "all");
    } else {
        failed = run_all();
        print_worst_errors();
    }
    kernel_cases_close();
    return failed;
}
