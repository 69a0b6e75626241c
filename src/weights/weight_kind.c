/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/weight_kind.h"

/* weight_kind_for takes the first kind that fits: kinds that keep the numbers of the file come
 * before those that convert tensors of any type. Of these, narrow weights are for sets that have no
 * product of int8 ones. */
static const struct weight_kind *const kinds[] = {
    &weights_q4_0,
#ifdef DECODER_KERNELS
    &weights_q4_1,   &weights_q2_k,   &weights_q3_k,  &weights_q4_k,        &weights_q5_k,
    &weights_q6_k,   &weights_tq1_0,  &weights_tq2_0, &weights_bitnet_t158, &weights_i2_s,
    &weights_q5_0,   &weights_q5_1,   &weights_q1_0,  &weights_q2_0,        &weights_pq2_0,
    &weights_iq4_nl, &weights_iq4_xs, &weights_mxfp4,
#endif
    &weights_f16,    &weights_bf16,   &weights_int8,  &weights_narrow,      &weights_f32,
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
