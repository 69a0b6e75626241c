/* SPDX-License-Identifier: Apache-2.0
 * Where the keys and values of a session's texts are, if they have a limit of memory. A slice is
 * those of one layer in one page. The tier keeps some of them in memory and has the others
 * elsewhere; whoever reads or writes a slice holds it meanwhile. The implementation is
 * native/kv_file.c. */
#ifndef WISP_ATTENTION_KV_TIER_H
#define WISP_ATTENTION_KV_TIER_H

#include <stdbool.h>
#include <stddef.h>

#include "wisp.h"

/* A slice of one of the caches, which are numbered as `open` says. */
struct kv_slice {
    size_t cache, layer, page;
};

/* A failure to bring or keep a slice is remembered, since attention cannot stop within a layer:
 * until `forget_all` slices that are read are zeros, and those that are written do not exist. */
struct kv_tier {
    /* Numbers a new cache without pages, or fails. `close_cache` lets its number be used again. */
    wisp_status (*open_cache)(struct kv_tier *tier, size_t *cache, wisp_error *error);
    void (*close_cache)(struct kv_tier *tier, size_t cache);

    /* Makes a cache have at least so many pages; new ones are zeros. */
    wisp_status (*reserve)(struct kv_tier *tier, size_t cache, size_t pages, wisp_error *error);

    /* Returns the bytes of a slice, which stay in memory until let_go. For `writes` returns NULL
     * after a failure. A thread holds one slice at a time. */
    unsigned char *(*hold)(struct kv_tier *tier, struct kv_slice slice, bool writes);
    void (*let_go)(struct kv_tier *tier, struct kv_slice slice);

    /* Says that the token at position keys - 1 will read a slice, while it will not read others of
     * the layer that it does not name. So these need not be brought ahead, until one is read all
     * the same. Before a token has named a layer's slices, those of the token before it are
     * expected. */
    void (*want)(struct kv_tier *tier, struct kv_slice slice, size_t keys);

    /* Says that the pages of a cache from `pages` on are not used any more, until they are written
     * again. */
    void (*forget)(struct kv_tier *tier, size_t cache, size_t pages);

    /* Returns the first failure since the tier was opened or `forget_all`, which forgets the
     * contents of all slices. */
    wisp_status (*check)(const struct kv_tier *tier, wisp_error *error);
    void (*forget_all)(struct kv_tier *tier);

    void (*get_stats)(struct kv_tier *tier, wisp_kv_stats *stats);
    void (*close)(struct kv_tier *tier);
};

#endif
