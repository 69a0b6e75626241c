/* SPDX-License-Identifier: Apache-2.0 */
#include "quantise/replay.h"

#include <string.h>

#include "base/checked.h"

enum { BATCH_TOKENS = 256 };

wisp_status replay_open(struct replay *replay, const struct network *network, wisp_error *error) {
    const struct model_config *c = &network->config;
    const uint32_t convolutions = config_conv_layer(c, c->layers);
    *replay = (struct replay){.size = c->hidden_size, .generates = !config_embeds(c)};
    replay->stride = replay->size * (network->architecture->norms_first ? 2 : 1);
    if (!replay->generates)
        return WISP_OK;
    const struct kv_shape shape = {.layers = c->layers - convolutions,
                                   .kv_heads = c->kv_heads,
                                   .head_size = c->head_size,
                                   .panel = network->kernels->f32_panel,
                                   .type = KV_F32};
    TRY(kv_cache_open(&replay->cache, &shape, error));
    if (convolutions == 0)
        return WISP_OK;
    return conv_state_open(&replay->conv, convolutions, (c->conv_taps - 1) * (size_t)c->hidden_size,
                           error);
}

void replay_close(struct replay *replay) {
    workspace_release(&replay->space);
    kv_cache_release(&replay->cache);
    conv_state_release(&replay->conv);
}

size_t replay_batch_end(const struct replay *replay, const struct replay_texts *texts,
                        size_t first) {
    const size_t *starts = texts->starts;
    size_t end = first + 1;
    while (!replay->generates && end < texts->n && end - first < BATCH_TOKENS &&
           starts[end + 1] - starts[first] <= BATCH_TOKENS)
        end++;
    return end;
}

size_t replay_longest_batch(const struct replay *replay, const struct replay_texts *texts) {
    size_t longest = 0;
    for (size_t i = 0, end; i < texts->n; i = end) {
        end = replay_batch_end(replay, texts, i);
        longest = larger(longest, texts->starts[end] - texts->starts[i]);
    }
    return longest;
}

float *replay_inputs(const struct replay *replay, float *state, size_t m) {
    return state + m * (replay->stride - replay->size);
}

/* Makes room for the keys and values of a text. They are written again by each block. */
static wisp_status reserve_text(struct replay *replay, const struct network *network, size_t tokens,
                                wisp_error *error) {
    const uint32_t long_after = network->config.long_after;
    struct rope rope;
    network->architecture->rope(network, &rope);
    TRY(kv_cache_reserve(&replay->cache, tokens, &rope, error));
    replay->cache.is_long = long_after > 0 && tokens > long_after;
    return conv_state_reserve(&replay->conv, tokens, error);
}

wisp_status replay_block(struct replay *replay, const struct network *network, struct cursor at,
                         const struct replay_texts *texts, size_t first, size_t end, float *state,
                         float *rows, wisp_error *error) {
    const size_t tokens = texts->starts[end] - texts->starts[first];
    const size_t values = tokens * network->config.hidden_size;
    const struct pass_size most = {
        .texts = end - first, .tokens = tokens, .longest = tokens, .members = 1};
    struct kv_cache *const caches[] = {&replay->cache};
    struct conv_state *const states[] = {&replay->conv};
    size_t starts[BATCH_TOKENS + 1];
    for (size_t i = 0; i <= end - first; i++)
        starts[i] = texts->starts[first + i] - texts->starts[first];
    TRY(workspace_reserve(&replay->space, pass_workspace_bytes(network, &most), error));
    if (replay->generates)
        TRY(reserve_text(replay, network, tokens, error));
    struct pass pass = {.network = network,
                        .batch = {.texts = end - first,
                                  .ids = texts->ids + texts->starts[first],
                                  .starts = starts,
                                  .caches = replay->generates ? caches : NULL,
                                  .states = replay->generates ? states : NULL},
                        .rows = rows};
    pass_begin(&pass, &replay->space);
    if (at.block != PASS_EMBED) {
        memcpy(pass.hidden, state, values * sizeof *state);
        memcpy(pass.x, replay_inputs(replay, state, tokens), values * sizeof *state);
    }
    TRY(network->architecture->step(&pass, 0, at, error));
    memcpy(state, pass.hidden, values * sizeof *state);
    memcpy(replay_inputs(replay, state, tokens), pass.x, values * sizeof *state);
    return WISP_OK;
}
