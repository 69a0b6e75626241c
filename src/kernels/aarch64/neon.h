/* SPDX-License-Identifier: Apache-2.0
 * The templates of the sets in neon.c and neon_portable.c. */
#ifndef WISP_KERNELS_NEON_H
#define WISP_KERNELS_NEON_H

#include "kernels/vector_neon.h"

/* Sums take 24 (f32) and 16 (int8) of 32 registers. */
enum {
    F32_ROWS = 6,
    F32_VECTORS = 4,
    INT8_ROWS = 4,
    INT8_VECTORS = 4,
    Q4_ROWS = 4,
    Q4_VECTORS = 2,
    Q4_FEW = 2,
    KV_ROWS = 4,
    KV_VECTORS = 4
};

#include "kernels/rows_template.h"

enum {
    DOWN_VECTORS = 16,
    MOST_PERCENT = 20,
    MOST_PERCENT_RELU = 17,
    MOST_PERCENT_GATE = 0,
    MOST_PERCENT_PREDICTED = 0,
    EXACT_WINS = 0
};

#ifndef VECTOR_PORTABLE
#include "kernels/sparse_template.h"
#endif

#include "kernels/kv_step_template.h"

#include "kernels/gemm_template.h"

#include "kernels/pack_template.h"

#include "kernels/gemm_dot_template.h"

#ifndef VECTOR_PORTABLE
#include "kernels/gemm_q4_template.h"
#else
#include "kernels/i16_template.h"
#endif

#endif
