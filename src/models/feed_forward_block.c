/* SPDX-License-Identifier: Apache-2.0 */
#include "models/feed_forward_block.h"

#include "base/checked.h"
#include "base/clock.h"

/* Returns the next kind that layers of the network have, from *index on; NULL past the last. */
static const struct ffn_kind *next_kind(const struct network *network, size_t *index) {
    const struct ffn_kind *kind;
    while ((kind = ffn_kinds[(*index)++]))
        for (uint32_t l = 0; l < network->config.layers; l++)
            if (network->feed_forward[l].kind == kind)
                return kind;
    return NULL;
}

struct feed_forward_work feed_forward_take(const struct network *network,
                                           const struct pass_size *size, struct workspace *space,
                                           struct pass *pass) {
    const struct ffn_kind *kind;
    struct feed_forward_work work = {0};
    for (size_t i = 0; (kind = next_kind(network, &i));)
        if (kind->take)
            kind->take(network, size, space, pass, &work);
    return work;
}

size_t feed_forward_inner_size(const struct model_config *config) {
    const struct expert_config *e = &config->experts;
    const size_t dense = (size_t)config->intermediate_size * (config_is_gated(config) ? 2 : 1);
    return larger(dense, e->count + 2 * (size_t)e->used * e->size);
}

size_t feed_forward_workspace_bytes(const struct network *network, size_t tokens) {
    const struct model_config *c = &network->config;
    const struct ffn_kind *kind;
    size_t bytes = linear_workspace_bytes(tokens, larger(c->hidden_size, c->intermediate_size));
    for (size_t i = 0; (kind = next_kind(network, &i));)
        bytes = larger(bytes, kind->workspace_bytes(network, tokens));
    return bytes;
}

bool feed_forward_splits_outputs(const struct network *network) {
    const struct ffn_kind *kind;
    for (size_t i = 0; (kind = next_kind(network, &i));)
        if (!kind->run_outputs)
            return false;
    return true;
}

/* Wakes, or lets sleep, the parts of weights that the pass uses of a layer. */
static wisp_status wake(struct pass *pass, uint32_t member, struct cursor at, wisp_error *error) {
    const struct ffn_kind *kind = pass->network->feed_forward[at.layer].kind;
    if (!WEIGHTS_MAY_REST || !pass->network->rest)
        return WISP_OK;
    const enum rest_part first = kind->needs(pass->network);
    const enum rest_part second = kind->needs_too ? kind->needs_too(pass) : REST_PARTS;
    TRY(pass_wake(pass, member, at, first, error));
    const wisp_status status =
        second != REST_PARTS ? pass_wake(pass, member, at, second, error) : WISP_OK;
    if (status != WISP_OK)
        pass_sleep(pass, member, at, first);
    return status;
}

static void let_sleep(struct pass *pass, uint32_t member, struct cursor at) {
    const struct ffn_kind *kind = pass->network->feed_forward[at.layer].kind;
    if (!WEIGHTS_MAY_REST || !pass->network->rest)
        return;
    const enum rest_part second = kind->needs_too ? kind->needs_too(pass) : REST_PARTS;
    pass_sleep(pass, member, at, kind->needs(pass->network));
    if (second != REST_PARTS)
        pass_sleep(pass, member, at, second);
}

wisp_status feed_forward_run(struct pass *pass, uint32_t member, struct cursor at,
                             const struct feed_forward_work *work, float *inner, float *y,
                             struct workspace space, wisp_error *error) {
    const struct network *network = pass->network;
    const struct ffn_kind *kind = network->feed_forward[at.layer].kind;
    const size_t size = network->config.hidden_size;
    const struct pass_tokens own = pass_tokens(pass, member);
    struct sparse_counts *counts = pass->member[member].counts;
    const double start = clock_seconds();
    wisp_status status =
        kind->prepare ? kind->prepare(pass, member, at, work, space, error) : WISP_OK;
    if (status == WISP_OK)
        status = wake(pass, member, at, error);
    const bool awake = status == WISP_OK; /* of all members, or of none */
    for (size_t done = 0; done < own.n && status == WISP_OK; done += PASS_TILE_TOKENS) {
        const struct ffn_rows rows = {.first = own.first + done,
                                      .n = smaller(own.n - done, PASS_TILE_TOKENS),
                                      .x = pass->x + (own.first + done) * size,
                                      .y = y + done * size,
                                      .inner = inner};
        status = pass_ask_hook(pass, at, done, error);
        if (status == WISP_OK)
            status = kind->run(pass, member, at, work, &rows, space, error);
    }
    if (awake)
        let_sleep(pass, member, at);
    if (counts)
        counts[at.layer].seconds += clock_seconds() - start;
    return status;
}

wisp_status feed_forward_run_outputs(struct pass *pass, uint32_t member, struct cursor at,
                                     float *inner, float *y, struct workspace space,
                                     wisp_error *error) {
    const struct ffn_kind *kind = pass->network->feed_forward[at.layer].kind;
    TRY(wake(pass, member, at, error));
    const wisp_status status = kind->run_outputs(pass, member, at, inner, y, space, error);
    let_sleep(pass, member, at);
    return status;
}
