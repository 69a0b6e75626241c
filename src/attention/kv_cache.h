/* SPDX-License-Identifier: Apache-2.0
 * The keys and values of one sequence's tokens, kept between calls: attention of a later token
 * reads them instead of computing them again.
 *
 * Positions are in pages of KV_PAGE. A sequence that grows gets another page, and nothing that it
 * has is copied. Within a page keys and values are packed, as the products of attention read them,
 * so that a new token packs only itself.
 *
 * Keys and values are floats, 16-bit floats, or signed bytes. A key in bytes has one scale for each
 * block of up to KV_BLOCK values, because some values of keys are many times larger than others; a
 * value vector has one scale, by which its share is multiplied (kernels/kv_step.h). The bytes of a
 * position depend only on that position's values, so that logits do not depend on how a text was
 * divided among passes. */
#ifndef WISP_ATTENTION_KV_CACHE_H
#define WISP_ATTENTION_KV_CACHE_H

#include <stdbool.h>

#include "attention/kv_tier.h"
#include "attention/rope.h"
#include "base/status.h"
#include "kernels/kv_step.h"

enum {
    KV_PAGE = 256,      /* positions: a multiple of every panel and of KV_STEP */
    KV_KEPT_STEPS = 16, /* steps of which what a policy keeps is together */
    KV_KEPT_POSITIONS = KV_KEPT_STEPS * KV_STEP
};

/* Files have these values. */
enum kv_type { KV_F32, KV_F16, KV_INT8 };

struct kv_shape {
    size_t layers, kv_heads, head_size;
    size_t panel; /* kernels->f32_panel; of floats and 16-bit floats */
    enum kv_type type;
    size_t kept_bytes; /* that a policy keeps for KV_KEPT_STEPS steps of a key-value head */
};

struct kv_cache {
    struct kv_shape shape;
    size_t length;   /* positions whose keys and values are complete in all layers */
    size_t capacity; /* positions that there is room for: KV_PAGE for each page */
    /* [capacity / KV_PAGE]: each holds, layer after layer, the keys of all key-value heads, their
     * values, the scales of the keys and those of the values. */
    unsigned char **page;
    size_t page_slots; /* pointers that `page` has room for */
    /* Has the slices instead of `page`, if memory is limited; else NULL. tier_cache is the number
     * that this cache has there. */
    struct kv_tier *tier;
    size_t tier_cache;
    /* [capacity / KV_KEPT_POSITIONS, rounded up]: each holds, layer after layer, what a policy
     * keeps of all key-value heads. It stays in memory wherever the keys are. */
    unsigned char **kept;
    size_t kept_slots; /* pointers that `kept` has room for */
    size_t kept_count; /* of these, that have memory */
    size_t kept_steps; /* steps whose kept bytes are those of their keys, in all layers */
    /* [rope_positions, head_size]: the table of rope.h; NULL if nothing is rotated */
    float *rope;
    /* [rope_positions, head_size]: the table of long_factors or local_theta, which is behind
     * `rope` in one block; NULL without these */
    float *other_rope;
    size_t rope_positions; /* at least `capacity` */
    bool is_long;          /* keys are rotated by long_factors, if there are such factors */
};

/* The keys and values of one key-value head in one page. Numbers are floats, 16-bit floats or
 * bytes. Positions beyond the cache's length, and values beyond head_size, are finite. */
struct kv_head {
    const void *keys;   /* [KV_PAGE / panel][head_size][panel] */
    const void *values; /* [head_size / panel, rounded up][KV_PAGE][panel] */
    /* Only of KV_INT8, whose keys and values are step after step as kernels/kv_step.h says. A
     * number is its scale times its byte. */
    const float *key_scales;   /* [kv_blocks(head_size)][KV_PAGE] */
    const float *value_scales; /* [KV_PAGE] */
};

/* Opens an empty cache. Fails if a page could not be addressed. The caller releases it with
 * kv_cache_release, also after an error. */
wisp_status kv_cache_open(struct kv_cache *cache, const struct kv_shape *shape, wisp_error *error);

/* Makes a tier have the slices of a cache without positions. On failure the cache is as before. */
wisp_status kv_cache_limit(struct kv_cache *cache, struct kv_tier *tier, wisp_error *error);

