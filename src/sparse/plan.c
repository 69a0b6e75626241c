/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "sparse/plan.h"

#include <string.h>

#include "base/number_text.h"
#include "formats/neurons_read.h"

/* Reads the levels and the share of a plan, if the file has them. */
static wisp_status read_levels(const struct directory *dir, const char *shares_key,
                               const char *share_key, struct sparse_plan *plan, wisp_error *error) {
    const size_t most = sizeof plan->shares / sizeof *plan->shares;
    const struct metadata *array = directory_find_metadata(dir, shares_key);
    *plan = (struct sparse_plan){0};
    if (!array)
        return WISP_OK;
    if (array->type != VALUE_ARRAY || array->element != VALUE_F32)
        return fail(error, WISP_ERROR_FORMAT, dir->file, shares_key, "expected an array of f32");
    if (array->count == 0 || array->count > most)
        return fail(error, WISP_ERROR_FORMAT, dir->file, shares_key,
                    "%llu levels; 1 to %zu are possible", (unsigned long long)array->count, most);
    plan->levels = (size_t)array->count;
    memcpy(plan->shares, array->as.numbers, plan->levels * sizeof *plan->shares);
    for (size_t i = 0; i < plan->levels; i++)
        if (!(plan->shares[i] > (i ? plan->shares[i - 1] : 0)) || plan->shares[i] > 1)
            return fail(error, WISP_ERROR_FORMAT, dir->file, shares_key,
                        "level %zu is %s: levels rise from above 0 to 1", i,
                        number_text((double)plan->shares[i], 6).text);
    plan->share = plan->shares[plan->levels - 1];
    TRY(metadata_f32_or(dir, share_key, &plan->share, error));
    /* A session takes 1 - share, which as a float is 1 if the share is smaller than this. */
    if (!(plan->share > 0x1p-25f && plan->share <= 1))
        return fail(error, WISP_ERROR_FORMAT, dir->file, share_key,
                    "%s is not above 3e-8 and at most 1", number_text((double)plan->share, 6).text);
    return WISP_OK;
}

wisp_status sparse_read_plan(const struct directory *dir, size_t layers, size_t intermediate_size,
                             struct sparse_plan *plan, wisp_error *error) {
    TRY(read_levels(dir, KEY_SPARSE_SHARES, KEY_SPARSE_SHARE, plan, error));
    if (plan->levels == 0)
        return WISP_OK;
    TRY(neurons_read_order(dir, layers, intermediate_size, &plan->order, error));
    if (!plan->order)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_SPARSE_ORDER, "the key is missing");
    return WISP_OK;
}

wisp_status sparse_read_plan_in_order(const struct directory *dir, struct sparse_plan *plan,
                                      wisp_error *error) {
    TRY(read_levels(dir, KEY_SPARSE_SHARES, KEY_SPARSE_SHARE, plan, error));
    if (directory_find_metadata(dir, KEY_SPARSE_ORDER))
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, KEY_SPARSE_ORDER,
                    "neurons of models that generate have no order");
    return WISP_OK;
}

wisp_status sparse_read_gate_plan(const struct directory *dir, struct sparse_plan *plan,
                                  wisp_error *error) {
    TRY(read_levels(dir, KEY_GATE_SHARES, KEY_GATE_SHARE, plan, error));
    plan->by_gate = true;
    if (plan->levels == 0)
        plan->share = 0.5f;
    return WISP_OK;
}
