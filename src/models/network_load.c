/* SPDX-License-Identifier: Apache-2.0 */
#include "models/network_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/architectures.h"
#include "models/layer_load.h"
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
    return tensor_names_check(dir, n->architecture, n->config.layers, error);
}

/* Loads the layers one after the other. `cache` keeps the bytes of one layer's tensors at a time.
 */
static wisp_status load_layers(struct network *n, const struct sparse_plan *plan,
                               struct tensor_cache *cache, wisp_error *error) {
    const struct model_config *c = &n->config;
    const struct feed_forward_source source = {.dir = n->dir,
                                               .config = c,
                                               .kernels = n->kernels,
                                               .int8 = n->int8,
                                               .plan = plan,
                                               .neurons = &n->neurons,
                                               .cache = cache};
    const struct sparse_shape shape = {.layers = c->layers,
                                       .hidden_size = c->hidden_size,
                                       .intermediate_size = c->intermediate_size,
                                       .activation = c->activation,
                                       .unbiased = !c->has_bias};
    if (plan)
        TRY(neuron_store_open(&n->neurons, n->dir, plan, &shape, n->kernels, error));
    if (COLD_NEURONS_MAY_BE_ABSENT && plan && n->dir->lacks_neurons)
        TRY(neuron_cold_open(&n->neurons, n->dir->cold_framed, error));
    for (uint32_t l = 0; l < c->layers; l++) {
        struct feed_forward *f = &n->feed_forward[l];
        TRY(n->architecture->load_layer(n, l, error));
        if (WEIGHTS_MAY_REST && n->rest)
            rest_loaded(n, l + 1);
        TRY(feed_forward_load(f, &source, l, error));
        n->resident_bytes += feed_forward_bytes(f) + (plan ? n->neurons.layer[l].bytes : 0);
        tally_weights(n, &f->gate);
        tally_weights(n, &f->up);
        tally_weights(n, &f->down);
        if (f->sparse.rank > n->predictor_rank)
            n->predictor_rank = f->sparse.rank;
        if (WEIGHTS_MAY_REST && n->rest)
            rest_loaded(n, l + 1);
    }
    return WISP_OK;
}

wisp_status network_load(struct network *n, const struct kernels *kernels, bool int8,
                         const struct sparse_plan *plan, bool in_memory, wisp_error *error) {
    const uint32_t layers = n->config.layers;
    struct tensor_cache cache = {0};
    n->kernels = kernels;
    n->int8 = int8;
    n->sparse = plan != NULL;
    n->sparse_by_text = plan && plan->by_text;
    TRY(token_embedding_load(&n->tokens, n->dir, n->config.vocabulary_size, n->config.hidden_size,
                             in_memory, error));
    n->resident_bytes += n->tokens.bytes;
    /* Each layer has tensors, so a file with fewer tensors than layers is malformed. This bounds
     * the memory that a file can ask for. */
    if (layers > n->dir->n_tensors) {
        char key[64];
        snprintf(key, sizeof key, "%s.block_count", n->architecture->name);
        return fail(error, WISP_ERROR_FORMAT, n->dir->file, key,
                    "%u layers in a file of %zu tensors", layers, n->dir->n_tensors);
    }
    n->feed_forward = calloc(layers, sizeof *n->feed_forward);
    if (!n->feed_forward)
        return fail_memory(error, layers * sizeof *n->feed_forward);
    TRY(n->architecture->load(n, error));
    const wisp_status status = load_layers(n, plan, &cache, error);
    tensor_cache_release(&cache);
    return status;
}

void network_release(struct network *n) {
    if (n->architecture)
        n->architecture->release(n);
    for (uint32_t l = 0; n->feed_forward && l < n->config.layers; l++)
        feed_forward_release(&n->feed_forward[l]);
    free(n->feed_forward);
    if (COLD_NEURONS_MAY_BE_ABSENT)
        neuron_cold_release(&n->neurons);
    neuron_store_release(&n->neurons);
    token_embedding_release(&n->tokens);
    free(n->rest);
    *n = (struct network){0};
}
