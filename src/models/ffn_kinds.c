/* SPDX-License-Identifier: Apache-2.0 */
#include "models/feed_forward.h"

/* The first kind that takes a layer computes it; dense layers are for all others. */
static const struct ffn_kind *const kinds[] = {
#ifndef __wasm__ /* whose modules have no such models */
    &ffn_shared,
#endif
#ifndef WISP_EMBED_ONLY
    &ffn_experts, &ffn_gate,
#endif
    &ffn_sparse, &ffn_dense};

const struct ffn_kind *ffn_kind_at(size_t index) {
    return index < sizeof kinds / sizeof *kinds ? kinds[index] : NULL;
}

const struct ffn_kind *ffn_kind_for(const struct network *network, const struct sparse_plan *plan,
                                    uint32_t layer) {
    const size_t last = sizeof kinds / sizeof *kinds - 1;
    for (size_t i = 0; i < last; i++)
        if (kinds[i]->takes(network, plan, layer))
            return kinds[i];
    return kinds[last];
}
