/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sequence.h"

#include <stdlib.h>

size_t sequence_shared(const struct sequence *sequence, const int32_t *ids, size_t n,
                       bool is_long) {
    const struct token_list *past = &sequence->past;
    size_t shared = 0;
    if (sequence->cache.is_long != is_long)
        return 0;
    while (shared < n && shared < past->count && ids[shared] == past->ids[shared])
        shared++;
    return conv_state_known(&sequence->conv, shared);
}

void sequence_rewind(struct sequence *sequence, size_t n, bool is_long) {
    conv_state_rewind(&sequence->conv, n);
    sequence->cache.is_long = is_long;
    kv_cache_forget(&sequence->cache, n);
    sequence->past.count = sequence->cache.length = n;
}

void sequence_mark(struct sequence *sequence, size_t n) {
    conv_state_mark(&sequence->conv, n);
}

size_t generation_bytes(const struct generation *g) {
    size_t bytes =
        g ? g->space.capacity + g->count * sizeof *g->sequences + token_order_bytes(&g->order) : 0;
    for (size_t i = 0; g && i < g->count; i++)
        bytes += kv_cache_bytes(&g->sequences[i].cache) + conv_state_bytes(&g->sequences[i].conv) +
                 g->sequences[i].past.capacity * sizeof *g->sequences[i].past.ids;
    return bytes;
}

void generation_close(struct generation *g) {
    if (!g)
        return;
    for (size_t i = 0; i < g->count; i++) {
        kv_cache_release(&g->sequences[i].cache);
        conv_state_release(&g->sequences[i].conv);
        free(g->sequences[i].past.ids);
    }
    free(g->sequences);
    token_order_release(&g->order);
    workspace_release(&g->space);
    free(g);
}
