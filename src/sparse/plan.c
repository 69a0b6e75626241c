/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "sparse/plan.h"

#include <string.h>

#include "base/number_text.h"
#include "formats/neurons_read.h"

static const char shares_key[] = KEY_SPARSE_SHARES;

wisp_status sparse_read_plan(const struct directory *dir, size_t layers, size_t intermediate_size,
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
                        "level %zu is %s: levels rise from above 0 to 1", i,
                        number_text((double)plan->shares[i], 6).text);
    plan->share = plan->shares[plan->levels - 1];
    TRY(metadata_f32_or(dir, KEY_SPARSE_SHARE, &plan->share, error));
    /* A session takes 1 - share, which as a float is 1 where the share is smaller than this. */
    if (!(plan->share > 0x1p-25f && plan->share <= 1))
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_SPARSE_SHARE,
                    "%s is not above 3e-8 and at most 1", number_text((double)plan->share, 6).text);
    TRY(neurons_read_order(dir, layers, intermediate_size, &plan->order, error));
    if (!plan->order)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_SPARSE_ORDER, "the key is missing");
    return WISP_OK;
}
