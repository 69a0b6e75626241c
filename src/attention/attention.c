/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/attention.h"

#include "base/checked.h"

struct attention_choice attention_default(bool cached) {
    const struct attention_policy *policy;
    size_t i = 0;
    while ((policy = attention_policies[i]) && policy->needs_cache != cached)
        i++;
    return (struct attention_choice){.prefill = policy, .decode = policy};
}

size_t attention_workspace_bytes(const struct attention_choice *choice,
                                 const struct kernels *kernels, const struct attention_shape *shape,
                                 size_t keys) {
    return larger(choice->prefill->workspace_bytes(kernels, shape, keys),
                  choice->decode->workspace_bytes(kernels, shape, keys));
}

const char *attention_refuses(const struct attention_choice *choice,
                              const struct attention_shape *shape) {
    const struct attention_policy *const policies_of[] = {choice->prefill, choice->decode};
    for (size_t i = 0; i < 2; i++)
        if (!(policies_of[i]->masks >> shape->mask & 1) ||
            ((shape->bias || shape->parts) && !policies_of[i]->biases) ||
            ((shape->soft_cap > 0 || shape->sinks) && !policies_of[i]->needs_cache))
            return policies_of[i]->name;
    return NULL;
}