/* Returns the bytes of a slice: the keys and values of a page in one layer. */
size_t kv_slice_bytes(const struct kv_shape *shape);

/* Makes room for at least this many positions, whose rotations are those of `rope`. Positions that
 * the cache has keep their keys and values; on failure the cache is as before. */
wisp_status kv_cache_reserve(struct kv_cache *cache, size_t positions, const struct rope *rope,
                             wisp_error *error);

/* Writes the keys and values [tokens, kv_heads, head_size] of a layer's tokens to the positions
 * from `position` on, for which there is room. The tokens of each are ld floats apart. Threads may
 * write different positions at a time. A value too large for a 16-bit float becomes the largest
 * one. */
void kv_cache_write(const struct kv_cache *cache, size_t layer, size_t position, size_t tokens,
                    const float *keys, const float *values, size_t ld);

/* Returns the keys and values of a key-value head in page `page`, which the caller holds until it
 * calls kv_cache_let_go. A thread holds one slice at a time. */
struct kv_head kv_cache_head(const struct kv_cache *cache, size_t page, size_t layer,
                             size_t kv_head);

static inline void kv_cache_let_go(const struct kv_cache *cache, size_t page, size_t layer) {
    if (cache->tier)
        cache->tier->let_go(cache->tier, (struct kv_slice){cache->tier_cache, layer, page});
}

/* Writes the values [first, first + n) of the key at position `at` of a page as floats. */
void kv_head_key(const struct kv_shape *shape, const struct kv_head *head, size_t at, size_t first,
                 size_t n, float *key);

/* Returns the largest magnitude of x [n]; NaN if one of them is NaN. */
float kv_largest(const float *x, size_t n);

/* Returns the number that a byte of 1 stands for, if the largest magnitude becomes 127; 0 for
 * magnitudes below 2^-100, whose inverse could overflow. */
float kv_scale(float largest);

/* Rounds factor * x [n], whose magnitudes are at most 127, to bytes [n]. */
void kv_round(const float *restrict x, size_t n, float factor, int8_t *restrict bytes);

/* Writes the numbers x [n] as key `at` of a step of bytes (kernels/kv_step.h): its bytes to keys,
 * and the scales of its blocks to scales [kv_blocks(n), ld_scales]. */
void kv_write_key_bytes(const float *x, size_t n, size_t at, int8_t *keys, float *scales,
                        size_t ld_scales);

/* Returns what the policy keeps of a key-value head in the steps that begin with `step`, a multiple
 * of KV_KEPT_STEPS: shape.kept_bytes bytes, zeros at first. */
unsigned char *kv_cache_kept(const struct kv_cache *cache, size_t step, size_t layer,
                             size_t kv_head);

/* Returns the bytes of a key-value head's keys in a step, and those of its values. */
size_t kv_step_key_bytes(const struct kv_shape *shape);
size_t kv_step_value_bytes(const struct kv_shape *shape);

/* Says that the positions from `length` on are not used any more, until they are written again. */
void kv_cache_forget(struct kv_cache *cache, size_t length);

/* A file holds one position in a layer as kv_position_bytes(shape) bytes: the keys
 * [kv_heads][head_size], the values, and with KV_INT8 the scales of the keys [kv_heads][blocks] and
 * those of the values [kv_heads]. The low byte of each number comes first. kv_cache_export writes
 * these bytes. */
size_t kv_position_bytes(const struct kv_shape *shape);
void kv_cache_export(const struct kv_cache *cache, size_t layer, size_t position,
                     unsigned char *bytes);

/* Sets a position, for which there is room, from the bytes of a file. Returns false, and leaves the
 * cache as it is, if a number is not finite. It may change `bytes`. */
bool kv_cache_import(const struct kv_cache *cache, size_t layer, size_t position,
                     unsigned char *bytes);

/* Returns the bytes that the cache holds. */
size_t kv_cache_bytes(const struct kv_cache *cache);

/* Copies the keys and values of the positions [first, end) from a cache of the same shape, which
 * has them, to the same positions of another, which has room for them. Both have the same keys and
 * values before `first`. Only caches with a tier, which they share, fail: with
 * WISP_ERROR_MEMORY. */
wisp_status kv_cache_copy(struct kv_cache *to, const struct kv_cache *from, size_t first,
                          size_t end, wisp_error *error);

void kv_cache_release(struct kv_cache *cache);

#endif
