/* SPDX-License-Identifier: Apache-2.0
 * The keys and values of one sequence's tokens, kept between calls: attention of a later token
 * reads them instead of computing them again.
 *
 * Positions lie in pages of KV_PAGE. A sequence that grows gets another page, and nothing that it
 * has is copied. Within a page keys and values are packed, as the products of attention read them,
 * so that a new token packs only itself.
 *
 * Keys and values are floats, 16-bit floats, or signed bytes with one scale for each block of up to
 * KV_BLOCK values of a head. The bytes of a position depend on that position's values alone, so
 * that logits do not depend on how a text was divided among passes. */
#ifndef WISP_ATTENTION_KV_CACHE_H
#define WISP_ATTENTION_KV_CACHE_H

#include <stdbool.h>

#include "attention/rope.h"
#include "base/status.h"

enum {
    KV_PAGE = 256, /* positions: a multiple of every panel */
    KV_BLOCK = 32  /* values of a head that share a scale: a multiple of every panel, so that the
                      values of a panel have one scale */
};

/* The values are those of wisp_cache_type (wisp.h). */
enum kv_type { KV_F32, KV_F16, KV_INT8 };

struct kv_shape {
    size_t layers, kv_heads, head_size;
    size_t panel; /* kernels->f32_panel */
    enum kv_type type;
};

struct kv_cache {
    struct kv_shape shape;
    size_t length;   /* positions whose keys and values are complete in all layers */
    size_t capacity; /* positions that there is room for: KV_PAGE for each page */
    /* [capacity / KV_PAGE]: each holds, layer after layer, the keys of all key-value heads, their
     * values, the scales of the keys and those of the values. */
    unsigned char **page;
    size_t page_slots; /* pointers that `page` has room for */
    /* [rope_positions, head_size]: the table of rope.h; NULL where nothing is rotated */
    float *rope;
    /* [rope_positions, head_size]: the table of long_factors or local_theta, which lies behind
     * `rope` in one block; NULL without these */
    float *other_rope;
    size_t rope_positions; /* at least `capacity` */
    bool is_long;          /* keys are rotated by long_factors, where there are such factors */
};

/* The keys and values of one key-value head in one page. Numbers are floats, 16-bit floats or
 * bytes. Positions beyond the cache's length, and values beyond head_size, are finite. */
struct kv_head {
    const void *keys;   /* [KV_PAGE / panel][head_size][panel] */
    const void *values; /* [head_size / panel, rounded up][KV_PAGE][panel] */
    /* [blocks of the head][KV_PAGE], only of KV_INT8: a value is its scale times its byte */
    const float *key_scales, *value_scales;
};

/* Returns the bytes of a number of a type. */
size_t kv_number_bytes(enum kv_type type);

/* Opens an empty cache. Fails where a page could not be addressed. The caller releases it with
 * kv_cache_release, also after an error. */
wisp_status kv_cache_open(struct kv_cache *cache, const struct kv_shape *shape, wisp_error *error);

/* Makes room for at least this many positions, whose rotations are those of `rope`. Positions that
 * the cache has keep their keys and values; on failure the cache is as before. */
wisp_status kv_cache_reserve(struct kv_cache *cache, size_t positions, const struct rope *rope,
                             wisp_error *error);

/* Writes the keys and values [tokens, kv_heads, head_size] of a layer's tokens to the positions
 * from `position` on, for which there is room. The tokens of each lie ld floats apart. Threads may
 * write different positions at a time. A value too large for a 16-bit float becomes the largest
 * one. */
void kv_cache_write(const struct kv_cache *cache, size_t layer, size_t position, size_t tokens,
                    const float *keys, const float *values, size_t ld);

/* Returns the keys and values of a key-value head in page `page`. */
struct kv_head kv_cache_head(const struct kv_cache *cache, size_t page, size_t layer,
                             size_t kv_head);

/* A file holds one position in a layer as kv_position_bytes(shape) bytes: the keys
 * [kv_heads][head_size], the values, and with KV_INT8 the scales of the keys [kv_heads][blocks] and
 * those of the values. The low byte of each number comes first. kv_cache_export writes these
 * bytes. */
size_t kv_position_bytes(const struct kv_shape *shape);
void kv_cache_export(const struct kv_cache *cache, size_t layer, size_t position,
                     unsigned char *bytes);

/* Sets a position, for which there is room, from the bytes of a file. Returns false, and leaves the
 * cache as it is, where a number is not finite. It may change `bytes`. */
bool kv_cache_import(const struct kv_cache *cache, size_t layer, size_t position,
                     unsigned char *bytes);

/* Returns the bytes that the cache holds. */
size_t kv_cache_bytes(const struct kv_cache *cache);

/* Copies the keys and values of the positions [first, end) from a cache of the same shape, which
 * has them, to the same positions of another, which has room for them. Both have the same keys and
 * values before `first`. */
void kv_cache_copy(const struct kv_cache *to, const struct kv_cache *from, size_t first,
                   size_t end);

void kv_cache_release(struct kv_cache *cache);

#endif
