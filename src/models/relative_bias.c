/* SPDX-License-Identifier: Apache-2.0 */
#include "models/relative_bias.h"

#include "base/checked.h"
#include "base/memory.h"

/* Half of the buckets are for keys behind the query. Distances below EXACT have a bucket each.
 * Longer ones share buckets: each begins at sqrt(2) times the distance of the one before, so that
 * the last would end at 128. It has all distances from there on, too. */
enum { BUCKETS = 32, HALF = BUCKETS / 2, EXACT = HALF / 2 };

/* Returns the bucket of a key at `distance` before the query, or behind it. */
static size_t bucket_of(size_t distance, bool is_behind) {
    size_t bucket = smaller(distance, EXACT);
    while (bucket >= EXACT && bucket < HALF - 1 &&
           (uint64_t)distance * distance >= (uint64_t)EXACT * EXACT << (bucket + 1 - EXACT))
        bucket++;
    return bucket + (is_behind ? HALF : 0);
}

wisp_status relative_bias_load(struct network *network, size_t n, float scale,
                               struct relative_bias *bias, wisp_error *error) {
    const size_t heads = network->config.heads, stride = 2 * n - 1;
    float *buckets = NULL;
    size_t bytes;
    if (!checked_floats(heads, stride, &bytes))
        return fail_memory(error, UINT64_MAX);
    TRY(directory_load_floats(network->dir, "attn_rel_b.weight", BUCKETS, heads, &buckets, error));
    bias->n = n;
    bias->rows = memory_allocate(bytes);
    for (size_t h = 0; bias->rows && h < heads; h++)
        for (size_t i = 0; i < n; i++) {
            float *row = bias->rows + h * stride + n - 1;
            row[i] = buckets[bucket_of(i, true) * heads + h] / scale;
            row[-(ptrdiff_t)i] = buckets[bucket_of(i, false) * heads + h] / scale;
        }
    memory_free(buckets);
    network->resident_bytes += bytes;
    return bias->rows ? WISP_OK : fail_memory(error, bytes);
}

void relative_bias_release(struct relative_bias *bias) {
    memory_free(bias->rows);
}

void relative_bias_apply(const struct relative_bias *bias, struct attention_shape *shape) {
    if (!bias->rows)
        return;
    shape->bias = bias->rows + bias->n - 1;
    shape->bias_stride = 2 * bias->n - 1;
}
