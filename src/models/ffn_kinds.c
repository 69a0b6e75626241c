/* SPDX-License-Identifier: Apache-2.0 */
#include "models/feed_forward.h"

const struct ffn_kind *ffn_kind_for(const struct network *network, const struct sparse_plan *plan,
                                    uint32_t layer) {
    size_t i = 0;
    while (ffn_kinds[i + 1] && !ffn_kinds[i]->takes(network, plan, layer))
        i++;
    return ffn_kinds[i];
}
