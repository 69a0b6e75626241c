/* SPDX-License-Identifier: Apache-2.0 */
#include "models/norms_load.h"

#include "formats/schema.h"

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
