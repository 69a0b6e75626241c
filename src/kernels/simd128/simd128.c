/* SPDX-License-Identifier: Apache-2.0
 * The set is a portable one (kernels.h): simd128 has no fused multiply-add that it would give up.
 */
#define VECTOR_PORTABLE
#include "kernels/vector_wasm.h"

/* Engines have 16 registers on x86: 8 hold sums. */
enum {
    F32_ROWS = 4,
    F32_VECTORS = 2,
    INT8_ROWS = 4,
    INT8_VECTORS = 1,
    Q4_ROWS = 4,
    Q4_VECTORS = 1,
    Q4_FEW = 1,
    KV_ROWS = 4,
    KV_VECTORS = 2
};

#include "kernels/rows_template.h"

enum {
    DOWN_VECTORS = 8,
    MOST_PERCENT = 30,
    MOST_PERCENT_RELU = 25,
    MOST_PERCENT_GATE = 0,
    MOST_PERCENT_PREDICTED = 0,
    EXACT_WINS = 1
};

#include "kernels/sparse_template.h"

#include "kernels/kv_step_template.h"

#include "kernels/gemm_template.h"

#include "kernels/pack_template.h"

#include "kernels/i16_template.h"

#include "kernels/gemm_wide_template.h"

#ifdef VECTOR_Q4
#include "kernels/gemm_q4_template.h"
#endif

const struct kernels kernels_simd128 = KERNELS_WITH_UNSIGNED("simd128");
const struct kernels kernels_simd128_portable =
    KERNELS_OF("simd128-portable", 0, NULL, NULL, .narrow_panel = INT8_PANEL,
               .quantise_narrow = rows_quantise_narrow, .gemm_narrow = gemm_narrow);
