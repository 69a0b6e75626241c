/* SPDX-License-Identifier: Apache-2.0
 * The templates of the sets in avx_vnni.c and avx_vnni_portable.c. */
#ifndef WISP_KERNELS_AVX_VNNI_H
#define WISP_KERNELS_AVX_VNNI_H

#define VECTOR_VNNI
#include "kernels/vector_avx2.h"

/* Sums take 12 of 16 registers. */
enum {
    F32_ROWS = 6,
    F32_VECTORS = 2,
    INT8_ROWS = 6,
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
    MOST_PERCENT = 20,
    MOST_PERCENT_RELU = 17,
    MOST_PERCENT_GATE = 10,
    MOST_PERCENT_PREDICTED = 0,
    EXACT_WINS = 1
};

#ifndef VECTOR_PORTABLE
#include "kernels/sparse_template.h"
#endif

#include "kernels/kv_step_template.h"

#include "kernels/gemm_template.h"

#include "kernels/pack_template.h"

#include "kernels/gemm_dot_template.h"

#ifndef VECTOR_PORTABLE
#define Q4_UNROLL UNROLL
#include "kernels/gemm_q4_template.h"
#else
#include "kernels/i16_template.h"
#endif

#endif
