/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_64/avx512.h"

const struct kernels kernels_avx512 = KERNELS_OF(
    "avx512", 0, rows_quantise_unsigned, SPARSE_UNSIGNED, BLOCK_PRODUCTS.int8_panel = INT8_PANEL,
    .gemm_int8 = gemm_int8, .bf16 = &bf16_avx512);
