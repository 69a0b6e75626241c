/* SPDX-License-Identifier: Apache-2.0 */
#include "models/layer_load.h"

#include "formats/schema.h"

wisp_status read_linear(const struct network *network, uint32_t index, const char *const names[],
                        size_t parts, bool has_bias, size_t n, size_t k, struct linear *layer,
                        wisp_error *error) {
    char full[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    const char *full_names[LINEAR_MAX_PARTS];
    for (size_t i = 0; i < parts; i++)
        full_names[i] = layer_tensor_name(full[i], index, names[i], "");
    const struct linear_source source = {.dir = network->dir,
                                         .names = full_names,
                                         .unbiased = !has_bias,
                                         .parts = parts,
                                         .n = n,
                                         .k = k};
    return linear_load(layer, &source, network->kernels, network->int8, error);
}

wisp_status load_linear(struct network *network, uint32_t index, const char *const names[],
                        size_t parts, bool has_bias, size_t n, size_t k, struct linear *layer,
                        wisp_error *error) {
    TRY(read_linear(network, index, names, parts, has_bias, n, k, layer, error));
    network->resident_bytes += layer->bytes;
    tally_weights(network, layer);
    return WISP_OK;
}

wisp_status load_layer_norm(struct network *network, size_t index, const char *name,
                            struct norm *norm, wisp_error *error) {
    char full[TENSOR_NAME_BYTES];
    layer_tensor_name(full, index, name, "");
    TRY(norm_load(norm, network->dir, full, network->config.hidden_size, error));
    network->resident_bytes += norm_bytes(network->config.hidden_size);
    return WISP_OK;
}

wisp_status load_rms_norm(struct network *network, const char *name, size_t size, float **weight,
                          wisp_error *error) {
    network->resident_bytes += size * sizeof **weight;
    return directory_load_floats(network->dir, name, 1, size, weight, error);
}

wisp_status load_layer_rms_norm(struct network *network, size_t index, const char *part,
                                size_t size, float **weight, wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    return load_rms_norm(network, layer_tensor_name(name, index, part, TENSOR_WEIGHT), size, weight,
                         error);
}

void tally_weights(struct network *network, const struct linear *layer) {
    for (size_t i = 0; i < MAX_WEIGHT_KINDS && layer->kind; i++)
        if (!network->tally[i].kind || network->tally[i].kind == layer->kind) {
            network->tally[i].kind = layer->kind;
            network->tally[i].bytes += layer->bytes;
            return;
        }
}
