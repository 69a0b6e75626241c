/* SPDX-License-Identifier: Apache-2.0
 * Which experts compute which tokens. */
#ifndef WISP_MODELS_ROUTING_H
#define WISP_MODELS_ROUTING_H

#include "models/model_config.h"

#include <stddef.h>

/* An expert that a token uses. */
struct routed {
    uint32_t expert, token;
    float weight; /* multiplies its outputs */
};

/* Writes to `out` [used] the experts that a token uses, in ascending order, from the router's
 * outputs [count]. Of equal ones the first counts more. `choice` [count] is added to what the
 * choice goes by; NULL: nothing is. `shares` [count] is overwritten. Sources: Shazeer et al.,
 * Outrageously large neural networks (2017); sigmoid and bias: DeepSeek-AI, DeepSeek-V3 (2024). */
void route_token(const struct expert_config *experts, const float *outputs, const float *choice,
                 uint32_t token, float *shares, struct routed *out);

/* Sorts n pairs of tokens in ascending order by expert, and those of an expert by token. `counts`
 * [experts + 1] is overwritten: the pairs of expert e are sorted[counts[e]] to sorted[counts[e + 1]
 * - 1]. */
void route_sort(const struct routed *pairs, size_t n, uint32_t experts, size_t *counts,
                struct routed *sorted);

#endif
