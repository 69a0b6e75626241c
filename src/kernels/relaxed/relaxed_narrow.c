/* SPDX-License-Identifier: Apache-2.0
 * The set for engines whose relaxed dot product saturates, which are those on x86 without VNNI:
 * narrow products do not saturate, nor do those of weights in blocks. It is also the portable set
 * (kernels.h) of all engines, without the latter. */
#define VECTOR_PORTABLE
#define VECTOR_RELAXED
#include "kernels/vector_wasm.h"

/* Engines have 16 registers on x86: 8 hold sums, of narrow products 6, with 4 of weights. */
enum {
    F32_ROWS = 4,
    F32_VECTORS = 2,
    INT8_ROWS = 3,
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

#include "kernels/gemm_narrow_template.h"

#ifdef VECTOR_Q4
#define K_MOST_PACKED 1
#define Q4_K_MOST_PACKED 7
#define LEVELS_MOST_PACKED 1
#define SMALL_LEVELS_MOST_PACKED SIZE_MAX
#define UNPACKED_ROWS 2
#define UNPACKED_UNROLL UNROLL_NOT
#include "kernels/gemm_q4_template.h"
#endif

/* The relaxed product of bytes takes the activations as unsigned on x86, and as signed on ARM.
 * There the set is only the portable one. */
const struct kernels kernels_relaxed_narrow = KERNELS_WITH_NARROW("relaxed-narrow");
#ifdef DECODER_KERNELS
const struct kernels kernels_relaxed_narrow_portable =
    KERNELS_OF("relaxed-narrow", 0, NULL, SPARSE_UNSIGNED, .narrow_panel = INT8_PANEL,
               .quantise_narrow = rows_quantise_narrow, .gemm_narrow = gemm_int8);
#endif
const struct kernels kernels_relaxed_narrow_signed =
    KERNELS_WITH_NARROW_SIGNED("relaxed-narrow-signed");
