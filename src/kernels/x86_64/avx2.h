/* SPDX-License-Identifier: Apache-2.0
 * The templates of the sets in avx2.c and avx2_portable.c. */
#ifndef WISP_KERNELS_AVX2_H
#define WISP_KERNELS_AVX2_H

#include "kernels/vector_avx2.h"

/* Sums take 12 of 16 registers; sums of narrow products take 6, and their weights 4. */
enum {
    F32_ROWS = 6,
    F32_VECTORS = 2,
    INT8_ROWS = 3,
    INT8_VECTORS = 2,
    Q4_ROWS = 5,
    Q4_VECTORS = 2,
    Q4_FEW = 2,
    KV_ROWS = 4,
    KV_VECTORS = 2
};

#include "kernels/rows_template.h"

enum {
    DOWN_VECTORS = 8,
    MOST_PERCENT = 30,
    MOST_PERCENT_RELU = 20,
    MOST_PERCENT_GATE = 10,
    MOST_PERCENT_PREDICTED = 20,
    EXACT_WINS = 1
};

#ifndef VECTOR_PORTABLE
#include "kernels/sparse_template.h"
#endif

#include "kernels/kv_step_template.h"

#include "kernels/gemm_template.h"

#include "kernels/pack_template.h"

#include "kernels/gemm_narrow_template.h"

#ifndef VECTOR_PORTABLE
#define K_MOST_PACKED 5
#define Q4_K_MOST_PACKED 5
#define LEVELS_MOST_PACKED 2
#define SMALL_LEVELS_MOST_PACKED 2
#define UNPACKED_ROWS 3
#define UNPACKED_UNROLL UNROLL
#include "kernels/gemm_q4_template.h"
#else
#include "kernels/i16_template.h"
#endif

#endif
