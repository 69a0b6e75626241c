/* SPDX-License-Identifier: Apache-2.0 */
#include "models/positions.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/memory.h"

wisp_status positions_read(const struct network *network, wisp_error *error) {
    static const char types_name[] = "token_types.weight";
    const struct model_config *c = &network->config;
    const size_t size = config_token_size(c), n = network->positions->n;
    float **rows = &network->positions->rows;
    const struct tensor *tensor;
    float *types = NULL;
    size_t bytes;
    TRY(directory_require_tensor(network->dir, "position_embd.weight", size, c->max_positions,
                                 &tensor, error));
    if (!checked_floats(n, size, &bytes))
        return fail_memory(error, UINT64_MAX);
    /* No type takes more bytes than f32, so these bytes fit in size_t too. */
    void *stored = memory_allocate(n * (size_t)tensor->row_bytes);
    *rows = memory_allocate(bytes);
    wisp_status status = stored && *rows ? WISP_OK : fail_memory(error, bytes);
    if (status == WISP_OK)
        status = directory_floats(network->dir, tensor, 0, n, NULL, stored, *rows, error);
    memory_free(stored);
    if (status != WISP_OK || !directory_find_tensor(network->dir, types_name))
        return status;
    status = directory_load_floats(network->dir, types_name, c->token_types, size, &types, error);
    for (size_t p = 0; p < n && status == WISP_OK; p++)
        network->kernels->add(*rows + p * size, types, size);
    memory_free(types);
    return status;
}

wisp_status positions_load(struct network *network, size_t n, wisp_error *error) {
    network->positions = calloc(1, sizeof *network->positions);
    if (!network->positions)
        return fail_memory(error, sizeof *network->positions);
    network->positions->n = n;
    network->resident_bytes += n * config_token_size(&network->config) * sizeof(float);
    return positions_read(network, error);
}

void positions_release(struct network *network) {
    if (network->positions)
        memory_free(network->positions->rows);
    free(network->positions);
    network->positions = NULL;
}
