/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/attention.h"

static const struct attention_policy *const policies[] = {
    &attention_full,
    &attention_cached,
};

const struct attention_policy *attention_policy_at(size_t index) {
    return index < sizeof policies / sizeof *policies ? policies[index] : NULL;
}
