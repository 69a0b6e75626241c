/* SPDX-License-Identifier: Apache-2.0 */
#include "models/feed_forward.h"

#include "formats/schema.h"

wisp_status feed_forward_load(struct feed_forward *layer, const struct feed_forward_source *source,
                              size_t index, wisp_error *error) {
    const struct model_config *config = source->config;
    const size_t hidden_size = config->hidden_size, intermediate_size = config->intermediate_size;
    if (source->plan)
        return sparse_ffn_load(&layer->sparse, source->neurons, source->plan, index, source->cache,
                               error);
    const struct {
        const char *name;
        struct linear *linear;
        size_t outputs, inputs;
    } matrices[] = {{TENSOR_FFN_GATE, &layer->gate, intermediate_size, hidden_size},
                    {TENSOR_FFN_UP, &layer->up, intermediate_size, hidden_size},
                    {TENSOR_FFN_DOWN, &layer->down, hidden_size, intermediate_size}};
    for (size_t i = config_is_gated(config) ? 0 : 1; i < 3; i++) {
        char name[TENSOR_NAME_BYTES];
        const char *const names[] = {layer_tensor_name(name, index, matrices[i].name, "")};
        const struct linear_source linear = {.dir = source->dir,
                                             .names = names,
                                             .unbiased = !config->has_bias,
                                             .parts = 1,
                                             .n = matrices[i].outputs,
                                             .k = matrices[i].inputs,
                                             .cache = source->cache};
        TRY(linear_load(matrices[i].linear, &linear, source->kernels, source->int8, error));
    }
    return WISP_OK;
}

void feed_forward_release(struct feed_forward *layer) {
    linear_release(&layer->gate);
    linear_release(&layer->up);
    linear_release(&layer->down);
    sparse_ffn_release(&layer->sparse);
}

size_t feed_forward_bytes(const struct feed_forward *layer) {
    return layer->gate.bytes + layer->up.bytes + layer->down.bytes + layer->sparse.bytes;
}
