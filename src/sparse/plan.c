/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/plan.h"

#include <stdlib.h>
#include <string.h>

static const char order_key[] = "wisp.sparse.order", shares_key[] = "wisp.sparse.shares";

static wisp_status wrong_length(const struct directory *dir, const struct metadata *array,
                                uint64_t wanted, wisp_error *error) {
    return fail(error, WISP_ERROR_FORMAT, dir->file, array->key,
                "an array of %llu, where %llu numbers belong", (unsigned long long)array->count,
                (unsigned long long)wanted);
}

/* Each layer's part must name each neuron once. */
static wisp_status check_order(const struct directory *dir, const int32_t *order, size_t layers,
                               size_t wide, wisp_error *error) {
    bool *seen = calloc(wide, sizeof *seen);
    wisp_status status = seen ? WISP_OK : fail_memory(error, wide);
    for (size_t i = 0; i < layers * wide && status == WISP_OK; i++) {
        if (i % wide == 0)
            memset(seen, 0, wide * sizeof *seen);
        if (order[i] < 0 || (size_t)order[i] >= wide || seen[order[i]])
            status = fail(error, WISP_ERROR_FORMAT, dir->file, order_key,
                          "entry %zu is %d: not an order of %zu neurons", i, (int)order[i], wide);
        else
            seen[order[i]] = true;
    }
    free(seen);
    return status;
}

static wisp_status read_order(struct directory *dir, size_t layers, size_t wide,
                              struct sparse_plan *plan, wisp_error *error) {
    const struct metadata *array = directory_find_metadata(dir, order_key);
    const uint64_t n = (uint64_t)layers * wide;
    if (!array || array->type != VALUE_ARRAY || array->element != VALUE_I32)
        return fail(error, WISP_ERROR_FORMAT, dir->file, order_key, "an array of i32 belongs here");
    if (array->count != n)
        return wrong_length(dir, array, n, error);
    int32_t *order = arena_allocate(&dir->arena, (size_t)n * sizeof *order);
    if (!order)
        return fail_memory(error, n * sizeof *order);
    for (uint64_t i = 0; i < n; i++) {
        int64_t value = -1;
        metadata_array_i64(array, i, &value);
        order[i] = (int32_t)value;
    }
    plan->order = order;
    return check_order(dir, order, layers, wide, error);
}

wisp_status sparse_read_plan(struct directory *dir, size_t layers, size_t wide,
                             struct sparse_plan *plan, wisp_error *error) {
    const size_t most = sizeof plan->shares / sizeof *plan->shares;
    *plan = (struct sparse_plan){0};
    const struct metadata *array = directory_find_metadata(dir, shares_key);
    if (!array)
        return WISP_OK;
    if (array->type != VALUE_ARRAY || array->element != VALUE_F32)
        return fail(error, WISP_ERROR_FORMAT, dir->file, shares_key,
                    "an array of f32 belongs here");
    if (array->count == 0 || array->count > most)
        return fail(error, WISP_ERROR_FORMAT, dir->file, shares_key,
                    "%llu levels, where 1 to %zu are possible", (unsigned long long)array->count,
                    most);
    plan->levels = (size_t)array->count;
    memcpy(plan->shares, array->as.numbers, plan->levels * sizeof *plan->shares);
    for (size_t i = 0; i < plan->levels; i++)
        if (!(plan->shares[i] > (i ? plan->shares[i - 1] : 0)) || plan->shares[i] > 1)
            return fail(error, WISP_ERROR_FORMAT, dir->file, shares_key,
                        "level %zu is %g: levels rise from above 0 to 1", i,
                        (double)plan->shares[i]);
    plan->share = plan->shares[plan->levels - 1];
    TRY(metadata_f32_or(dir, "wisp.sparse.share", &plan->share, error));
    if (!(plan->share > 0 && plan->share <= 1))
        return fail(error, WISP_ERROR_FORMAT, dir->file, "wisp.sparse.share",
                    "%g is not above 0 and at most 1", (double)plan->share);
    return read_order(dir, layers, wide, plan, error);
}
