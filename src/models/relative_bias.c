/* SPDX-License-Identifier: Apache-2.0 */
#include "models/relative_bias.h"

#include <math.h>

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

/* Takes the memory of a bias, and adds its bytes to the network. */
static wisp_status take_rows(struct network *network, size_t n, struct relative_bias *bias,
                             wisp_error *error) {
    size_t bytes;
    if (!checked_floats(network->config.heads, 2 * n - 1, &bytes))
        return fail_memory(error, UINT64_MAX);
    bias->n = n;
    bias->rows = memory_allocate(bytes);
    network->resident_bytes += bytes;
    return bias->rows ? WISP_OK : fail_memory(error, bytes);
}

/* Returns the bias of head h for distance 0. Those of keys behind it follow, and those of keys
 * before it precede it. */
static float *middle_of(const struct relative_bias *bias, size_t h) {
    return bias->rows + h * (2 * bias->n - 1) + bias->n - 1;
}

wisp_status relative_bias_load(struct network *network, size_t n, float scale,
                               struct relative_bias *bias, wisp_error *error) {
    const size_t heads = network->config.heads;
    float *buckets = NULL;
    TRY(take_rows(network, n, bias, error));
    const wisp_status status =
        directory_load_floats(network->dir, "attn_rel_b.weight", BUCKETS, heads, &buckets, error);
    for (size_t h = 0; status == WISP_OK && h < heads; h++)
        for (size_t i = 0; i < n; i++) {
            float *middle = middle_of(bias, h);
            middle[i] = buckets[bucket_of(i, true) * heads + h] / scale;
            middle[-(ptrdiff_t)i] = buckets[bucket_of(i, false) * heads + h] / scale;
        }
    memory_free(buckets);
    return status;
}

/* Returns the slope of head h. Those of a power of two of heads fall from 2^(-8 / heads) to 2^-8 by
 * equal factors. If there are more, the others take every other slope of twice that power. */
static float slope_of(size_t h, size_t heads) {
    size_t power = 1;
    while (2 * power <= heads)
        power *= 2;
    const double step = 8 / (double)power;
    return (float)exp2(h < power ? -step * (double)(h + 1)
                                 : -step / 2 * (double)(2 * (h - power) + 1));
}

wisp_status relative_bias_slopes(struct network *network, size_t n, float scale,
                                 struct relative_bias *bias, wisp_error *error) {
    TRY(take_rows(network, n, bias, error));
    for (size_t h = 0; h < network->config.heads; h++)
        for (size_t i = 0; i < n; i++) {
            float *middle = middle_of(bias, h);
            middle[i] = middle[-(ptrdiff_t)i] =
                -slope_of(h, network->config.heads) * (float)i / scale;
        }
    return WISP_OK;
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
