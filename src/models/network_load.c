/* SPDX-License-Identifier: Apache-2.0 */
#include "models/network_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/product.h"
#include "models/architectures.h"
#include "models/linears.h"
#include "models/positions.h"
#include "models/rest.h"
#include "models/tensor_names.h"
#include "sparse/neuron_cold.h"

/* Refuses files that hold only a part of a model, an adapter, or a projector of pictures. */
static wisp_status refuse_fragments(const struct directory *dir, wisp_error *error) {
    const char *type = "model";
    uint32_t parts = 1;
    TRY(metadata_text_or(dir, "general.type", &type, error));
    if (strcmp(type, "model") != 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, "general.type",
                    "%.40s is not supported, only model", type);
    TRY(metadata_u32_or(dir, "split.count", &parts, error));
    if (parts > 1)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, "split.count",
                    "one of %u parts of a model: merge them into one file", parts);
    return WISP_OK;
}

wisp_status network_open(struct network *n, const struct directory *dir, wisp_error *error) {
    *n = (struct network){.dir = dir};
    TRY(refuse_fragments(dir, error));
    TRY(architecture_find(dir, &n->architecture, error));
    TRY(n->architecture->read_config(dir, &n->config, error));
    return tensor_names_check(dir, n->architecture, &n->config, error);
}

/* Loads the layers one after the other. `cache` keeps the bytes of one layer's tensors at a time.
 */
static wisp_status load_layers(struct network *n, const struct sparse_plan *plan,
                               struct tensor_cache *cache, wisp_error *error) {
    struct linear_entry attention[MOST_LINEARS];
    for (uint32_t l = 0; l < n->config.layers; l++) {
        TRY(linear_entries_load(n, l, attention, n->architecture->linears(n, l, attention), NULL,
                                error));
        TRY(n->architecture->load_layer(n, l, error));
        if (WEIGHTS_MAY_REST && n->rest)
            rest_loaded(n, l + 1);
        TRY(n->feed_forward[l].kind->load(n, plan, l, cache, error));
        if (WEIGHTS_MAY_REST && n->rest)
            rest_loaded(n, l + 1);
    }
    return WISP_OK;
}

wisp_status network_load(struct network *n, const struct kernels *kernels, wisp_compute compute,
                         const struct sparse_plan *plan, wisp_error *error) {
    const uint32_t layers = n->config.layers;
    struct linear_entry outside[MOST_LINEARS];
    struct tensor_cache cache = {0};
    n->kernels = kernels;
    n->compute = compute;
    if (!READS_CLIP || !n->architecture->takes_hidden)
        TRY(token_embedding_load(&n->tokens, n->dir, n->config.vocabulary_size,
                                 config_token_size(&n->config), error));
    n->resident_bytes += n->tokens.bytes;
    /* Each layer has tensors, so a file with fewer tensors than layers is malformed. This bounds
     * the memory that a file can ask for. */
    if (layers > n->dir->n_tensors) {
        char key[64];
        snprintf(key, sizeof key, "%s.block_count", n->architecture->name);
        return fail(error, WISP_ERROR_FORMAT, n->dir->file, key,
                    "%u layers in a file of %zu tensors", layers, n->dir->n_tensors);
    }
    const size_t weights_bytes =
        n->architecture->weights_bytes + layers * n->architecture->layer_bytes;
    n->feed_forward = calloc(larger(layers, 1), sizeof *n->feed_forward);
    n->weights = calloc(1, weights_bytes);
    if (!n->feed_forward || !n->weights)
        return fail_memory(error, weights_bytes + layers * sizeof *n->feed_forward);
    for (uint32_t l = 0; l < layers; l++)
        n->feed_forward[l].kind = ffn_kind_for(n, plan, l);
    if (config_embeds(&n->config))
        TRY(dense_modules_load(&n->dense, n->dir, kernels, &n->config, error));
    if (RANKS && n->config.pooling == POOLING_SPLADE)
        TRY(splade_load(&n->splade, n->dir, kernels, &n->config, compute, error));
    n->resident_bytes += n->splade.bytes;
    for (size_t i = 0; i < n->dense.n; i++)
        n->resident_bytes += n->dense.layers[i].bytes;
    TRY(n->architecture->load(n, error));
    TRY(linear_entries_load(n, layers, outside, n->architecture->linears(n, layers, outside), NULL,
                            error));
    const wisp_status status = load_layers(n, plan, &cache, error);
    tensor_cache_release(&cache);
    return status;
}

static void release_linears(const struct network *n, uint32_t layer) {
    struct linear_entry all[MOST_LINEARS];
    const size_t count = network_linears(n, layer, all);
    for (size_t i = 0; i < count; i++)
        linear_release(all[i].linear);
}

void network_release(struct network *n) {
    const bool loaded = n->feed_forward && n->weights;
    const uint32_t layers = loaded ? n->config.layers : 0;
    for (uint32_t l = 0; l < layers; l++) {
        release_linears(n, l);
        if (n->feed_forward[l].kind->release)
            n->feed_forward[l].kind->release(n, l);
    }
    if (loaded) {
        release_linears(n, layers);
        n->architecture->release(n);
    }
    free(n->weights);
    free(n->feed_forward);
    positions_release(n);
    dense_modules_release(&n->dense);
    if (RANKS)
        splade_release(&n->splade);
    if (COLD_NEURONS_MAY_BE_ABSENT)
        neuron_cold_release(&n->neurons);
    neuron_store_release(&n->neurons);
    token_embedding_release(&n->tokens);
    free(n->rest);
    *n = (struct network){0};
}
