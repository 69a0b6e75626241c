/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/weight_kind.h"

static bool fits(const struct weight_kind *kind, const struct kernels *kernels,
                 const struct block_format *const *types, size_t count, wisp_compute compute) {
    if (kind->compute != compute || kind->panel(kernels) == 0)
        return false;
    for (size_t i = 0; i < count && kind->rows != BLOCK_F32; i++)
        if (types[i]->id != kind->rows)
            return false;
    return true;
}

const struct weight_kind *weight_kind_for(const struct kernels *kernels,
                                          const struct block_format *const *types, size_t count,
                                          wisp_compute compute) {
    size_t i = 0;
    while (!fits(weight_kinds[i], kernels, types, count, compute))
        i++;
    return weight_kinds[i];
}
