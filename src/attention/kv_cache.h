/* SPDX-License-Identifier: Apache-2.0
 * The keys and values of one sequence's tokens, kept between calls: attention of a later token
 * reads them instead of computing them again.
 *
 * Both are kept packed, as the products of attention read them, so that a new token packs only
 * itself. In a layer, the keys of a key-value head are panels of `panel` positions,
 * [capacity / panel][head_size][panel]; its values are panels of `panel` of the head's values,
 * [head_size / panel, rounded up][capacity][panel]. */
#ifndef WISP_ATTENTION_KV_CACHE_H
#define WISP_ATTENTION_KV_CACHE_H

#include "attention/rope.h"
#include "base/status.h"

struct kv_shape {
    size_t layers, kv_heads, head_size;
    size_t panel; /* kernels->f32_panel */
};

struct kv_cache {
    struct kv_shape shape;
    size_t length;   /* positions whose keys and values are complete in all layers */
    size_t capacity; /* positions that there is room for: a multiple of the panel */
    float **layer;   /* [layers]: keys of all key-value heads, then their values */
    float *rope;     /* [capacity, head_size]: the table of rope.h */
};

/* Opens an empty cache. The caller releases it with kv_cache_release, also after an error. */
wisp_status kv_cache_open(struct kv_cache *cache, const struct kv_shape *shape, wisp_error *error);

/* Makes room for at least this many positions, whose rotations are those of `rope`. Positions that
 * the cache has keep their keys and values; on failure the cache is as before. Capacities double,
 * so that a sequence that grows copies each position a bounded number of times. */
wisp_status kv_cache_reserve(struct kv_cache *cache, size_t positions, const struct rope *rope,
                             wisp_error *error);

/* Writes the keys and values [tokens, kv_heads, head_size] of a layer's tokens to the positions
 * from `position` on, for which there is room. The tokens of each lie ld floats apart. Threads may
 * write different positions at a time. */
void kv_cache_write(const struct kv_cache *cache, size_t layer, size_t position, size_t tokens,
                    const float *keys, const float *values, size_t ld);

/* Copies the keys and values of the positions [first, end) from a cache of the same shape, which
 * has them, to the same positions of another, which has room for them. */
void kv_cache_copy(const struct kv_cache *to, const struct kv_cache *from, size_t first,
                   size_t end);

void kv_cache_release(struct kv_cache *cache);

/* Return the packed keys or values of a key-value head. */
const float *kv_cache_keys(const struct kv_cache *cache, size_t layer, size_t kv_head);
const float *kv_cache_values(const struct kv_cache *cache, size_t layer, size_t kv_head);

#endif
