/* SPDX-License-Identifier: Apache-2.0 */
#include "models/linears.h"

#include <stdio.h>

size_t network_linears(const struct network *network, uint32_t layer,
                       struct linear_entry out[MOST_LINEARS]) {
    const size_t n = network->architecture->linears(network, layer, out);
    if (layer == network->config.layers)
        return n;
    const struct ffn_kind *kind = network->feed_forward[layer].kind;
    return n + (kind->linears ? kind->linears(network, layer, out + n) : 0);
}

struct linear *network_logits(const struct network *network) {
    struct linear_entry all[MOST_LINEARS];
    const size_t n = network_linears(network, network->config.layers, all);
    for (size_t i = 0; i < n; i++)
        if (all[i].role == LINEAR_LOGITS)
            return all[i].linear;
    return NULL;
}

/* Writes the name of a tensor of layer `layer`, or of one outside of layers if `layer` is
 * config.layers. Returns `name`. */
static const char *linear_name(char name[TENSOR_NAME_BYTES], const struct network *network,
                               uint32_t layer, const char *part, const char *suffix) {
    if (layer < network->config.layers)
        return layer_tensor_name(name, layer, part, suffix);
    snprintf(name, TENSOR_NAME_BYTES, "%s%s", part, suffix);
    return name;
}

wisp_status linear_entry_read(const struct network *network, uint32_t layer,
                              const struct linear_entry *entry, struct tensor_cache *cache,
                              wisp_error *error) {
    char full[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES], norm[TENSOR_NAME_BYTES];
    const char *names[LINEAR_MAX_PARTS];
    size_t parts = 0;
    for (; entry->names[parts]; parts++)
        names[parts] = linear_name(full[parts], network, layer, entry->names[parts], "");
    const struct linear_source source = {
        .dir = network->dir,
        .names = names,
        .unbiased = !entry->has_bias,
        .parts = parts,
        .n = entry->n,
        .k = entry->k,
        .norm = entry->norm ? linear_name(norm, network, layer, entry->norm, "") : NULL,
        .norm_epsilon =
            entry->norm_epsilon != 0 ? entry->norm_epsilon : network->config.norm_epsilon,
        .checked = WEIGHTS_MAY_REST && entry->checked,
        .cache = cache};
    return linear_load(entry->linear, &source, network->kernels, network->compute, error);
}

void network_tally(struct network *network, const struct linear *linear, size_t times) {
    for (size_t i = 0; i < MAX_WEIGHT_KINDS; i++)
        if (!network->tally[i].kind || network->tally[i].kind == linear->kind) {
            network->tally[i].kind = linear->kind;
            network->tally[i].bytes += (uint64_t)linear->bytes * times;
            return;
        }
}

wisp_status linear_entries_load(struct network *network, uint32_t layer,
                                const struct linear_entry *entries, size_t n,
                                struct tensor_cache *cache, wisp_error *error) {
    for (size_t i = 0; i < n; i++) {
        TRY(linear_entry_read(network, layer, &entries[i], cache, error));
        network->resident_bytes += entries[i].linear->bytes;
        network_tally(network, entries[i].linear, 1);
    }
    return WISP_OK;
}
