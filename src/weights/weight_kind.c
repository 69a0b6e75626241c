/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/weight_kind.h"

/* weight_kind_for takes the first kind that fits: kinds that keep the numbers of the file come
 * before those that convert tensors of any type. The last int8 kind is that of sets that prefer
 * narrow products, which builds without such a set leave out. */
static const struct weight_kind *const kinds[] = {
    &weights_q4_0,
#if !defined(__wasm__)
    &weights_q4_1,   &weights_q4_k,  &weights_q6_k,
    &weights_tq1_0,  &weights_tq2_0, &weights_bitnet_t158,
#endif
    &weights_f16,    &weights_bf16,  &weights_int8,
#if defined(__x86_64__) || defined(__wasm_relaxed_simd__)
    &weights_narrow,
#endif
    &weights_f32,
};

static bool fits(const struct weight_kind *kind, const struct kernels *kernels,
                 const struct block_format *const *types, size_t count, bool quantised) {
    if (kind->quantised != quantised || kind->panel(kernels) == 0)
        return false;
    for (size_t i = 0; i < count && kind->rows != BLOCK_F32; i++)
        if (types[i]->id != kind->rows)
            return false;
    return true;
}

const struct weight_kind *weight_kind_for(const struct kernels *kernels,
                                          const struct block_format *const *types, size_t count,
                                          bool quantised) {
    size_t i = 0;
    while (!fits(kinds[i], kernels, types, count, quantised))
        i++;
    return kinds[i];
}
