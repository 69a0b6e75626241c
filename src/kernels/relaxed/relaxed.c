/* SPDX-License-Identifier: Apache-2.0 */
#define VECTOR_RELAXED
#define VECTOR_RELAXED_DOT
#include "kernels/vector_wasm.h"

/* Engines have 16 registers on x86: 8 hold sums, 2 weights, 1 an activation. */
enum {
    F32_ROWS = 4,
    F32_VECTORS = 2,
    INT8_ROWS = 4,
    INT8_VECTORS = 2,
    Q4_ROWS = 4,
    Q4_VECTORS = 2,
    Q4_FEW = 1,
    KV_ROWS = 4,
    KV_VECTORS = 2
};

#include "kernels/rows_template.h"

enum {
    DOWN_VECTORS = 8,
    MOST_PERCENT = 20,
    MOST_PERCENT_RELU = 17,
    MOST_PERCENT_GATE = 0,
    MOST_PERCENT_PREDICTED = 0,
    EXACT_WINS = 1
};

#include "kernels/sparse_template.h"

#include "kernels/kv_step_template.h"

#include "kernels/gemm_template.h"

#include "kernels/pack_template.h"

#include "kernels/i16_template.h"

#include "kernels/gemm_dot_template.h"

#ifdef VECTOR_Q4
#define K_MOST_PACKED 1
#define Q4_K_MOST_PACKED 7
#define LEVELS_MOST_PACKED SIZE_MAX
#define SMALL_LEVELS_MOST_PACKED SIZE_MAX
#define UNPACKED_ROWS 2
#define UNPACKED_UNROLL UNROLL_NOT
#include "kernels/gemm_q4_template.h"
#endif

/* The relaxed dot product takes the activations' bytes as unsigned if the engine emits x86's
 * VNNI, and as signed if it emits ARM's SDOT. */
const struct kernels kernels_relaxed_unsigned = KERNELS_WITH_UNSIGNED("relaxed");
const struct kernels kernels_relaxed_signed = KERNELS_WITH_SIGNED("relaxed-signed");
